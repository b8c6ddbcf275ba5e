//! The frame that a trace request means.

use super::unhex;
use crate::inspect::TraceError;
use crate::model::{PortRole, TracePacket};
use scalebricks_elements::gateway::{FabricMac, NodeConfig};
use scalebricks_types::Teid;
use scalebricks_wire::encap::{OUTER_V4_LEN, OuterV4, Tunnel};
use scalebricks_wire::ipv4::{self, Ipv4Header};
use scalebricks_wire::ipv6::{self, Ipv6Header};
use scalebricks_wire::transport::{TCP_MIN_HEADER_LEN, UDP_HEADER_LEN, udp_header};
use scalebricks_wire::{MacAddr, checksum, ethernet, gtpu, protocol};
use std::net::{IpAddr, Ipv4Addr};

/// Where a made packet seems to come from: locally administered, and none of the cluster's.
const PEER_MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0xfe]);
/// The base station of a made packet, if none is given: an address for documentation (RFC 5737).
const ANY_BASE_STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const TTL: u8 = 64;

/// A frame, and where it arrives.
pub(super) struct Arrival {
    pub(super) port: PortRole,
    pub(super) frame: Vec<u8>,
}

/// Makes the frame.
pub(super) fn make(config: &NodeConfig, packet: &TracePacket) -> Result<Arrival, TraceError> {
    match packet {
        TracePacket::Frame { port, frame_hex, readdress } => {
            let mut frame = unhex(frame_hex).ok_or_else(|| bad("the frame is not in hexadecimal digits"))?;
            if *readdress {
                self::readdress(config, *port, &mut frame)?;
            }
            Ok(Arrival { port: *port, frame })
        }
        &TracePacket::Downstream { src, dst, protocol, src_port, dst_port, payload_bytes } => {
            let inner = Inner { src, dst, protocol, src_port, dst_port, payload_bytes };
            let packet = inner.write()?;
            let ethertype = if dst.is_ipv4() { ethernet::ETHERTYPE_IPV4 } else { ethernet::ETHERTYPE_IPV6 };
            let header = ethernet::header(config.macs.internet, PEER_MAC, ethertype);
            Ok(Arrival { port: PortRole::Internet, frame: [&header[..], &packet].concat() })
        }
        &TracePacket::Upstream {
            teid,
            base_station,
            inner_src,
            inner_dst,
            protocol,
            src_port,
            dst_port,
            payload_bytes,
        } => {
            let inner = Inner { src: inner_src, dst: inner_dst, protocol, src_port, dst_port, payload_bytes };
            let packet = inner.write()?;
            let outer = OuterV4 {
                dst_mac: config.macs.base_station,
                src_mac: PEER_MAC,
                src: base_station.unwrap_or(ANY_BASE_STATION),
                dst: config.policy.gateway_address,
                dscp_ecn: 0,
                identification: 0,
                dont_fragment: false,
                ttl: TTL,
                tunnel: Tunnel { teid: Teid::new(teid), qfi: None, src_port: gtpu::PORT },
            };
            let mut frame = [&[0; OUTER_V4_LEN][..], &packet].concat();
            outer.write(&mut frame, packet.len()).map_err(|_| bad("longer than a packet can be"))?;
            Ok(Arrival { port: PortRole::BaseStation, frame })
        }
    }
}

fn bad(what: &str) -> TraceError {
    TraceError::BadPacket(what.to_owned())
}

/// Addresses a frame to the node: on the fabric, what the address says but for the node is kept.
fn readdress(config: &NodeConfig, port: PortRole, frame: &mut [u8]) -> Result<(), TraceError> {
    let mac = match port {
        PortRole::Internet => config.macs.internet,
        PortRole::BaseStation => config.macs.base_station,
        PortRole::Fabric => {
            let mac = ethernet::destination(frame).and_then(FabricMac::decode).ok_or_else(|| {
                bad("the frame has no address of the fabric, so nobody knows what it is for")
            })?;
            let output_node = if mac.phase.is_indirect() { mac.output_node } else { config.id };
            FabricMac { node: config.id, output_node, ..mac }.encode()
        }
    };
    if ethernet::set_destination(frame, mac) { Ok(()) } else { Err(bad("the frame ends within its header")) }
}

/// A user's packet.
struct Inner {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    src_port: u16,
    dst_port: u16,
    payload_bytes: u16,
}

impl Inner {
    /// The packet from its IP header on.
    fn write(&self) -> Result<Vec<u8>, TraceError> {
        let l4 = self.transport()?;
        let len =
            |header: usize| u16::try_from(header + l4.len()).map_err(|_| bad("longer than a packet can be"));
        let header = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Header {
                dscp_ecn: 0,
                total_len: len(ipv4::MIN_HEADER_LEN)?,
                identification: 0,
                dont_fragment: false,
                more_fragments: false,
                fragment_units: 0,
                ttl: TTL,
                protocol: self.protocol,
                src,
                dst,
            }
            .to_bytes()
            .to_vec(),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: len(0)?,
                next_header: self.protocol,
                hop_limit: TTL,
                src,
                dst,
            }
            .to_bytes()
            .to_vec(),
            (src, dst) => return Err(bad(&format!("{src} and {dst} are of two families"))),
        };
        debug_assert!(header.len() == ipv4::MIN_HEADER_LEN || header.len() == ipv6::HEADER_LEN);
        Ok([header, l4].concat())
    }

    /// Transport header and payload of zeros. Of TCP and UDP the header is whole, of SCTP and UDP-Lite its ports are;
    /// what other protocols have is all payload.
    fn transport(&self) -> Result<Vec<u8>, TraceError> {
        let payload = usize::from(self.payload_bytes);
        let (src, dst) = (self.src_port.to_be_bytes(), self.dst_port.to_be_bytes());
        let header = match self.protocol {
            protocol::UDP => {
                let len =
                    u16::try_from(UDP_HEADER_LEN + payload).map_err(|_| bad("longer than UDP can be"))?;
                udp_header(self.src_port, self.dst_port, len, 0).to_vec()
            }
            protocol::TCP => {
                let mut header = [0; TCP_MIN_HEADER_LEN];
                header[..2].copy_from_slice(&src);
                header[2..4].copy_from_slice(&dst);
                header[12] = 5 << 4; // five words long
                header[13] = 0x10; // ACK
                header.to_vec()
            }
            other if protocol::has_ports(other) => [src, dst].concat(),
            _ => Vec::new(),
        };
        let mut l4 = [header, vec![0; payload]].concat();
        let at = match self.protocol {
            protocol::UDP => 6,
            protocol::TCP => 16,
            _ => return Ok(l4),
        };
        if let Some(sum) = checksum::upper_layer(self.src, self.dst, self.protocol, &l4) {
            let sum = if self.protocol == protocol::UDP { checksum::udp(sum) } else { sum };
            l4[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        Ok(l4)
    }
}
