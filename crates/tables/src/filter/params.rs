//! The size of a filter, its false positive rate, and the seed of its bit positions.
//!
//! A line of 512 bits is a Bloom filter with a number of names that is Poisson distributed around λ, the
//! names per line. With `k` bits per name, an alien name passes with probability (Putze et al., WEA 2007)
//!
//! ```text
//! f = Σ_i e^(−λ)·λ^i/i! · (1 − (1 − 1/512)^(ki))^k
//! ```

use super::LINE_BITS;
use super::probe::MAX_HASHES;

/// The maximum number of lines of a filter: 64 GiB.
pub const MAX_LINES: u64 = 1 << 30;

/// The parameters on which a filter and the filters that follow it must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilterParams {
    lines: u64,
    hashes: u8,
    seed: u64,
}

/// Why parameters are invalid.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum FilterParamsError {
    /// A false positive rate outside the supported range.
    #[error("a rate of false positives of {0} is not between 1e-9 and 0.5")]
    Rate(f64),
    /// Too few or too many bits per name.
    #[error("{0} bits a name are not between 1 and {MAX_HASHES}")]
    Hashes(u8),
    /// Too few or too many bits in total.
    #[error("{0} lines are not between 1 and {MAX_LINES}")]
    Lines(u64),
}

impl FilterParams {
    /// The smallest filter, in whole lines, that passes aliens at this rate when it holds `names` names,
    /// according to [`false_positive_rate`](Self::false_positive_rate). Cost: some milliseconds.
    ///
    /// # Errors
    /// [`FilterParamsError`] for rates below 1e-9 or above 0.5, and for more than [`MAX_LINES`].
    #[expect(clippy::cast_sign_loss, reason = "rates and loads are positive")]
    pub fn for_names(names: u64, rate: f64) -> Result<Self, FilterParamsError> {
        if !(1e-9..=0.5).contains(&rate) {
            return Err(FilterParamsError::Rate(rate));
        }
        let (names_per_line, hashes) = blocked_load(rate);
        let lines = names.max(1) as f64 / names_per_line.max(f64::MIN_POSITIVE);
        Self::of_lines(lines.ceil() as u64, hashes) // saturates, and is refused then
    }

    /// A filter of this many lines, with this many bits per name.
    ///
    /// # Errors
    /// [`FilterParamsError`] for numbers beyond the limits.
    pub const fn of_lines(lines: u64, hashes: u8) -> Result<Self, FilterParamsError> {
        if hashes == 0 || hashes as usize > MAX_HASHES {
            return Err(FilterParamsError::Hashes(hashes));
        }
        if lines == 0 || lines > MAX_LINES {
            return Err(FilterParamsError::Lines(lines));
        }
        Ok(Self { lines, hashes, seed: 0 })
    }

    /// The same parameters with another seed of the positions. It is not a secret: hashes are keyed.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Number of cache lines of bits.
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// Total number of bits.
    pub const fn bits(&self) -> u64 {
        self.lines * LINE_BITS
    }

    /// Bits per name.
    pub const fn hashes(&self) -> u8 {
        self.hashes
    }

    /// The seed of the bit positions.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The rate at which a filter with this many names passes aliens, by the formula.
    pub fn false_positive_rate(&self, names: u64) -> f64 {
        if names == 0 { 0.0 } else { blocked_rate(names as f64 / self.lines as f64, self.hashes) }
    }
}

/// The false positive rate of a filter with this many names per line on average.
#[expect(clippy::cast_sign_loss, reason = "a sum of loads")]
fn blocked_rate(names_per_line: f64, hashes: u8) -> f64 {
    let hashes = f64::from(hashes);
    let clear = (1.0 - 1.0 / LINE_BITS as f64).powf(hashes);
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

/// The maximum number of names per line for which a filter has this rate, and the number of bits to set per
/// name.
fn blocked_load(rate: f64) -> (f64, u8) {
    let mut best = (0.0, 1);
    for hashes in 1..=MAX_HASHES as u8 {
        let (mut low, mut high) = (0.0_f64, LINE_BITS as f64);
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
