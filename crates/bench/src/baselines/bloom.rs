//! The classic Bloom filter: the bits of a name may be anywhere, so a query reads up to `k` cache lines.
//!
//! [`scalebricks_tables::filter`] has the filter of the data plane, with all bits of a name in one line. This
//! one is for comparison, and for [`buffalo`](super::buffalo).
//!
//! With `n` names, `m` bits and `k` bits per name, a bit is still 0 with probability (1 − 1/m)^(kn) ≈
//! e^(−kn/m). An unknown name passes with probability
//!
//! ```text
//! f = (1 − e^(−kn/m))^k,   least for k = (m/n)·ln 2, where half of the bits are set and f = 2^(−k) = 0.6185^(m/n)
//! ```
//!
//! so that a rate `p` takes m = −n·ln p / (ln 2)² bits (Fan et al., SIGCOMM 1998).

use crate::keys::mix;
use scalebricks_tables::filter::{FilterParams, FilterParamsError, LINE_BITS, MAX_HASHES};
use scalebricks_tables::huge::HugeSlice;
use scalebricks_tables::prefetch_read;
use scalebricks_types::KeyHash;
use std::f64::consts::LN_2;

/// Number of names of a batch whose lines are prefetched before the first is read.
const UNIT: usize = 32;

/// The false positive rate of a filter with `bits_per_name` bits per name, `hashes` of them set.
pub fn rate(bits_per_name: f64, hashes: f64) -> f64 {
    if bits_per_name <= 0.0 {
        return 1.0;
    }
    (-(-hashes / bits_per_name).exp_m1()).powf(hashes)
}

/// The false positive rate of a filter of this size with this many names.
pub fn rate_of(params: &FilterParams, names: u64) -> f64 {
    if names == 0 { 0.0 } else { rate(params.bits() as f64 / names as f64, params.hashes().into()) }
}

/// The optimal number of bits to set per name, at least one and at most `most`.
#[expect(clippy::cast_sign_loss, reason = "at least 1")]
pub fn best_hashes(bits_per_name: f64, most: u8) -> u8 {
    (bits_per_name * LN_2).round().clamp(1.0, f64::from(most.max(1))) as u8 // from 1 to 255
}

/// The size of the smallest filter, in whole lines, that passes unknown names at this rate when it holds
/// `names` names.
///
/// # Errors
/// [`FilterParamsError`] for rates below 1e-9 or above 0.5, and for too many names.
#[expect(clippy::cast_sign_loss, reason = "rates and sizes are positive")]
pub fn params_for(names: u64, wanted: f64) -> Result<FilterParams, FilterParamsError> {
    if !(1e-9..=0.5).contains(&wanted) {
        return Err(FilterParamsError::Rate(wanted));
    }
    let hashes = best_hashes(-wanted.ln() / (LN_2 * LN_2), MAX_HASHES as u8);
    // (1 − e^(−k/r))^k = p, solved for r: `k` is a whole number, so slightly more bits are needed than at the optimum.
    let k = f64::from(hashes);
    let bits_per_name = -k / (-wanted.powf(1.0 / k)).ln_1p();
    let lines = names.max(1) as f64 * bits_per_name / LINE_BITS as f64;
    FilterParams::of_lines(lines.ceil() as u64, hashes) // saturates, and is refused then
}

/// A word of a name, one for each of its bits.
#[inline(always)]
pub const fn word(name: KeyHash, seed: u64, number: u64) -> u64 {
    mix((name.get() ^ seed).wrapping_add(0xD6E8_FEB8_6659_FD93_u64.wrapping_mul(number + 1)))
}

/// A classic Bloom filter.
pub struct ClassicFilter {
    params: FilterParams,
    lines: HugeSlice<[u64; 8]>,
}

impl ClassicFilter {
    /// An empty filter.
    pub fn new(params: FilterParams) -> Self {
        Self { params, lines: HugeSlice::zeroed(params.lines() as usize) }
    }

    /// Bytes of bits.
    pub fn table_bytes(&self) -> usize {
        self.lines.len() * size_of::<[u64; 8]>()
    }

    /// The bit that a word leads to.
    #[inline(always)]
    const fn bit(&self, word: u64) -> u64 {
        ((word as u128 * self.params.bits() as u128) >> 64) as u64 // below the number of bits
    }

    #[inline(always)]
    fn get(&self, bit: u64) -> bool {
        self.lines[(bit / LINE_BITS) as usize][(bit / 64 % 8) as usize] >> (bit % 64) & 1 == 1
    }

