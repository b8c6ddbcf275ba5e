//! The size of a filter, and the seed of its bit positions.

use super::probe::MAX_HASHES;
use super::{LINE_BITS, theory};

/// The maximum number of lines of a filter: 64 GiB.
pub const MAX_LINES: u64 = 1 << 30;

/// Size of encoded parameters in bytes.
pub(super) const PARAMS_BYTES: usize = 16;

/// Where the bits of a name may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Anywhere: needs the fewest bits.
    Classic,
    /// In one cache line.
    Blocked,
}

/// The parameters on which a filter and the filters that follow it must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilterParams {
    layout: Layout,
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
    /// Reserved bytes that are not 0.
    #[error("bytes that are to be 0 are not")]
    Reserved,
    /// An unknown layout, perhaps of a later version.
    #[error("layout {0} is not known")]
    Layout(u8),
}

impl FilterParams {
    /// The smallest filter, in whole lines, that passes aliens at this rate when it holds `names` names,
    /// according to [`theory`].
    ///
    /// # Errors
    /// [`FilterParamsError`] for rates below 1e-9 or above 0.5, and for more than [`MAX_LINES`].
    #[expect(clippy::cast_sign_loss, reason = "rates and loads are positive")]
    pub fn for_names(names: u64, rate: f64, layout: Layout) -> Result<Self, FilterParamsError> {
        if !(1e-9..=0.5).contains(&rate) {
            return Err(FilterParamsError::Rate(rate));
        }
        let names = names.max(1) as f64;
        let (lines, hashes) = match layout {
            Layout::Classic => {
                let bits_per_name = theory::classic_bits_per_name(rate);
                let hashes = theory::best_hashes(bits_per_name, MAX_HASHES as u8);
                // `hashes` is a whole number, so slightly more bits are needed than with the exact optimum.
                (names * bits_for(rate, hashes) / LINE_BITS as f64, hashes)
            }
            Layout::Blocked => {
                let (names_per_line, hashes) = theory::blocked_load(rate);
                (names / names_per_line.max(f64::MIN_POSITIVE), hashes)
            }
        };
        Self::of_lines(lines.ceil() as u64, hashes, layout) // saturates, and is refused then
    }

    /// A filter of this many lines, with this many bits per name.
    ///
    /// # Errors
    /// [`FilterParamsError`] for numbers beyond the limits.
    pub const fn of_lines(lines: u64, hashes: u8, layout: Layout) -> Result<Self, FilterParamsError> {
        if hashes == 0 || hashes as usize > MAX_HASHES {
            return Err(FilterParamsError::Hashes(hashes));
        }
        if lines == 0 || lines > MAX_LINES {
            return Err(FilterParamsError::Lines(lines));
        }
        Ok(Self { layout, lines, hashes, seed: 0 })
    }

    /// The same parameters with another seed of the positions. It is not a secret: hashes are keyed.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Where the bits of a name may be.
    pub const fn layout(&self) -> Layout {
        self.layout
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

    /// The rate at which a filter with this many names passes aliens, according to [`theory`].
    pub fn false_positive_rate(&self, names: u64) -> f64 {
        match (names, self.layout) {
            (0, _) => 0.0,
            (_, Layout::Classic) => {
                theory::classic_rate(self.bits() as f64 / names as f64, self.hashes.into())
            }
            (_, Layout::Blocked) => theory::blocked_rate(names as f64 / self.lines as f64, self.hashes),
        }
    }

    /// The encoded parameters: layout, bits per name, two zero bytes, lines, seed; little-endian.
    pub(super) fn encode(&self) -> [u8; PARAMS_BYTES] {
        let mut bytes = [0; PARAMS_BYTES];
        bytes[0] = match self.layout {
            Layout::Classic => 0,
            Layout::Blocked => 1,
        };
        bytes[1] = self.hashes;
        bytes[4..8].copy_from_slice(&(self.lines as u32).to_le_bytes()); // at most 2^30
        bytes[8..].copy_from_slice(&self.seed.to_le_bytes());
        bytes
    }

    /// Decodes parameters.
    pub(super) const fn decode(bytes: &[u8; PARAMS_BYTES]) -> Result<Self, FilterParamsError> {
        let [layout, hashes, 0, 0, l0, l1, l2, l3, seed @ ..] = *bytes else {
            return Err(FilterParamsError::Reserved);
        };
        let layout = match layout {
            0 => Layout::Classic,
            1 => Layout::Blocked,
            other => return Err(FilterParamsError::Layout(other)),
        };
        let lines = u32::from_le_bytes([l0, l1, l2, l3]) as u64;
        match Self::of_lines(lines, hashes, layout) {
            Ok(params) => Ok(params.with_seed(u64::from_le_bytes(seed))),
            Err(error) => Err(error),
        }
    }
}

/// Bits per name of a classic filter with this rate and exactly this many bits set per name.
fn bits_for(rate: f64, hashes: u8) -> f64 {
    let hashes = f64::from(hashes);
    -hashes / (-rate.powf(1.0 / hashes)).ln_1p()
}
