//! The paper's family: tests many indices of one group at once, one byte per index.
//!
//! Bytes hold the positions of consecutive indices. A table look-up turns a position into its cell as one bit
//! of eight. Keys are sorted by value. The cells of all keys of one value are one OR, and two value bits need
//! four of them, from which follows which cells must be 0 and which 1 for each bit. So two bits cost hardly
//! more than one. Wider values are solved two bits at a time, or with [`SearchBits::Together`]: up to four
//! bits share the sums of an index.
#![allow(unsafe_code)]

use super::{Form, SearchBits};
use crate::setsep::geometry::Family;
use crate::setsep::paper::{self, index_bits, marker, position_bits};
use crate::setsep::params::Params;
use crate::setsep::solver::Fields;

/// The maximum number of keys of a group that is solved here. A larger group has a solution only if its
/// values are nearly all equal.
const MOST_KEYS: usize = 32;

/// Vectors of 32-bit sums, and of bytes.
pub(super) trait Lanes: Copy {
    /// One vector register.
    type Vector: Copy;
    /// Bytes per vector: the number of indices tried at once, computed from four vectors of sums.
    const LANES: u32;
    /// The same word in all lanes.
    fn splat(self, word: u32) -> Self::Vector;
    /// The lanes 0, 4, 8 and so on.
    fn fours(self) -> Self::Vector;
    /// A lookup table from four bits to a byte.
    fn table(self, table: [u8; 16]) -> Self::Vector;
    /// 32-bit sums.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Low halves of 32-bit products.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The top four bits of each sum, in the order that `lookup` needs: those of the first vector in the
    /// lowest bytes of words, and so on.
    fn tops(self, sums: [Self::Vector; 4]) -> Self::Vector;
    /// The table's byte for each four-bit number.
    fn lookup(self, table: Self::Vector, tops: Self::Vector) -> Self::Vector;
    /// The lanes in which the two vectors have no bit in common.
    fn disjoint(self, a: Self::Vector, b: Self::Vector) -> u64;
    /// One lane.
    fn byte(self, a: Self::Vector, lane: u32) -> u8;
}

/// A vector form of [`paper::solve`].
pub(super) fn solve(
    form: Form,
    bits: SearchBits,
    hashes: &[u64],
    values: &[u8],
    params: &Params,
) -> Option<Fields> {
    let group = Group { hashes, values, params, at_once: bits.at_once() };
    if hashes.len() > MOST_KEYS {
        return paper::solve(hashes, values, params);
    }
    match form {
        Form::Portable => paper::solve(hashes, values, params),
        // SAFETY: the proof guarantees that the processor has the instructions.
        Form::Avx2(proof) => unsafe { with_avx2(proof, group) },
        // SAFETY: as above.
        Form::Avx512(proof) | Form::Avx512Gfni(proof, _) => unsafe { with_avx512(proof, group) },
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn with_avx2(proof: super::Avx2, group: Group<'_>) -> Option<Fields> {
    all_bits(proof, group)
}

#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn with_avx512(proof: super::Avx512, group: Group<'_>) -> Option<Fields> {
    all_bits(proof, group)
}

/// One group.
#[derive(Debug, Clone, Copy)]
struct Group<'a> {
    hashes: &'a [u64],
    values: &'a [u8],
    params: &'a Params,
    /// Number of value bits that share the sums of an index.
    at_once: u8,
}

/// Solves all value bits, the configured number at a time.
#[inline(always)]
fn all_bits<M: Lanes>(machine: M, group: Group<'_>) -> Option<Fields> {
    let (mut fields, value_bits) = ([0; 8], group.params.value_bits());
    let is_short = position_bits(group.params.format()) == 3;
    for first in (0..value_bits).step_by(group.at_once.into()) {
        match (group.at_once.min(value_bits - first), is_short) {
            (1, true) => pass::<M, 1, 2, 1>(machine, group, first, &mut fields)?,
            (2, true) => pass::<M, 2, 4, 1>(machine, group, first, &mut fields)?,
            (3, true) => pass::<M, 3, 8, 1>(machine, group, first, &mut fields)?,
            (_, true) => pass::<M, 4, 16, 1>(machine, group, first, &mut fields)?,
            (1, false) => pass::<M, 1, 2, 2>(machine, group, first, &mut fields)?,
            (2, false) => pass::<M, 2, 4, 2>(machine, group, first, &mut fields)?,
            (3, false) => pass::<M, 3, 8, 2>(machine, group, first, &mut fields)?,
            (_, false) => pass::<M, 4, 16, 2>(machine, group, first, &mut fields)?,
        }
    }
    Some(fields)
}

/// The keys of a group, sorted by the value bits that are searched.
struct Sorted<V, const CLASSES: usize> {
    /// `i · G2` for each fourth lane `i`.
    fours: [V; MOST_KEYS],
    /// `G2`, the difference between consecutive lanes.
    ones: [u32; MOST_KEYS],
    /// `G1 + i · G2` for the first index `i` of the current vector.
    bases: [u32; MOST_KEYS],
    /// What to add to advance to the next vector of indices.
    steps: [u32; MOST_KEYS],
    /// Where the keys of each value end.
    ends: [usize; CLASSES],
}

