//! Summarizes IPv4 and IPv6 packets.

use crate::icmp;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::{Frame, ParseError, parse_frame, protocol};
use scalebricks_types::FiveTuple;
use std::net::IpAddr;

/// The position of a fragment in its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Identification: 16 bits in IPv4, 32 in IPv6.
    pub id: u32,
    /// Offset of its payload in the whole payload, octets.
    pub offset: u16,
    /// A later fragment exists.
    pub more: bool,
}

impl Fragment {
    /// Whether this fragment holds the upper-layer header.
    #[inline]
    pub const fn is_first(self) -> bool {
        self.offset == 0
    }
}

/// What the fragments of one datagram share (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatagramId {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Upper-layer protocol; 0 for IPv6, where the identification alone distinguishes datagrams.
    pub protocol: u8,
    /// The identification field.
    pub id: u32,
}

impl DatagramId {
    /// The datagram that a packet is a fragment of.
    pub fn of(ip: &IpSummary) -> Option<Self> {
        let protocol = if ip.is_ipv4() { ip.protocol } else { 0 };
        ip.fragment.map(|fragment| Self { src: ip.src, dst: ip.dst, protocol, id: fragment.id })
    }

    /// The datagram that the packet in a frame is a fragment of.
    pub fn of_frame(bytes: &[u8]) -> Option<Self> {
        let frame = parse_frame(bytes).ok().filter(Frame::is_ip)?;
        Self::of(&parse_ip(bytes.get(frame.l3_offset..)?).ok()?.summary)
    }
}

/// The fields of an IP packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpSummary {
    /// Source.
    pub src: IpAddr,
    /// Destination, of the same family.
    pub dst: IpAddr,
    /// The upper-layer protocol, after all IPv6 extension headers. Of a later IPv6 fragment, the next header of its
    /// fragment header, which may be an extension header; so identify IPv6 fragments by addresses and id alone (RFC 8200
    /// §4.5).
    pub protocol: u8,
    /// DSCP (upper six bits) and ECN.
    pub dscp_ecn: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Length of the IP header, including IPv4 options, excluding IPv6 extension headers, octets.
    pub header_len: u16,
    /// Length of the packet including its IP header, without padding, octets. At most 65,575 (IPv6).
    pub total_len: u32,
    /// Offset of the upper layer from the start of the IP header, octets.
    pub l4_offset: u16,
    /// Set if the packet is one of several fragments, which an *atomic* IPv6 fragment (RFC 6946) is not.
    pub fragment: Option<Fragment>,
    /// DF of IPv4; always set for IPv6, which routers do not fragment.
    pub dont_fragment: bool,
    /// Source and destination port of TCP, UDP, SCTP and UDP-Lite, if the packet contains them.
    pub ports: Option<(u16, u16)>,
    /// Type and code of ICMP in IPv4 or ICMPv6 in IPv6, if the packet contains them.
    pub icmp: Option<(u8, u8)>,
}

impl IpSummary {
    /// Whether the packet is IPv4; otherwise it is IPv6.
    #[inline]
    pub const fn is_ipv4(&self) -> bool {
        self.src.is_ipv4()
    }

    /// Whether the packet is a fragment without the upper-layer header.
    #[inline]
    pub const fn is_later_fragment(&self) -> bool {
        matches!(self.fragment, Some(fragment) if !fragment.is_first())
    }

    /// Whether the packet is an ICMP error.
    #[inline]
    pub const fn is_icmp_error(&self) -> bool {
        match self.icmp {
            Some((kind, _)) if self.is_ipv4() => icmp::is_error_v4(kind),
            Some((kind, _)) => icmp::is_error_v6(kind),
            None => false,
        }
    }

    /// The five-tuple of this packet; ports are 0 if there are none, as in later fragments.
    #[inline]
    pub const fn five_tuple(&self) -> FiveTuple {
        let (src_port, dst_port) = match self.ports {
            Some(ports) => ports,
            None => (0, 0),
        };
        FiveTuple { src: self.src, dst: self.dst, protocol: self.protocol, src_port, dst_port }
    }
}

/// A packet and its summary.
#[derive(Debug, Clone, Copy)]
pub struct IpPacket<'a> {
    /// The fields of the headers.
    pub summary: IpSummary,
    bytes: &'a [u8],
    l4: &'a [u8],
}

impl<'a> IpPacket<'a> {
    /// The packet including its IP header, without padding.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The upper layer: header and payload, or the part of them in this fragment.
    #[inline]
    pub const fn l4(&self) -> &'a [u8] {
        self.l4
    }

    /// The summary of the packet that this ICMP error quotes, `None` if it is not an ICMP error.
    ///
    /// # Errors
    /// Inside the option: as [`parse_quoted`].
    pub fn quoted(&self) -> Option<Result<IpSummary, ParseError>> {
        if !self.summary.is_icmp_error() {
            return None;
        }
        Some(self.l4.get(icmp::HEADER_LEN..).ok_or(ParseError::Truncated).and_then(parse_quoted))
    }
}

