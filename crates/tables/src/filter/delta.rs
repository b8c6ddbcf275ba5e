//! The changed bits of a filter, for the filters that follow it.
//!
//! Adding or removing a name flips at most `k` bits, and about k/2 in a filter that is half full. Their
//! positions, ascending, are encoded as differences in LEB128: seven bits per byte, lowest first, with the
//! top bit set on all bytes except the last. The encoded number is twice the difference, plus the bit's new
//! value. A single change of a filter of 2 MB takes about 20 bytes.

use super::params::FilterParams;

/// Positions of bits, with their current values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterDelta {
    /// In ascending order, each position once.
    bits: Vec<(u64, bool)>,
}

/// Why a delta was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FilterDeltaError {
    /// It ends within a number.
    #[error("the delta ends within a number")]
    Truncated,
    /// A number whose encoding is longer than necessary, or that is too large.
    #[error("the delta has a malformed number at byte {0}")]
    Malformed(usize),
    /// A bit that the filter does not have.
    #[error("the delta names bit {bit} of a filter of {bits}")]
    Range {
        /// The position of the bit.
        bit: u64,
        /// Number of bits of the filter.
        bits: u64,
    },
}

impl FilterDelta {
    /// These bits, ascending, each once.
    pub(super) const fn new(bits: Vec<(u64, bool)>) -> Self {
        Self { bits }
    }

    /// Number of bits that it changes.
    pub const fn len(&self) -> usize {
        self.bits.len()
    }

    /// Whether it changes nothing.
    pub const fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// Splits it into the bits that it sets and the bits that it clears. Use it when a name moves between
    /// several filters, to set bits before clearing any.
    #[must_use]
    pub fn split(self) -> [Self; 2] {
        let (set, cleared) = self.bits.into_iter().partition(|&(_, value)| value);
        [Self { bits: set }, Self { bits: cleared }]
    }

    /// Each bit, with its current value.
    pub(super) fn bits(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.bits.iter().copied()
    }

    /// Checks that a filter has all these bits.
    pub(super) fn check(&self, params: &FilterParams) -> Result<(), FilterDeltaError> {
        match self.bits.last() {
            Some(&(bit, _)) if bit >= params.bits() => {
                Err(FilterDeltaError::Range { bit, bits: params.bits() })
            }
            _ => Ok(()),
        }
    }

    /// Encodes the delta.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bits.len() * 3);
        let mut next = 0;
        for &(bit, value) in &self.bits {
            let mut number = (bit - next) << 1 | u64::from(value); // places are below 2^39
            next = bit + 1;
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8); // less than 128
        }
        bytes
    }

    /// Decodes untrusted bytes. Uses at most sixteen times the memory of the input.
    ///
    /// # Errors
    /// [`FilterDeltaError`], with the position.
    pub fn decode(bytes: &[u8], params: &FilterParams) -> Result<Self, FilterDeltaError> {
        let mut bits = Vec::new();
        let (mut at, mut next) = (0, 0);
        while at < bytes.len() {
            let start = at;
            let (mut number, mut shift) = (0, 0);
            loop {
                let &byte = bytes.get(at).ok_or(FilterDeltaError::Truncated)?;
                at += 1;
                if shift > 35 || (byte == 0 && shift > 0) {
                    return Err(FilterDeltaError::Malformed(start));
                }
                number |= u64::from(byte & 0x7F) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let bit = next + (number >> 1); // both below 2^42
            if bit >= params.bits() {
                return Err(FilterDeltaError::Range { bit, bits: params.bits() });
            }
            next = bit + 1;
            bits.push((bit, number & 1 == 1));
        }
        Ok(Self { bits })
    }
}
