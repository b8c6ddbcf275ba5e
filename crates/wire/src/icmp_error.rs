//! Writes ICMP errors: whole IP packets that quote the packet they are about.

use crate::packet::{IpSummary, parse_ip};
use crate::{WriteError, icmp, ipv4, ipv6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest IPv4 packet with an ICMP error, octets (RFC 1812 §4.3.2.3).
pub const MAX_V4_LEN: usize = 576;
/// Longest IPv6 packet with an ICMP error, octets: the minimum MTU (RFC 4443 §2.4 (c)).
pub const MAX_V6_LEN: usize = 1280;

/// Precedence "internetwork control" (RFC 1812 §4.3.2.5).
const DSCP_CS6: u8 = 0xc0;

/// Whether an ICMP error may answer this packet.
///
/// RFC 1812 §4.3.2.7 and RFC 4443 §2.4 (e): not if it is an ICMP error, a redirect or a later fragment, if its source is
/// not a single host, or if its destination is multicast or broadcast, except for `too_big` in IPv6. Subnet broadcast
/// addresses are not recognized.
pub fn is_allowed(packet: &IpSummary, too_big: bool) -> bool {
    let source_ok = match packet.src {
        IpAddr::V4(src) => src.octets()[0] != 0 && !src.is_loopback() && src.octets()[0] < 224, // class D and E
        IpAddr::V6(src) => !src.is_unspecified() && !src.is_loopback() && !src.is_multicast(),
    };
    let destination_ok = match packet.dst {
        IpAddr::V4(dst) => !dst.is_multicast() && !dst.is_broadcast(),
        IpAddr::V6(dst) => !dst.is_multicast() || too_big,
    };
    let redirect = !packet.is_ipv4() && matches!(packet.icmp, Some((icmp::v6::REDIRECT, _)));
    source_ok && destination_ok && !redirect && !packet.is_icmp_error() && !packet.is_later_fragment()
}

/// Writes "fragmentation needed and DF set" with the next hop's MTU (RFC 1191 §4), from `from` to the source of
/// `original`, an IPv4 packet. Returns the length of the IP packet written, at most [`MAX_V4_LEN`].
///
/// # Errors
/// [`WriteError::Malformed`], [`WriteError::AddressFamily`] (not IPv4), [`WriteError::NoErrorAllowed`],
/// [`WriteError::NoRoom`].
pub fn fragmentation_needed(
    original: &[u8],
    from: Ipv4Addr,
    next_hop_mtu: u16,
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let [m0, m1] = next_hop_mtu.to_be_bytes();
    let head = [icmp::v4::UNREACHABLE, icmp::v4::CODE_FRAGMENTATION_NEEDED, 0, 0, 0, 0, m0, m1];
    write(original, IpAddr::V4(from), head, usize::MAX, out)
}

/// Writes "packet too big" (RFC 4443 §3.2), from `from` to the source of `original`, an IPv6 packet. Returns the
/// length of the IP packet written, at most [`MAX_V6_LEN`].
///
/// # Errors
/// [`WriteError::Malformed`], [`WriteError::AddressFamily`] (not IPv6), [`WriteError::NoErrorAllowed`],
/// [`WriteError::NoRoom`].
pub fn packet_too_big(
    original: &[u8],
    from: Ipv6Addr,
    mtu: u32,
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let [a, b, c, d] = mtu.to_be_bytes();
    let head = [icmp::v6::PACKET_TOO_BIG, 0, 0, 0, a, b, c, d];
    write(original, IpAddr::V6(from), head, usize::MAX, out)
}

/// Writes "destination unreachable" with this code, of the IP version of `original` and `from`, to the source of
/// `original`. Returns the length of the IP packet written.
///
/// # Errors
/// [`WriteError::Malformed`], [`WriteError::AddressFamily`] (of two versions), [`WriteError::NoErrorAllowed`],
/// [`WriteError::NoRoom`].
pub fn destination_unreachable(
    original: &[u8],
    from: IpAddr,
    code: u8,
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let kind = if from.is_ipv4() { icmp::v4::UNREACHABLE } else { icmp::v6::UNREACHABLE };
    write(original, from, [kind, code, 0, 0, 0, 0, 0, 0], usize::MAX, out)
}

/// Writes an ICMP error for IPv4 of any type and code, with `rest` as the second word of its header, from `from` to the
/// source of `original`, an IPv4 packet. The packet written has at most `limit` octets, and at most [`MAX_V4_LEN`].
/// Returns its length.
///
/// # Errors
/// [`WriteError::Malformed`], [`WriteError::AddressFamily`] (not IPv4), [`WriteError::NoErrorAllowed`],
/// [`WriteError::NoRoom`], also if `limit` leaves none.
pub fn any_v4(
    original: &[u8],
    from: Ipv4Addr,
    (kind, code): (u8, u8),
    rest: [u8; 4],
    limit: usize,
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let [a, b, c, d] = rest;
    write(original, IpAddr::V4(from), [kind, code, 0, 0, a, b, c, d], limit.min(out.len()), out)
}

/// Writes an ICMPv6 error of any type and code, with `rest` as the second word of its header, from `from` to the source of
/// `original`, an IPv6 packet. The packet written has at most [`MAX_V6_LEN`] octets, and at most those of `out`. Returns
/// its length.
///
/// # Errors
/// [`WriteError::Malformed`], [`WriteError::AddressFamily`] (not IPv6), [`WriteError::NoErrorAllowed`],
/// [`WriteError::NoRoom`].
pub fn any_v6(
    original: &[u8],
    from: Ipv6Addr,
    (kind, code): (u8, u8),
    rest: [u8; 4],
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let [a, b, c, d] = rest;
    write(original, IpAddr::V6(from), [kind, code, 0, 0, a, b, c, d], out.len(), out)
}

/// Writes an ICMP message that starts with `head` and quotes `original`, in a packet of at most `limit` octets.
fn write(
    original: &[u8],
    from: IpAddr,
    head: [u8; icmp::HEADER_LEN],
    limit: usize,
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let packet = parse_ip(original)?;
    let is_ipv4 = packet.summary.is_ipv4();
    if from.is_ipv4() != is_ipv4 {
        return Err(WriteError::AddressFamily);
    }
    let [kind, code, _, _, a, b, c, d] = head;
    if !is_allowed(&packet.summary, !is_ipv4 && kind == icmp::v6::PACKET_TOO_BIG) {
        return Err(WriteError::NoErrorAllowed);
    }
    let (header_len, most) =
        if is_ipv4 { (ipv4::MIN_HEADER_LEN, MAX_V4_LEN) } else { (ipv6::HEADER_LEN, MAX_V6_LEN) };
    let len = (icmp::HEADER_LEN + packet.bytes().len()).min(most.min(limit).saturating_sub(header_len));
    // RFC 6864 §4.1: any identification will do with DF set.
    let addresses = (from, packet.summary.src);
    let (message, len, sum) = icmp::write_ip(addresses, DSCP_CS6, (0, true), len, out)?;
    let (header, body) = message.split_first_chunk_mut().ok_or(WriteError::NoRoom)?;
    let quoted = packet.bytes().get(..body.len()).ok_or(WriteError::NoRoom)?;
    body.copy_from_slice(quoted);
    let [s0, s1] = sum.bytes(&head).bytes(quoted).finish().to_be_bytes();
    *header = [kind, code, s0, s1, a, b, c, d];
    Ok(len)
}
