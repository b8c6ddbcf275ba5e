//! Groups as solutions of linear equations over GF(2).
//!
//! Each key has a *row* of `c` pseudo-random bits. A group stores, for each value bit, a vector of `c` bits,
//! and a key's bit is the parity of (row AND vector). So each key is one linear equation for the vector, and
//! a group of `n` keys is a system of `n` equations in `c` unknowns. It has a solution whenever the rows are
//! independent, which for random rows happens with probability above 1 - 2^(n-c), and sometimes when they are
//! not. All value bits share the rows, so one elimination solves them all, for any number of value bits. If
//! there is no solution, the rows are computed again from the next *seed*, which a few bits beside the
//! vectors store. `docs/kernels.md` explains the mathematics in detail.
//!
//! The canonical solution is that of the lowest seed that has one, with all columns 0 that the rows leave
//! free: those that are not the lowest column of any vector in the span of the rows. It depends on the set of
//! equations, not on their order.

use super::geometry::mix64;
use super::params::Params;
use super::solver::Fields;
#[cfg(test)]
use super::solver::GroupKeys;

/// How the bits of a group's fields are used.
///
/// A field of `width` bits holds `columns` bits of a vector, lowest first. Above them, the first fields hold
/// some bits of the seed, lowest first; the remaining bits are 0. Rows and values are eliminated together,
/// `columns` + 4 value bits per word of `width` bits, which determines the number of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldLayout {
    /// Bits per field: 32 or 64.
    pub(super) width: u32,
    /// Number of unknowns.
    pub(super) columns: u32,
    /// Bits of the seed in each field that holds seed bits.
    pub(super) seed_bits: u32,
    /// Number of fields that hold seed bits.
    pub(super) seed_fields: u32,
}

impl FieldLayout {
    pub(super) const fn of(params: &Params) -> Self {
        Self::new(params.format().field_bits(), params.value_bits() as u32)
    }

    /// The layout for fields of `width` bits and values of `value_bits` bits.
    pub(super) const fn new(width: u32, value_bits: u32) -> Self {
        let spare = match value_bits {
            2 => 2,
            3 => 3,
            _ => 4,
        };
        let seed_bits = if value_bits == 1 { 4 } else { 2 };
        let seed_fields = if value_bits < 4 { value_bits } else { 4 };
        Self { width, columns: width - spare, seed_bits, seed_fields }
    }

    /// Number of seeds: 15 to 255. The number itself marks a group without a solution.
    pub(super) const fn seeds(self) -> u32 {
        (1 << (self.seed_bits * self.seed_fields)) - 1
    }

    /// The maximum number of keys in a group that can have a solution. With more, kernels would need more
    /// rows than they have.
    #[cfg(test)]
    pub(super) const fn most_keys(self) -> usize {
        self.width as usize
    }

    /// The columns, as a bit mask.
    pub(super) const fn column_mask(self) -> u64 {
        (1 << self.columns) - 1
    }

    const fn seed_mask(self) -> u64 {
        (1 << self.seed_bits) - 1
    }

    /// Encodes these vectors and the seed as fields.
    pub(super) const fn fields(self, vectors: Fields, seed: u32) -> Fields {
        let mut fields = vectors;
        let mut at = 0;
        while at < self.seed_fields {
            let part = (seed >> (at * self.seed_bits)) as u64 & self.seed_mask();
            fields[at as usize] |= part << self.columns;
            at += 1;
        }
        fields
    }

    /// The seed in these fields.
    pub(super) const fn seed(self, fields: &Fields) -> u32 {
        let (mut seed, mut at) = (0, 0);
        while at < self.seed_fields {
            let part = (fields[at as usize] >> self.columns) & self.seed_mask();
            seed |= (part as u32) << (at * self.seed_bits);
            at += 1;
        }
        seed
    }

    pub(super) const fn marked(self) -> Fields {
        self.fields([0; 8], self.seeds())
    }

    pub(super) const fn is_marked(self, fields: &Fields) -> bool {
        self.seed(fields) == self.seeds()
    }

    /// Whether all unused bits are 0.
    pub(super) fn is_clean(self, fields: &Fields) -> bool {
        let vectors = fields.map(|field| field & self.column_mask());
        self.fields(vectors, self.seed(fields)) == *fields
    }
}

/// The row hash. Rows of 32-bit fields are computed from a hash's low half, so that sixteen fit one vector
/// register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    shape: FieldLayout,
    key: u64,
}

/// Separates the row hash from other uses of the same seed.
const ROW_KEY: u64 = 0x5E75_E9C0_4B1D_0F0F;

/// Multipliers of the row hash: without a pattern, and odd where required.
pub(super) const MULTIPLIER_32: u32 = 0x9E37_79B1;
pub(super) const SEED_STEP_32: u32 = 0x78DD_E6E4;
pub(super) const FINAL_32: u32 = 0x85EB_CA77;
pub(super) const MULTIPLIER_64: u64 = 0x9E37_79B9_7F4A_7C15;
pub(super) const SEED_STEP_64: u64 = 0x3C6E_F372_FE94_F82A;
pub(super) const FINAL_64: u64 = 0xD6E8_FEB8_6659_FD93;

impl Rows {
    pub(super) const fn of(params: &Params) -> Self {
        Self { shape: FieldLayout::of(params), key: mix64(params.seed() ^ ROW_KEY) }
    }

    /// The value that a hash is first xored with: the table's seed, mixed.
    pub(super) const fn key(self) -> u64 {
        self.key
    }

