//! The transport header of a packet, checked.

use super::Untracked;
use crate::tcp::Segment;
use scalebricks_wire::transport::{Tcp, Udp};
use scalebricks_wire::{IpSummary, checksum, protocol};

/// A packet's transport layer.
pub(super) enum Transport<'a> {
    Tcp(Segment, &'a [u8]),
    Other,
}

impl<'a> Transport<'a> {
    pub(super) fn parse(ip: &IpSummary, l4: &'a [u8], verify: bool) -> Result<Self, Untracked> {
        let malformed = |_| Untracked::MalformedTransport;
        match ip.protocol {
            protocol::TCP => {
                let tcp = Tcp::parse(l4).map_err(malformed)?;
                if verify && checksum::upper_layer(ip.src, ip.dst, protocol::TCP, l4) != Some(0) {
                    return Err(Untracked::TransportChecksum);
                }
                Ok(Self::Tcp(Segment::of(&tcp), tcp.payload()))
            }
            protocol::UDP => {
                let udp = Udp::parse(l4).map_err(malformed)?;
                // RFC 768: 0 is none. RFC 8200 §8.1 forbids it, RFC 6935 allows it again for tunnels.
                let datagram = l4.get(..usize::from(udp.len())).unwrap_or(l4);
                if verify
                    && udp.checksum() != 0
                    && checksum::upper_layer(ip.src, ip.dst, protocol::UDP, datagram) != Some(0)
                {
                    return Err(Untracked::TransportChecksum);
                }
                Ok(Self::Other)
            }
            other if protocol::has_ports(other) && ip.ports.is_none() => Err(Untracked::MalformedTransport),
            protocol::ICMPV4 if ip.is_ipv4() && ip.icmp.is_none() => Err(Untracked::MalformedTransport),
            protocol::ICMPV6 if !ip.is_ipv4() && ip.icmp.is_none() => Err(Untracked::MalformedTransport),
            protocol::ICMPV4 if verify && ip.is_ipv4() && checksum::checksum(l4) != 0 => {
                Err(Untracked::TransportChecksum)
            }
            protocol::ICMPV6
                if verify
                    && !ip.is_ipv4()
                    && checksum::upper_layer(ip.src, ip.dst, protocol::ICMPV6, l4) != Some(0) =>
            {
                Err(Untracked::TransportChecksum)
            }
            _ => Ok(Self::Other),
        }
    }
}
