//! GTPv1-U (TS 29.281), the tunnel protocol of the user plane.
//!
//! This module reads messages, [`extension`] reads extension headers, [`element`] reads the information elements of path
//! and tunnel management, and [`message`] writes messages.

pub mod element;
pub mod extension;
pub mod message;

use crate::ParseError;
use extension::{Extensions, PduSessionContainer};
use scalebricks_types::Teid;

/// UDP port of GTP-U, the destination of all messages but responses (TS 29.281 §4.4.2).
pub const PORT: u16 = 2152;
/// Length of the mandatory header, octets.
pub const HEADER_LEN: usize = 8;
/// Length of the optional fields (sequence number, N-PDU number, next extension type), which are present together.
pub const OPTIONAL_LEN: usize = 4;
/// Length of a header with a PDU session container of two octets: mandatory, optional, extension.
pub const CONTAINER_HEADER_LEN: usize = HEADER_LEN + OPTIONAL_LEN + 4;

/// The type of a message (TS 29.281 §6.1, table 6.1-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageType {
    /// 1: checks whether the path works.
    EchoRequest,
    /// 2: the answer.
    EchoResponse,
    /// 26: reports a G-PDU for a tunnel that does not exist.
    ErrorIndication,
    /// 31: lists the extension headers that the sender supports.
    SupportedExtensionHeaders,
    /// 254: the last message of a tunnel.
    EndMarker,
    /// 255: user data.
    GPdu,
    /// Any other number.
    Other(u8),
}

impl MessageType {
    /// The message with this number.
    #[inline]
    pub const fn from_u8(number: u8) -> Self {
        match number {
            1 => Self::EchoRequest,
            2 => Self::EchoResponse,
            26 => Self::ErrorIndication,
            31 => Self::SupportedExtensionHeaders,
            254 => Self::EndMarker,
            255 => Self::GPdu,
            other => Self::Other(other),
        }
    }

    /// The number of the message.
    #[inline]
    pub const fn number(self) -> u8 {
        match self {
            Self::EchoRequest => 1,
            Self::EchoResponse => 2,
            Self::ErrorIndication => 26,
            Self::SupportedExtensionHeaders => 31,
            Self::EndMarker => 254,
            Self::GPdu => 255,
            Self::Other(other) => other,
        }
    }
}

/// A message with valid lengths: header, optional fields and extension headers fit its length, which fits the buffer.
#[derive(Debug, Clone)]
pub struct Gtpu<'a> {
    header: &'a [u8; HEADER_LEN],
    optional: [u8; OPTIONAL_LEN],
    extensions: Extensions<'a>,
    payload: &'a [u8],
}

/// Bits of the first octet (TS 29.281 §5.1).
mod flag {
    pub(super) const VERSION_1: u8 = 0b001_00000;
    pub(super) const VERSION_MASK: u8 = 0b111_00000;
    pub(super) const PROTOCOL_TYPE: u8 = 0b1_0000;
    pub(super) const EXTENSION: u8 = 0b100;
    pub(super) const SEQUENCE: u8 = 0b010;
    pub(super) const N_PDU: u8 = 0b001;
    pub(super) const ANY_OPTIONAL: u8 = EXTENSION | SEQUENCE | N_PDU;
}

impl<'a> Gtpu<'a> {
    /// Reads a message from a UDP payload, and removes what follows it. Cost: reads 8 octets, or 12 and the extension
    /// headers.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::BadVersion`], [`ParseError::BadProtocolType`] (GTP'),
    /// [`ParseError::BadExtension`] (zero length), [`ParseError::TooManyExtensions`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(ParseError::Truncated)?;
        if header[0] & flag::VERSION_MASK != flag::VERSION_1 {
            return Err(ParseError::BadVersion);
        }
        if header[0] & flag::PROTOCOL_TYPE == 0 {
            return Err(ParseError::BadProtocolType);
        }
        // TS 29.281 §5.1: the length includes the optional fields, but not the mandatory part.
        let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let body = rest.get(..len).ok_or(ParseError::Truncated)?;
        let view = Self { header, optional: [0; OPTIONAL_LEN], extensions: Extensions::NONE, payload: body };
        // TS 29.281 §5.1: if any of E, S and PN is set, all four octets are present.
        if header[0] & flag::ANY_OPTIONAL == 0 { Ok(view) } else { view.parse_optional() }
    }

    #[inline]
    fn parse_optional(self) -> Result<Self, ParseError> {
        let (&optional, rest) = self.payload.split_first_chunk().ok_or(ParseError::Truncated)?;
        // TS 29.281 §5.1: the next extension type is evaluated only if E is set.
        let first = if self.header[0] & flag::EXTENSION == 0 { 0 } else { optional[3] };
        let (extensions, payload) = Extensions::parse(first, rest)?;
        Ok(Self { optional, extensions, payload, ..self })
    }

    /// The type of the message.
    #[inline]
    pub const fn message_type(&self) -> MessageType {
        MessageType::from_u8(self.header[1])
    }

    /// The tunnel; 0 for path messages and error indications.
    #[inline]
    pub const fn teid(&self) -> Teid {
        Teid::new(u32::from_be_bytes([self.header[4], self.header[5], self.header[6], self.header[7]]))
    }

    /// The sequence number, if S is set.
    #[inline]
    pub const fn sequence(&self) -> Option<u16> {
        if self.header[0] & flag::SEQUENCE == 0 {
            return None;
        }
        Some(u16::from_be_bytes([self.optional[0], self.optional[1]]))
    }

    /// The extension headers, in order.
    #[inline]
    pub fn extensions(&self) -> Extensions<'a> {
        self.extensions.clone()
    }

    /// The first PDU session container, if the message has one.
    ///
    /// # Errors
    /// Inside the option: as [`PduSessionContainer::parse`].
    #[inline]
    pub fn pdu_session_container(&self) -> Option<Result<PduSessionContainer, ParseError>> {
        self.extensions()
            .find(|e| e.kind == extension::kind::PDU_SESSION_CONTAINER)
            .map(|e| PduSessionContainer::parse(e.content))
    }

    /// Length of everything before the payload, octets; the payload is `header_len()..header_len() + payload().len()`.
    #[inline]
    pub const fn header_len(&self) -> usize {
        let optional = if self.header[0] & flag::ANY_OPTIONAL == 0 { 0 } else { OPTIONAL_LEN };
        HEADER_LEN + optional + self.extensions.len_bytes()
    }

    /// The T-PDU of a G-PDU, or the information elements of another message.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
