//! Searches for a hash function with any number of cells, to count the tries.

use crate::keys;

/// The family of functions `H_i = G1 + i·G2` with 32-bit G1 and G2. The scaled top bits select the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Functions {
    /// 2^32 functions.
    Wide,
    /// The 65,535 functions of format 16+8. Its last index marks a group as unsolved.
    Tables,
}

impl Functions {
    /// Number of functions.
    pub const fn count(self) -> u32 {
        match self {
            Self::Wide => u32::MAX,
            Self::Tables => u16::MAX as u32,
        }
    }
}

/// The cell of a key under function `index`.
#[inline(always)]
const fn cell(key: u64, index: u32, cells: u32) -> u32 {
    let hash = (key as u32).wrapping_add(index.wrapping_mul((key >> 32) as u32));
    ((hash as u64 * cells as u64) >> 32) as u32
}

/// The keys of a group and their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    keys: Vec<u64>,
    values: Vec<u8>,
}

impl Group {
    /// Group number `number` of `keys` keys each, with values of `value_bits` bits.
    pub fn new(number: u64, keys: u32, value_bits: u8) -> Self {
        let first = number * u64::from(keys);
        let numbers = first..first + u64::from(keys);
        Self {
            keys: numbers.clone().map(|number| keys::mix(keys::hash(number).get())).collect(),
            values: numbers.map(|number| keys::value(number, value_bits)).collect(),
        }
    }

    /// The same group with one bit of each value.
    fn bit(&self, bit: u8) -> Self {
        Self { keys: self.keys.clone(), values: self.values.iter().map(|value| value >> bit & 1).collect() }
    }

    /// Whether no cell gets two different values.
    #[inline(always)]
    fn works(&self, index: u32, cells: u32) -> bool {
        let (mut taken, mut of_value) = (0_u32, [0_u32; 16]);
        for (&key, &value) in self.keys.iter().zip(&self.values) {
            let cell = 1 << cell(key, index, cells);
            let own = &mut of_value[usize::from(value & 15)];
            if taken & !*own & cell != 0 {
                return false;
            }
            *own |= cell;
            taken |= cell;
        }
        true
    }

    /// Functions tried until one separates all values, and whether one did.
    pub fn one_function(&self, functions: Functions, cells: u32) -> (u64, bool) {
        let count = functions.count();
        match (0..count).find(|&index| self.works(index, cells)) {
            Some(index) => (u64::from(index) + 1, true),
            None => (count.into(), false),
        }
    }

    /// Total functions tried until each value bit has its own.
    pub fn one_a_bit(&self, functions: Functions, cells: u32, value_bits: u8) -> (u64, bool) {
        let tried = (0..value_bits).map(|bit| self.bit(bit).one_function(functions, cells));
        tried.fold((0, true), |(sum, all), (tried, found)| (sum + tried, all && found))
    }
}

#[cfg(test)]
mod tests {
    use super::super::theory;
    use super::*;

    /// The mean over many groups, and four standard errors.
    fn measured(groups: u64, of: impl Fn(u64) -> u64) -> (f64, f64) {
        let tried: Vec<f64> = (0..groups).map(|number| of(number) as f64).collect();
        let mean = tried.iter().sum::<f64>() / groups as f64;
        let squares: f64 = tried.iter().map(|tried| (tried - mean).powi(2)).sum();
        (mean, 4.0 * (squares / groups as f64).sqrt() / (groups as f64).sqrt())
    }

    #[track_caller]
    fn agrees(name: &str, (mean, error): (f64, f64), want: f64) {
        assert!((mean - want).abs() < error, "{name}: {mean} ± {error} is not {want}");
    }

    #[test]
    fn searches_take_as_long_as_they_should() {
        for cells in [6, 8, 13, 16, 30] {
            let want = theory::iterations(16, 1, cells).unwrap();
            for functions in [Functions::Wide, Functions::Tables] {
                let tried = measured(1_500, |number| {
                    let (tried, found) = Group::new(number, 16, 1).one_function(functions, cells);
                    assert!(found, "group {number}, {cells} cells");
                    tried
                });
                agrees(&format!("{cells} cells, {functions:?}"), tried, want);
            }
        }
    }

    #[test]
    fn groups_fail_as_often_as_they_should() {
        let want = theory::failures(21, 1, 8, 65_535.0);
        let (share, error) = measured(1_500, |number| {
            u64::from(!Group::new(number, 21, 1).one_function(Functions::Tables, 8).1)
        });
        agrees("21 keys at 16+8", (share, error), want);
    }

    #[test]
    fn several_values_in_one_function_or_in_several() {
        let one = measured(600, |number| Group::new(number, 16, 2).one_function(Functions::Wide, 20).0);
        agrees("one function", one, theory::iterations(16, 2, 20).unwrap());
        let several = measured(600, |number| Group::new(number, 16, 2).one_a_bit(Functions::Wide, 10, 2).0);
        agrees("one a bit", several, 2.0 * theory::iterations(16, 1, 10).unwrap());
    }

    #[test]
    fn a_group_of_equal_values_takes_the_first_function() {
        let group = Group { keys: vec![1, 2, 3], values: vec![5; 3] };
        assert_eq!(group.one_function(Functions::Wide, 2), (1, true));
        let twins = Group { keys: vec![7, 7], values: vec![0, 1] };
        assert_eq!(twins.one_function(Functions::Tables, 8), (65_535, false));
    }
}
