//! Keys of packets.

use scalebricks_tables::dhash::{FlowKey, Key4, Key6};
use scalebricks_types::FiveTuple;
use scalebricks_wire::{IpPacket, IpSummary, ParseError, icmp, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A key that is made of a tuple, and leads back to it.
pub(super) trait Key: FlowKey {
    fn of_tuple(tuple: &FiveTuple, zone: u16) -> Option<Self>;

    fn ends(&self) -> (IpAddr, IpAddr);

    fn tuple(&self) -> FiveTuple {
        let (src, dst) = self.ends();
        let (src_port, dst_port) = (self.source_port(), self.destination_port());
        FiveTuple { src, dst, protocol: self.protocol(), src_port, dst_port }
    }
}

impl Key for Key4 {
    fn of_tuple(tuple: &FiveTuple, zone: u16) -> Option<Self> {
        Self::of(tuple, zone)
    }

    fn ends(&self) -> (IpAddr, IpAddr) {
        (Ipv4Addr::from_bits(self.source()).into(), Ipv4Addr::from_bits(self.destination()).into())
    }
}

impl Key for Key6 {
    fn of_tuple(tuple: &FiveTuple, zone: u16) -> Option<Self> {
        Self::of(tuple, zone)
    }

    fn ends(&self) -> (IpAddr, IpAddr) {
        (Ipv6Addr::from_bits(self.source()).into(), Ipv6Addr::from_bits(self.destination()).into())
    }
}

/// The tuple of a packet: an ICMP query has its identifier as both ports (RFC 5508 §3), all other ICMP messages between two
/// addresses are one flow without ports.
pub fn tuple(ip: &IpSummary, l4: &[u8]) -> FiveTuple {
    let mut tuple = ip.five_tuple();
    if let Some((kind, _)) = ip.icmp
        && is_query(ip.protocol, kind)
        && let Some(&[high, low]) = l4.get(4..6)
    {
        let identifier = u16::from_be_bytes([high, low]);
        (tuple.src_port, tuple.dst_port) = (identifier, identifier);
    }
    tuple
}

/// The tuple of the packet that an ICMP error quotes; `None` if the packet is no ICMP error.
///
/// # Errors
/// Inside the option: the quoted packet's headers are malformed or cut.
pub fn quoted_tuple(packet: &IpPacket<'_>) -> Option<Result<FiveTuple, ParseError>> {
    let quoted = packet.quoted()?;
    Some(quoted.map(|quoted| {
        let l4 = packet.l4().get(icmp::HEADER_LEN + usize::from(quoted.l4_offset)..);
        tuple(&quoted, l4.unwrap_or_default())
    }))
}

const fn is_query(protocol: u8, kind: u8) -> bool {
    match protocol {
        // Echo, timestamp and their replies (RFC 792).
        protocol::ICMPV4 => matches!(kind, 0 | 8 | 13 | 14),
        // Echo (RFC 4443 §4).
        _ => matches!(kind, 128 | 129),
    }
}
