//! What became of a filter's bits, for those who follow it.
//!
//! A name that comes or goes flips at most `k` bits, of a filter that is half full some k/2. Their places, ascending, are written as the
//! differences between them: seven bits a byte, the lowest first, the top bit set on all but the last (LEB128). What is written is
//! twice the difference, plus the bit's new value. A single change of a filter of 2 MB is some 20 bytes.

use super::params::FilterParams;

/// Bits, and what they are now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterDelta {
    /// Ascending, each place once.
    bits: Vec<(u64, bool)>,
}

/// Why a delta was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FilterDeltaError {
    /// It ends within a number.
    #[error("the delta ends within a number")]
    Truncated,
    /// A number that is written longer than it need be, or is too large.
    #[error("the delta has a malformed number at byte {0}")]
    Malformed(usize),
    /// A bit that the filter does not have.
    #[error("the delta names bit {bit} of a filter of {bits}")]
    Range {
        /// The bit.
        bit: u64,
        /// Bits there are.
        bits: u64,
    },
}

impl FilterDelta {
    /// These bits, ascending, each once.
    pub(super) const fn new(bits: Vec<(u64, bool)>) -> Self {
        Self { bits }
    }

    /// How many bits it changes.
    pub const fn len(&self) -> usize {
        self.bits.len()
    }

    /// Whether it changes nothing.
    pub const fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// What it sets, and what it clears: for who follows several filters between which a name moves, and sets before he clears.
    #[must_use]
    pub fn split(self) -> [Self; 2] {
        let (set, cleared) = self.bits.into_iter().partition(|&(_, value)| value);
        [Self { bits: set }, Self { bits: cleared }]
    }

    /// Each bit, and what it is now.
    pub(super) fn bits(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.bits.iter().copied()
    }

    /// Whether a filter has all these bits.
    pub(super) fn check(&self, params: &FilterParams) -> Result<(), FilterDeltaError> {
        match self.bits.last() {
            Some(&(bit, _)) if bit >= params.bits() => {
                Err(FilterDeltaError::Range { bit, bits: params.bits() })
            }
            _ => Ok(()),
        }
    }

    /// As bytes.
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

    /// From bytes of anyone: takes no more memory than sixteen times theirs.
    ///
    /// # Errors
    /// [`FilterDeltaError`], with the place.
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
