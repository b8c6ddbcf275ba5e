//! Orthogonal Bloom filters: two filters per value bit, one for names whose bit is 0 and one for names whose
//! bit is 1.
//!
//! A query asks both filters of each bit. That takes 2·l filters instead of one for each of 2^l actions, but
//! a name is in l of them. If neither filter fits, the name is unknown; if both fit, the bit is ambiguous.
//! The filters are interleaved ([`super::sliced`]), with the best number of hashes for their rate, so that a
//! known name has a total probability of [`RATE`](super::RATE) for a wrong filter that fits.

use super::sliced::Sliced;
use super::{Answer, Baseline, BaselineError, Touch};
use crate::keys::mix;
use scalebricks_types::KeyHash;

/// The filters.
#[derive(Debug)]
pub struct Orthogonal {
    /// For each bit, the filter for 0 and then the one for 1.
    filters: Sliced,
    pairs: usize,
}

impl Orthogonal {
    /// Builds the filters with a total false-positive rate of `rate` over all value bits.
    ///
    /// # Errors
    /// [`BaselineError::Action`] for an action with more bits.
    #[expect(clippy::cast_sign_loss, reason = "at least 1")]
    pub fn build(
        names: &[(KeyHash, u16)],
        value_bits: u8,
        rate: f64,
        seed: u64,
    ) -> Result<Self, BaselineError> {
        let pairs = usize::from(value_bits.clamp(1, 16));
        let mut counts = vec![0_u64; 2 * pairs];
        for &(_, action) in names {
            if u32::from(action) >> pairs > 0 {
                return Err(BaselineError::Action { action, actions: 1 << pairs });
            }
            (0..pairs).for_each(|bit| counts[place(action, bit)] += 1);
        }
        let hashes = (pairs as f64 / rate).log2().round().clamp(1.0, 32.0) as u8;
        // A name is in one filter of each pair. The other one may fit; assume the fuller one.
        let rows = Sliced::rows_for(rate, hashes, |of| {
            counts.chunks_exact(2).map(|pair| of(pair[0]).max(of(pair[1]))).sum()
        });
        let mut filters = Sliced::new(2 * pairs, rows, hashes, seed);
        for &(name, action) in names {
            let mine = (0..pairs).fold(0, |mine, bit| mine | 1 << place(action, bit));
            filters.insert(name, 0, mine);
        }
        Ok(Self { filters, pairs })
    }
}

/// The filter for one bit of an action.
fn place(action: u16, bit: usize) -> usize {
    2 * bit + usize::from(action >> bit & 1)
}

impl Baseline for Orthogonal {
    fn table_bytes(&self) -> u64 {
        self.filters.table_bytes()
    }

    #[inline(always)]
    fn find(&self, name: KeyHash, touch: &mut impl Touch) -> Answer {
        let mut fits = 0;
        self.filters.fitting(name, touch, |_, all| {
            fits = all;
            false
        });
        let (mut action, mut is_picked) = (0, false);
        for bit in 0..self.pairs {
            let value = match fits >> (2 * bit) & 3 {
                0 => return Answer::Unknown,
                1 => 0,
                2 => 1,
                _ => {
                    is_picked = true;
                    (mix(name.get()) >> bit & 1) as u16 // one bit
                }
            };
            action |= value << bit;
        }
        if is_picked { Answer::Picked(action) } else { Answer::Action(action) }
    }

    fn prefetch(&self, name: KeyHash) {
        self.filters.prefetch(name);
    }
}
