//! IPv6 (RFC 8200) and its extension headers.

use crate::{ParseError, protocol};
use std::net::Ipv6Addr;

/// Length of the fixed header, octets.
pub const HEADER_LEN: usize = 40;
/// Most extension headers followed. RFC 8200 §4.1 recommends an order of seven.
pub const MAX_EXTENSIONS: usize = 8;
/// Most octets of extension headers followed.
pub const MAX_EXTENSION_BYTES: usize = 2048;
/// Length of a fragment header, octets.
pub const FRAGMENT_HEADER_LEN: usize = 8;

/// A fragment header (RFC 8200 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentHeader {
    /// The same in all fragments of a packet.
    pub identification: u32,
    /// Offset of the fragment in the fragmentable part, octets (a multiple of 8).
    pub offset: u16,
    /// A later fragment exists.
    pub more: bool,
    /// Offset of the fragment header from the start of the packet, octets: the length of the unfragmentable part.
    pub header_offset: u16,
    /// Offset of the next-header octet that announces the fragment header, octets.
    pub announced_at: u16,
}

/// A packet with valid lengths: header and payload fit the buffer, and the extension headers fit the payload.
#[derive(Debug, Clone, Copy)]
pub struct Ipv6<'a> {
    fixed: &'a [u8; HEADER_LEN],
    upper: &'a [u8],
    protocol: u8,
    fragment: Option<FragmentHeader>,
    extensions_len: usize,
}

impl<'a> Ipv6<'a> {
    /// Reads the header and extension headers, and removes what follows the packet. Jumbograms (RFC 2675) are not
    /// supported: as their payload length is 0, their hop-by-hop header counts as truncated.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::BadVersion`], [`ParseError::BadHeaderLength`] (an authentication
    /// header below 12 octets), [`ParseError::BadExtension`] (hop-by-hop options anywhere but first, or a second
    /// fragment header), [`ParseError::TooManyExtensions`], [`ParseError::BadFragment`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, rest) = split_fixed(bytes)?;
        let payload_len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let payload = rest.get(..payload_len).ok_or(ParseError::Truncated)?;
        let view = Self::walk(fixed, payload)?;
        if let Some(fragment) = view.fragment {
            check_fragment(fragment, view.upper.len(), payload_len)?;
        }
        Ok(view)
    }

    /// Reads the headers of a packet quoted by an ICMP error: all that follows them is payload, whatever the payload
    /// length.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    #[inline]
    pub fn parse_header(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, payload) = split_fixed(bytes)?;
        Self::walk(fixed, payload)
    }

    #[inline]
    fn walk(fixed: &'a [u8; HEADER_LEN], payload: &'a [u8]) -> Result<Self, ParseError> {
        let view = Self { fixed, upper: payload, protocol: fixed[6], fragment: None, extensions_len: 0 };
        if is_extension(view.protocol) { view.walk_extensions() } else { Ok(view) }
    }

    fn walk_extensions(mut self) -> Result<Self, ParseError> {
        let mut count = 0;
        let mut announced_at = 6;
        while is_extension(self.protocol) {
            // RFC 8200 §4.1: hop-by-hop options directly follow the IPv6 header.
            if self.protocol == protocol::HOP_BY_HOP && count > 0 {
                return Err(ParseError::BadExtension);
            }
            let (&[next, len, b2, b3, b4, b5, b6, b7], _) =
                self.upper.split_first_chunk::<8>().ok_or(ParseError::Truncated)?;
            let len = match self.protocol {
                protocol::FRAGMENT if self.fragment.is_some() => return Err(ParseError::BadExtension),
                protocol::FRAGMENT => {
                    let offset_flags = u16::from_be_bytes([b2, b3]);
                    self.fragment = Some(FragmentHeader {
                        identification: u32::from_be_bytes([b4, b5, b6, b7]),
                        offset: offset_flags & 0xfff8,
                        more: offset_flags & 1 != 0,
                        header_offset: self.header_len() as u16, // bounded by MAX_EXTENSION_BYTES
                        announced_at,
                    });
                    FRAGMENT_HEADER_LEN
                }
                // RFC 4302 §2.2: in 4-octet units, less 2; the fixed part has 12 octets.
                protocol::AUTHENTICATION if len == 0 => return Err(ParseError::BadHeaderLength),
                protocol::AUTHENTICATION => (usize::from(len) + 2) * 4,
                // RFC 8200 §4.3, §4.4, §4.6: in 8-octet units, not counting the first.
                _ => (usize::from(len) + 1) * 8,
            };
            count += 1;
            announced_at = self.header_len() as u16; // bounded by MAX_EXTENSION_BYTES
            self.extensions_len += len;
            if count > MAX_EXTENSIONS || self.extensions_len > MAX_EXTENSION_BYTES {
                return Err(ParseError::TooManyExtensions);
            }
            self.upper = self.upper.get(len..).ok_or(ParseError::Truncated)?;
            self.protocol = next;
            // RFC 8200 §4.5: the fragment header of a later fragment is followed by data, not headers.
            if self.fragment.is_some_and(|fragment| fragment.offset > 0) {
                break;
            }
        }
        Ok(self)
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        let [_, _, _, _, _, _, _, _, src @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *self.fixed;
        Ipv6Addr::from(src)
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, dst @ ..] = *self.fixed;
        Ipv6Addr::from(dst)
    }

    /// Traffic class: DSCP (6 bits) and ECN (2 bits).
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        self.fixed[0] << 4 | self.fixed[1] >> 4
    }

    /// Flow label, 20 bits (RFC 6437).
    #[inline]
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.fixed[1] & 0x0f, self.fixed[2], self.fixed[3]])
    }

    /// The payload length field: extension headers and payload, octets.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]]) as usize
    }

    /// The first next-header field.
    #[inline]
    pub const fn next_header(&self) -> u8 {
        self.fixed[6]
    }

    /// Hop limit.
    #[inline]
    pub const fn hop_limit(&self) -> u8 {
        self.fixed[7]
    }

    /// Protocol number after the extension headers; of a later fragment, the next header of its fragment header, which
    /// may be another extension header.
    #[inline]
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The fragment header, if there is one (it may be *atomic*: offset 0 and no more fragments, RFC 6946).
    #[inline]
    pub const fn fragment(&self) -> Option<FragmentHeader> {
        self.fragment
    }

    /// Length of fixed and extension headers, octets.
    #[inline]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.extensions_len
    }

    /// The payload, after the extension headers.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.upper
    }
}

