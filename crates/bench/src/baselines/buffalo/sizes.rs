//! How BUFFALO divides memory: its paper's optimisation of filter sizes.
//!
//! For filters with `n_h` names and `m_h` bits each, minimise the sum of the false-positive rates
//! `f(m_h/n_h)` for M bits in total and at most `k_max` hashes per name. For r = m/n bits per name,
//!
//! ```text
//! f(r) = 2^(−k) with k = r·ln 2        as long as that is at most k_max,
//!        (1 − e^(−k_max/r))^k_max      beyond
//! ```
//!
//! which is convex with a continuous slope. So at the optimum all filters gain equally from one more bit:
//! `f'(r_h)/n_h = −λ`, where λ follows from the target sum. It is found by bisection, with one size per distinct
//! number of names. A filter with more names gets fewer bits per name, because a bit is worth more
//! where it serves fewer names.

use super::K_MAX;
use crate::baselines::{BaselineError, bloom};
use scalebricks_tables::filter::{FilterParams, LINE_BITS};
use std::collections::BTreeMap;
use std::f64::consts::LN_2;

/// The filters of all actions.
#[derive(Debug, Clone)]
pub struct Sizes {
    filters: Vec<FilterParams>,
    seed: u64,
    rate: f64,
}

/// Maximum bits per name considered.
const MOST_BITS_PER_NAME: f64 = 1e6;

impl Sizes {
    /// The smallest filters with a total false-positive rate of `rate`, for these numbers of names per
    /// action.
    ///
    /// # Errors
    /// [`BaselineError::Filter`] for impossible rates.
    pub fn for_rate(names: &[u64], rate: f64, seed: u64) -> Result<Self, BaselineError> {
        let mut aim = rate;
        loop {
            let found = Self::of(names, seed, aim)?;
            // Whole numbers of hashes have a slightly higher rate than the formula's.
            if found.rate <= rate || aim < rate / 4.0 {
                return Ok(found);
            }
            aim *= 0.98;
        }
    }

    /// Filters for the price per bit at which the sum of the rates falls to `aim`.
    #[expect(clippy::cast_sign_loss, reason = "sizes are not negative")]
    fn of(names: &[u64], seed: u64, aim: f64) -> Result<Self, BaselineError> {
        let mut alike: BTreeMap<u64, f64> = BTreeMap::new();
        for &names in names {
            *alike.entry(names.max(1)).or_default() += 1.0;
        }
        let (mut cheap, mut dear) = (-300.0_f64, 0.0_f64); // logarithms of prices
        for _ in 0..50 {
            let price = f64::midpoint(cheap, dear);
            if Plan::at(&alike, price).rate > aim { dear = price } else { cheap = price }
        }
        let plan = Plan::at(&alike, cheap);
        let mut filters = Vec::with_capacity(names.len());
        let mut rate = 0.0;
        for &names in names {
            let bits = plan.sizes.get(&names.max(1)).copied().unwrap_or(1.0) * names.max(1) as f64;
            let lines = (bits / LINE_BITS as f64).ceil().max(1.0);
            let hashes = bloom::best_hashes(lines * LINE_BITS as f64 / names.max(1) as f64, K_MAX);
            let params = FilterParams::of_lines(lines as u64, hashes)?.with_seed(seed);
            rate += bloom::rate_of(&params, names);
            filters.push(params);
        }
        Ok(Self { filters, seed, rate })
    }

    /// The filters.
    pub fn filters(&self) -> &[FilterParams] {
        &self.filters
    }

    /// The seed they share.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Total bits.
    pub fn bits(&self) -> u64 {
        self.filters.iter().map(FilterParams::bits).sum()
    }
}

/// The sizes that a price per bit leads to.
struct Plan {
    /// Bits per name by number of names.
    sizes: BTreeMap<u64, f64>,
    rate: f64,
}

impl Plan {
    fn at(alike: &BTreeMap<u64, f64>, price_ln: f64) -> Self {
        let mut plan = Self { sizes: BTreeMap::new(), rate: 0.0 };
        for (&names, &filters) in alike {
            let size = bits_per_name(price_ln + (names as f64).ln());
            plan.sizes.insert(names, size);
            let hashes = (size * LN_2).min(K_MAX.into());
            plan.rate += bloom::rate(size, hashes) * filters;
        }
        plan
    }
}

/// The bits per name at which one more bit gains this much. The gain decreases with size.
fn bits_per_name(gain_ln: f64) -> f64 {
    let (mut few, mut many) = (0.0_f64, MOST_BITS_PER_NAME.ln());
    for _ in 0..50 {
        let middle = f64::midpoint(few, many);
        if slope_ln(middle.exp()) > gain_ln { few = middle } else { many = middle }
    }
    few.exp()
}

/// The logarithm of −f'(r).
fn slope_ln(bits_per_name: f64) -> f64 {
    let most = f64::from(K_MAX);
    if bits_per_name * LN_2 <= most {
        return 2.0 * LN_2.ln() - bits_per_name * LN_2 * LN_2;
    }
    let load = most / bits_per_name;
    2.0 * load.ln() + (most - 1.0) * (-(-load).exp_m1()).ln() - load
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The total rate for given sizes, by the plain formula.
    fn rate_of(names: &[u64], bits: &[f64]) -> f64 {
        let rates = names.iter().zip(bits).map(|(&names, bits)| {
            let r = bits / names as f64;
            bloom::rate(r, (r * LN_2).min(8.0))
        });
        rates.sum()
    }

    #[test]
    fn the_papers_table_ii_comes_out() {
        let sizes = Sizes::for_rate(&[5_000_000 / 256; 256], 1e-4, 1).unwrap();
        let mib = sizes.bits() as f64 / 8.0 / f64::from(1 << 20);
        assert!((mib - 28.0).abs() < 0.6, "{mib} MiB");
        assert!(sizes.rate <= 1e-4 && sizes.rate > 0.9e-4, "{}", sizes.rate);
    }

    #[test]
    fn no_exchange_of_bits_is_better() {
        let names = [100_000, 30_000, 20_000, 10_000, 250_000];
        let sizes = Sizes::for_rate(&names, 5e-5, 1).unwrap();
        let bits: Vec<f64> = sizes.filters().iter().map(|params| params.bits() as f64).collect();
        let best = rate_of(&names, &bits);
        assert!((best / sizes.rate - 1.0).abs() < 0.01);
        for from in 0..names.len() {
            for to in 0..names.len() {
                let mut other = bits.clone();
                other[from] -= 20_000.0;
                other[to] += 20_000.0;
                assert!(from == to || rate_of(&names, &other) > best, "{from} to {to}");
            }
        }
        let even: Vec<f64> = names.iter().map(|&n| sizes.bits() as f64 * n as f64 / 410_000.0).collect();
        assert!(rate_of(&names, &even) > 1.05 * best);
    }

    #[test]
    fn rates_are_kept() {
        for rate in [0.1, 1e-3, 1e-5] {
            assert!(Sizes::for_rate(&[70_000, 900, 12_000, 0], rate, 1).unwrap().rate <= rate);
        }
    }
}
