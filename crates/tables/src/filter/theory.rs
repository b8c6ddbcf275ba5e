//! The false positive rate of a filter of a given size, by the textbook formulas.
//!
//! With `n` names, `m` bits and `k` bits per name, a bit is still 0 with probability (1 − 1/m)^(kn) ≈
//! e^(−kn/m). An alien name passes with probability
//!
//! ```text
//! f = (1 − e^(−kn/m))^k,   least for k = (m/n)·ln 2, where half of the bits are set and f = 2^(−k) = 0.6185^(m/n)
//! ```
//!
//! so that a rate `p` takes m = −n·ln p / (ln 2)² bits (Fan et al., SIGCOMM 1998). A line of a blocked filter
//! is such a filter with m = 512, and a number of names that is Poisson distributed around λ = 512·n/m (Putze
//! et al., WEA 2007):
//!
//! ```text
//! f = Σ_i e^(−λ)·λ^i/i! · (1 − (1 − 1/512)^(ki))^k
//! ```

use super::probe::MAX_HASHES;
use std::f64::consts::LN_2;

/// The false positive rate of a classic filter with `bits_per_name` bits per name, `hashes` of them set.
pub fn classic_rate(bits_per_name: f64, hashes: f64) -> f64 {
    if bits_per_name <= 0.0 {
        return 1.0;
    }
    (-(-hashes / bits_per_name).exp_m1()).powf(hashes)
}

/// Bits per name of a classic filter with the optimal number of bits set and this rate.
pub fn classic_bits_per_name(rate: f64) -> f64 {
    -rate.ln() / (LN_2 * LN_2)
}

/// Bits per name of a classic filter that sets at most this many bits per name. The rate decreases with the
/// bits, so they are found by bisection.
pub fn classic_bits_per_name_at_most(rate: f64, most_hashes: u8) -> f64 {
    let best = classic_bits_per_name(rate);
    if best * LN_2 <= f64::from(most_hashes) {
        return best;
    }
    // (1 − e^(−k/r))^k = p, solved for r.
    let most = f64::from(most_hashes);
    -most / (-rate.powf(1.0 / most)).ln_1p()
}

/// The optimal number of bits to set per name, at least one and at most `most`.
#[expect(clippy::cast_sign_loss, reason = "at least 1")]
pub fn best_hashes(bits_per_name: f64, most: u8) -> u8 {
    let best = bits_per_name * LN_2;
    let rounded = best.round().clamp(1.0, f64::from(most.max(1)));
    rounded as u8 // from 1 to 255
}

/// The false positive rate of a blocked filter with this many names per line on average.
#[expect(clippy::cast_sign_loss, reason = "a sum of loads")]
pub fn blocked_rate(names_per_line: f64, hashes: u8) -> f64 {
    let hashes = f64::from(hashes);
    let clear = (1.0 - 1.0 / super::LINE_BITS as f64).powf(hashes);
    // Large enough that the remaining terms weigh less than 10^-15.
    let last = (names_per_line + 12.0 * names_per_line.sqrt() + 40.0) as u32;
    let (mut weight_ln, mut rate) = (-names_per_line, 0.0);
    let ln = names_per_line.ln();
    for names in 1..=last {
        weight_ln += ln - f64::from(names).ln();
        rate += weight_ln.exp() * (1.0 - clear.powi(names.cast_signed())).powf(hashes);
    }
    rate
}

/// The maximum number of names per line for which a blocked filter has this rate, and the number of bits to
/// set per name. Cost: some milliseconds.
pub fn blocked_load(rate: f64) -> (f64, u8) {
    let mut best = (0.0, 1);
    for hashes in 1..=MAX_HASHES as u8 {
        let (mut low, mut high) = (0.0_f64, super::LINE_BITS as f64);
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            if blocked_rate(middle, hashes) <= rate { low = middle } else { high = middle }
        }
        if low < best.0 {
            return best; // it rises to one maximum and falls
        }
        best = (low, hashes);
    }
    best
}