impl<V: Copy, const CLASSES: usize> Sorted<V, CLASSES> {
    #[inline(always)]
    fn new<M: Lanes<Vector = V>>(machine: M, group: Group<'_>, first: u8) -> Self {
        let mut places = [0; CLASSES];
        for &value in group.values {
            places[usize::from(value >> first) % CLASSES] += 1;
        }
        let mut begin = 0;
        for place in &mut places {
            begin += std::mem::replace(place, begin);
        }
        let fours = [machine.splat(0); MOST_KEYS];
        let zeros = [0; MOST_KEYS];
        let mut sorted = Self { fours, ones: zeros, bases: zeros, steps: zeros, ends: [0; CLASSES] };
        for (&hash, &value) in group.hashes.iter().zip(group.values) {
            let Family { g1, g2 } = Family::of(hash, group.params.seed());
            let place = &mut places[usize::from(value >> first) % CLASSES];
            let at = *place % MOST_KEYS;
            *place += 1;
            sorted.ones[at] = g2;
            sorted.bases[at] = g1;
            sorted.steps[at] = g2.wrapping_mul(M::LANES);
            sorted.fours[at] = machine.mul(machine.fours(), machine.splat(g2));
        }
        sorted.ends = places;
        sorted
    }

    /// The cells that the keys of each value select, for all current indices.
    #[inline(always)]
    fn named<M: Lanes<Vector = V>, const BYTES: usize>(
        &self,
        machine: M,
        tables: &[M::Vector; BYTES],
    ) -> [[V; BYTES]; CLASSES] {
        let mut at = 0;
        let mut named = [[machine.splat(0); BYTES]; CLASSES];
        for (named, &end) in named.iter_mut().zip(&self.ends) {
            let mut all = *named;
            while at < end.min(MOST_KEYS) {
                let (base, one) = (machine.splat(self.bases[at]), machine.splat(self.ones[at]));
                let first = machine.add(self.fours[at], base);
                let second = machine.add(first, one);
                let third = machine.add(second, one);
                let tops = machine.tops([first, second, third, machine.add(third, one)]);
                for (all, &table) in all.iter_mut().zip(tables) {
                    *all = machine.or(*all, machine.lookup(table, tops));
                }
                at += 1;
            }
            *named = all;
        }
        named
    }

    /// Advances to the next indices.
    #[inline(always)]
    fn advance(&mut self) {
        for (base, step) in self.bases.iter_mut().zip(&self.steps) {
            *base = base.wrapping_add(*step);
        }
    }
}

/// The table from the top four bits of a sum to its cell, as one bit of byte `byte` of the array.
const fn cells(bytes: usize, byte: usize) -> [u8; 16] {
    let mut table = [0; 16];
    let mut nibble = 0;
    while nibble < 16 {
        let position = if bytes == 1 { nibble / 2 } else { nibble };
        table[nibble] = (1_u32 << position >> (8 * byte)) as u8;
        nibble += 1;
    }
    table
}

/// The lowest index of each of `BITS` value bits from `first` on, for arrays of `BYTES` bytes.
#[inline(always)]
fn pass<M: Lanes, const BITS: usize, const CLASSES: usize, const BYTES: usize>(
    machine: M,
    group: Group<'_>,
    first: u8,
    fields: &mut Fields,
) -> Option<()> {
    let last = marker(group.params.format()) as u32;
    let mut tables = [machine.table([0; 16]); BYTES];
    for (byte, table) in tables.iter_mut().enumerate() {
        *table = machine.table(cells(BYTES, byte));
    }
    let mut open = (1_usize << BITS) - 1;
    let mut keys = Sorted::<M::Vector, CLASSES>::new(machine, group, first);
    for index in (0..last).step_by(M::LANES as usize) {
        let named = keys.named(machine, &tables);
        for bit in 0..BITS {
            let (zeros, ones) = asks::<M, CLASSES, BYTES>(machine, &named, bit);
            let mut works = u64::MAX;
            for (&zeros, &ones) in zeros.iter().zip(&ones) {
                works &= machine.disjoint(zeros, ones);
            }
            let lane = works.trailing_zeros();
            if open >> bit & 1 == 1 && works != 0 && index + lane < last {
                let mut field = 0;
                for &ones in ones.iter().rev() {
                    field = field << 8 | u64::from(machine.byte(ones, lane));
                }
                field = field << index_bits(group.params.format()) | u64::from(index + lane);
                fields[usize::from(first) + bit] = field;
                open &= !(1 << bit);
            }
        }
        if open == 0 {
            return Some(());
        }
        keys.advance();
    }
    None
}

/// The cells that one bit of the keys' values requires to be 0, and those it requires to be 1.
#[inline(always)]
fn asks<M: Lanes, const CLASSES: usize, const BYTES: usize>(
    machine: M,
    named: &[[M::Vector; BYTES]; CLASSES],
    bit: usize,
) -> ([M::Vector; BYTES], [M::Vector; BYTES]) {
    let mut asks = [[machine.splat(0); BYTES]; 2];
    for (class, named) in named.iter().enumerate() {
        for (all, &named) in asks[class >> bit & 1].iter_mut().zip(named) {
            *all = machine.or(*all, named);
        }
    }
    (asks[0], asks[1])
}
