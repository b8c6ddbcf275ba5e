//! First packets, as rules see them: when rules are replaced, a flow's first packet is long gone.

use scalebricks_types::FiveTuple;
use scalebricks_wire::transport::TcpFlags;
use scalebricks_wire::{IpPacket, ParseError, parse_ip, protocol};
use std::net::IpAddr;

/// Octets behind the IP header: a TCP header without options.
const BEHIND: usize = 20;

/// A packet that begins a flow: addresses and ports are the flow's, and a TCP segment is a SYN. TTL is 64, all other fields
/// are 0.
#[derive(Debug)]
pub(crate) struct Opening {
    bytes: [u8; 40 + BEHIND],
    len: usize,
}

impl Opening {
    /// The first packet of a flow. `icmp` are the type and code, if it is ICMP.
    pub(crate) fn new(tuple: &FiveTuple, icmp: [u8; 2]) -> Self {
        let mut bytes = [0; 40 + BEHIND];
        let at = match (tuple.src, tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                bytes[0] = 0x45;
                bytes[3] = 20 + BEHIND as u8;
                (bytes[8], bytes[9]) = (64, tuple.protocol);
                bytes[12..16].copy_from_slice(&src.octets());
                bytes[16..20].copy_from_slice(&dst.octets());
                20
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                bytes[0] = 0x60;
                bytes[5] = BEHIND as u8;
                (bytes[6], bytes[7]) = (tuple.protocol, 64);
                bytes[8..24].copy_from_slice(&src.octets());
                bytes[24..40].copy_from_slice(&dst.octets());
                40
            }
            _ => 0, // no packet has such a tuple; it cannot be parsed
        };
        let behind = &mut bytes[at..at + BEHIND];
        match tuple.protocol {
            protocol::ICMPV4 | protocol::ICMPV6 => behind[..2].copy_from_slice(&icmp),
            _ => {
                behind[..2].copy_from_slice(&tuple.src_port.to_be_bytes());
                behind[2..4].copy_from_slice(&tuple.dst_port.to_be_bytes());
            }
        }
        if tuple.protocol == protocol::TCP {
            (behind[12], behind[13]) = (0x50, TcpFlags::SYN.0);
        }
        Self { bytes, len: at + BEHIND }
    }

    /// The packet.
    pub(crate) fn packet(&self) -> Result<IpPacket<'_>, ParseError> {
        parse_ip(self.bytes.get(..self.len).unwrap_or_default())
    }
}

/// The tuple of the other direction.
pub(crate) const fn reversed(tuple: &FiveTuple) -> FiveTuple {
    FiveTuple {
        src: tuple.dst,
        dst: tuple.src,
        protocol: tuple.protocol,
        src_port: tuple.dst_port,
        dst_port: tuple.src_port,
    }
}
