//! The quick parser: classifies common packets by reading a fixed number of octets. These are untagged, unfragmented
//! and:
//!
//! - downstream, keyed by five-tuple: IPv4 without options, with ports;
//! - downstream, keyed by UE: IPv4 without options, or IPv6 without extension headers;
//! - downstream, keyed by a NAT's port block: IPv4 without options, with ports;
//! - from an inside host, keyed by its address: IPv4 without options;
//! - upstream: IPv4 without options with a G-PDU that has no extension header except a PDU session container.
//!
//! All other packets, and all malformed ones, go to the full parsers, which give the reason. For every packet that the
//! quick parser classifies, its result equals that of the full parsers.

#[cfg(test)]
mod tests;

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::outside::local_addrs::LocalAddresses;
use scalebricks_types::{FlowKey, KeyProfile, PortBlocks, Teid};
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, HEADER_LEN as ETHERNET_LEN};
use scalebricks_wire::gtpu::PORT;
use scalebricks_wire::gtpu::extension::kind::{NONE, PDU_SESSION_CONTAINER};
use scalebricks_wire::ipv4::MIN_HEADER_LEN as IPV4_LEN;
use scalebricks_wire::ipv6::HEADER_LEN as IPV6_LEN;
use scalebricks_wire::protocol::{ICMPV6, UDP, has_ports};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The result for such a packet.
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
/// First octet of the last non-multicast address; higher ones are reserved, including broadcast.
const LAST_UNICAST: u8 = 223;
/// First two octets of IPv4 link-local addresses (RFC 3927 §2.1), the first in the lowest bits.
const LINK_LOCAL: u16 = u16::from_le_bytes([169, 254]);
/// IPv6 addresses whose first octet is at least this are link-local or multicast (RFC 4291 §2.4), or reserved.
const FIRST_LOCAL_V6: u8 = 0xfe;
/// GTP-U version 1 without optional fields; a G-PDU.
const PLAIN_GPDU: u16 = 0x30ff;
/// The same with extension headers (E), as 5G base stations send it.
const GPDU_WITH_EXTENSION: u16 = 0x34ff;
/// The flags S and PN: a sequence number, an N-PDU number. Their octets are present whenever E is set (TS 29.281 §5.1).
const SEQUENCE_AND_N_PDU: u16 = 0x0300;
/// Octets of the optional fields: sequence number, N-PDU number, type of the first extension header.
const OPTIONAL: usize = 4;

/// An IPv4 header without options and the following ports as three registers, each octet loaded once. Octets are in
/// memory order: the first in the lowest bits.
#[derive(Clone, Copy)]
struct Headers {
    /// Version and header length, traffic class, length, identification, fragment offset.
    length: u64,
    /// Time to live, protocol, checksum, source.
    source: u64,
    /// Destination, ports.
    destination: u64,
}

impl Headers {
    #[inline(always)]
    fn load(ip: &[u8; IPV4_LEN + 4]) -> Self {
        let word = |at: usize| u64::from_le_bytes(*ip[at..].first_chunk().unwrap_or(&[0; 8]));
        Self { length: word(0), source: word(8), destination: word(16) }
    }

    /// The packet's stated length, if it is a plain packet with ports for one station, neither from nor to a link-local
    /// address, and its stated length is at most the `there` octets that are present.
    #[inline(always)]
    fn plain_len(self, there: usize, verify_checksum: bool) -> Option<usize> {
        let len = self.unicast_len(there, verify_checksum)?;
        (has_ports(self.protocol()) && len >= IPV4_LEN + 4).then_some(len)
    }

    /// The same, whatever the packet carries.
    #[inline(always)]
    fn unicast_len(self, there: usize, verify_checksum: bool) -> Option<usize> {
        let is_plain = self.length & LENGTH_MASK == PLAIN_LENGTH
            && self.destination as u8 <= LAST_UNICAST
            && !self.is_link_local()
            && (!verify_checksum || self.checksum_ok());
        let len = usize::from(((self.length >> 16) as u16).swap_bytes());
        (is_plain && len >= IPV4_LEN && len <= there).then_some(len)
    }

    /// Verifies the header checksum. The sum of 16-bit words is the same in either byte order (RFC 1071 §2), and may be
    /// computed from wider words with the carries added at the end.
    #[inline(always)]
    fn checksum_ok(self) -> bool {
        let halves = |word: u64| (word & u64::from(u32::MAX)) + (word >> 32);
        let sum = halves(self.length) + halves(self.source) + u64::from(self.dst());
        let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
        // A header is never all zeros, so neither is its sum; at most 2 · 0xffff + 4 remains.
        (sum & 0xffff) + (sum >> 16) == 0xffff
    }

    #[inline(always)]
    const fn is_link_local(self) -> bool {
        (self.source >> 32) as u16 == LINK_LOCAL || self.destination as u16 == LINK_LOCAL
    }

    #[inline(always)]
    const fn traffic_class(self) -> u8 {
        (self.length >> 8) as u8
    }

