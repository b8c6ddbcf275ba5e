//! Answering an ICMP echo (RFC 792, RFC 4443 §4): whole IP packets, both versions.

use crate::ipv4::{self, Ipv4};
use crate::{IpPacket, WriteError, checksum, icmp, ipv6, protocol};
use std::net::IpAddr;

/// Whether this packet is a whole echo request with code 0; fragments are not answered.
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

/// Writes the reply to an echo request, from the address that it was sent to. Identifier, sequence number, data (RFC 792)
/// and DSCP are those of the request; ECN, options and extension headers are left out. Returns [`reply_len`].
///
/// The IPv4 identification is the request's, so it is unique if the requester's are.
///
/// # Errors
/// [`WriteError::NoErrorAllowed`] if it is not a request; [`WriteError::NoRoom`].
pub fn reply(request: &IpPacket<'_>, out: &mut [u8]) -> Result<usize, WriteError> {
    if !is_request(request) {
        return Err(WriteError::NoErrorAllowed);
    }
    let message = request.l4();
    let (kind, atomic) = if request.summary.is_ipv4() {
        let asked = Ipv4::parse(request.bytes())?;
        (icmp::v4::ECHO_REPLY, (asked.identification(), asked.dont_fragment()))
    } else {
        (icmp::v6::ECHO_REPLY, (0, true))
    };
    let addresses = (request.summary.dst, request.summary.src);
    let dscp = request.summary.dscp_ecn & !0b11;
    let (out, len, sum) = icmp::write_ip(addresses, dscp, atomic, message.len(), out)?;
    out.copy_from_slice(message);
    if let Some(header) = out.first_chunk_mut() {
        *header = [kind, 0, 0, 0];
    }
    let [high, low] = sum.bytes(out).finish().to_be_bytes();
    if let Some(header) = out.first_chunk_mut() {
        *header = [kind, 0, high, low];
    }
    Ok(len)
}
