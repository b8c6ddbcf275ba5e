//! Answers to ICMP echo requests, IPv4 and IPv6.

use crate::annotations::PacketType;
use crate::header;
use scalebricks_graph::Meta;
use scalebricks_io::PacketBuf;
use scalebricks_wire::icmp_error::is_allowed;
use scalebricks_wire::ipv4::MIN_HEADER_LEN;
use scalebricks_wire::ipv6::HEADER_LEN;
use scalebricks_wire::{icmp_echo, parse_ip};
use std::net::IpAddr;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PingFault {
    /// It is not a complete echo request.
    Other,
    /// Its ICMP checksum is wrong.
    Checksum,
    /// It is from or to more than one host.
    NotUnicast,
    /// The answer does not fit the packet's buffer.
    NoRoom,
}

/// Replaces the packet at `l3` by the answer. Returns the answer's destination. `reply` is memory to work in.
pub(crate) fn answer<P: PacketBuf>(
    packet: &mut P,
    meta: &mut Meta,
    reply: &mut Vec<u8>,
) -> Result<IpAddr, PingFault> {
    let request = parse_ip(header::bytes(packet.data(), meta)).map_err(|_| PingFault::Other)?;
    let asker = request.summary.src;
    if !icmp_echo::is_request(&request) {
        return Err(PingFault::Other);
    }
    if !icmp_echo::checksum_ok(&request) {
        return Err(PingFault::Checksum);
    }
    if PacketType::noted(meta).is_shared() || !is_allowed(&request.summary, false) {
        return Err(PingFault::NotUnicast);
    }
    let len = icmp_echo::reply_len(&request);
    reply.resize(len, 0);
    icmp_echo::reply(&request, reply).map_err(|_| PingFault::NoRoom)?;
    packet.truncate(usize::from(meta.l3));
    packet.append(reply).map_err(|_| PingFault::NoRoom)?;
    let header_len = if asker.is_ipv4() { MIN_HEADER_LEN } else { HEADER_LEN };
    header::note(meta, usize::from(meta.l3), header_len, len);
    meta.paint = 0;
    Ok(asker)
}

/// Implements an element of echo replies for an IP version: `each` as [`per_destination`](crate::agnostic) takes it. The
/// element has the fields `reply: Vec<u8>` and `side: SideOutput`.
macro_rules! answers_pings {
    ($class:ident, $version:ident, $dst:ident) => {
        impl Control for $class {}

        impl $class {
            fn each<P: PacketBuf>(
                &mut self,
                packet: &mut P,
                meta: &mut Meta,
                dst: &mut $dst,
                out: &Out<'_>,
            ) -> Verdict {
                match $crate::ping::answer(packet, meta, &mut self.reply) {
                    Ok(std::net::IpAddr::$version(asker)) => *dst = $dst(asker),
                    Ok(_) | Err(PingFault::Other) => return self.side.verdict(Self::OTHER),
                    Err(PingFault::Checksum) => return Verdict::Drop(Self::CHECKSUM),
                    Err(PingFault::NotUnicast) => return Verdict::Drop(Self::NOT_UNICAST),
                    Err(PingFault::NoRoom) => return Verdict::Drop(Self::NO_ROOM),
                }
                out.count(Self::REPLIES, 1);
                Verdict::ON
            }
        }

        $crate::agnostic::per_destination!($class);
    };
}

pub(crate) use answers_pings;
