//! Groups as hash functions found by search, from a family designed for vector instructions.
//!
//! As in [`paper`](super::paper), a group stores for each value bit the index of a hash function and an array
//! of eight cells. A key's bit is the cell that the function selects. An index works if no cell must be 0 for
//! one key and 1 for another. The family differs: the 16 bits of an index are a *retry* of 4 bits and two
//! *halves* `i1`, `i2` of 6 bits. For each retry, a key has a pseudo-random word that contains
//! * which half it uses: `i1` if bit 31 is set, else `i2`;
//! * three rows of 7 bits, in the low bits of bytes 3, 2 and 1: bit `b` of the position is the parity of byte
//!   `3 - b` AND (64 + half). So positions are linear over GF(2) in the half, plus a constant that the 64
//!   adds.
//!
//! Linearity lets one instruction, or a few bit operations on words, compute the positions under all 64
//! halves. Each key depends on one half only, so the 4096 functions of a retry need not be tried one by one.
//! 64 functions are evaluated for the keys of each half, and any two that do not require opposite values of a
//! cell form a solution.
//!
//! The canonical index is the lowest that works, for each value bit separately: the lowest (retry, i1, i2).
//! Cells that no key selects are 0. A group of more than [`MOST_KEYS`] keys is never solved.

use super::geometry::mix64;
use super::linear::{FINAL_32, MULTIPLIER_32, SEED_STEP_32};
use super::params::Params;
use super::solver::Fields;

/// The maximum number of keys in a group that can be solved.
pub(super) const MOST_KEYS: usize = 32;
/// Number of words per key, and number of values of the upper four bits of an index.
pub(super) const RETRIES: u32 = 16;
/// Number of values of half an index.
pub(super) const HALVES: u32 = 64;
/// The index that marks a group as unsolved; solutions use only smaller indices.
pub(super) const MARKER: u32 = 0xFFFF;
/// Bits of an index.
const INDEX_BITS: u32 = 16;

/// Computes the keys' words from the low half of the hash and the table's seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordSource {
    pub(super) key: u32,
}

impl WordSource {
    pub(super) const fn of(params: &Params) -> Self {
        Self { key: mix64(params.seed()) as u32 }
    }

    /// The word of a key for a retry.
    #[inline(always)]
    pub(super) const fn word(self, hash: u64, retry: u32) -> u32 {
        let x = (hash as u32 ^ self.key).wrapping_mul(multiplier(retry));
        (x ^ x >> 15).wrapping_mul(FINAL_32)
    }
}

/// The first multiplier of words: odd, and different for each retry.
#[inline(always)]
pub(super) const fn multiplier(retry: u32) -> u32 {
    MULTIPLIER_32.wrapping_add(retry.wrapping_mul(SEED_STEP_32))
}

/// Whether a key with this word uses half `i1`.
#[inline(always)]
pub(super) const fn uses_first(word: u32) -> bool {
    word >> 31 == 1
}

/// The array cell that a word selects under a half.
#[inline(always)]
pub(super) const fn position(word: u32, half: u32) -> u32 {
    let chosen = word & (HALVES | half).wrapping_mul(0x0101_0100);
    (chosen >> 24).count_ones() & 1
        | ((chosen >> 16 & 0xFF).count_ones() & 1) << 1
        | ((chosen >> 8 & 0xFF).count_ones() & 1) << 2
}

/// The field that stores a solution.
#[inline(always)]
pub(super) const fn field(index: u32, array: u8) -> u64 {
    (index | (array as u32) << INDEX_BITS) as u64
}

/// Whether the first field of a group marks it as unsolved.
#[inline(always)]
pub(super) const fn is_marked(field: u64) -> bool {
    field as u32 & MARKER == MARKER
}

/// The bit that a field returns for a key.
#[inline(always)]
pub(super) const fn cell(field: u64, words: WordSource, hash: u64) -> u8 {
    let index = field as u32 & MARKER;
    let word = words.word(hash, index >> 12);
    let half = if uses_first(word) { index >> 6 } else { index } & (HALVES - 1);
    (field >> INDEX_BITS >> position(word, half)) as u8 & 1
}

/// The value that these fields return for a key.
pub(super) fn evaluate(fields: &Fields, hash: u64, params: &Params) -> u8 {
    let words = WordSource::of(params);
    let bits = fields.iter().take(params.value_bits().into());
    bits.rev().fold(0, |value, &field| value << 1 | cell(field, words, hash))
}