    /// The row of a key under a seed, in the low `columns` bits.
    #[inline(always)]
    pub(super) const fn row(self, hash: u64, seed: u32) -> u64 {
        self.row_in(self.shape, hash, seed)
    }

    /// The same, with a layout that the compiler knows.
    #[inline(always)]
    pub(super) const fn row_in(self, shape: FieldLayout, hash: u64, seed: u32) -> u64 {
        let x = hash ^ self.key;
        if shape.width == 32 {
            let x = (x as u32).wrapping_mul(MULTIPLIER_32.wrapping_add(seed.wrapping_mul(SEED_STEP_32)));
            let x = (x ^ x >> 15).wrapping_mul(FINAL_32);
            (x >> (32 - shape.columns)) as u64
        } else {
            let x = x.wrapping_mul(MULTIPLIER_64.wrapping_add((seed as u64).wrapping_mul(SEED_STEP_64)));
            let x = (x ^ x >> 32).wrapping_mul(FINAL_64);
            x >> (64 - shape.columns)
        }
    }
}

/// The canonical fields of a group. `None` if no seed has a solution or the group has more than
/// [`FieldLayout::most_keys`] keys.
#[cfg(test)]
pub(super) fn solve(keys: &GroupKeys, params: &Params) -> Option<Fields> {
    let (shape, rows) = (FieldLayout::of(params), Rows::of(params));
    if keys.hashes.len() > shape.most_keys() {
        return None;
    }
    (0..shape.seeds()).find_map(|seed| {
        let equations =
            keys.hashes.iter().zip(&keys.values).map(|(&hash, &value)| (rows.row(hash, seed), value));
        let vectors = eliminate(&mut equations.collect::<Vec<_>>())?;
        Some(shape.fields(vectors, seed))
    })
}

/// Gauss-Jordan elimination of (row, values) pairs. Returns the vectors, or `None` on a contradiction.
#[cfg(test)]
fn eliminate(equations: &mut [(u64, u8)]) -> Option<Fields> {
    for at in 0..equations.len() {
        let (row, values) = equations[at];
        if row == 0 {
            if values != 0 {
                return None; // 0 = 1
            }
            continue;
        }
        let pivot = row & row.wrapping_neg();
        for (other, equation) in equations.iter_mut().enumerate() {
            if other != at && equation.0 & pivot != 0 {
                equation.0 ^= row;
                equation.1 ^= values;
            }
        }
    }
    let mut vectors = [0; 8];
    for &(row, values) in &*equations {
        for (bit, vector) in vectors.iter_mut().enumerate() {
            if values >> bit & 1 == 1 {
                *vector |= row & row.wrapping_neg();
            }
        }
    }
    Some(vectors)
}

/// The value that these fields return for a key.
pub(super) fn evaluate(fields: &Fields, hash: u64, params: &Params) -> u8 {
    let shape = FieldLayout::of(params);
    let row = Rows::of(params).row(hash, shape.seed(fields));
    let bits = fields.iter().take(params.value_bits().into());
    bits.rev().fold(0, |value, field| value << 1 | (field & row).count_ones() as u8 & 1)
}

#[cfg(test)]
mod tests {
    use super::super::format::Format;
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::PartitionCount;

    fn params(format: Format, bits: u8, seed: u64) -> Params {
        Params::new(1, bits, PartitionCount::ONE).unwrap().with_format(format).unwrap().with_seed(seed)
    }

    fn group(n: u64, seed: u64, bits: u8) -> GroupKeys {
        let mut keys = GroupKeys::default();
        for i in 0..n {
            keys.push(mix64(seed ^ i << 8 ^ 1), (mix64(!seed ^ i) & ((1 << bits) - 1)) as u8);
        }
        keys
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn fields_hold_vectors_seed_and_nothing_else() {
        for (format, bits) in
            [Format::Linear, Format::Dense].into_iter().flat_map(|f| (1..=8).map(move |l| (f, l)))
        {
            let params = params(format, bits, 0);
            let shape = FieldLayout::of(&params);
            assert!(shape.columns + u32::from(bits).min(4) <= shape.width);
            assert!(shape.seeds() >= 15);
            let vectors = std::array::from_fn(|bit| if bit < bits.into() { shape.column_mask() } else { 0 });
            for seed in 0..=shape.seeds() {
                let fields = shape.fields(vectors, seed);
                assert_eq!(shape.seed(&fields), seed);
                assert_eq!(shape.is_marked(&fields), seed == shape.seeds());
                assert!(shape.is_clean(&fields));
                assert!(fields.iter().all(|field| field >> (shape.width - 1) >> 1 == 0));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None,
            ..ProptestConfig::default() })]
        #[test]
        #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
        fn a_solution_answers_every_key_and_does_not_depend_on_their_order(
            n in 0u64..64, seed: u64, bits in 1u8..=8, dense: bool, turn in 0usize..64,
        ) {
            let params = params(if dense { Format::Dense } else { Format::Linear }, bits, seed);
            let n = if dense { n } else { n / 2 };
            let mut keys = group(n, seed, bits);
            let solved = solve(&keys, &params);
            let columns = u64::from(FieldLayout::of(&params).columns);
            prop_assert!(solved.is_some() || n > columns - 4);
            if let Some(fields) = solved {
                for (&hash, &value) in keys.hashes.iter().zip(&keys.values) {
                    prop_assert_eq!(evaluate(&fields, hash, &params), value);
                }
            }
            if n > 0 {
                let turn = turn % n as usize;
                keys.hashes.rotate_left(turn);
                keys.values.rotate_left(turn);
                prop_assert_eq!(solve(&keys, &params), solved);
            }
        }
    }
}
