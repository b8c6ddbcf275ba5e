//! Types and codes of ICMP (RFC 792) and ICMPv6 (RFC 4443).

use crate::checksum::{self, Sum};
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{self, Ipv6Header};
use crate::{WriteError, protocol};
use std::net::IpAddr;

/// Length of the header, octets; in an error, the quoted packet follows it.
pub const HEADER_LEN: usize = 8;

/// Types and codes of ICMP for IPv4 (RFC 792).
pub mod v4 {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Code of [`UNREACHABLE`]: host.
    pub const CODE_HOST: u8 = 1;
    /// Code of [`UNREACHABLE`]: port.
    pub const CODE_PORT: u8 = 3;
    /// Code of [`UNREACHABLE`]: fragmentation needed and DF set (RFC 1191).
    pub const CODE_FRAGMENTATION_NEEDED: u8 = 4;
    /// Code of [`UNREACHABLE`]: administratively prohibited (RFC 1812 §5.2.7.1).
    pub const CODE_PROHIBITED: u8 = 13;
    /// Source quench (deprecated, RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Types and codes of ICMP for IPv6 (RFC 4443).
pub mod v6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Code of [`UNREACHABLE`]: administratively prohibited.
    pub const CODE_PROHIBITED: u8 = 1;
    /// Code of [`UNREACHABLE`]: address.
    pub const CODE_ADDRESS: u8 = 3;
    /// Code of [`UNREACHABLE`]: port.
    pub const CODE_PORT: u8 = 4;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Redirect (RFC 4861 §4.5): informational by number, yet never answered with an error.
    pub const REDIRECT: u8 = 137;
}

/// Whether a type of ICMP for IPv4 reports an error and quotes a packet (RFC 1122 §3.2.2).
#[inline]
pub const fn is_error_v4(kind: u8) -> bool {
    matches!(
        kind,
        v4::UNREACHABLE | v4::SOURCE_QUENCH | v4::REDIRECT | v4::TIME_EXCEEDED | v4::PARAMETER_PROBLEM
    )
}

/// Whether a type of ICMPv6 reports an error: the high bit is clear (RFC 4443 §2.1).
#[inline]
pub const fn is_error_v6(kind: u8) -> bool {
    kind < 128
}

/// Time to live of the messages written here.
const TTL: u8 = 64;

/// Writes the IP header, without options, of a packet from `src` to `dst` with an ICMP message of `len` octets. Returns
/// the place of the message, the length of the packet, and the sum that the message's checksum starts from.
pub(crate) fn write_ip(
    (src, dst): (IpAddr, IpAddr),
    dscp_ecn: u8,
    (identification, dont_fragment): (u16, bool),
    len: usize,
    out: &mut [u8],
) -> Result<(&mut [u8], usize, Sum), WriteError> {
    let header_len = if src.is_ipv4() { ipv4::MIN_HEADER_LEN } else { ipv6::HEADER_LEN };
    let room = out.get_mut(..header_len + len).ok_or(WriteError::NoRoom)?;
    let (header, message) = room.split_at_mut_checked(header_len).ok_or(WriteError::NoRoom)?;
    let sum = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let ip = Ipv4Header {
                dscp_ecn,
                total_len: (header_len + len) as u16, // not longer than the packet that is answered
                identification,
                dont_fragment,
                more_fragments: false,
                fragment_units: 0,
                ttl: TTL,
                protocol: protocol::ICMPV4,
                src,
                dst,
            };
            header.copy_from_slice(&ip.to_bytes());
            Sum::new()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = Ipv6Header {
                traffic_class: dscp_ecn,
                flow_label: 0,
                payload_len: len as u16, // not longer than the packet that is answered
                next_header: protocol::ICMPV6,
                hop_limit: TTL,
                src,
                dst,
            };
            header.copy_from_slice(&ip.to_bytes());
            checksum::pseudo_header_v6(src, dst, protocol::ICMPV6, len as u32)
        }
        _ => return Err(WriteError::AddressFamily),
    };
    Ok((message, header_len + len, sum))
}
