//! Groups as hash functions found by search, as in the paper (§4.2).
//!
//! For each value bit, a group stores an index `i` and an array. A key's bit is the array cell selected by
//! the top bits of `H_i(key)`. An index works if no cell must be 0 for one key and 1 for another. The lowest
//! index that works is stored, and cells that no key selects are 0. So a group's bits are a function of its
//! keys and values alone.
//!
//! All value bits are tested at once. The masks "some key needs 1 here" and "some key needs 0 here" of up to
//! eight arrays lie side by side in one word, and one shift adds a key to all of them. The search abandons an
//! index as soon as every array that is still open has a cell in both masks.
//!
//! [`solve`] is the reference that every other kernel must equal bit for bit.

use super::format::Format;
use super::geometry::Family;
use super::params::Params;
use super::solver::Fields;
use std::ops::{BitAnd, BitOr, Shl};

/// Bits of the hash index.
pub(super) const fn index_bits(format: Format) -> u32 {
    match format {
        Format::Paper8x16 => 8,
        _ => 16,
    }
}

/// Bits of the hash that select an array cell.
pub(super) const fn position_bits(format: Format) -> u32 {
    match format {
        Format::Paper16x8 | Format::Brute => 3,
        _ => 4,
    }
}

/// The index that marks a group as unsolved; solutions use only smaller indices.
pub(super) const fn marker(format: Format) -> u64 {
    (1 << index_bits(format)) - 1
}

/// The canonical fields of a group, or `None` if some value bit has no index that works.
///
/// Cost: for 16 keys, 8 cells and one value bit about 580 indices; most are abandoned after 4 to 8 keys.
pub(super) fn solve(hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    match (params.format(), params.value_bits()) {
        (Format::Paper16x8, ..=4) => search::<JointMasks, 3>(hashes, values, params),
        (Format::Paper16x8, _) => search::<SplitMasks<u64>, 3>(hashes, values, params),
        (_, ..=2) => search::<JointMasks, 4>(hashes, values, params),
        (_, ..=4) => search::<SplitMasks<u64>, 4>(hashes, values, params),
        _ => search::<SplitMasks<u128>, 4>(hashes, values, params),
    }
}

/// A word that holds several arrays side by side.
trait Word: Copy + PartialEq + Shl<u32, Output = Self> + BitOr<Output = Self> + BitAnd<Output = Self> {
    const BITS: u32;
    const ZERO: Self;
    const ONE: Self;
    /// Whether a lane of this word is zero; `lows` and `highs` are the lowest and highest bits of all lanes.
    fn has_zero_lane(self, lows: Self, highs: Self) -> bool;
    /// 32 bits from bit position `at` on.
    fn bits_at(self, at: u32) -> u32;
}

macro_rules! words {
    ($($word:ty)*) => {$(
        impl Word for $word {
            const BITS: u32 = Self::BITS;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn has_zero_lane(self, lows: Self, highs: Self) -> bool {
                self.wrapping_sub(lows) & !self & highs != 0
            }
            #[inline(always)]
            fn bits_at(self, at: u32) -> u32 {
                (self >> at) as u32
            }
        }
    )*};
}
words!(u64 u128);

/// The two masks of all arrays: cells that some key needs to be 1, and cells that some key needs to be 0.
trait ArrayMasks: Copy {
    type Word: Word;
    fn new(ones: Self::Word, zeros: Self::Word) -> Self;
    /// Adds what a key requires, shifted to its array cell.
    fn add(&mut self, ask: Self, position: u32);
    fn ones(self) -> Self::Word;
    fn conflicts(self) -> Self::Word;
}

/// Both masks in one word, zeros above ones. It halves the number of shifts, for up to 32 cells in total.
#[derive(Clone, Copy)]
struct JointMasks(u64);

impl ArrayMasks for JointMasks {
    type Word = u64;
    #[inline(always)]
    fn new(ones: u64, zeros: u64) -> Self {
        Self(ones | zeros << 32)
    }
    #[inline(always)]
    fn add(&mut self, ask: Self, position: u32) {
        self.0 |= ask.0 << position;
    }
    #[inline(always)]
    fn ones(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }
    #[inline(always)]
    fn conflicts(self) -> u64 {
        self.0 & (self.0 >> 32)
    }
}

