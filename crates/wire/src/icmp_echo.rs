//! Answering an ICMP echo (RFC 792, RFC 4443 §4): whole IP packets, both versions.

use crate::ipv4::{self, Ipv4, Ipv4Header};
use crate::ipv6::{self, Ipv6Header};
use crate::{IpPacket, WriteError, checksum, icmp, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Time to live of the replies.
const TTL: u8 = 64;

/// Whether this whole packet asks for an echo (code 0). A fragment does not: nobody answers half a question here.
pub fn is_request(packet: &IpPacket<'_>) -> bool {
    let ip = &packet.summary;
    let (wanted, kind) = if ip.is_ipv4() {
        (protocol::ICMPV4, icmp::v4::ECHO_REQUEST)
    } else {
        (protocol::ICMPV6, icmp::v6::ECHO_REQUEST)
    };
    let is_whole = ip.fragment.is_none() && packet.l4().len() >= icmp::HEADER_LEN;
    is_whole && ip.protocol == wanted && ip.icmp == Some((kind, 0))
}

/// Whether the ICMP checksum of this whole packet is right; that of ICMPv6 covers its addresses (RFC 4443 §2.3).
pub fn checksum_ok(packet: &IpPacket<'_>) -> bool {
    match (packet.summary.src, packet.summary.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let len = packet.l4().len() as u32; // within one packet
            checksum::pseudo_header_v6(src, dst, protocol::ICMPV6, len).bytes(packet.l4()).finish() == 0
        }
        _ => checksum::checksum(packet.l4()) == 0,
    }
}

/// Octets the reply to a request will have: its message behind an IP header without options.
pub fn reply_len(request: &IpPacket<'_>) -> usize {
    let header = if request.summary.is_ipv4() { ipv4::MIN_HEADER_LEN } else { ipv6::HEADER_LEN };
    header + request.l4().len()
}

/// Writes the reply to an echo request, from the address that was asked: identifier, sequence number and data come
/// back (RFC 792), so does DSCP; ECN, options and extension headers do not. Returns [`reply_len`].
///
/// The IPv4 identification is the request's: distinct for the asker's requests, so distinct for their replies.
///
/// # Errors
/// [`WriteError::NoErrorAllowed`] if it is no request; [`WriteError::NoRoom`].
pub fn reply(request: &IpPacket<'_>, out: &mut [u8]) -> Result<usize, WriteError> {
    if !is_request(request) {
        return Err(WriteError::NoErrorAllowed);
    }
    match (request.summary.src, request.summary.dst) {
        (IpAddr::V4(asker), IpAddr::V4(own)) => reply_v4(request, own, asker, out),
        (IpAddr::V6(asker), IpAddr::V6(own)) => reply_v6(request, own, asker, out),
        _ => Err(WriteError::AddressFamily),
    }
}

fn reply_v4(
    request: &IpPacket<'_>,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let (ip, message) = out.split_first_chunk_mut().ok_or(WriteError::NoRoom)?;
    let asked = Ipv4::parse(request.bytes())?;
    let total_len = ipv4::MIN_HEADER_LEN + request.l4().len();
    let header = Ipv4Header {
        dscp_ecn: asked.dscp_ecn() & !0b11,
        total_len: total_len as u16, // not longer than the request
        identification: asked.identification(),
        dont_fragment: asked.dont_fragment(),
        more_fragments: false,
        fragment_units: 0,
        ttl: TTL,
        protocol: protocol::ICMPV4,
        src,
        dst,
    };
    *ip = header.to_bytes();
    write_message(request.l4(), icmp::v4::ECHO_REPLY, checksum::Sum::new(), message)?;
    Ok(total_len)
}

fn reply_v6(
    request: &IpPacket<'_>,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let (ip, message) = out.split_first_chunk_mut().ok_or(WriteError::NoRoom)?;
    let payload_len = request.l4().len() as u16; // not longer than the request's payload
    let header = Ipv6Header {
        traffic_class: request.summary.dscp_ecn & !0b11,
        flow_label: 0,
        payload_len,
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        src,
        dst,
    };
    *ip = header.to_bytes();
    let pseudo = checksum::pseudo_header_v6(src, dst, protocol::ICMPV6, u32::from(payload_len));
    write_message(request.l4(), icmp::v6::ECHO_REPLY, pseudo, message)?;
    Ok(ipv6::HEADER_LEN + request.l4().len())
}

fn write_message(asked: &[u8], kind: u8, pseudo: checksum::Sum, out: &mut [u8]) -> Result<(), WriteError> {
    let message = out.get_mut(..asked.len()).ok_or(WriteError::NoRoom)?;
    message.copy_from_slice(asked);
    let header = message.first_chunk_mut::<4>().ok_or(WriteError::NoRoom)?;
    *header = [kind, 0, 0, 0];
    let [high, low] = pseudo.bytes(message).finish().to_be_bytes();
    message.first_chunk_mut::<4>().ok_or(WriteError::NoRoom)?[2..].copy_from_slice(&[high, low]);
    Ok(())
}
