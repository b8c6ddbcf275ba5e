//! Builds the frame of a trace request.

use super::unhex;
use crate::inspect::TraceError;
use crate::model::{PortRole, TracePacket};
use etherparse::{
    IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder,
};
use scalebricks_elements::gateway::{FabricMac, NodeConfig};
use scalebricks_types::Teid;
use scalebricks_wire::encap::{OUTER_V4_LEN, OuterV4, Tunnel};
use scalebricks_wire::{MacAddr, ethernet, gtpu, protocol};
use std::net::{IpAddr, Ipv4Addr};

/// Source MAC address of a built frame: locally administered, and not of the cluster.
const PEER_MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0xfe]);
/// Default base station of a built packet: an address for documentation (RFC 5737).
const ANY_BASE_STATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const TTL: u8 = 64;

/// A frame, and the port where it arrives.
pub(super) struct Arrival {
    pub(super) port: PortRole,
    pub(super) frame: Vec<u8>,
}

/// Builds the frame.
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
            outer.write(&mut frame, packet.len()).map_err(|_| bad("longer than an IP packet can be"))?;
            Ok(Arrival { port: PortRole::BaseStation, frame })
        }
    }
}

fn bad(what: &str) -> TraceError {
    TraceError::BadPacket(what.to_owned())
}

/// Addresses a frame to the node. On the fabric the other fields of the address are kept.
fn readdress(config: &NodeConfig, port: PortRole, frame: &mut [u8]) -> Result<(), TraceError> {
    let mac = match port {
        PortRole::Internet => config.macs.internet,
        PortRole::BaseStation => config.macs.base_station,
        PortRole::Fabric => {
            let mac = ethernet::destination(frame).and_then(FabricMac::decode).ok_or_else(|| {
                bad("the destination is not a fabric address, so the frame's purpose is unknown")
            })?;
            let output_node = if mac.phase.is_indirect() { mac.output_node } else { config.id };
            FabricMac { node: config.id, output_node, ..mac }.encode()
        }
    };
    if ethernet::set_destination(frame, mac) {
        Ok(())
    } else {
        Err(bad("the frame is shorter than an Ethernet header"))
    }
}

/// An inner packet.
struct Inner {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    src_port: u16,
    dst_port: u16,
    payload_bytes: u16,
}

impl Inner {
    /// The packet from its IP header on. Its payload is zeros. TCP and UDP headers are complete; of other protocols
    /// with ports only the ports are written.
    fn write(&self) -> Result<Vec<u8>, TraceError> {
        let ip = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (source, destination) = (src.octets(), dst.octets());
                let time_to_live = TTL;
                let header = Ipv4Header {
                    source,
                    destination,
                    time_to_live,
                    dont_fragment: false,
                    ..Ipv4Header::default()
                };
                IpHeaders::Ipv4(header, Ipv4Extensions::default())
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let (source, destination) = (src.octets(), dst.octets());
                let header = Ipv6Header { source, destination, hop_limit: TTL, ..Ipv6Header::default() };
                IpHeaders::Ipv6(header, Ipv6Extensions::default())
            }
            (src, dst) => return Err(bad(&format!("{src} and {dst} are of different address families"))),
        };
        let ip = PacketBuilder::ip(ip);
        let (src, dst) = (self.src_port, self.dst_port);
        let mut payload = vec![0; usize::from(self.payload_bytes)];
        let mut packet = Vec::new();
        let written = match self.protocol {
            protocol::UDP => ip.udp(src, dst).write(&mut packet, &payload),
            protocol::TCP => ip.tcp(src, dst, 0, 0).ack(0).write(&mut packet, &payload),
            other => {
                if protocol::has_ports(other) {
                    payload.splice(..0, [src.to_be_bytes(), dst.to_be_bytes()].concat());
                }
                ip.write(&mut packet, IpNumber(other), &payload)
            }
        };
        written.map_err(|_| bad("longer than an IP packet can be"))?; // memory accepts all others
        Ok(packet)
    }
}
