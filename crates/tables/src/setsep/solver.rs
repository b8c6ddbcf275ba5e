//! Finding a group's bits.
//!
//! For each value bit a group stores an index `i` and an array: a key's bit is the array cell named by the top bits
//! of H_i(key). An index works when no cell is asked to be 0 by one key and 1 by another; the lowest that works is
//! stored, with cells that no key names left 0, so a group's bits are a function of its keys and values alone.
//!
//! All value bits are tested at once: the masks "some key wants 1 here" and "some key wants 0 here" of up to eight
//! arrays lie side by side in one word, and a key is added to all of them by one shift. An index is given up as soon
//! as every array still open has a cell in both masks.
//!
//! [`solve`] is the one entry; it is the reference that any other kernel must equal bit for bit.

use super::geometry::family;
use super::params::{Format, Params};

/// The bits of one group: one field a value bit, the index in the low bits and the array above; unused fields are 0.
pub(super) type Fields = [u32; 8];

/// The keys of one group, as the search wants them.
#[derive(Debug, Default)]
pub(super) struct GroupKeys {
    g1: Vec<u32>,
    g2: Vec<u32>,
    values: Vec<u8>,
}

impl GroupKeys {
    /// Forgets all keys, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.g1.clear();
        self.g2.clear();
        self.values.clear();
    }

    /// Adds a key.
    pub(super) fn push(&mut self, hash: u64, seed: u64, value: u8) {
        let (g1, g2) = family(hash, seed);
        self.g1.push(g1);
        self.g2.push(g2);
        self.values.push(value);
    }
}

/// The fields of a group that has no solution.
pub(super) const fn marked(format: Format) -> Fields {
    [format.marker(), 0, 0, 0, 0, 0, 0, 0]
}

/// Whether these fields mark their group as unsolved.
pub(super) const fn is_marked(fields: &Fields, format: Format) -> bool {
    fields[0] & format.marker() == format.marker()
}

/// The canonical fields of a group, or `None` if some value bit has no index that works.
///
/// Cost: for 16 keys and 8 cells about 400 indices, of which most are given up after 4 to 8 keys.
pub(super) fn solve(keys: &GroupKeys, params: &Params) -> Option<Fields> {
    match (params.format(), params.value_bits()) {
        (Format::Paper16x8, l) => search::<u64, 3>(keys, Format::Paper16x8, l),
        (format, l @ ..=4) => search::<u64, 4>(keys, format, l),
        (format, l) => search::<u128, 4>(keys, format, l),
    }
}

/// A word of arrays side by side.
trait Word:
    Copy
    + PartialEq
    + std::ops::Shl<u32, Output = Self>
    + std::ops::Shr<u32, Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitAnd<Output = Self>
    + std::ops::Not<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const BITS: u32;
    fn minus(self, other: Self) -> Self;
    fn low_u32(self) -> u32;
}

impl Word for u64 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    const BITS: u32 = Self::BITS;
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn low_u32(self) -> u32 {
        self as u32
    }
}

impl Word for u128 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    const BITS: u32 = Self::BITS;
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn low_u32(self) -> u32 {
        self as u32
    }
}

/// Keys added between two looks at the masks.
const STRIDE: usize = 4;

