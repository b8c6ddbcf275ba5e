//! GTP-U information elements (TS 29.281 §8).

use crate::ParseError;
use scalebricks_types::Teid;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Element types (TS 29.281 §8.1, table 8.1-1).
pub mod kind {
    /// Recovery: a restart counter of one octet, which is sent as 0 and ignored.
    pub const RECOVERY: u8 = 14;
    /// Tunnel endpoint identifier data I: four octets.
    pub const TEID_DATA_I: u8 = 16;
    /// GTP-U peer address: 4 or 16 octets.
    pub const PEER_ADDRESS: u8 = 133;
    /// Extension header type list.
    pub const EXTENSION_HEADER_TYPES: u8 = 141;
}

/// One element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its type.
    pub kind: u8,
    /// Its value, without type and length.
    pub value: &'a [u8],
}

/// Iterates over the elements of a message; ends after the first malformed one.
#[derive(Debug, Clone)]
pub struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The elements of the message with this payload.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, rest) = self.0.split_first()?;
        let split = split_value(kind, rest);
        self.0 = split.map_or(&[], |(_, behind)| behind);
        Some(split.map(|(value, _)| Element { kind, value }).ok_or(ParseError::BadElement))
    }
}

/// TS 29.281 §8.1: types below 128 have a fixed length, so unknown ones cannot be skipped. The others state their length
/// in two octets, and the extension header type list (§8.5) in one.
fn split_value(kind: u8, rest: &[u8]) -> Option<(&[u8], &[u8])> {
    match kind {
        kind::RECOVERY => rest.split_at_checked(1),
        kind::TEID_DATA_I => rest.split_at_checked(4),
        0..=127 => None,
        kind::EXTENSION_HEADER_TYPES => {
            let (&len, rest) = rest.split_first()?;
            rest.split_at_checked(usize::from(len))
        }
        _ => {
            let (len, rest) = rest.split_first_chunk()?;
            rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
        }
    }
}

/// An error indication (TS 29.281 §7.3.1): the peer has no such tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorIndication {
    /// The TEID of the refused G-PDU.
    pub teid: Teid,
    /// The address that the G-PDU was sent to.
    pub peer: IpAddr,
}

impl ErrorIndication {
    /// Reads the payload of an error indication.
    ///
    /// # Errors
    /// [`ParseError::BadElement`] if one of the two mandatory elements is missing or malformed.
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let (mut teid, mut peer) = (None, None);
        for element in Elements::new(payload) {
            let Element { kind, value } = element?;
            match kind {
                kind::TEID_DATA_I => {
                    teid = value.first_chunk().map(|octets| Teid::new(u32::from_be_bytes(*octets)));
                }
                kind::PEER_ADDRESS => peer = Some(address(value).ok_or(ParseError::BadElement)?),
                _ => {} // optional elements (§7.3.1: private extension)
            }
        }
        match (teid, peer) {
            (Some(teid), Some(peer)) => Ok(Self { teid, peer }),
            _ => Err(ParseError::BadElement),
        }
    }
}

/// TS 29.281 §8.4: 4 octets for IPv4, 16 for IPv6.
fn address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(IpAddr::V4(Ipv4Addr::from(v4)));
    }
    <[u8; 16]>::try_from(value).ok().map(|v6| IpAddr::V6(Ipv6Addr::from(v6)))
}
