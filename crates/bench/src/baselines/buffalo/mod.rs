//! BUFFALO: a Bloom filter of names for each action, all of them asked (Yu, Fabrikant and Rexford, `CoNEXT` 2009).
//!
//! A name is in the filter of its action, so that one always fits. Another fits at that filter's rate of false positives; then one
//! of those that fit is picked (the paper's packet takes a detour, and arrives nevertheless). All filters take the same hash
//! functions, at most eight, since each is a memory access (`k_max`).
//!
//! Fast memory is shared out among the filters so that few false positives come of it in all: [`Sizes`]. In slow memory each filter has
//! a twin that counts ([`BuffaloControl`]): names come and go there, and what follows for the bits is sent.
//!
//! [`SideBySide`] has filters of one size, interleaved, as the Concise paper counts the lines of a query.
//!
//! The paper also keeps the counting twins large and folds them in half for filters of another size. Here, new
//! sizes mean new filters from the control side's names.

mod control;
mod side_by_side;
mod sizes;

pub use control::BuffaloControl;
pub use side_by_side::SideBySide;
pub use sizes::Sizes;

use super::{Answer, Baseline, BaselineError, Lines, Touch};
use crate::keys::mix;
use scalebricks_tables::filter::{BloomFilter, FilterDelta, ProbeWords};
use scalebricks_types::KeyHash;

/// Most hash functions a name (`k_max`), as the Concise paper has it.
pub const K_MAX: u8 = 8;

/// The filters of fast memory.
#[derive(Debug)]
pub struct Buffalo {
    /// One an action.
    filters: Vec<BloomFilter>,
    seed: u64,
}

impl Buffalo {
    /// The filters of these names.
    ///
    /// # Errors
    /// [`BaselineError::Action`] if there is none of these sizes for one.
    pub fn build(names: &[(KeyHash, u16)], sizes: &Sizes) -> Result<Self, BaselineError> {
        let filters: Vec<BloomFilter> =
            sizes.filters().iter().map(|&params| BloomFilter::new(params)).collect();
        for &(name, action) in names {
            let actions = filters.len();
            let filter = filters.get(usize::from(action));
            filter.ok_or(BaselineError::Action { action, actions })?.insert(name);
        }
        Ok(Self { filters, seed: sizes.seed() })
    }

    /// Makes one action's bits what its counting twin says.
    ///
    /// # Errors
    /// [`BaselineError::Action`], [`BaselineError::Delta`].
    pub fn apply(&self, action: u16, delta: &FilterDelta) -> Result<(), BaselineError> {
        let filter = self.filters.get(usize::from(action));
        Ok(filter.ok_or(BaselineError::Action { action, actions: self.filters.len() })?.apply(delta)?)
    }

    fn find(&self, name: KeyHash, touch: &mut impl Touch) -> Answer {
        let words = ProbeWords::of(name, self.seed, K_MAX);
        let (mut fitting, mut picked) = (0, 0);
        for (filter, action) in self.filters.iter().zip(0..=u16::MAX) {
            // Where its bits are, and how many.
            touch.line(0, usize::from(action) * size_of::<BloomFilter>() / 64);
            if filter.contains_words(&words, |line| touch.line(1 + usize::from(action), line)) {
                fitting += 1;
                // Each of those that fit with equal probability: the one just found takes the place with 1 of `fitting`.
                if mix(name.get() ^ fitting).is_multiple_of(fitting) {
                    picked = action;
                }
            }
        }
        match fitting {
            0 => Answer::Unknown,
            1 => Answer::Action(picked),
            _ => Answer::Picked(picked),
        }
    }
}

impl Baseline for Buffalo {
    fn name(&self) -> &'static str {
        "buffalo"
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