    #[inline(always)]
    const fn protocol(self) -> u8 {
        (self.source >> 8) as u8
    }

    /// The destination address, its octets in memory order.
    #[inline(always)]
    const fn dst(self) -> u32 {
        self.destination as u32
    }

    #[inline(always)]
    const fn ports(self) -> [u16; 2] {
        let ports = self.destination >> 32;
        [(ports as u16).swap_bytes(), ((ports >> 16) as u16).swap_bytes()]
    }

    #[inline(always)]
    fn five_tuple(self) -> FlowKey {
        let [src, dst] =
            [(self.source >> 32) as u32, self.dst()].map(|octets| Ipv4Addr::from(u32::from_be(octets)));
        let [src_port, dst_port] = self.ports();
        FlowKey::five_tuple_v4(src, dst, self.protocol(), src_port, dst_port)
    }
}

/// Version, header length, "more fragments" and the offset, and their values in a plain packet.
const LENGTH_MASK: u64 = u64::from_le_bytes([0xff, 0, 0, 0, 0, 0, 0x3f, 0xff]);
const PLAIN_LENGTH: u64 = u64::from_le_bytes([0x45, 0, 0, 0, 0, 0, 0, 0]);

/// The headers of a frame with IPv4 for one station.
#[inline(always)]
fn headers(head: &[u8; TO_PORTS]) -> Option<Headers> {
    let is_ipv4 = head[12..ETHERNET_LEN] == ETHERTYPE_IPV4.to_be_bytes() && head[0] & 1 == 0;
    if !is_ipv4 {
        return None;
    }
    head[ETHERNET_LEN..].first_chunk().map(Headers::load)
}

/// A downstream packet, keyed by its five-tuple, not for the node's own addresses.
#[inline(always)]
fn downstream(frame: &[u8], own: &LocalAddresses, verify_checksum: bool) -> Option<Plain> {
    let headers = headers(frame.first_chunk()?)?;
    let user_len = headers.plain_len(frame.len() - ETHERNET_LEN, verify_checksum)?;
    if own.v4().iter().any(|own| u32::from_le_bytes(*own) == headers.dst()) {
        return None;
    }
    let (key, traffic_class) = (headers.five_tuple(), headers.traffic_class());
    Some(Plain { key, user_offset: ETHERNET_LEN as u16, user_len, traffic_class })
}

/// A downstream packet, keyed by its UE, not for the node's own addresses. Any protocol is accepted, including echo
/// requests and replies.
#[inline(always)]
fn downstream_ue(frame: &[u8], own: &LocalAddresses, verify_checksum: bool) -> Option<Plain> {
    let Some(headers) = headers(frame.first_chunk()?) else {
        return downstream_ue_v6(frame, own);
    };
    let user_len = headers.unicast_len(frame.len() - ETHERNET_LEN, verify_checksum)?;
    if own.v4().iter().any(|own| u32::from_le_bytes(*own) == headers.dst()) {
        return None;
    }
    let key = FlowKey::ue(IpAddr::V4(Ipv4Addr::from(u32::from_be(headers.dst()))));
    let traffic_class = headers.traffic_class();
    Some(Plain { key, user_offset: ETHERNET_LEN as u16, user_len, traffic_class })
}

/// A packet from outside, keyed by the NAT's block of its destination port.
#[inline(always)]
fn downstream_block(
    frame: &[u8],
    blocks: &PortBlocks,
    own: &LocalAddresses,
    verify_checksum: bool,
) -> Option<Plain> {
    let headers = headers(frame.first_chunk()?)?;
    let user_len = headers.plain_len(frame.len() - ETHERNET_LEN, verify_checksum)?;
    if own.v4().iter().any(|own| u32::from_le_bytes(*own) == headers.dst()) {
        return None;
    }
    let public = Ipv4Addr::from(u32::from_be(headers.dst()));
    let block = blocks.of_public(public, headers.ports()[1])?;
    let (key, traffic_class) = (FlowKey::port_block(public, block), headers.traffic_class());
    Some(Plain { key, user_offset: ETHERNET_LEN as u16, user_len, traffic_class })
}

/// A packet from an inside host, keyed by its source address, not for the node's own addresses.
#[inline(always)]
fn from_inside(frame: &[u8], own: &LocalAddresses, verify_checksum: bool) -> Option<Plain> {
    let headers = headers(frame.first_chunk()?)?;
    let user_len = headers.unicast_len(frame.len() - ETHERNET_LEN, verify_checksum)?;
    if own.v4().iter().any(|own| u32::from_le_bytes(*own) == headers.dst()) {
        return None;
    }
    let inside = Ipv4Addr::from(u32::from_be((headers.source >> 32) as u32));
    let (key, traffic_class) = (FlowKey::inside(inside), headers.traffic_class());
    Some(Plain { key, user_offset: ETHERNET_LEN as u16, user_len, traffic_class })
}

