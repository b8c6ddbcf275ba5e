//! The Encapsulating Security Payload (RFC 4303), and its encapsulation in UDP (RFC 3948).
//!
//! ```text
//! SPI, sequence number │ IV │ inner packet, padding, pad length, next header │ ICV
//!                           │←──────────────── encrypted ──────────────────→│
//! ```
//!
//! This module knows the clear parts and the trailer after decryption. The lengths of IV and ICV, and everything secret,
//! depend on the algorithms and are not known here.

use crate::ParseError;
use std::fmt;

/// Length of SPI and sequence number, octets.
pub const HEADER_LEN: usize = 8;
/// Length of pad length and next header, octets.
pub const TRAILER_LEN: usize = 2;
/// Longest padding, octets (RFC 4303 §2.4).
pub const MAX_PADDING_LEN: usize = 255;
/// UDP port of encapsulated ESP and of IKE behind a NAT (RFC 3948 §2.1).
pub const UDP_PORT: u16 = 4500;
/// Next header of a packet without content, which the receiver drops (RFC 4303 §2.6).
pub const NO_NEXT_HEADER: u8 = 59;
/// Next header of an inner IPv4 packet.
pub const INNER_V4: u8 = 4;
/// Next header of an inner IPv6 packet.
pub const INNER_V6: u8 = 41;

/// A security parameters index: at least 256, since smaller ones are reserved (RFC 4303 §2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spi(u32);

impl Spi {
    /// The smallest.
    pub const MIN: u32 = 256;

    /// Checks a number; `None` if it is reserved.
    pub const fn new(spi: u32) -> Option<Self> {
        if spi < Self::MIN { None } else { Some(Self(spi)) }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Spi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spi({:#x})", self.0)
    }
}

impl fmt::Display for Spi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The clear header of an ESP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Esp<'a> {
    /// The SPI as received, possibly reserved.
    pub spi: u32,
    /// The low 32 bits of the sequence number.
    pub sequence: u32,
    /// All that follows.
    pub payload: &'a [u8],
}

impl<'a> Esp<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (&[s0, s1, s2, s3, n0, n1, n2, n3], payload) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(ParseError::Truncated)?;
        let (spi, sequence) = (u32::from_be_bytes([s0, s1, s2, s3]), u32::from_be_bytes([n0, n1, n2, n3]));
        Ok(Self { spi, sequence, payload })
    }
}

/// The clear header with this SPI and the low 32 bits of a sequence number.
#[inline]
pub const fn header(spi: Spi, sequence: u32) -> [u8; HEADER_LEN] {
    let ([a, b, c, d], [e, f, g, h]) = (spi.0.to_be_bytes(), sequence.to_be_bytes());
    [a, b, c, d, e, f, g, h]
}

/// Padding after `len` octets so that padding and trailer end at a multiple of `alignment` octets, which is a power of
/// two up to 256 (RFC 4303 §2.4).
#[inline]
pub const fn padding_len(len: usize, alignment: usize) -> usize {
    (len + TRAILER_LEN).wrapping_neg() & (alignment - 1)
}

/// The default padding (1, 2, 3, …), pad length and next header, at the start of an array of zeros. `padding_len` is at
/// most `N - 2`; a longer one is cut.
#[inline]
pub fn trailer<const N: usize>(padding_len: usize, next_header: u8) -> [u8; N] {
    let mut out = [0; N];
    let padding_len = padding_len.min(N.saturating_sub(TRAILER_LEN)).min(MAX_PADDING_LEN);
    for (octet, number) in out.iter_mut().zip(1..=padding_len as u8) {
        *octet = number;
    }
    if let Some(end) = out.get_mut(padding_len..padding_len + TRAILER_LEN) {
        end.copy_from_slice(&[padding_len as u8, next_header]);
    }
    out
}

