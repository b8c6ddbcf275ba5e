//! Groups as hash functions found by search, of a family made for vector instructions.
//!
//! As in [`paper`](super::paper) a group stores, for each value bit, the index of a hash function and an array of
//! eight cells; a key's bit is the cell that the function names. An index works when no cell is asked to be 0 by one
//! key and 1 by another. What differs is the family: the 16 bits of an index are a *retry* of 4 bits and two *halves*
//! `i1`, `i2` of 6. For each retry a key has a pseudo-random word that says
//! * which half it uses: `i1` if bit 31 is set, else `i2`;
//! * three rows of 7 bits, in the low bits of bytes 3, 2 and 1: bit `b` of the position is the parity of byte `3 - b`
//!   AND (64 + half). So positions are linear over GF(2) in the half, plus a constant that the 64 brings in.
//!
//! Linearity lets one instruction, or a few words of bits, tell the positions under all 64 halves. And as each key
//! depends on one half only, the 4096 functions of a retry need not be tried one by one: 64 are evaluated for the keys
//! of either half, and any two that ask no cell for opposite values make a solution.
//!
//! The canonical index is the lowest that works, of each value bit for itself: the lowest (retry, i1, i2). Cells that
//! no key names are 0. A group of more than [`MOST_KEYS`] keys is never solved.

use super::geometry::mix64;
use super::linear::{FINAL_32, MULTIPLIER_32, SEED_STEP_32};
use super::params::Params;
use super::solver::Fields;

/// Most keys a group can have to be solved.
pub(super) const MOST_KEYS: usize = 32;
/// Words a key has, and values of the upper four bits of an index.
pub(super) const RETRIES: u32 = 16;
/// Values of half an index.
pub(super) const HALVES: u32 = 64;
/// The index that marks a group as unsolved; solutions use only smaller ones.
pub(super) const MARKER: u32 = 0xFFFF;
/// Bits of an index.
const INDEX_BITS: u32 = 16;

/// Where the keys' words come from: the low half of the hash and the table's seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordSource {
    pub(super) key: u32,
}

impl WordSource {
    pub(super) const fn of(params: &Params) -> Self {
        Self { key: mix64(params.seed()) as u32 }
    }

    /// The word of a key.
    #[inline(always)]
    pub(super) const fn word(self, hash: u64, retry: u32) -> u32 {
        let x = (hash as u32 ^ self.key).wrapping_mul(multiplier(retry));
        (x ^ x >> 15).wrapping_mul(FINAL_32)
    }
}

/// What words are multiplied by first: odd, different for each retry.
#[inline(always)]
pub(super) const fn multiplier(retry: u32) -> u32 {
    MULTIPLIER_32.wrapping_add(retry.wrapping_mul(SEED_STEP_32))
}

/// Whether a key of this word uses half `i1`.
#[inline(always)]
pub(super) const fn uses_first(word: u32) -> bool {
    word >> 31 == 1
}

/// The array cell that a word names under a half.
#[inline(always)]
pub(super) const fn position(word: u32, half: u32) -> u32 {
    let chosen = word & (HALVES | half).wrapping_mul(0x0101_0100);
    (chosen >> 24).count_ones() & 1
        | ((chosen >> 16 & 0xFF).count_ones() & 1) << 1
        | ((chosen >> 8 & 0xFF).count_ones() & 1) << 2
}

/// The field of a solution.
#[inline(always)]
pub(super) const fn field(index: u32, array: u8) -> u64 {
    (index | (array as u32) << INDEX_BITS) as u64
}

/// Whether the first field of a group marks it as unsolved.
#[inline(always)]
pub(super) const fn is_marked(field: u64) -> bool {
    field as u32 & MARKER == MARKER
}

/// The bit that a field gives a key.
#[inline(always)]
pub(super) const fn cell(field: u64, words: WordSource, hash: u64) -> u8 {
    let index = field as u32 & MARKER;
    let word = words.word(hash, index >> 12);
    let half = if uses_first(word) { index >> 6 } else { index } & (HALVES - 1);
    (field >> INDEX_BITS >> position(word, half)) as u8 & 1
}

/// The value these fields give a key.
pub(super) fn evaluate(fields: &Fields, hash: u64, params: &Params) -> u8 {
    let words = WordSource::of(params);
    let bits = fields.iter().take(params.value_bits().into());
    bits.rev().fold(0, |value, &field| value << 1 | cell(field, words, hash))
}
