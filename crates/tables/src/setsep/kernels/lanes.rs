//! Sixteen systems of linear equations over GF(2), solved side by side.
//!
//! Lane `g` of row `r` is the equation of group `g`'s key `r`: the key's row in the low `columns` bits, its
//! value above them. Gauss-Jordan elimination processes each row in turn. It makes the row's lowest set bit
//! the *pivot*, and adds the row to every other row that has this bit. In the end each pivot is set in one
//! row only. With the free columns 0, that row's value is the pivot's bit in the solution.
//!
//! Lanes have their pivots in different places, but the code does not branch on them:
//! * the pivot of a row `p` is `q = p & -p`;
//! * "add `p` to `x` if `x` has bit `q`" is `x ^= p & -(x & q)`, because `-(x & q)` is 0 or has every bit
//!   from `q` up set, and `p` has none below: three or four plain instructions per row for all lanes;
//! * a row that is zero (its key depends on others, or the group has fewer keys) has no pivot and adds
//!   nothing;
//! * "0 = 1" is a row with only value bits: its lowest set bit lies above the columns. It never changes
//!   again, so one test at the end finds it;
//! * a finished row's pivot is still its lowest set bit, so pivots are not stored.
//!
//! Elimination costs the square of the load, and very little per value bit. Forward elimination followed by
//! back substitution would halve the square, but each substitution must wait for the parity before it, for
//! each value bit.
//!
//! Two pivots are processed at a time, which halves the passes over the rows: once they have been eliminated
//! from each other, what each adds to a third row does not depend on the other. AVX-512 has enough registers
//! for a whole system of [`Format::Linear`](super::super::format::Format) and keeps it there, one pivot at a
//! time.

use super::AvailableIsa;
use super::{super::linear, portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::isa::Isa;

/// Number of groups solved side by side.
pub(in crate::setsep) const LANES: usize = 16;

/// Number of value bits eliminated together with the rows.
pub(super) const BITS_AT_ONCE: usize = 4;

/// The solution of each value bit in each lane.
pub(in crate::setsep) type Vectors<W> = [[W; LANES]; BITS_AT_ONCE];

/// Sixteen systems of equations.
pub(in crate::setsep) struct Batch<'a, W> {
    /// For each row and lane, the input from which the key's row is computed.
    pub(super) hashes: &'a [[W; LANES]],
    /// For each row and lane, the key's value; bits above those that fit a word are ignored. It has as many
    /// rows as `hashes`.
    pub(super) values: &'a [[u8; LANES]],
    /// Number of equations in each lane; later rows are ignored.
    pub(super) loads: &'a [u8; LANES],
    /// The [`Word::multiplier`] of each lane's seed.
    pub(super) multipliers: &'a [W; LANES],
    /// Key of the row hash.
    pub(super) key: W,
    /// Number of unknowns.
    pub(super) columns: u32,
    /// Number of low value bits to skip.
    pub(super) shift: u32,
}