/// Reads the end of a decrypted payload: the length of the content before the padding, and the next header. The padding
/// must be the default one (RFC 4303 §2.4: the receiver should check it).
///
/// # Errors
/// [`ParseError::Truncated`] if the payload is shorter than the trailer and its padding, [`ParseError::BadElement`] if
/// the padding is another.
#[inline]
pub fn parse_trailer(payload: &[u8]) -> Result<(usize, u8), ParseError> {
    let (rest, &[padding_len, next_header]) =
        payload.split_last_chunk::<TRAILER_LEN>().ok_or(ParseError::Truncated)?;
    let content_len = rest.len().checked_sub(usize::from(padding_len)).ok_or(ParseError::Truncated)?;
    let padding = rest.get(content_len..).unwrap_or_default();
    if padding.iter().zip(1..=u8::MAX).any(|(octet, number)| *octet != number) {
        return Err(ParseError::BadElement);
    }
    Ok((content_len, next_header))
}

/// The payload of a UDP packet to or from [`UDP_PORT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpPayload {
    /// One octet 0xff, which keeps a NAT's mapping alive (RFC 3948 §2.3).
    Keepalive,
    /// An IKE message behind the non-ESP marker, four zero octets (RFC 3948 §2.2).
    Ike,
    /// An ESP packet, which starts with an SPI that is not zero.
    Esp,
}

/// Length of the non-ESP marker, octets.
pub const NON_ESP_MARKER_LEN: usize = 4;

impl UdpPayload {
    /// Tells them apart.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] if the payload is none of them.
    #[inline]
    pub const fn classify(payload: &[u8]) -> Result<Self, ParseError> {
        match payload {
            [0xff] => Ok(Self::Keepalive),
            [0, 0, 0, 0, ..] => Ok(Self::Ike),
            _ if payload.len() >= HEADER_LEN => Ok(Self::Esp),
            _ => Err(ParseError::Truncated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reserved_indices_are_no_spi() {
        assert_eq!((Spi::new(0), Spi::new(255)), (None, None));
        assert_eq!(Spi::new(256).map(|spi| spi.to_string()).as_deref(), Some("0x100"));
    }

    #[test]
    fn a_header_is_read_as_written() {
        let bytes = [&header(Spi(0x1234_5678), 9)[..], b"rest"].concat();
        assert_eq!(Esp::parse(&bytes), Ok(Esp { spi: 0x1234_5678, sequence: 9, payload: b"rest" }));
        assert_eq!(Esp::parse(&bytes[..7]), Err(ParseError::Truncated));
    }

    #[test]
    fn udp_payloads_are_told_apart() {
        for (payload, expected) in [
            (&[0xff][..], Ok(UdpPayload::Keepalive)),
            (&[0, 0, 0, 0], Ok(UdpPayload::Ike)),
            (&[0, 0, 0, 0, 1, 2, 3, 4, 5], Ok(UdpPayload::Ike)),
            (&[0, 0, 1, 0, 0, 0, 0, 1], Ok(UdpPayload::Esp)),
            (&[0xff, 0xff], Err(ParseError::Truncated)),
            (&[], Err(ParseError::Truncated)),
            (&[0, 0, 1, 0, 0, 0, 0], Err(ParseError::Truncated)),
        ] {
            assert_eq!(UdpPayload::classify(payload), expected, "{payload:?}");
        }
    }

    #[test]
    fn other_padding_is_refused() {
        assert_eq!(parse_trailer(&[7, 1, 2, 2, 4]), Ok((1, 4)));
        assert_eq!(parse_trailer(&[7, 1, 3, 2, 4]), Err(ParseError::BadElement));
        assert_eq!(parse_trailer(&[1, 2, 3, 4]), Err(ParseError::Truncated));
        assert_eq!(parse_trailer(&[4]), Err(ParseError::Truncated));
    }

    proptest! {
        #[test]
        fn padding_aligns_and_is_read_back(content in prop::collection::vec(any::<u8>(), 0..100), power in 0..5u32, next: u8) {
            let padding = padding_len(content.len(), 1 << power);
            prop_assert!(padding < 1 << power);
            let end: [u8; 32] = trailer(padding, next);
            let payload = [&content, &end[..padding + TRAILER_LEN]].concat();
            prop_assert_eq!(payload.len() % (1 << power), 0);
            prop_assert_eq!(parse_trailer(&payload), Ok((content.len(), next)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok((len, _)) = parse_trailer(&bytes) {
                prop_assert!(len + TRAILER_LEN <= bytes.len());
            }
            let _ = (Esp::parse(&bytes), UdpPayload::classify(&bytes));
        }
    }
}
