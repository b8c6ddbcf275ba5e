//! Packet traces.

use super::PortRole;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use utoipa::ToSchema;

/// A trace request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// The packet.
    pub packet: TracePacket,
}

/// A packet, as bytes or by its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TracePacket {
    /// A frame received at a port.
    Frame {
        /// The port.
        port: PortRole,
        /// The frame from the destination MAC on, in hexadecimal digits.
        frame_hex: String,
        /// Whether to address it to this node first. Frames captured elsewhere need this, because a node drops frames
        /// for other MACs.
        #[serde(default)]
        readdress: bool,
    },
    /// An IP packet from the Internet to a UE.
    Downstream {
        /// The remote end.
        #[schema(value_type = String)]
        src: IpAddr,
        /// The UE.
        #[schema(value_type = String)]
        dst: IpAddr,
        /// IP protocol number.
        protocol: u8,
        /// Port of the remote end, for protocols with ports.
        #[serde(default)]
        src_port: u16,
        /// Port of the UE.
        #[serde(default)]
        dst_port: u16,
        /// Bytes after the transport header.
        #[serde(default)]
        payload_bytes: u16,
    },
    /// An IP packet from a UE, in its tunnel.
    Upstream {
        /// The gateway's end of the tunnel.
        teid: u32,
        /// The base station's tunnel address.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        base_station: Option<Ipv4Addr>,
        /// The UE.
        #[schema(value_type = String)]
        inner_src: IpAddr,
        /// The remote end.
        #[schema(value_type = String)]
        inner_dst: IpAddr,
        /// IP protocol number of the inner packet.
        protocol: u8,
        /// Port of the UE, for protocols with ports.
        #[serde(default)]
        src_port: u16,
        /// Port of the remote end.
        #[serde(default)]
        dst_port: u16,
        /// Bytes after the transport header.
        #[serde(default)]
        payload_bytes: u16,
    },
}

/// The result of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trace {
    /// The node that answers.
    pub node: u16,
    /// The port where the packet arrives.
    pub port: PortRole,
    /// The frame, in hexadecimal digits.
    pub frame_hex: String,
    /// The result in one line.
    pub verdict: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The key that steers it; none if it has none.
    pub key: Option<KeyView>,
    /// The answer of this node's GPT for the key.
    pub gpt: Option<Hint>,
    /// The answer of this node's lookup table: hash partition only.
    pub lookup: Option<Hint>,
    /// The entry of this node's FIB for the key.
    pub flow: Option<FlowView>,
    /// The frames that would leave the node.
    pub outputs: Vec<Output>,
    /// Why the packet is dropped, if it is.
    pub dropped: Option<Dropped>,
}

/// A step of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// The stage: `ethernet`, `ip`, `gtpu`, `key`, `gpt` and the like.
    pub at: String,
    /// What was found there.
    pub found: String,
}

/// A flow key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// The key as text.
    pub text: String,
    /// Its hash, 16 hexadecimal digits.
    pub hash_hex: String,
}

/// A table's answer: a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hint {
    /// The node; none if the answer names no node.
    pub node: Option<u16>,
}

/// A flow's entry in the FIB, and its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowView {
    /// The node it is pinned to.
    pub node: u16,
    /// TEID at the base station.
    pub downlink_teid: u32,
    /// The base station, by its index in the configuration.
    pub base_station: u16,
    /// Its QoS flow.
    pub qfi: Option<u8>,
    /// Packets sent to the UE so far; only that node has the counters.
    pub downstream_packets: Option<u64>,
    /// Their bytes of inner IP.
    pub downstream_bytes: Option<u64>,
    /// Packets received from the UE so far.
    pub upstream_packets: Option<u64>,
    /// Their bytes of inner IP.
    pub upstream_bytes: Option<u64>,
}

/// A frame that would leave the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Output {
    /// The port where it leaves.
    pub port: PortRole,
    /// Its kind.
    pub what: OutputKind,
    /// The next hop's MAC address.
    pub dst_mac: String,
    /// The source MAC address.
    pub src_mac: String,
    /// The frame, in hexadecimal digits.
    pub frame_hex: String,
    /// A description.
    pub summary: String,
}

/// The kind of a frame that leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OutputKind {
    /// To a base station, in the flow's tunnel.
    Tunnel {
        /// The base station's tunnel address.
        #[schema(value_type = String)]
        base_station: IpAddr,
        /// The TEID it carries; none in a later fragment.
        teid: Option<u32>,
        /// The QoS flow it names.
        qfi: Option<u8>,
    },
    /// To the Internet.
    Plain {
        /// Its source.
        #[schema(value_type = String)]
        src: IpAddr,
        /// Its destination.
        #[schema(value_type = String)]
        dst: IpAddr,
    },
    /// To another node.
    Fabric {
        /// The task of that node: `handling`, `lookup` or `indirect`.
        phase: String,
        /// The destination node.
        node: u16,
        /// The node where it leaves the cluster, as far as known.
        output_node: u16,
        /// The port where it leaves.
        output: PortRole,
        /// Whether it is forwarded once more because the flow was not here.
        again: bool,
    },
    /// Another frame.
    Other,
}

/// Why a packet is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dropped {
    /// The counter.
    pub reason: String,
    /// The reason as text.
    pub meaning: String,
}
