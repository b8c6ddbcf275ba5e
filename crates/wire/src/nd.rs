//! Neighbour discovery for IPv6 (RFC 4861): solicitations and advertisements of neighbours, over Ethernet.
//!
//! Router advertisements and redirects are not supported, as a gateway is configured statically.

use crate::ipv6::{self, Ipv6, Ipv6Header};
use crate::{MacAddr, ParseError, checksum, protocol};
use std::net::Ipv6Addr;

/// Hop limit of every message, which shows that no router forwarded it (RFC 4861 §7.1).
pub const HOP_LIMIT: u8 = 255;
/// Length of the packets written here, octets, including the IPv6 header: fixed part and one link-layer address.
pub const PACKET_LEN: usize = ipv6::HEADER_LEN + FIXED_LEN + OPTION_LEN;
/// All nodes on the link (RFC 4291 §2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// ICMPv6 type of a neighbour solicitation (RFC 4861 §4.3).
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement (RFC 4861 §4.4).
pub const ADVERTISEMENT: u8 = 136;

/// Type, code, checksum, flags and target.
const FIXED_LEN: usize = 24;
/// A link-layer address option for Ethernet (RFC 2464 §6).
const OPTION_LEN: usize = 8;
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;
/// The first octets of `ff02::1:ff00:0/104`.
const SOLICITED_NODE: [u8; 13] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];

/// Why a message is invalid (RFC 4861 §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NdError {
    /// Its lengths are inconsistent, or an option has length 0.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// The hop limit is not 255, so the sender is not on the link.
    #[error("the hop limit is not 255")]
    HopLimit,
    /// The ICMPv6 checksum is wrong.
    #[error("the ICMPv6 checksum is wrong")]
    Checksum,
    /// The code is not 0.
    #[error("the code is not 0")]
    Code,
    /// Such a message may not have this source, destination or target.
    #[error("the source, destination or target is not allowed")]
    Addresses,
    /// It has a fragment header (RFC 6980 §5: to be ignored).
    #[error("it is fragmented")]
    Fragmented,
}

/// A request for the MAC address of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Solicitation {
    /// The source; unspecified for duplicate address detection (RFC 4862 §5.4.2).
    pub src: Ipv6Addr,
    /// The destination: the target, or its solicited-node multicast address.
    pub dst: Ipv6Addr,
    /// The requested address.
    pub target: Ipv6Addr,
    /// The source link-layer address option.
    pub source_mac: Option<MacAddr>,
}

/// The announcement of a MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertisement {
    /// The source.
    pub src: Ipv6Addr,
    /// The destination.
    pub dst: Ipv6Addr,
    /// The announced address.
    pub target: Ipv6Addr,
    /// R: the sender is a router.
    pub is_router: bool,
    /// S: the answer to a solicitation.
    pub is_solicited: bool,
    /// O: replaces a known MAC address.
    pub is_override: bool,
    /// The target link-layer address option.
    pub target_mac: Option<MacAddr>,
}

/// A valid message (RFC 4861 §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A solicitation.
    Solicitation(Solicitation),
    /// An advertisement.
    Advertisement(Advertisement),
}

/// Reads an IPv6 packet; `None` if it is another message. Options of other types are skipped; of several of one type,
/// the first counts.
///
/// # Errors
/// [`NdError`] (RFC 4861 §7.1.1 and §7.1.2).
pub fn parse(packet: &[u8]) -> Result<Option<Message>, NdError> {
    let ip = Ipv6::parse(packet)?;
    let is_message = matches!(ip.payload().first(), Some(&(SOLICITATION | ADVERTISEMENT)));
    if ip.protocol() != protocol::ICMPV6 || !is_message || ip.fragment().is_some_and(|f| f.offset > 0) {
        return Ok(None);
    }
    if ip.fragment().is_some() {
        return Err(NdError::Fragmented);
    }
    if ip.hop_limit() != HOP_LIMIT {
        return Err(NdError::HopLimit);
    }
    let (src, dst) = (ip.src(), ip.dst());
    let len = ip.payload().len() as u32; // within one packet
    if checksum::pseudo_header_v6(src, dst, protocol::ICMPV6, len).bytes(ip.payload()).finish() != 0 {
        return Err(NdError::Checksum);
    }
    let (fixed, options) = ip.payload().split_first_chunk::<FIXED_LEN>().ok_or(ParseError::Truncated)?;
    let &[kind, code, _, _, flags, _, _, _, target @ ..] = fixed;
    let target = Ipv6Addr::from(target);
    if code != 0 {
        return Err(NdError::Code);
    }
    let message = if kind == SOLICITATION {
        let source_mac = link_layer_address(options, SOURCE_OPTION)?;
        Message::Solicitation(Solicitation { src, dst, target, source_mac })
    } else {
        Message::Advertisement(Advertisement {
            src,
            dst,
            target,
            is_router: flags & 0x80 != 0,
            is_solicited: flags & 0x40 != 0,
            is_override: flags & 0x20 != 0,
            target_mac: link_layer_address(options, TARGET_OPTION)?,
        })
    };
    if message.has_legal_addresses() { Ok(Some(message)) } else { Err(NdError::Addresses) }
}