/// One word per mask.
#[derive(Clone, Copy)]
struct SplitMasks<W>(W, W);

impl<W: Word> ArrayMasks for SplitMasks<W> {
    type Word = W;
    #[inline(always)]
    fn new(ones: W, zeros: W) -> Self {
        Self(ones, zeros)
    }
    #[inline(always)]
    fn add(&mut self, ask: Self, position: u32) {
        (self.0, self.1) = (self.0 | ask.0 << position, self.1 | ask.1 << position);
    }
    #[inline(always)]
    fn ones(self) -> W {
        self.0
    }
    #[inline(always)]
    fn conflicts(self) -> W {
        self.0 & self.1
    }
}

/// Number of keys added between two tests of the masks.
const STRIDE: usize = 4;
/// Number of indices tried on the first keys at once: one bit per index in a word.
const INDICES: u32 = u64::BITS;

/// A word with bit 0 set in each lane whose bit is set in `set`.
fn lanes<W: Word>(set: u32, cells: u32) -> W {
    let lanes = (0..W::BITS / cells).filter(|lane| set >> lane & 1 == 1);
    lanes.fold(W::ZERO, |word, lane| word | W::ONE << (lane * cells))
}

/// The search over arrays of 2^`POSITION` cells.
fn search<M: ArrayMasks, const POSITION: u32>(
    hashes: &[u64],
    values: &[u8],
    params: &Params,
) -> Option<Fields> {
    let (format, value_bits) = (params.format(), params.value_bits());
    let last = marker(format) as u32;
    let cells = 1u32 << POSITION;
    let array_mask = (1u32 << cells) - 1;
    let mut open = (1u32 << value_bits) - 1;
    // Set in arrays that are solved or do not exist, so that only open arrays keep an index in the search.
    let mut closed = lanes::<M::Word>(!open, cells);
    let lows = lanes::<M::Word>(u32::MAX, cells);
    let highs = lows << (cells - 1);

    // What each key requires of cell 0. Shifting it by the key's position requires it of that cell in every
    // array. The last stride is padded with keys that require nothing.
    let nothing = M::new(M::Word::ZERO, M::Word::ZERO);
    let mut asks: Vec<(Family, M)> = Vec::with_capacity(hashes.len().next_multiple_of(STRIDE));
    for (&hash, &value) in hashes.iter().zip(values) {
        let value = u32::from(value);
        let ask = M::new(lanes(value & open, cells), lanes(!value & open, cells));
        asks.push((Family::of(hash, params.seed()), ask));
    }
    asks.resize(asks.len().next_multiple_of(STRIDE), (Family::of(0, 0), nothing));
    let head_strides = if value_bits <= 2 { 2 } else { 3 };
    let (head, tail) = asks.split_at(asks.len().min(head_strides * STRIDE));
    let add = |masks: &mut M, keys: &[(Family, M)], index: u32| {
        for &(family, ask) in keys {
            masks.add(ask, family.position(index, POSITION));
        }
    };

    let mut fields = [0; 8];
    let (mut first, mut survivors) = (0, 0u64);
    'index: loop {
        // A branch predictor cannot predict at which key an index fails. So the first keys are tried on many
        // indices without a branch, and only the few indices that survive continue.
        while survivors == 0 {
            if first >= last {
                return None;
            }
            for lane in 0..INDICES.min(last - first) {
                let mut masks = nothing;
                add(&mut masks, head, first + lane);
                let survives = (masks.conflicts() | closed).has_zero_lane(lows, highs);
                survivors |= u64::from(survives) << lane;
            }
            first += INDICES;
        }
        let index = first - INDICES + survivors.trailing_zeros();
        survivors &= survivors - 1;
        let mut masks = nothing;
        add(&mut masks, head, index);
        for stride in tail.chunks_exact(STRIDE) {
            if !(masks.conflicts() | closed).has_zero_lane(lows, highs) {
                continue 'index;
            }
            add(&mut masks, stride, index);
        }
        for bit in 0..u32::from(value_bits) {
            if open >> bit & 1 == 1 && masks.conflicts().bits_at(bit * cells) & array_mask == 0 {
                let array = masks.ones().bits_at(bit * cells) & array_mask;
                fields[bit as usize] = u64::from(index) | u64::from(array) << index_bits(format);
                open &= !(1 << bit);
                closed = closed | lanes(1 << bit, cells);
            }
        }
        if open == 0 {
            return Some(fields);
        }
    }
}