/// The search over arrays of 2^`POSITION` cells in words `W`.
fn search<W: Word, const POSITION: u32>(keys: &GroupKeys, format: Format, value_bits: u8) -> Option<Fields> {
    let cells = 1u32 << POSITION;
    let array_mask = (1u32 << cells) - 1;
    let lane = |bit: u32| W::ONE << (bit * cells);
    let lanes = |value: u32, of: u32| {
        (0..of).fold(W::ZERO, |word, bit| if value >> bit & 1 == 1 { word | lane(bit) } else { word })
    };
    let bits = u32::from(value_bits);
    let all = lanes(u32::MAX, bits);
    let (lows, high) = (lanes(u32::MAX, W::BITS / cells), cells - 1);

    // What each key asks of position 0; shifting by its position asks it of that cell in every array. A stride is
    // padded with keys that ask nothing.
    let ask = |i: usize| {
        let ones = lanes(u32::from(keys.values[i]), bits);
        (keys.g1[i], keys.g2[i], ones, all & !ones)
    };
    let padded = keys.g1.len().next_multiple_of(STRIDE);
    let asks: Vec<(u32, u32, W, W)> =
        (0..padded).map(|i| if i < keys.g1.len() { ask(i) } else { (0, 1, W::ZERO, W::ZERO) }).collect();

    let mut fields = [0; 8];
    let mut open = (1u32 << bits) - 1;
    // Not zero in the arrays that are solved or do not exist, so that only open ones keep an index going.
    let mut closed = lows & !all;
    'index: for index in 0..format.marker() {
        let (mut ones, mut zeros) = (W::ZERO, W::ZERO);
        for stride in asks.chunks_exact(STRIDE) {
            for &(g1, g2, one, zero) in stride {
                let position = g1.wrapping_add(index.wrapping_mul(g2)) >> (32 - POSITION);
                ones = ones | one << position;
                zeros = zeros | zero << position;
            }
            // The classic test for a lane that is all zero; here, an open array without conflict.
            let taken = ones & zeros | closed;
            if taken.minus(lows) & !taken & (lows << high) == W::ZERO {
                continue 'index;
            }
        }
        let conflicts = ones & zeros;
        for bit in 0..bits {
            if open >> bit & 1 == 1 && (conflicts >> (bit * cells)).low_u32() & array_mask == 0 {
                let array = (ones >> (bit * cells)).low_u32() & array_mask;
                fields[bit as usize] = index | array << format.index_bits();
                open &= !(1 << bit);
                closed = closed | lane(bit);
            }
        }
        if open == 0 {
            return Some(fields);
        }
    }
    None
}

/// The value these fields give a key: the definition, which the lookup must equal.
pub(super) fn evaluate(fields: &Fields, (g1, g2): (u32, u32), format: Format, value_bits: u8) -> u8 {
    let mut value = 0;
    for bit in 0..usize::from(value_bits) {
        let index = fields[bit] & format.marker();
        let position = g1.wrapping_add(index.wrapping_mul(g2)) >> (32 - format.position_bits());
        value |= (((fields[bit] >> format.index_bits() >> position) & 1) as u8) << bit;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::geometry::mix64;
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::PartitionCount;

    /// The definition, word for word: each value bit on its own, every index from 0, one cell at a time.
    fn obvious(keys: &[(u64, u8)], params: &Params) -> Option<Fields> {
        let format = params.format();
        let mut fields = [0; 8];
        for bit in 0..params.value_bits() {
            fields[usize::from(bit)] = (0..format.marker()).find_map(|index| {
                let mut cells = vec![None; format.array_bits() as usize];
                for &(hash, value) in keys {
                    let (g1, g2) = family(hash, params.seed());
                    let h = g1.wrapping_add(index.wrapping_mul(g2));
                    let cell = &mut cells[(h >> (32 - format.position_bits())) as usize];
                    let want = value >> bit & 1;
                    if *cell.get_or_insert(want) != want {
                        return None;
                    }
                }
                let array =
                    cells.iter().rev().fold(0, |array, cell| array << 1 | u32::from(cell.unwrap_or(0)));
                Some(array << format.index_bits() | index)
            })?;
        }
        Some(fields)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None,
            ..ProptestConfig::default() })]
        #[test]
        fn equals_the_definition(n in 0usize..24, seed: u64, bits in 1u8..=8, format in 0usize..3) {
            let n = if cfg!(miri) { n / 3 } else { n };
            let params = Params::new(1, bits, PartitionCount::ONE).unwrap();
            let params = params.with_format(Format::ALL[format]).unwrap().with_seed(seed);
            let keys: Vec<(u64, u8)> = (0..n as u64)
                .map(|i| (mix64(seed ^ i), (mix64(!seed ^ i) as u32 & ((1 << bits) - 1)) as u8))
                .collect();
            let mut group = GroupKeys::default();
            keys.iter().for_each(|&(hash, value)| group.push(hash, seed, value));
            let solved = solve(&group, &params);
            prop_assert_eq!(solved, obvious(&keys, &params));
            for &(hash, value) in &keys {
                let Some(fields) = solved else { break };
                prop_assert_eq!(evaluate(&fields, family(hash, seed), params.format(), bits), value);
            }
        }
    }
}