#[inline]
fn split_fixed(bytes: &[u8]) -> Result<(&[u8; HEADER_LEN], &[u8]), ParseError> {
    let (fixed, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(ParseError::Truncated)?;
    if fixed[0] >> 4 == 6 { Ok((fixed, rest)) } else { Err(ParseError::BadVersion) }
}

/// ESP and "no next header" are not in the list: nothing readable follows them.
#[inline]
const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
    )
}

/// RFC 8200 §4.5: the length of all fragments but the last is a multiple of 8; none ends beyond octet 65,535.
///
/// The payload length counts, as the upper part of a first fragment starts after further extension headers.
fn check_fragment(fragment: FragmentHeader, upper: usize, payload_len: usize) -> Result<(), ParseError> {
    let uneven = fragment.more && !payload_len.is_multiple_of(8);
    if uneven || usize::from(fragment.offset) + upper > 0xffff {
        return Err(ParseError::BadFragment);
    }
    Ok(())
}

/// The fields of a fixed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Header {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label; its low 20 bits are written.
    pub flow_label: u32,
    /// All that follows the fixed header, octets.
    pub payload_len: u16,
    /// Protocol number of what follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Ipv6Header {
    /// The header as bytes.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | (self.flow_label & 0x000f_ffff);
        let mut out = [0; HEADER_LEN];
        out[..4].copy_from_slice(&first.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(&self.src.octets());
        out[24..].copy_from_slice(&self.dst.octets());
        out
    }
}