/// The value that these fields return for a key.
pub(super) fn evaluate(fields: &Fields, hash: u64, params: &Params) -> u8 {
    let (format, family) = (params.format(), Family::of(hash, params.seed()));
    let mut value = 0;
    for (bit, field) in fields.iter().enumerate().take(params.value_bits().into()) {
        let index = (field & marker(format)) as u32;
        let position = family.position(index, position_bits(format));
        value |= ((field >> index_bits(format) >> position & 1) as u8) << bit;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::geometry::mix64;
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::PartitionCount;

    /// The definition, implemented literally: each value bit separately, every index from 0, one cell at a
    /// time.
    fn obvious(keys: &[(u64, u8)], params: &Params) -> Option<Fields> {
        let format = params.format();
        let mut fields = [0; 8];
        for bit in 0..params.value_bits() {
            fields[usize::from(bit)] = (0..marker(format) as u32).find_map(|index| {
                let mut cells = vec![None; 1 << position_bits(format)];
                for &(hash, value) in keys {
                    let m = mix64(hash ^ params.seed());
                    let h = (m & 0xFFFF_FFFF) + u64::from(index) * (m >> 32);
                    let cell = &mut cells[((h & 0xFFFF_FFFF) >> (32 - position_bits(format))) as usize];
                    let want = value >> bit & 1;
                    if *cell.get_or_insert(want) != want {
                        return None;
                    }
                }
                let array =
                    cells.iter().rev().fold(0, |array, cell| array << 1 | u64::from(cell.unwrap_or(0)));
                Some(array << index_bits(format) | u64::from(index))
            })?;
        }
        Some(fields)
    }

    /// Every index has a function of its own: no two indices select the same cells for a few keys. With sums
    /// of 16 bits or fewer they would, because an index and another with the same remainder would be the same
    /// function.
    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn every_index_is_a_function_of_its_own() {
        let keys: Vec<Family> = (0..64).map(|i| Family::of(mix64(i), 1)).collect();
        let named = |index: u32| -> [u64; 3] {
            let mut named = [0; 3];
            for (at, key) in keys.iter().enumerate() {
                let word = &mut named[at / 22];
                *word = *word << 3 | u64::from(key.position(index, 3));
            }
            named
        };
        let mut functions: Vec<_> = (0..marker(Format::Paper16x8) as u32).map(named).collect();
        functions.sort_unstable();
        functions.dedup();
        assert_eq!(functions.len() as u64, marker(Format::Paper16x8));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None,
            ..ProptestConfig::default() })]
        #[test]
        #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
        fn equals_the_definition(n in 0usize..24, seed: u64, bits in 1u8..=8, format in 0usize..3) {
            let params = Params::new(1, bits, PartitionCount::ONE).unwrap();
            let format = [Format::Paper16x8, Format::Paper8x16, Format::Paper16x16][format];
            let params = params.with_format(format).unwrap().with_seed(seed);
            let keys: Vec<(u64, u8)> = (0..n as u64)
                .map(|i| (mix64(seed ^ i), (mix64(!seed ^ i) as u32 & ((1 << bits) - 1)) as u8))
                .collect();
            let (hashes, values): (Vec<u64>, Vec<u8>) = keys.iter().copied().unzip();
            let solved = solve(&hashes, &values, &params);
            prop_assert_eq!(solved, obvious(&keys, &params));
            for &(hash, value) in &keys {
                let Some(fields) = solved else { break };
                prop_assert_eq!(evaluate(&fields, hash, &params), value);
            }
        }
    }
}
