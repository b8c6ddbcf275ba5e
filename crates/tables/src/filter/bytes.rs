//! A filter as bytes: `SBBF`, a version, the [parameters](FilterParams), the bits, and a CRC-32 of all before it. Little-endian.

use super::bloom::BloomFilter;
use super::params::{FilterParams, FilterParamsError, PARAMS_BYTES};
use crc32fast::hash as crc32;

/// What a filter begins with, and the version of what follows.
const MAGIC: [u8; 8] = *b"SBBF\x01\0\0\0";

/// Bytes before the bits.
const HEAD: usize = MAGIC.len() + PARAMS_BYTES;

/// Bytes after them.
const TAIL: usize = 4;

/// Why bytes are no filter.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum FilterBytesError {
    /// They do not begin as a filter of this version.
    #[error("not a filter, or one of another version")]
    Magic,
    /// Parameters of no filter.
    #[error(transparent)]
    Params(#[from] FilterParamsError),
    /// More or fewer bytes than the parameters say.
    #[error("a filter of {got} bytes that should have {want}")]
    Length {
        /// By the parameters.
        want: u64,
        /// There are.
        got: usize,
    },
    /// Bytes that were changed.
    #[error("the checksum is wrong")]
    Checksum,
}

impl BloomFilter {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.table_bytes() + TAIL);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.params().encode());
        self.words().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&crc32(&bytes).to_le_bytes());
        bytes
    }

    /// From bytes of anyone. Takes no more memory than they do, as their number is compared before.
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
