//! A skewed choice of names.
//!
//! The `k`-th of n is drawn with probability ln(1 + 1/k) / ln(1 + n): Zipf's law with exponent 1, except for
//! the first few. This form needs no table: k is the number with ln(k) ≤ u·ln(1 + n) < ln(k + 1).

use crate::keys::mix;

/// Draws numbers below `names`, low ones often.
#[derive(Debug, Clone)]
pub struct Zipf {
    names: u64,
    logarithm: f64,
    state: u64,
}

impl Zipf {
    /// Draws numbers below `names`, which is at least 1.
    pub fn new(names: u64, seed: u64) -> Self {
        Self { names: names.max(1), logarithm: (names.max(1) as f64).ln_1p(), state: seed }
    }
}

impl Iterator for Zipf {
    type Item = u64;

    /// Never ends.
    #[expect(clippy::cast_sign_loss, reason = "a power of e")]
    fn next(&mut self) -> Option<u64> {
        self.state = self.state.wrapping_add(1);
        let uniform = (mix(self.state) >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = (uniform * self.logarithm).exp() as u64; // 1 to `names`, but for rounding
        Some(rank.clamp(1, self.names) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_numbers_come_as_often_as_the_law_says() {
        let (names, draws) = (1000_u64, 1_000_000);
        let mut seen = vec![0_u64; names as usize];
        for number in Zipf::new(names, 7).take(draws) {
            seen[number as usize] += 1;
        }
        for rank in [1_u64, 2, 3, 10, 100, 1000] {
            let share = (1.0 + 1.0 / rank as f64).ln() / (names as f64 + 1.0).ln();
            let want = share * draws as f64;
            let got = seen[rank as usize - 1] as f64;
            assert!((got - want).abs() < 5.0 * want.sqrt(), "{rank}: {got} for {want}");
        }
    }

    #[test]
    fn one_name_is_always_asked_for() {
        assert!(Zipf::new(1, 3).take(100).all(|number| number == 0));
    }
}
