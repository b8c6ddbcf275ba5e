//! IPv4 (RFC 791).

use crate::{ParseError, checksum};
use std::net::Ipv4Addr;

/// Length of a header without options, octets.
pub const MIN_HEADER_LEN: usize = 20;
/// Length of the longest header, octets.
pub const MAX_HEADER_LEN: usize = 60;

/// A packet with valid lengths: `MIN_HEADER_LEN ≤ header ≤ total length ≤ buffer`.
#[derive(Debug, Clone, Copy)]
pub struct Ipv4<'a> {
    fixed: &'a [u8; MIN_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Reads a header, and removes what follows the packet (Ethernet padding). The checksum is not checked; see
    /// [`header_checksum_ok`].
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::BadVersion`], [`ParseError::BadHeaderLength`],
    /// [`ParseError::BadTotalLength`], [`ParseError::BadFragment`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let view = Self::parse_header(bytes)?;
        let total = view.total_len();
        // RFC 791 §3.1: the total length counts header and data.
        let payload_len = total.checked_sub(view.header_len()).ok_or(ParseError::BadTotalLength)?;
        let payload = view.payload.get(..payload_len).ok_or(ParseError::Truncated)?;
        // RFC 791 §3.1: the reassembled packet too has at most 65,535 octets.
        if view.fragment_offset() + total > 0xffff {
            return Err(ParseError::BadFragment);
        }
        Ok(Self { payload, ..view })
    }

    /// Reads the header of a packet quoted by an ICMP error: all that follows it is payload, whatever the total length.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::BadVersion`], [`ParseError::BadHeaderLength`].
    #[inline]
    pub fn parse_header(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, rest) = bytes.split_first_chunk::<MIN_HEADER_LEN>().ok_or(ParseError::Truncated)?;
        if fixed[0] >> 4 != 4 {
            return Err(ParseError::BadVersion);
        }
        // RFC 791 §3.1: the header length is in 32-bit words, at least 5.
        let options_len = (usize::from(fixed[0] & 0x0f) * 4)
            .checked_sub(MIN_HEADER_LEN)
            .ok_or(ParseError::BadHeaderLength)?;
        let (options, payload) = rest.split_at_checked(options_len).ok_or(ParseError::Truncated)?;
        Ok(Self { fixed, options, payload })
    }

    /// Source address.
    #[inline]
    pub const fn src(&self) -> Ipv4Addr {
        let [.., a, b, c, d, _, _, _, _] = *self.fixed;
        Ipv4Addr::new(a, b, c, d)
    }

    /// Destination address.
    #[inline]
    pub const fn dst(&self) -> Ipv4Addr {
        let [.., a, b, c, d] = *self.fixed;
        Ipv4Addr::new(a, b, c, d)
    }

    /// Length of the header, 20 to 60 octets.
    #[inline]
    pub const fn header_len(&self) -> usize {
        MIN_HEADER_LEN + self.options.len()
    }

    /// The total length field, octets.
    #[inline]
    pub const fn total_len(&self) -> usize {
        self.u16_at::<2>() as usize
    }

    /// The second octet: DSCP (6 bits, RFC 2474) and ECN (2 bits, RFC 3168).
    #[inline]
    pub const fn dscp_ecn(&self) -> u8 {
        self.fixed[1]
    }

    /// Identification: the same in all fragments of a packet.
    #[inline]
    pub const fn identification(&self) -> u16 {
        self.u16_at::<4>()
    }

    /// DF: routers may not fragment the packet.
    #[inline]
    pub const fn dont_fragment(&self) -> bool {
        self.fixed[6] & 0x40 != 0
    }

    /// MF: a later fragment exists.
    #[inline]
    pub const fn more_fragments(&self) -> bool {
        self.fixed[6] & 0x20 != 0
    }

    /// Offset of this fragment's payload in the whole payload, octets (a multiple of 8).
    #[inline]
    pub const fn fragment_offset(&self) -> usize {
        (self.u16_at::<6>() & 0x1fff) as usize * 8
    }

    /// Time to live.
    #[inline]
    pub const fn ttl(&self) -> u8 {
        self.fixed[8]
    }

    /// Protocol number of the payload.
    #[inline]
    pub const fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// The options, 0 to 40 octets.
    #[inline]
    pub const fn options(&self) -> &'a [u8] {
        self.options
    }

    /// The payload, without padding.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The first 20 octets.
    pub(crate) const fn fixed(&self) -> &'a [u8; MIN_HEADER_LEN] {
        self.fixed
    }

    const fn u16_at<const AT: usize>(&self) -> u16 {
        u16::from_be_bytes([self.fixed[AT], self.fixed[AT + 1]])
    }
}

/// Whether the header is complete and its checksum is right (RFC 791 §3.1). Cost: reads the header.
#[inline]
pub fn header_checksum_ok(packet: &[u8]) -> bool {
    let Some(&first) = packet.first() else { return false };
    let len = usize::from(first & 0x0f) * 4;
    len >= MIN_HEADER_LEN && packet.get(..len).is_some_and(|header| checksum::checksum(header) == 0)
}

/// The fields of a header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Header {
    /// DSCP and ECN.
    pub dscp_ecn: u8,
    /// Header and payload, octets.
    pub total_len: u16,
    /// Identification.
    pub identification: u16,
    /// DF.
    pub dont_fragment: bool,
    /// MF.
    pub more_fragments: bool,
    /// Fragment offset in units of 8 octets; its low 13 bits are written.
    pub fragment_units: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl Ipv4Header {
    /// The header as bytes, with its checksum.
    #[inline]
    pub const fn to_bytes(&self) -> [u8; MIN_HEADER_LEN] {
        let flags = (self.dont_fragment as u16) << 14 | (self.more_fragments as u16) << 13;
        let flags_offset = flags | (self.fragment_units & 0x1fff);
        // The checksum is computed from the fields, without a second pass over the bytes.
        let sum = checksum::pseudo_header_v4(self.src, self.dst, 0, self.total_len)
            .u16(0x4500 | self.dscp_ecn as u16)
            .u16(self.identification)
            .u16(flags_offset)
            .u16((self.ttl as u16) << 8 | self.protocol as u16)
            .finish();
        // Written as words: a copy of octets that were just stored one by one would wait for them.
        let first = 0x4500 << 16 | (self.dscp_ecn as u32) << 16 | self.total_len as u32;
        let [a, b, c, d] = first.to_be_bytes();
        let [e, f, g, h] = ((self.identification as u32) << 16 | flags_offset as u32).to_be_bytes();
        let [i, j, k, l] =
            ((self.ttl as u32) << 24 | (self.protocol as u32) << 16 | sum as u32).to_be_bytes();
        let ([m, n, o, p], [q, r, s, t]) = (self.src.octets(), self.dst.octets());
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t]
    }
}
