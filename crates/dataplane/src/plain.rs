//! The packets that nearly all are, classified by one look at a fixed number of octets: untagged IPv4 without options,
//! whole, with ports; or such a packet that carries a G-PDU without options. Everything else, and all that is wrong in
//! any way, is left to the parsers, which give the reason. What is classified here is classified as they would.

use crate::fabric_mac::OutputPort;
use scalebricks_types::{FlowKey, Teid};
use scalebricks_wire::ethernet::HEADER_LEN as ETHERNET_LEN;
use scalebricks_wire::gtpu::PORT;
use scalebricks_wire::ipv4::MIN_HEADER_LEN as IPV4_LEN;
use scalebricks_wire::protocol::{UDP, has_ports};
use std::net::Ipv4Addr;

/// What is known of such a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) key: FlowKey,
    pub(crate) user_offset: u16,
    pub(crate) user_len: usize,
    pub(crate) traffic_class: u8,
}

/// Octets from Ethernet to the ports.
const TO_PORTS: usize = ETHERNET_LEN + IPV4_LEN + 4;
/// Octets from Ethernet to the user's packet in a tunnel.
const TO_USER: usize = ETHERNET_LEN + IPV4_LEN + 8 + 8;
/// First octet of the first multicast address; what is above is reserved, broadcast among it.
const MULTICAST: u8 = 224;
/// GTP-U version 1, no optional fields; a G-PDU.
const PLAIN_GPDU: [u8; 2] = [0x30, 0xff];

#[inline(always)]
const fn word<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

#[inline(always)]
const fn short<const N: usize>(head: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

/// Whether the Ethernet and IPv4 headers are plain and the packet's stated length, which is returned, is there and has
/// room for ports.
#[inline(always)]
fn ipv4_len<const N: usize>(head: &[u8; N], frame_len: usize, verify_checksum: bool) -> Option<usize> {
    // Ethertype, version and header length in one comparison; then "more fragments" and the offset in another.
    let is_plain = word(head, 11) & IPV4_MASK == IPV4_WORD
        && word(head, 20) & FRAGMENT_MASK == 0
        && head[0] & 1 == 0
        && head[30] < MULTICAST
        && (!verify_checksum || checksum_ok(head));
    let len = usize::from(short(head, 16));
    (is_plain && len >= IPV4_LEN + 4 && len <= frame_len - ETHERNET_LEN).then_some(len)
}

const IPV4_MASK: u32 = u32::from_ne_bytes([0, 0xff, 0xff, 0xff]);
const IPV4_WORD: u32 = u32::from_ne_bytes([0, 0x08, 0x00, 0x45]);
const FRAGMENT_MASK: u32 = u32::from_ne_bytes([0x3f, 0xff, 0, 0]);

/// The checksum of an IPv4 header without options. The sum of 16-bit words is the same in either byte order (RFC 1071
/// §2), and may be made of wider words, the carries added in the end.
#[inline(always)]
fn checksum_ok<const N: usize>(head: &[u8; N]) -> bool {
    let sum: u64 = [14, 18, 22, 26, 30].iter().map(|&at| u64::from(word(head, at))).sum();
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    // A header is not all zeros, so neither is its sum; at most 2 · 0xffff + 4 remains.
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

/// A downstream packet, keyed by its five-tuple.
#[inline(always)]
pub(crate) fn downstream(frame: &[u8], verify_checksum: bool) -> Option<Plain> {
    let head = frame.first_chunk::<TO_PORTS>()?;
    let user_len = ipv4_len(head, frame.len(), verify_checksum)?;
    let protocol = head[23];
    if !has_ports(protocol) {
        return None;
    }
    let address = |at| Ipv4Addr::from(u32::from_be(word(head, at)));
    let key = FlowKey::five_tuple_v4(address(26), address(30), protocol, short(head, 34), short(head, 36));
    Some(Plain { key, user_offset: ETHERNET_LEN as u16, user_len, traffic_class: head[15] })
}

/// An upstream packet to the gateway, keyed by its tunnel.
#[inline(always)]
pub(crate) fn upstream(frame: &[u8], gateway: Ipv4Addr, verify_checksum: bool) -> Option<Plain> {
    let head = frame.first_chunk::<TO_USER>()?;
    let len = ipv4_len(head, frame.len(), verify_checksum)?;
    let is_plain = head[23] == UDP
        && word(head, 30) == u32::from_ne_bytes(gateway.octets())
        && short(head, 36) == PORT
        && head[42..44] == PLAIN_GPDU
        && len >= TO_USER - ETHERNET_LEN
        // Lengths that leave nothing over: what is padded in between is rare.
        && usize::from(short(head, 38)) + IPV4_LEN == len
        && usize::from(short(head, 44)) + TO_USER - ETHERNET_LEN == len;
    if !is_plain {
        return None;
    }
    let teid = Teid::new(u32::from_be(word(head, 46)));
    let user_len = len - (TO_USER - ETHERNET_LEN);
    Some(Plain { key: FlowKey::teid(teid), user_offset: TO_USER as u16, user_len, traffic_class: 0 })
}

/// A packet of either direction.
#[inline(always)]
pub(crate) fn of(
    frame: &[u8],
    output: OutputPort,
    gateway: Ipv4Addr,
    verify_checksum: bool,
) -> Option<Plain> {
    match output {
        OutputPort::BaseStation => downstream(frame, verify_checksum),
        OutputPort::Internet => upstream(frame, gateway, verify_checksum),
    }
}