    /// Adds a name.
    pub fn insert(&mut self, name: KeyHash) {
        for number in 0..self.params.hashes().into() {
            let bit = self.bit(word(name, self.params.seed(), number));
            self.lines[(bit / LINE_BITS) as usize][(bit / 64 % 8) as usize] |= 1 << (bit % 64);
        }
    }

    /// Whether a name may be in the filter.
    #[inline]
    pub fn contains(&self, name: KeyHash) -> bool {
        let words = (0..self.params.hashes().into()).map(|number| word(name, self.params.seed(), number));
        self.contains_words(words, |_| ())
    }

    /// [`Self::contains`] with the words of the name, for names that are checked against many filters. `read`
    /// is called with the number of each line that is read, in order.
    #[inline(always)]
    pub fn contains_words(&self, words: impl Iterator<Item = u64>, mut read: impl FnMut(usize)) -> bool {
        words.take(self.params.hashes().into()).all(|word| {
            let bit = self.bit(word);
            read((bit / LINE_BITS) as usize);
            self.get(bit)
        })
    }

    /// [`Self::contains`] for each name of a batch, with the lines of 32 names in flight at once.
    pub fn contains_batch(&self, names: &[KeyHash], answers: &mut [bool]) {
        let each = usize::from(self.params.hashes());
        for (names, answers) in names.chunks(UNIT).zip(answers.chunks_mut(UNIT)) {
            let mut bits = [0; UNIT * MAX_HASHES];
            for (bits, &name) in bits.chunks_exact_mut(each).zip(names) {
                for (bit, number) in bits.iter_mut().zip(0..) {
                    *bit = self.bit(word(name, self.params.seed(), number));
                    prefetch_read(&self.lines[(*bit / LINE_BITS) as usize]);
                }
            }
            for (bits, answer) in bits.chunks_exact(each).zip(answers) {
                *answer = bits.iter().all(|&bit| self.get(bit));
            }
        }
    }
}

impl std::fmt::Debug for ClassicFilter {
    /// Prints its size, not its bits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClassicFilter").field("params", &self.params).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> KeyHash {
        KeyHash::new(mix(number))
    }

    #[test]
    fn unknown_names_pass_as_theory_says_and_known_ones_always() {
        let (names, aliens) = (40_000, 400_000);
        for wanted in [0.1, 0.01, 0.001, 0.0001] {
            for seed in [0, 7] {
                let params = params_for(names, wanted).unwrap().with_seed(seed);
                let theory = rate_of(&params, names);
                assert!(theory <= wanted * 1.000_001 && theory > wanted * 0.95, "{wanted}: {theory}");
                let mut filter = ClassicFilter::new(params);
                (0..names).for_each(|number| filter.insert(name(number)));
                let known: Vec<KeyHash> = (0..names).map(name).collect();
                let mut answers = vec![false; known.len()];
                filter.contains_batch(&known, &mut answers);
                assert!(answers.iter().all(|&answer| answer), "no known name is refused");
                let through = (names..names + aliens).filter(|&number| filter.contains(name(number))).count();
                let expected = theory * aliens as f64;
                // Six standard deviations, and 2 % for what the formulas neglect.
                let slack = 6.0 * expected.sqrt() + 0.02 * expected;
                assert!((through as f64 - expected).abs() <= slack, "{wanted}: {through} for {expected}");
            }
        }
    }

    #[test]
    fn a_filter_as_full_as_it_is_made_for_is_half_full() {
        let params = params_for(50_000, 0.001).unwrap();
        let mut filter = ClassicFilter::new(params);
        (0..50_000).for_each(|number| filter.insert(name(number)));
        let ones: u32 = filter.lines.iter().flatten().map(|word| word.count_ones()).sum();
        let share = f64::from(ones) / params.bits() as f64;
        assert!((share - 0.5).abs() < 0.01, "{share}");
    }

    /// Compares the formula with the table of m/n and k that Cao published beside "Summary cache" ("Bloom
    /// filters: the math").
    #[test]
    fn theory_agrees_with_published_tables() {
        for (bits_per_name, hashes, published) in
            [(6.0, 4.0, 0.0561), (8.0, 5.0, 0.0217), (8.0, 6.0, 0.0216), (16.0, 8.0, 0.000_574)]
        {
            let rate: f64 = rate(bits_per_name, hashes);
            assert!((rate / published - 1.0).abs() < 0.01, "{bits_per_name} {hashes}: {rate}");
        }
        for (rate, wanted) in [(0.01, 9.6), (0.001, 14.4), (0.0001, 19.2)] {
            let bits = params_for(1_000_000, rate).unwrap().bits() as f64 / 1e6;
            assert!((bits - wanted).abs() < 0.06, "at {rate}: {bits}");
        }
    }
}
