//! GTP-U extension headers (TS 29.281 §5.2) and the PDU session container (TS 38.415).

use crate::ParseError;
use scalebricks_types::Qfi;

/// Most extension headers in one message.
pub const MAX_EXTENSIONS: usize = 8;

/// Extension header types (TS 29.281 §5.2.1, figure 5.2.1-3).
pub mod kind {
    /// No more extension headers.
    pub const NONE: u8 = 0x00;
    /// PDU session container (TS 38.415).
    pub const PDU_SESSION_CONTAINER: u8 = 0x85;
}

/// One extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its type.
    pub kind: u8,
    /// The octets between its length and the next type: 4n − 2 of them.
    pub content: &'a [u8],
}

impl Extension<'_> {
    /// Whether an endpoint that does not support the type must refuse the message and answer with the types that it
    /// supports (TS 29.281 §5.2.1, figure 5.2.1-2: bit 8 of the type).
    #[inline]
    pub const fn is_comprehension_required(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// Iterates over a chain of extension headers with valid lengths.
#[derive(Debug, Clone)]
pub struct Extensions<'a> {
    next: u8,
    chain: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// No extension headers.
    pub(super) const NONE: Self = Self { next: kind::NONE, chain: &[] };

    /// Splits the chain that starts with type `first` from the payload.
    #[inline]
    pub(super) fn parse(first: u8, bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (mut next, mut rest, mut count) = (first, bytes, 0);
        while next != kind::NONE {
            count += 1;
            if count > MAX_EXTENSIONS {
                return Err(ParseError::TooManyExtensions);
            }
            (_, next, rest) = split_one(rest)?;
        }
        let (chain, payload) =
            bytes.split_at_checked(bytes.len() - rest.len()).ok_or(ParseError::Truncated)?;
        Ok((Self { next: first, chain }, payload))
    }

    /// Length of the extension headers not yet visited, octets.
    #[inline]
    pub const fn len_bytes(&self) -> usize {
        self.chain.len()
    }

    /// The first extension header that a receiver must support and that is not among `known`.
    pub fn first_unsupported(mut self, known: &[u8]) -> Option<Extension<'a>> {
        self.find(|e| e.is_comprehension_required() && !known.contains(&e.kind))
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Extension<'a>;

    #[inline]
    fn next(&mut self) -> Option<Extension<'a>> {
        let (content, next, rest) = split_one(self.chain).ok()?;
        let kind = std::mem::replace(&mut self.next, next);
        self.chain = rest;
        Some(Extension { kind, content })
    }
}

/// Content, next type and rest. TS 29.281 §5.2.1: the first octet is the length in units of 4 octets, which includes
/// itself and the next type; 0 is not allowed.
#[inline]
fn split_one(bytes: &[u8]) -> Result<(&[u8], u8, &[u8]), ParseError> {
    let &units = bytes.first().ok_or(ParseError::Truncated)?;
    if units == 0 {
        return Err(ParseError::BadExtension);
    }
    let (extension, rest) = bytes.split_at_checked(usize::from(units) * 4).ok_or(ParseError::Truncated)?;
    match extension {
        [_, content @ .., next] => Ok((content, *next, rest)),
        _ => Err(ParseError::Truncated),
    }
}

/// A PDU session container (TS 38.415 §5.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PduSessionContainer {
    /// PDU type 0: to the base station.
    Downlink {
        /// QoS flow.
        qfi: Qfi,
        /// Reflective QoS indicator.
        rqi: bool,
        /// Paging policy indicator, three bits, if present.
        ppi: Option<u8>,
    },
    /// PDU type 1: from the base station.
    Uplink {
        /// QoS flow.
        qfi: Qfi,
    },
}

impl PduSessionContainer {
    /// Reads the content of an extension header of type 0x85.
    ///
    /// # Errors
    /// [`ParseError::BadElement`] if it is too short; [`ParseError::BadProtocolType`] for PDU types above 1.
    #[inline]
    pub fn parse(content: &[u8]) -> Result<Self, ParseError> {
        let &[first, second, ..] = content else { return Err(ParseError::BadElement) };
        let qfi = Qfi::new(second & 0x3f).map_err(|_| ParseError::BadElement)?; // six bits
        match first >> 4 {
            // TS 38.415 §5.5.2.1: octet 2 is PPP, RQI, QFI; PPI is the top of octet 3 if PPP is set.
            0 => {
                let ppi = match (second & 0x80 != 0, content.get(2)) {
                    (false, _) => None,
                    (true, Some(third)) => Some(third >> 5),
                    (true, None) => return Err(ParseError::BadElement),
                };
                Ok(Self::Downlink { qfi, rqi: second & 0x40 != 0, ppi })
            }
            // TS 38.415 §5.5.2.2: octet 2 is N3/N9 delay indicator, new IE flag, QFI.
            1 => Ok(Self::Uplink { qfi }),
            _ => Err(ParseError::BadProtocolType),
        }
    }

    /// The QoS flow.
    #[inline]
    pub const fn qfi(&self) -> Qfi {
        match *self {
            Self::Downlink { qfi, .. } | Self::Uplink { qfi } => qfi,
        }
    }
}

/// An extension header with a downlink container of two octets: length 1, PDU type 0, RQI and QFI, no next header.
#[inline]
pub const fn downlink_container(qfi: Qfi, rqi: bool) -> [u8; 4] {
    [1, 0x00, (rqi as u8) << 6 | qfi.get(), kind::NONE]
}

/// As [`downlink_container`], with PDU type 1.
#[inline]
pub const fn uplink_container(qfi: Qfi) -> [u8; 4] {
    [1, 0x10, qfi.get(), kind::NONE]
}