/// A field as stored: `u32` in format Linear, `u64` in format Dense.
pub(in crate::setsep) trait Word:
    Copy + Default + Into<u64> + std::fmt::Debug + 'static
{
    /// Bits per word, and the maximum number of equations of a system.
    const ROWS: usize;

    /// Truncates to the low bits.
    fn from_low(bits: u64) -> Self;

    /// The multiplier of keys under a seed.
    fn multiplier(seed: u32) -> Self;

    /// Packs fields into words, the lowest first.
    fn pack(fields: &[Self], words: &mut [u64]);

    /// Returns the lanes that have a solution, and writes the solutions. Lanes without a solution contain
    /// arbitrary data.
    ///
    /// `batch` has at most [`ROWS`](Self::ROWS) rows.
    fn solve(present: AvailableIsa, batch: &Batch<'_, Self>, vectors: &mut Vectors<Self>) -> u16;
}

macro_rules! word {
    ($word:ident, $multiplier:ident, $step:ident, $pack:ident) => {
        impl Word for $word {
            const ROWS: usize = Self::BITS as usize;

            fn from_low(bits: u64) -> Self {
                bits as Self
            }

            fn multiplier(seed: u32) -> Self {
                linear::$multiplier.wrapping_add(Self::from(seed).wrapping_mul(linear::$step))
            }

            #[inline(always)]
            fn pack(fields: &[Self], words: &mut [u64]) {
                $pack(fields, words);
            }

            #[cfg_attr(target_arch = "x86_64", allow(unsafe_code, reason = "see SAFETY"))]
            fn solve(present: AvailableIsa, batch: &Batch<'_, Self>, vectors: &mut Vectors<Self>) -> u16 {
                match present.isa() {
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: `AvailableIsa` holds only instruction sets detected on this processor.
                    Isa::Avx512 | Isa::Avx512Gfni => unsafe { avx512::$word(batch, vectors) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as above.
                    Isa::Avx2 => unsafe { avx2::$word(batch, vectors) },
                    _ => portable::$word(batch, vectors),
                }
            }
        }
    };
}
word!(u32, MULTIPLIER_32, SEED_STEP_32, pack_pairs);
word!(u64, MULTIPLIER_64, SEED_STEP_64, pack_words);

#[inline(always)]
fn pack_pairs(fields: &[u32], words: &mut [u64]) {
    let (pairs, rest) = fields.as_chunks::<2>();
    for (word, &[low, high]) in words.iter_mut().zip(pairs) {
        *word = u64::from(low) | u64::from(high) << 32;
    }
    if let ([last], Some(word)) = (rest, words.get_mut(pairs.len())) {
        *word = u64::from(*last);
    }
}

#[inline(always)]
fn pack_words(fields: &[u64], words: &mut [u64]) {
    words[..fields.len()].copy_from_slice(fields);
}

/// The elimination, written once for all instruction sets. `$ops` is a module with a vector type of `WIDTH`
/// lanes and its operations.
macro_rules! gauss_jordan {
    ($(#[$attribute:meta])* $name:ident, $word:ty, $ops:ident) => {
        $(#[$attribute])*
        pub(super) fn $name(batch: &Batch<'_, $word>, vectors: &mut Vectors<$word>) -> u16 {
            const ROWS: usize = <$word as Word>::ROWS;
            let mut solved = 0;
            for part in 0..LANES / $ops::WIDTH {
                let multiplier = $ops::load(batch.multipliers, part);
                let key = $ops::splat(batch.key);
                let load = $ops::widen(batch.loads, part);
                let mut rows = [$ops::zero(); ROWS];
                let keys = batch.hashes.iter().zip(batch.values);
                for (at, (row, (hashes, values))) in (0..).zip(rows.iter_mut().zip(keys)) {
                    let hash = $ops::xor($ops::load(hashes, part), key);
                    let value = $ops::right($ops::widen(values, part), batch.shift);
                    let bits = $ops::hash(hash, multiplier, batch.columns);
                    let equation = $ops::or(bits, $ops::left(value, batch.columns));
                    *row = $ops::if_less($ops::splat(at), load, equation);
                }
                let rows = &mut rows[..batch.hashes.len().next_multiple_of(2)];
                for at in (0..rows.len()).step_by(2) {
                    let (first, second) = (rows[at], rows[at + 1]);
                    let first_pivot = $ops::lowest(first);
                    let second = $ops::add_if(second, second, first_pivot, first);
                    let second_pivot = $ops::lowest(second);
                    let first = $ops::add_if(first, first, second_pivot, second);
                    for row in &mut *rows {
                        let half = $ops::add_if(*row, *row, first_pivot, first);
                        *row = $ops::add_if(half, *row, second_pivot, second);
                    }
                    (rows[at], rows[at + 1]) = (first, second); // they were added to themselves
                }
                let mut pivots = $ops::zero();
                let mut solution = [$ops::zero(); BITS_AT_ONCE];
                for &row in &*rows {
                    let pivot = $ops::lowest(row);
                    pivots = $ops::or(pivots, pivot);
                    for (bit, vector) in (batch.columns..).zip(&mut solution) {
                        *vector = $ops::or_if_bit(*vector, row, bit, pivot);
                    }
                }
                for (vector, lanes) in solution.into_iter().zip(&mut *vectors) {
                    $ops::store(lanes, part, vector);
                }
                solved |= $ops::zeros($ops::right(pivots, batch.columns)) << (part * $ops::WIDTH);
            }
            solved
        }
    };
}
pub(super) use gauss_jordan;