/// A downstream IPv6 packet, keyed by its /64.
#[inline(always)]
fn downstream_ue_v6(frame: &[u8], own: &LocalAddresses) -> Option<Plain> {
    let head: &[u8; ETHERNET_LEN + IPV6_LEN] = frame.first_chunk()?;
    let is_ipv6 = head[12..ETHERNET_LEN] == ETHERTYPE_IPV6.to_be_bytes() && head[0] & 1 == 0;
    let ip = &head[ETHERNET_LEN..];
    let dst: &[u8; 16] = ip[24..].first_chunk()?;
    let user_len = IPV6_LEN + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    let is_plain = is_ipv6
        && ip[0] >> 4 == 6
        && ip[8] < FIRST_LOCAL_V6
        && dst[0] < FIRST_LOCAL_V6
        // None of these is an extension header.
        && (has_ports(ip[6]) || ip[6] == ICMPV6)
        && ETHERNET_LEN + user_len <= frame.len();
    if !is_plain || own.v6().contains(dst) {
        return None;
    }
    let key = FlowKey::ue(IpAddr::V6(Ipv6Addr::from(*dst)));
    let traffic_class = ip[0] << 4 | ip[1] >> 4;
    Some(Plain { key, user_offset: ETHERNET_LEN as u16, user_len, traffic_class })
}

/// An upstream packet to the gateway, keyed by its tunnel.
#[inline(always)]
fn upstream(frame: &[u8], gateway: Ipv4Addr, verify_checksum: bool) -> Option<Plain> {
    let head: &[u8; TO_USER] = frame.first_chunk()?;
    let headers = headers(head.first_chunk()?)?;
    let len = headers.plain_len(frame.len() - ETHERNET_LEN, verify_checksum)?;
    let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let to_user = match short(42) {
        PLAIN_GPDU => TO_USER,
        message if message & !SEQUENCE_AND_N_PDU == GPDU_WITH_EXTENSION => behind_container(frame)?,
        _ => return None,
    };
    let is_plain = headers.protocol() == UDP
        && headers.dst() == u32::from_le_bytes(gateway.octets())
        && headers.ports()[1] == PORT
        && len >= to_user - ETHERNET_LEN
        // Lengths must match exactly: padding in between is rare.
        && usize::from(short(38)) + IPV4_LEN == len
        && usize::from(short(44)) + TO_USER - ETHERNET_LEN == len;
    if !is_plain {
        return None;
    }
    let teid = Teid::new(u32::from(short(46)) << 16 | u32::from(short(48)));
    let user_len = len - (to_user - ETHERNET_LEN);
    Some(Plain { key: FlowKey::teid(teid), user_offset: to_user as u16, user_len, traffic_class: 0 })
}

/// Where the user's packet starts after a PDU session container that is the only extension header. Its length is in
/// words; it has several where delays are measured (TS 38.415 §5.5.2.2).
#[inline(always)]
fn behind_container(frame: &[u8]) -> Option<usize> {
    let &[_, _, _, PDU_SESSION_CONTAINER, words, ..] =
        frame.get(TO_USER..)?.first_chunk::<{ OPTIONAL + 1 }>()?
    else {
        return None;
    };
    let end = TO_USER + OPTIONAL + usize::from(words) * 4;
    // With length 0, this octet would be the type of the container itself.
    (*frame.get(end - 1)? == NONE).then_some(end)
}

/// The destination of the user's packet inside a tunnel.
#[inline(always)]
pub(crate) fn destination(user: &[u8], verify_checksum: bool) -> Option<Ipv4Addr> {
    let headers = Headers::load(user.first_chunk()?);
    headers.plain_len(user.len(), verify_checksum)?;
    Some(Ipv4Addr::from(u32::from_be(headers.dst())))
}

/// A packet of either direction. `profile` selects the key of downstream packets.
#[inline(always)]
pub(crate) fn of(
    frame: &[u8],
    output: OutputPort,
    profile: KeyProfile,
    gateway: Ipv4Addr,
    own: &LocalAddresses,
    verify_checksum: bool,
) -> Option<Plain> {
    match (output, profile) {
        (OutputPort::BaseStation, KeyProfile::Flow5) => downstream(frame, own, verify_checksum),
        (OutputPort::BaseStation, KeyProfile::Ue) => downstream_ue(frame, own, verify_checksum),
        (OutputPort::BaseStation, KeyProfile::Inside) => {
            headers(frame.first_chunk()?)?; // IPv6 has no pins
            downstream_ue(frame, own, verify_checksum)
        }
        (OutputPort::BaseStation, KeyProfile::Nat44(blocks)) => {
            downstream_block(frame, &blocks, own, verify_checksum)
        }
        (OutputPort::Internet, KeyProfile::Inside | KeyProfile::Nat44(_)) => {
            from_inside(frame, own, verify_checksum)
        }
        (OutputPort::Internet, KeyProfile::Flow5 | KeyProfile::Ue) => {
            upstream(frame, gateway, verify_checksum)
        }
    }
}