impl Message {
    /// RFC 4861 §7.1.1: a solicitation from the unspecified address goes to the group and has no source option. §7.1.2:
    /// an answer does not go to a group.
    fn has_legal_addresses(&self) -> bool {
        match self {
            Self::Solicitation(Solicitation { src, dst, target, source_mac }) => {
                let from_nowhere = src.is_unspecified()
                    && (source_mac.is_some() || !dst.octets().starts_with(&SOLICITED_NODE));
                !target.is_multicast() && !src.is_multicast() && !from_nowhere
            }
            Self::Advertisement(Advertisement { src, dst, target, is_solicited, .. }) => {
                let to_a_group = dst.is_multicast() && *is_solicited;
                !target.is_multicast() && !src.is_multicast() && !src.is_unspecified() && !to_a_group
            }
        }
    }
}

/// The address in the first option of this type (RFC 4861 §4.6: length in units of 8 octets, never 0).
fn link_layer_address(mut options: &[u8], wanted: u8) -> Result<Option<MacAddr>, ParseError> {
    let mut found = None;
    while let Some((&kind, rest)) = options.split_first() {
        let &units = rest.first().ok_or(ParseError::Truncated)?;
        if units == 0 {
            return Err(ParseError::BadElement);
        }
        let (option, behind) =
            options.split_at_checked(usize::from(units) * OPTION_LEN).ok_or(ParseError::Truncated)?;
        if kind == wanted && found.is_none() {
            // RFC 2464 §6: Ethernet's has length 1.
            let &[_, 1, a, b, c, d, e, f] = option else { return Err(ParseError::BadElement) };
            found = Some(MacAddr([a, b, c, d, e, f]));
        }
        options = behind;
    }
    Ok(found)
}

impl Solicitation {
    /// The IPv6 packet, with its checksum; `mac` becomes the source link-layer address option.
    pub fn packet(src: Ipv6Addr, dst: Ipv6Addr, target: Ipv6Addr, mac: MacAddr) -> [u8; PACKET_LEN] {
        packet(src, dst, [SOLICITATION, 0], target, [SOURCE_OPTION, 1], mac)
    }
}

impl Advertisement {
    /// The IPv6 packet, with its checksum; `mac` becomes the target link-layer address option. R and O are set.
    pub fn packet(
        src: Ipv6Addr,
        dst: Ipv6Addr,
        target: Ipv6Addr,
        is_solicited: bool,
        mac: MacAddr,
    ) -> [u8; PACKET_LEN] {
        let flags = 0xa0 | u8::from(is_solicited) << 6;
        packet(src, dst, [ADVERTISEMENT, flags], target, [TARGET_OPTION, 1], mac)
    }
}

fn packet(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    option: [u8; 2],
    mac: MacAddr,
) -> [u8; PACKET_LEN] {
    let payload_len = (FIXED_LEN + OPTION_LEN) as u16;
    let ip = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len,
        next_header: protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        src,
        dst,
    };
    let mut out = [0; PACKET_LEN];
    out[..40].copy_from_slice(&ip.to_bytes());
    out[40] = kind;
    out[44] = flags;
    out[48..64].copy_from_slice(&target.octets());
    out[64..66].copy_from_slice(&option);
    out[66..].copy_from_slice(&mac.0);
    let pseudo = checksum::pseudo_header_v6(src, dst, protocol::ICMPV6, u32::from(payload_len));
    let sum = pseudo.bytes(&out[40..]).finish();
    out[42..44].copy_from_slice(&sum.to_be_bytes());
    out
}

/// The solicited-node multicast address of an address: `ff02::1:ff00:0/104` (RFC 4291 §2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a as u16, (b as u16) << 8 | c as u16)
}

/// The MAC address of an IPv6 multicast address: 33:33 and its last four octets (RFC 2464 §7).
pub const fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// The link-local address of a MAC address: `fe80::/64` and the modified EUI-64 (RFC 4291 appendix A,
/// RFC 2464 §5).
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        ((a ^ 2) as u16) << 8 | b as u16,
        (c as u16) << 8 | 0xff,
        0xfe00 | d as u16,
        (e as u16) << 8 | f as u16,
    )
}
