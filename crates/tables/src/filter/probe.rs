//! Computes the bit positions of a name.

use super::params::{FilterParams, Layout};
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

/// What can be computed from a name's hash before a filter's size is known. Filters with the same seed share
/// it, so that a name that is checked against many of them is mixed once.
///
/// It has a separate word for each bit instead of multiples of two words (Kirsch and Mitzenmacher, "Less
/// hashing, same performance", 2006). With those, a name is confused with any other whose two words agree,
/// which is noticeable in small filters with a low false positive rate.
#[derive(Debug, Clone, Copy)]
pub struct ProbeWords {
    hash: KeyHash,
    seed: u64,
    /// Number of words computed.
    made: u8,
    mixed: [u64; MAX_HASHES],
}

impl ProbeWords {
    /// The words of a name for filters with this seed that set at most this many bits per name. They also
    /// work for other filters, which then mix the name themselves.
    #[inline]
    pub fn of(hash: KeyHash, seed: u64, hashes: u8) -> Self {
        let mut mixed = [0; MAX_HASHES];
        for (mixed, number) in mixed.iter_mut().take(hashes.into()).zip(0..) {
            *mixed = word(hash, seed, number);
        }
        Self { hash, seed, made: hashes.min(MAX_HASHES as u8), mixed }
    }

    /// The name.
    #[inline(always)]
    pub(super) const fn hash(&self) -> KeyHash {
        self.hash
    }

    /// The word with this number for a seed.
    #[inline(always)]
    pub(super) const fn get(&self, seed: u64, number: u8) -> u64 {
        if number < self.made && seed == self.seed {
            self.mixed[number as usize]
        } else {
            word(self.hash, seed, number as u64)
        }
    }
}

/// A word of a name.
#[inline(always)]
pub(super) const fn word(hash: KeyHash, seed: u64, number: u64) -> u64 {
    mix64((hash.get() ^ seed).wrapping_add(STEP.wrapping_mul(number + 1)))
}

/// Scales a word evenly to a number below `size`.
#[inline(always)]
pub(super) const fn below(word: u64, size: u64) -> u64 {
    ((word as u128 * size as u128) >> 64) as u64 // less than `size`
}

/// A name's line in the blocked layout. The positions within the line follow from one word after another.
#[inline(always)]
pub(super) const fn line(hash: KeyHash, seed: u64, lines: u64) -> u64 {
    below(word(hash, seed, 0), lines)
}

/// Calls `each` with the positions, within its line, of a name's bits in the blocked layout.
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
        match self.layout() {
            Layout::Classic => {
                (0..u64::from(self.hashes()))
                    .for_each(|number| places.push(below(word(hash, self.seed(), number), self.bits())));
            }
            Layout::Blocked => {
                let first = line(hash, self.seed(), self.lines()) * super::LINE_BITS;
                for_each_field(hash, self.seed(), self.hashes(), |field| places.push(first + field as u64));
            }
        }
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
