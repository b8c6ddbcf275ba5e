//! The bits of a range: its slots one after the other without gaps, those of the first array first.

use super::params::Params;
use super::placement::Placement;
use crate::published::TableParams;

/// The memory layout of a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(super) params: Params,
    pub(super) places: Placement,
    pub(super) fingerprint: u32,
    /// Bits per slot.
    pub(super) width: u32,
    /// 64-bit words per range: whole cache lines.
    pub(super) words: usize,
    /// The maximum number of names in a range.
    pub(super) capacity: usize,
}

impl Layout {
    pub(super) fn of(params: &Params) -> Self {
        Self {
            params: *params,
            places: Placement::of(params),
            fingerprint: params.fingerprint(),
            width: params.width(),
            words: params.unit_words(),
            capacity: params.capacity(),
        }
    }

    /// Number of words of a range that hold slots.
    pub(super) const fn used_words(&self) -> usize {
        self.params.range_bits().div_ceil(64) as usize
    }

    /// The content of a slot in these words.
    #[inline(always)]
    pub(super) fn get(&self, words: &[u64], slot: u32) -> u32 {
        let bit = slot as usize * self.width as usize;
        let (word, shift) = (bit / 64, bit % 64);
        let low = words[word] >> shift;
        let rest = if shift + self.width as usize > 64 { words[word + 1] << (64 - shift) } else { 0 };
        ((low | rest) & self.mask()) as u32
    }

    /// Flips bits of a slot.
    #[inline(always)]
    pub(super) fn flip(&self, words: &mut [u64], slot: u32, difference: u32) {
        let bit = slot as usize * self.width as usize;
        let (word, shift) = (bit / 64, bit % 64);
        words[word] ^= u64::from(difference) << shift;
        if shift + self.width as usize > 64 {
            words[word + 1] ^= u64::from(difference) >> (64 - shift);
        }
    }

    /// A mask for the bits of a slot.
    #[inline(always)]
    pub(super) const fn mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    /// Whether the bits after the last slot are zero, as they must be.
    pub(super) fn is_clean(&self, words: &[u64]) -> bool {
        let (used, rest) = (self.used_words(), self.params.range_bits() % 64);
        let tail = if rest == 0 { 0 } else { words[used - 1] >> rest };
        tail == 0 && words[used..].iter().all(|&word| word == 0)
    }
}
