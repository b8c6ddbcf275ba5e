//! The paper's family: many indices of one group at once, one byte each.
//!
//! Bytes hold the positions of consecutive indices, and by a table look-up the cell they name as one bit of eight. Keys
//! are sorted by their value: the cells of all keys of one value are one OR, and two value bits are four of them, from
//! which it follows who asks 0 and who asks 1 of each bit. So two bits cost hardly more than one; wider values are
//! solved two bits at a time.
#![allow(unsafe_code)]

use super::Form;
use crate::setsep::geometry::Family;
use crate::setsep::paper::{self, index_bits, marker, position_bits};
use crate::setsep::params::Params;
use crate::setsep::solver::Fields;

/// Most keys of a group that is solved here; more have a solution only by very equal values.
const MOST_KEYS: usize = 32;

/// Vectors of 16-bit sums and of bytes.
pub(super) trait Lanes: Copy {
    /// One register.
    type Vector: Copy;
    /// Bytes of a vector: indices tried at once.
    const LANES: u32;
    /// The same two 16-bit numbers in all pairs of lanes.
    fn splat(self, twice: u32) -> Self::Vector;
    /// 0, 2, 4 and so on.
    fn evens(self) -> Self::Vector;
    /// A table from four bits to a byte.
    fn table(self, table: [u8; 16]) -> Self::Vector;
    /// Sums of 16 bits.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Low halves of products of 16 bits.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The upper half of each sum, as `lookup` wants it: of `even` in even bytes, of `odd` in odd ones.
    fn tops(self, even: Self::Vector, odd: Self::Vector) -> Self::Vector;
    /// The table's byte for the top four of each sum's lower 15 bits.
    fn lookup(self, table: Self::Vector, tops: Self::Vector) -> Self::Vector;
    /// The lanes in which the two have no bit in common.
    fn disjoint(self, a: Self::Vector, b: Self::Vector) -> u64;
    /// One lane.
    fn byte(self, a: Self::Vector, lane: u32) -> u8;
}

/// A vector form of [`paper::solve`].
pub(super) fn solve(form: Form, hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    if hashes.len() > MOST_KEYS {
        return paper::solve(hashes, values, params);
    }
    match form {
        Form::Portable => paper::solve(hashes, values, params),
        // SAFETY: the proof says that the processor has the instructions.
        Form::Avx2(proof) => unsafe { with_avx2(proof, hashes, values, params) },
        // SAFETY: as above.
        Form::Avx512(proof) | Form::Avx512Gfni(proof, _) => unsafe {
            with_avx512(proof, hashes, values, params)
        },
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn with_avx2(proof: super::Avx2, hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    all_bits(proof, hashes, values, params)
}

#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn with_avx512(proof: super::Avx512, hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    all_bits(proof, hashes, values, params)
}

/// One group.
#[derive(Debug, Clone, Copy)]
struct Group<'a> {
    hashes: &'a [u64],
    values: &'a [u8],
    params: &'a Params,
}

/// Two value bits at a time.
#[inline(always)]
fn all_bits<M: Lanes>(machine: M, hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    let mut fields = [0; 8];
    let group = Group { hashes, values, params };
    for first in (0..params.value_bits()).step_by(2) {
        let pair = params.value_bits() - first > 1;
        match (pair, position_bits(params.format())) {
            (false, 3) => pass::<M, 1, 2, 1>(machine, group, first, &mut fields)?,
            (true, 3) => pass::<M, 2, 4, 1>(machine, group, first, &mut fields)?,
            (false, _) => pass::<M, 1, 2, 2>(machine, group, first, &mut fields)?,
            (true, _) => pass::<M, 2, 4, 2>(machine, group, first, &mut fields)?,
        }
    }
    Some(fields)
}

/// The keys of a group, sorted by the value bits that are searched. All numbers have 15 bits and stand in a word twice,
/// so that two are added at once and one load fills a vector.
struct Sorted<V, const CLASSES: usize> {
    /// `i · G2` for the even lanes `i`.
    evens: [V; MOST_KEYS],
    /// `G2`, by which odd lanes differ from even ones.
    odds: [u32; MOST_KEYS],
    /// `G1 + i · G2` of the first index `i` in hand.
    bases: [u32; MOST_KEYS],
    /// What to add to get to the next vector of indices.
    steps: [u32; MOST_KEYS],
    /// Where the keys of each value end.
    ends: [usize; CLASSES],
}

/// The top 15 bits of a word, twice.
const fn twice(word: u32) -> u32 {
    (word >> 17) * 0x1_0001
}

impl<V: Copy, const CLASSES: usize> Sorted<V, CLASSES> {
    #[inline(always)]
    fn new<M: Lanes<Vector = V>>(machine: M, group: Group<'_>, first: u8, index: u32) -> Self {
        let mut places = [0; CLASSES];
        for &value in group.values {
            places[usize::from(value >> first) % CLASSES] += 1;
        }
        let mut begin = 0;
        for place in &mut places {
            begin += std::mem::replace(place, begin);
        }
        let evens = [machine.splat(0); MOST_KEYS];
        let zeros = [0; MOST_KEYS];
        let mut sorted = Self { evens, odds: zeros, bases: zeros, steps: zeros, ends: [0; CLASSES] };
        for (&hash, &value) in group.hashes.iter().zip(group.values) {
            let (g1, g2) = Family::of(hash, group.params.seed()).halves(u32::from(index != 0));
            let place = &mut places[usize::from(value >> first) % CLASSES];
            let at = *place % MOST_KEYS;
            *place += 1;
            sorted.odds[at] = twice(g2);
            sorted.bases[at] = twice(g1.wrapping_add(index.wrapping_mul(g2)));
            sorted.steps[at] = twice(g2.wrapping_mul(M::LANES));
            sorted.evens[at] = machine.mul(machine.evens(), machine.splat(twice(g2)));
        }
        sorted.ends = places;
        sorted
    }

    /// The cells that the keys of each value name, for all indices in hand.
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
                let even = machine.add(self.evens[at], machine.splat(self.bases[at]));
                let odd = machine.add(even, machine.splat(self.odds[at]));
                let tops = machine.tops(even, odd);
                for (all, &table) in all.iter_mut().zip(tables) {
                    *all = machine.or(*all, machine.lookup(table, tops));
                }
                at += 1;
            }
            *named = all;
        }
        named
    }

    /// Takes the next indices in hand.
    #[inline(always)]
    fn advance(&mut self) {
        for (base, step) in self.bases.iter_mut().zip(&self.steps) {
            *base = (*base + *step) & 0x7FFF_7FFF;
        }
    }
}

/// The table from the top four bits of a sum to its cell, one bit of this byte of the array.
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
    for half in [0..last.div_ceil(2), last.div_ceil(2)..last] {
        let mut keys = Sorted::<M::Vector, CLASSES>::new(machine, group, first, half.start);
        for index in half.step_by(M::LANES as usize) {
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
    }
    None
}

/// The cells asked to be 0 and to be 1 by a bit of the keys' values.
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
