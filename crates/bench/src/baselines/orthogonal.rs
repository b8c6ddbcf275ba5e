//! Orthogonal Bloom filters: two filters for each bit of the value, of the names whose bit is 0 and of those whose bit is 1.
//!
//! A query asks both filters of each bit. So it takes 2·l filters and not one for each of 2^l actions, but a name is in l of them.
//! If neither fits, the name is unknown; if both do, the bit cannot be told. A filter is sized for the names it has,
//! with as many hashes as suit it best, so that a known name meets a wrong filter that fits with probability [`RATE`](super::RATE) in all.

use super::{Answer, Baseline, BaselineError, Lines, Touch};
use crate::keys::mix;
use scalebricks_tables::filter::{BloomFilter, FilterParams, Layout, Words};
use scalebricks_types::KeyHash;

/// The filters.
#[derive(Debug)]
pub struct Orthogonal {
    /// Of the first bit those of 0 and 1, then of the second.
    filters: Vec<BloomFilter>,
    /// Most bits a name has in one of them.
    hashes: u8,
    seed: u64,
}

impl Orthogonal {
    /// The filters of these names, with false positives of `rate` in all value bits together.
    ///
    /// # Errors
    /// [`BaselineError::Filter`]; [`BaselineError::Action`] for one of more bits.
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
        let mut filters = Vec::with_capacity(counts.len());
        for count in counts {
            let params = FilterParams::for_names(count, rate / pairs as f64, Layout::Classic)?;
            filters.push(BloomFilter::new(params.with_seed(seed)));
        }
        for &(name, action) in names {
            (0..pairs).for_each(|bit| filters[place(action, bit)].insert(name));
        }
        let hashes = filters.iter().map(|filter| filter.params().hashes()).max().unwrap_or(1);
        Ok(Self { filters, hashes, seed })
    }

    fn find(&self, name: KeyHash, touch: &mut impl Touch) -> Answer {
        let words = Words::of(name, self.seed, self.hashes);
        let (mut action, mut is_picked) = (0, false);
        for (bit, pair) in self.filters.chunks_exact(2).enumerate() {
            let mut fits = |of: usize| pair[of].contains_words(&words, |line| touch.line(2 * bit + of, line));
            let value = match (fits(0), fits(1)) {
                (false, false) => return Answer::Unknown,
                (true, false) => 0,
                (false, true) => 1,
                (true, true) => {
                    is_picked = true;
                    (mix(name.get()) >> bit & 1) as u16 // one bit
                }
            };
            action |= value << bit;
        }
        if is_picked { Answer::Picked(action) } else { Answer::Action(action) }
    }
}

/// The filter that an action's names are in, for one bit of it.
fn place(action: u16, bit: usize) -> usize {
    2 * bit + usize::from(action >> bit & 1)
}

impl Baseline for Orthogonal {
    fn name(&self) -> &'static str {
        "orthogonal"
    }

    fn table_bytes(&self) -> u64 {
        let filters = self.filters.iter().map(|filter| filter.table_bytes() + size_of::<BloomFilter>());
        filters.sum::<usize>() as u64
    }

    fn look_up(&self, name: KeyHash) -> Answer {
        self.find(name, &mut ())
    }

    fn lines(&self, name: KeyHash) -> usize {
        let mut lines = Lines::default();
        self.find(name, &mut lines);
        lines.take()
    }
}
