//! Building ICMP errors: whole IP packets that quote the packet at fault.

use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{self, Ipv6Header};
use crate::packet::{IpSummary, parse_ip};
use crate::{WriteError, checksum, icmp, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest IPv4 packet with an ICMP error, octets (RFC 1812 §4.3.2.3).
pub const MAX_V4_LEN: usize = 576;
/// Longest IPv6 packet with an ICMP error, octets: the minimum MTU (RFC 4443 §2.4 (c)).
pub const MAX_V6_LEN: usize = 1280;

/// Time to live of the errors.
const TTL: u8 = 64;
/// Precedence "internetwork control" (RFC 1812 §4.3.2.5).
const DSCP_CS6: u8 = 0xc0;

/// Whether an ICMP error may answer this packet.
///
/// RFC 1812 §4.3.2.7 and RFC 4443 §2.4 (e): not an ICMP error or redirect, not a later fragment, not a source that is
/// no single host, not a multicast or broadcast destination; the last does not hold for `too_big` in IPv6. Subnet
/// broadcast addresses are not known here.
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
    write(original, IpAddr::V4(from), head, false, out)
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
    write(original, IpAddr::V6(from), head, true, out)
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
    write(original, from, [kind, code, 0, 0, 0, 0, 0, 0], false, out)
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
    let room = out.len().min(limit.min(MAX_V4_LEN));
    let packet = parse_ip(original)?;
    let IpAddr::V4(to) = packet.summary.src else { return Err(WriteError::AddressFamily) };
    if !is_allowed(&packet.summary, false) {
        return Err(WriteError::NoErrorAllowed);
    }
    let quoted = room.saturating_sub(ipv4::MIN_HEADER_LEN + icmp::HEADER_LEN).min(packet.bytes().len());
    let quoted = packet.bytes().get(..quoted).ok_or(WriteError::NoRoom)?;
    write_v4(quoted, from, to, [kind, code, 0, 0, a, b, c, d], out.get_mut(..room).ok_or(WriteError::NoRoom)?)
}

fn write(
    original: &[u8],
    from: IpAddr,
    head: [u8; icmp::HEADER_LEN],
    too_big: bool,
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let packet = parse_ip(original)?;
    match (from, packet.summary.src) {
        _ if from.is_ipv4() != packet.summary.is_ipv4() => Err(WriteError::AddressFamily),
        _ if !is_allowed(&packet.summary, too_big) => Err(WriteError::NoErrorAllowed),
        (IpAddr::V4(from), IpAddr::V4(to)) => write_v4(packet.bytes(), from, to, head, out),
        (IpAddr::V6(from), IpAddr::V6(to)) => write_v6(packet.bytes(), from, to, head, out),
        _ => Err(WriteError::AddressFamily),
    }
}

fn write_v4(
    original: &[u8],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    head: [u8; icmp::HEADER_LEN],
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let (ip, message) = out.split_first_chunk_mut().ok_or(WriteError::NoRoom)?;
    let len = quote(original, MAX_V4_LEN - ipv4::MIN_HEADER_LEN, head, message, checksum::Sum::new())?;
    let total_len = ipv4::MIN_HEADER_LEN + len;
    let header = Ipv4Header {
        dscp_ecn: DSCP_CS6,
        total_len: total_len as u16, // at most MAX_V4_LEN
        identification: 0,           // RFC 6864 §4.1: any value will do with DF set
        dont_fragment: true,
        more_fragments: false,
        fragment_units: 0,
        ttl: TTL,
        protocol: protocol::ICMPV4,
        src,
        dst,
    };
    *ip = header.to_bytes();
    Ok(total_len)
}

fn write_v6(
    original: &[u8],
    src: Ipv6Addr,
    dst: Ipv6Addr,
    head: [u8; icmp::HEADER_LEN],
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let (ip, message) = out.split_first_chunk_mut().ok_or(WriteError::NoRoom)?;
    let limit = MAX_V6_LEN - ipv6::HEADER_LEN;
    let payload_len = limit.min(icmp::HEADER_LEN + original.len()) as u16; // at most MAX_V6_LEN
    let pseudo = checksum::pseudo_header_v6(src, dst, protocol::ICMPV6, u32::from(payload_len));
    let len = quote(original, limit, head, message, pseudo)?;
    let header = Ipv6Header {
        traffic_class: DSCP_CS6,
        flow_label: 0,
        payload_len,
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        src,
        dst,
    };
    *ip = header.to_bytes();
    Ok(ipv6::HEADER_LEN + len)
}

/// Writes an ICMP message of at most `limit` octets that quotes the start of `original`; returns its length.
fn quote(
    original: &[u8],
    limit: usize,
    head: [u8; icmp::HEADER_LEN],
    out: &mut [u8],
    pseudo: checksum::Sum,
) -> Result<usize, WriteError> {
    let len = limit.min(icmp::HEADER_LEN + original.len());
    let message = out.get_mut(..len).ok_or(WriteError::NoRoom)?;
    let (header, body) = message.split_first_chunk_mut().ok_or(WriteError::NoRoom)?;
    let quoted = original.get(..body.len()).ok_or(WriteError::NoRoom)?;
    body.copy_from_slice(quoted);
    let [kind, code, _, _, a, b, c, d] = head;
    let [s0, s1] = pseudo.bytes(&head).bytes(quoted).finish().to_be_bytes();
    *header = [kind, code, s0, s1, a, b, c, d];
    Ok(len)
}
