//! What `ICMPError` and `ICMP6Error` have in common.

use crate::annotations::PacketType;
use crate::header;
use scalebricks_graph::Meta;
use scalebricks_io::PacketBuf;
use scalebricks_wire::icmp_error::is_allowed;
use scalebricks_wire::{WriteError, parse_ip, protocol};
use std::net::IpAddr;

/// Why no error is sent about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    AboutError,
    LaterFragment,
    NotUnicast,
    BadAddress,
    Malformed,
    NoRoom,
}

impl From<WriteError> for Silence {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NoRoom => Self::NoRoom,
            _ => Self::Malformed,
        }
    }
}

/// The reason not to send an error about a packet, if any (RFC 1122 §3.2.2, RFC 4443 §2.4 (e)). `answers_groups`: whether
/// the error may be about packets to groups.
pub(crate) fn silence(
    packet: &[u8],
    meta: &Meta,
    answers_groups: bool,
    is_bad: impl Fn(IpAddr) -> bool,
) -> Option<Silence> {
    let Ok(summary) = parse_ip(packet).map(|packet| packet.summary) else { return Some(Silence::Malformed) };
    let icmp = if summary.src.is_ipv4() { protocol::ICMPV4 } else { protocol::ICMPV6 };
    if summary.is_later_fragment() {
        Some(Silence::LaterFragment)
    } else if summary.is_icmp_error() || summary.protocol == icmp && summary.icmp.is_none() {
        Some(Silence::AboutError)
    } else if PacketType::noted(meta).is_shared() && !answers_groups || !is_allowed(&summary, answers_groups)
    {
        Some(Silence::NotUnicast)
    } else if is_bad(summary.src) || is_bad(summary.dst) {
        Some(Silence::BadAddress)
    } else {
        None
    }
}

/// Replaces a packet by an error, whose IP header has this length.
pub(crate) fn replace<P: PacketBuf>(
    packet: &mut P,
    meta: &mut Meta,
    error: &[u8],
    header_len: usize,
) -> Result<(), Silence> {
    packet.truncate(0);
    packet.append(error).map_err(|_| Silence::NoRoom)?;
    header::note(meta, 0, header_len, error.len());
    (meta.flags, meta.paint) = (0, 0);
    Ok(())
}

/// Implements an element of errors for an IP version: `each` as [`per_destination`](crate::agnostic) takes it. The element
/// has the fields `src`, `bad`, `painted` and `bucket`, and methods `answers_groups` and `apply`.
macro_rules! sends_errors {
    ($class:ident, $address:ident, $dst:ident) => {
        impl Control for $class {}

        impl $class {
            /// The source of an error about a packet.
            fn src(&self, meta: &Meta) -> $address {
                self.painted.get(usize::from(meta.paint)).copied().unwrap_or(self.src)
            }

            fn each<P: PacketBuf>(
                &mut self,
                packet: &mut P,
                meta: &mut Meta,
                dst: &mut $dst,
                out: &Out<'_>,
            ) -> Verdict {
                let is_bad = |address| self.bad.iter().any(|bad| std::net::IpAddr::from(*bad) == address);
                let original = $crate::header::bytes(packet.data(), meta);
                let result = match $crate::icmp_errors::silence(original, meta, self.answers_groups(), is_bad)
                {
                    Some(reason) => Err(reason),
                    None if !self.bucket.take(out.now()) => return Verdict::Drop(Self::RATE_LIMITED),
                    None => self.apply(packet, meta, dst.0),
                };
                match result {
                    Ok(sender) => *dst = $dst(sender),
                    Err(Silence::AboutError) => return Verdict::Drop(Self::ABOUT_ERROR),
                    Err(Silence::LaterFragment) => return Verdict::Drop(Self::LATER_FRAGMENT),
                    Err(Silence::NotUnicast) => return Verdict::Drop(Self::NOT_UNICAST),
                    Err(Silence::BadAddress) => return Verdict::Drop(Self::BAD_ADDRESS),
                    Err(Silence::Malformed) => return Verdict::Drop(Self::MALFORMED),
                    Err(Silence::NoRoom) => return Verdict::Drop(Self::NO_ROOM),
                }
                out.count(Self::ERRORS, 1);
                Verdict::ON
            }
        }

        $crate::agnostic::per_destination!($class);
    };
}

pub(crate) use sends_errors;
