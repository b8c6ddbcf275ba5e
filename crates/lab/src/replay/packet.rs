//! Parses captured frames, to assign them to conversations.

use crate::ledger::DropCause;
use scalebricks_elements::gateway::packet::fragment_cache::DatagramId;
use scalebricks_types::FiveTuple;
use scalebricks_wire::{IpPacket, ipv4_header_checksum_ok, parse_frame, parse_ip, protocol};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

/// A unicast IP packet in a captured frame.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states of a machine")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UserPacket {
    /// Its place in the frame, without Ethernet padding.
    pub(super) bytes: Range<usize>,
    /// Its destination.
    pub(super) dst: IpAddr,
    /// The tuple of its direction: its own, or for an ICMP error that of an answer to the quoted packet, because the error has the
    /// same destination.
    pub(super) tuple: FiveTuple,
    /// It is an ICMP error about a packet of the other direction.
    pub(super) is_error: bool,
    /// It opens a TCP connection: SYN without ACK.
    pub(super) is_syn: bool,
    /// Routers may not fragment it: IPv4 with DF, and all of IPv6.
    pub(super) is_unfragmentable: bool,
    /// The datagram of which it is a fragment.
    pub(super) datagram: Option<DatagramId>,
    /// A fragment without ports; its tuple is not that of its datagram.
    pub(super) is_later_fragment: bool,
    /// Its destination is a link-local address: `fe80::/10` or `169.254.0.0/16`.
    pub(super) is_to_link_local: bool,
    /// The IPv4 header checksum is correct; always true for IPv6.
    pub(super) is_checksum_good: bool,
}

/// Why a frame has no conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoConversation {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Multicast or broadcast.
    Multicast,
    /// Truncated or malformed.
    Unreadable,
}

impl NoConversation {
    /// Why the gateway must drop the frame.
    pub(super) const fn causes(self) -> &'static [DropCause] {
        match self {
            Self::NotIp => &[DropCause::NotIp],
            Self::Multicast => &[DropCause::Multicast],
            Self::Unreadable => &[DropCause::Unreadable],
        }
    }
}

/// Parses a frame.
pub(super) fn read(frame: &[u8]) -> Result<UserPacket, NoConversation> {
    let link = parse_frame(frame).map_err(|_| NoConversation::Unreadable)?;
    if !link.is_ip() {
        return Err(NoConversation::NotIp);
    }
    if link.dst.is_multicast() {
        return Err(NoConversation::Multicast);
    }
    let behind = frame.get(link.l3_offset..).ok_or(NoConversation::Unreadable)?;
    let packet = parse_ip(behind).map_err(|_| NoConversation::Unreadable)?;
    let ip = &packet.summary;
    if ip.dst.is_multicast() || ip.dst == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(NoConversation::Multicast);
    }
    let (tuple, is_error) = match packet.quoted() {
        Some(Ok(quoted)) => (quoted.five_tuple().reversed(), true),
        _ => (ip.five_tuple(), false),
    };
    let datagram = ip.fragment.map(|fragment| DatagramId {
        src: ip.src,
        dst: ip.dst,
        protocol: if ip.is_ipv4() { ip.protocol } else { 0 },
        id: fragment.id,
    });
    Ok(UserPacket {
        bytes: link.l3_offset..link.l3_offset + packet.bytes().len(),
        dst: ip.dst,
        tuple,
        is_error,
        is_syn: is_syn(&packet),
        is_unfragmentable: ip.dont_fragment,
        datagram,
        is_later_fragment: ip.is_later_fragment(),
        is_to_link_local: match ip.dst {
            IpAddr::V4(dst) => dst.octets().starts_with(&[169, 254]),
            IpAddr::V6(dst) => dst.segments()[0] & 0xffc0 == 0xfe80,
        },
        is_checksum_good: !ip.is_ipv4() || ipv4_header_checksum_ok(packet.bytes()),
    })
}

fn is_syn(packet: &IpPacket<'_>) -> bool {
    const FLAGS_AT: usize = 13;
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    let ip = &packet.summary;
    let flags = packet.l4().get(FLAGS_AT).copied().unwrap_or(0);
    ip.protocol == protocol::TCP && !ip.is_later_fragment() && flags & (SYN | ACK) == SYN
}

/// Whether a frame is a complete, well-formed unicast TCP or UDP packet: Ethernet without tags, IP without options, extension headers
/// or fragments. Uses fixed offsets and no parser: if such a frame is dropped as unreadable, a parser has an error.
pub(super) fn is_plainly_sound(frame: &[u8]) -> bool {
    let u16_at = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    if frame.len() < 14 + 20 + 8 || frame[0] & 1 != 0 {
        return false;
    }
    let l4_needs = |protocol: u8| match protocol {
        6 => Some(20),
        17 => Some(8),
        _ => None,
    };
    match (u16_at(12), frame[14]) {
        (0x0800, 0x45) => {
            let sum: usize = (14..34).step_by(2).map(u16_at).sum();
            let is_whole = matches!(u16_at(20), 0 | 0x4000) && (sum & 0xffff) + (sum >> 16) == 0xffff;
            let total = u16_at(16);
            let has_l4 =
                l4_needs(frame[23]).is_some_and(|need| (20 + need..=frame.len() - 14).contains(&total));
            is_whole && has_l4 && frame[30] < 224
        }
        (0x86dd, 0x60..=0x6f) if frame.len() >= 14 + 40 => {
            let payload = u16_at(18);
            let has_l4 = l4_needs(frame[20]).is_some_and(|need| (need..=frame.len() - 54).contains(&payload));
            has_l4 && frame[38] != 0xff
        }
        _ => false,
    }
}
