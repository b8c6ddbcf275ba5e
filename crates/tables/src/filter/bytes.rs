//! The encoding of a filter: `SBBF`, a version, the [parameters](FilterParams), the bits, and a CRC-32 of all
//! bytes before it. Little-endian.

use super::bloom::BloomFilter;
use super::params::{FilterParams, FilterParamsError, PARAMS_BYTES};
use crc32fast::hash as crc32;

/// The magic number with which a filter begins, and the version of the format.
const MAGIC: [u8; 8] = *b"SBBF\x01\0\0\0";

/// Number of bytes before the bits.
const HEAD: usize = MAGIC.len() + PARAMS_BYTES;

/// Number of bytes after the bits.
const TAIL: usize = 4;

/// Why bytes cannot be decoded as a filter.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum FilterBytesError {
    /// They do not begin with the magic number of this version.
    #[error("not a filter, or one of another version")]
    Magic,
    /// The parameters are invalid.
    #[error(transparent)]
    Params(#[from] FilterParamsError),
    /// The number of bytes differs from what the parameters require.
    #[error("a filter of {got} bytes that should have {want}")]
    Length {
        /// Number of bytes that the parameters require.
        want: u64,
        /// Number of bytes given.
        got: usize,
    },
    /// The checksum is wrong: the bytes were changed.
    #[error("the checksum is wrong")]
    Checksum,
}

impl BloomFilter {
    /// Encodes the filter.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.table_bytes() + TAIL);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.params().encode());
        self.words().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&crc32(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a filter from untrusted bytes. Uses no more memory than the input, because the length is
    /// checked first.
    ///
    /// # Errors
    /// [`FilterBytesError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, FilterBytesError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(FilterBytesError::Magic)?;
        let (params, rest) = rest.split_first_chunk().ok_or(FilterBytesError::Magic)?;
        let params = FilterParams::decode(params)?;
        let want = params.bits() / 8;
        let length = FilterBytesError::Length { want: want + (HEAD + TAIL) as u64, got: bytes.len() };
        let (words, crc) = rest.split_last_chunk().ok_or(length)?;
        if words.len() as u64 != want {
            return Err(length);
        }
        if crc32(&bytes[..bytes.len() - TAIL]) != u32::from_le_bytes(*crc) {
            return Err(FilterBytesError::Checksum);
        }
        let mut filter = Self::new(params);
        let (words, _) = words.as_chunks();
        filter.fill(words.iter().map(|&word| u64::from_le_bytes(word)));
        Ok(filter)
    }
}