/// Reads the headers of an IPv4 or IPv6 packet. All lengths are checked, and padding after the packet is removed. The
/// IPv4 header checksum is not checked; see [`ipv4_header_checksum_ok`](crate::ipv4_header_checksum_ok).
///
/// Cost: reads the IP header and the next four octets, without a loop if there are no extension headers.
///
/// # Errors
/// As [`Ipv4::parse`] and [`Ipv6::parse`].
#[inline]
pub fn parse_ip(bytes: &[u8]) -> Result<IpPacket<'_>, ParseError> {
    match version(bytes)? {
        4 => {
            let ip = Ipv4::parse(bytes)?;
            let summary = summary_v4(&ip);
            Ok(IpPacket { summary, bytes: trimmed(bytes, &summary), l4: ip.payload() })
        }
        6 => {
            let ip = Ipv6::parse(bytes)?;
            let summary = summary_v6(&ip);
            Ok(IpPacket { summary, bytes: trimmed(bytes, &summary), l4: ip.payload() })
        }
        _ => Err(ParseError::BadVersion),
    }
}

/// Reads the headers of a packet quoted by an ICMP error, which may be truncated: RFC 792 guarantees only 8 octets after
/// the IP header. `total_len` is the length that the header states.
///
/// # Errors
/// As [`Ipv4::parse_header`] and [`Ipv6::parse_header`].
#[inline]
pub fn parse_quoted(bytes: &[u8]) -> Result<IpSummary, ParseError> {
    match version(bytes)? {
        4 => Ok(summary_v4(&Ipv4::parse_header(bytes)?)),
        6 => Ok(summary_v6(&Ipv6::parse_header(bytes)?)),
        _ => Err(ParseError::BadVersion),
    }
}

#[inline]
fn version(bytes: &[u8]) -> Result<u8, ParseError> {
    bytes.first().map(|first| first >> 4).ok_or(ParseError::Truncated)
}

#[inline]
fn trimmed<'a>(bytes: &'a [u8], summary: &IpSummary) -> &'a [u8] {
    bytes.get(..summary.total_len as usize).unwrap_or(bytes) // the parser has checked it
}

#[inline]
fn summary_v4(ip: &Ipv4<'_>) -> IpSummary {
    let (offset, more) = (ip.fragment_offset(), ip.more_fragments());
    let fragment = (more || offset > 0).then(|| Fragment {
        id: u32::from(ip.identification()),
        offset: offset as u16, // 13 bits of 8 octets
        more,
    });
    let (ports, icmp) = upper_layer(ip.protocol(), protocol::ICMPV4, offset == 0, ip.payload());
    IpSummary {
        src: IpAddr::V4(ip.src()),
        dst: IpAddr::V4(ip.dst()),
        protocol: ip.protocol(),
        dscp_ecn: ip.dscp_ecn(),
        ttl: ip.ttl(),
        header_len: ip.header_len() as u16, // at most 60
        total_len: ip.total_len() as u32,   // 16 bits
        l4_offset: ip.header_len() as u16,
        fragment,
        dont_fragment: ip.dont_fragment(),
        ports,
        icmp,
    }
}

#[inline]
fn summary_v6(ip: &Ipv6<'_>) -> IpSummary {
    let fragment = ip.fragment().filter(|f| f.offset > 0 || f.more).map(|f| Fragment {
        id: f.identification,
        offset: f.offset,
        more: f.more,
    });
    let first = fragment.is_none_or(Fragment::is_first);
    let (ports, icmp) = upper_layer(ip.protocol(), protocol::ICMPV6, first, ip.payload());
    IpSummary {
        src: IpAddr::V6(ip.src()),
        dst: IpAddr::V6(ip.dst()),
        protocol: ip.protocol(),
        dscp_ecn: ip.traffic_class(),
        ttl: ip.hop_limit(),
        header_len: crate::ipv6::HEADER_LEN as u16,
        total_len: (crate::ipv6::HEADER_LEN + ip.payload_len()) as u32,
        l4_offset: ip.header_len() as u16, // bounded by MAX_EXTENSION_BYTES
        fragment,
        dont_fragment: true,
        ports,
        icmp,
    }
}

type Ports = Option<(u16, u16)>;
type TypeCode = Option<(u8, u8)>;

#[inline]
fn upper_layer(protocol: u8, icmp: u8, has_header: bool, l4: &[u8]) -> (Ports, TypeCode) {
    let Some(&[a, b, c, d]) = l4.first_chunk::<4>() else { return (None, None) };
    if !has_header {
        (None, None)
    } else if protocol::has_ports(protocol) {
        (Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))), None)
    } else if protocol == icmp {
        (None, Some((a, b)))
    } else {
        (None, None)
    }
}
