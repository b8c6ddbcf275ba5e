//! Computes the bit positions of a name.

use super::params::FilterParams;
use crate::mix::mix64;
use scalebricks_types::KeyHash;

/// The maximum number of bits that a name sets.
pub const MAX_HASHES: usize = 32;

/// Width of a position within a line.
const FIELD_BITS: u32 = super::LINE_BITS.ilog2();

/// Number of positions within a line that one word provides.
const FIELDS: usize = (u64::BITS / FIELD_BITS) as usize;

/// The step of the sequence whose mixed members are a name's words (the golden ratio, as in `SplitMix64`).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A word of a name: a separate one for each use instead of multiples of two words (Kirsch and Mitzenmacher,
/// "Less hashing, same performance", 2006). With those, a name is confused with any other whose two words
/// agree, which is noticeable in small filters with a low false positive rate.
#[inline(always)]
const fn word(hash: KeyHash, seed: u64, number: u64) -> u64 {
    mix64((hash.get() ^ seed).wrapping_add(STEP.wrapping_mul(number + 1)))
}

/// A name's line. The positions within the line follow from one word after another.
#[inline(always)]
pub(super) const fn line(hash: KeyHash, seed: u64, lines: u64) -> u64 {
    ((word(hash, seed, 0) as u128 * lines as u128) >> 64) as u64 // below `lines`
}

/// Calls `each` with the positions, within its line, of a name's bits.
#[inline(always)]
pub(super) fn for_each_field(hash: KeyHash, seed: u64, hashes: u8, mut each: impl FnMut(usize)) {
    let mut left = usize::from(hashes);
    let mut number = 1;
    while left > 0 {
        let mut fields = word(hash, seed, number);
        for _ in 0..left.min(FIELDS) {
            each((fields & (super::LINE_BITS - 1)) as usize);
            fields >>= FIELD_BITS;
        }
        left = left.saturating_sub(FIELDS);
        number += 1;
    }
}

impl FilterParams {
    /// The bits of a name, ascending, each once: the definition that lookups must agree with. Two of the `k`
    /// bits may coincide.
    pub(super) fn places(&self, hash: KeyHash) -> BitPositions {
        let mut places = BitPositions { bits: [0; MAX_HASHES], len: 0 };
        let first = line(hash, self.seed(), self.lines()) * super::LINE_BITS;
        for_each_field(hash, self.seed(), self.hashes(), |field| places.push(first + field as u64));
        places.sort();
        places
    }
}

/// Some bits of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct BitPositions {
    bits: [u64; MAX_HASHES],
    len: usize,
}

impl BitPositions {
    fn push(&mut self, bit: u64) {
        if let Some(slot) = self.bits.get_mut(self.len) {
            *slot = bit;
            self.len += 1;
        }
    }

    fn sort(&mut self) {
        let bits = &mut self.bits[..self.len];
        bits.sort_unstable();
        let mut kept = 0;
        for at in 0..self.len {
            if at == 0 || self.bits[at] != self.bits[kept - 1] {
                self.bits[kept] = self.bits[at];
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// The positions of the bits.
    pub(super) fn bits(&self) -> &[u64] {
        &self.bits[..self.len]
    }
}
