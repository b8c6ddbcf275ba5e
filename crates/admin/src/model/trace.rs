//! Where a packet would go, and why.

use super::PortRole;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use utoipa::ToSchema;

/// The packet to follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// The packet.
    pub packet: TracePacket,
}

/// A packet, as bytes or as what it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TracePacket {
    /// A frame that arrives at a port.
    Frame {
        /// The port.
        port: PortRole,
        /// From the destination MAC on, in hexadecimal digits.
        frame_hex: String,
        /// Address it to this node first, as a frame captured elsewhere must be: a node drops what is for another MAC.
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
        /// Bytes behind the transport header.
        #[serde(default)]
        payload_bytes: u16,
    },
    /// An IP packet from a UE, in its tunnel.
    Upstream {
        /// The gateway's end of the tunnel.
        teid: u32,
        /// The base station's tunnel address, if it matters.
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
        /// Bytes behind the transport header.
        #[serde(default)]
        payload_bytes: u16,
    },
}

/// Where a packet would go, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trace {
    /// The node that was asked.
    pub node: u16,
    /// The port the packet arrives at.
    pub port: PortRole,
    /// The frame, in hexadecimal digits.
    pub frame_hex: String,
    /// What it comes to, in one line.
    pub verdict: String,
    /// What was found on the way, in order.
    pub steps: Vec<Step>,
    /// The key it is steered by; none if it has none.
    pub key: Option<KeyView>,
    /// What the GPT of this node says of the key.
    pub gpt: Option<Hint>,
    /// What the lookup table of this node says of it: hash partition only.
    pub lookup: Option<Hint>,
    /// What the FIB of this node holds for it.
    pub flow: Option<FlowView>,
    /// What leaves the node.
    pub outputs: Vec<Output>,
    /// Why the packet is dropped, if it is.
    pub dropped: Option<Dropped>,
}

/// Something found on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Where: `ethernet`, `ip`, `gtpu`, `key`, `gpt` and the like.
    pub at: String,
    /// What.
    pub found: String,
}

/// A flow key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// In words.
    pub text: String,
    /// Its hash, 16 hexadecimal digits.
    pub hash_hex: String,
}

/// A table's answer to "which node?".
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
    /// The base station's end of its tunnel.
    pub downlink_teid: u32,
    /// The base station, by its place in the configuration.
    pub base_station: u16,
    /// Its QoS flow.
    pub qfi: Option<u8>,
    /// Packets sent to the UE so far; the counters are kept at that node only.
    pub downstream_packets: Option<u64>,
    /// Their bytes of inner IP.
    pub downstream_bytes: Option<u64>,
    /// Packets taken from the UE so far.
    pub upstream_packets: Option<u64>,
    /// Their bytes of inner IP.
    pub upstream_bytes: Option<u64>,
}

/// A frame that would leave the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Output {
    /// The port it leaves by.
    pub port: PortRole,
    /// What it is.
    pub what: OutputKind,
    /// The next hop's MAC address.
    pub dst_mac: String,
    /// Its own source.
    pub src_mac: String,
    /// The frame, in hexadecimal digits.
    pub frame_hex: String,
    /// What a reader would say of it.
    pub summary: String,
}

/// What leaves.
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
        /// What that node has to do: `handling`, `lookup` or `indirect`.
        phase: String,
        /// The node it goes to.
        node: u16,
        /// The node where it leaves the cluster, as far as is known.
        output_node: u16,
        /// The port where it leaves.
        output: PortRole,
        /// It is forwarded once more, because the flow was not here.
        again: bool,
    },
    /// Something else.
    Other,
}

/// Why a packet is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dropped {
    /// The counter.
    pub reason: String,
    /// In words.
    pub meaning: String,
}
