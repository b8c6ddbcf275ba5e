//! The encoding of records, snapshots and messages: the protocol version as `u16`, then the value in [borsh].
//!
//! Borsh is canonical: a value has one encoding, and other bytes are refused. Decoding allocates at most a small multiple of
//! the bytes received, and 1 MiB for a length that the bytes do not contain.

use crate::version::Version;
use borsh::{BorshDeserialize, BorshSerialize};
use std::io::{self, Read};

/// Bytes that do not decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another version of the software wrote it.
    #[error("cannot decode {what}: unknown version {found}, this software reads version {}", Version::NEWEST)]
    Version {
        /// The kind of value.
        what: &'static str,
        /// The version found.
        found: u16,
    },
    /// It has the right version and is malformed.
    #[error("cannot decode {what}: {problem}")]
    Malformed {
        /// The kind of value.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// A value that is stored or sent by itself.
pub trait Encoded: BorshSerialize + BorshDeserialize {
    /// What the value is called in errors.
    const NAME: &'static str;

    /// Encodes the value with its version.
    fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes exactly these bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (what, mut rest) = (Self::NAME, bytes);
        let malformed = |error: io::Error| DecodeError::Malformed { what, problem: error.to_string() };
        let found = u16::deserialize(&mut rest).map_err(malformed)?;
        if Version::known(found).is_none() {
            return Err(DecodeError::Version { what, found });
        }
        let value = Self::deserialize(&mut rest).map_err(malformed)?;
        match rest.len() {
            0 => Ok(value),
            trailing => {
                Err(DecodeError::Malformed { what, problem: format!("{trailing} bytes follow the value") })
            }
        }
    }
}

/// Encodes a value with its version.
pub(crate) fn encode(value: &(impl BorshSerialize + ?Sized)) -> Vec<u8> {
    // Writing to memory fails only for a collection of 2^32 elements.
    borsh::to_vec(&(Version::NEWEST, value)).unwrap_or_default()
}

/// Appends a value with its version.
///
/// # Errors
/// Only for a collection of 2^32 elements: writing to memory does not fail.
pub(crate) fn encode_onto(bytes: &mut Vec<u8>, value: &(impl BorshSerialize + ?Sized)) -> io::Result<()> {
    borsh::to_writer(bytes, &(Version::NEWEST, value))
}

/// Reads a value and builds another from it, which may refuse it.
pub(crate) fn checked<T: BorshDeserialize, U>(
    reader: &mut impl Read,
    build: impl FnOnce(T) -> Result<U, &'static str>,
) -> io::Result<U> {
    build(T::deserialize_reader(reader)?)
        .map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))
}
