//! BUFFALO: a Bloom filter of names for each action, all of them queried (Yu, Fabrikant and Rexford, `CoNEXT`
//! 2009).
//!
//! A name is in the filter of its action, so that filter always fits. Others fit with their false-positive
//! rate; then one of the fitting actions is picked. (In the paper, the packet takes a detour and still
//! arrives.) All filters use the same hash functions, at most eight, because each is a memory access
//! (`k_max`).
//!
//! [`Sizes`] divides the fast memory among the filters to minimise false positives.
//!
//! [`SideBySide`] has interleaved filters of one size, for which the Concise paper counts the lines per
//! query.
//!
//! The paper's counting filters in slow memory, which allow updates, are not implemented, because no figure
//! measures them.

mod side_by_side;
mod sizes;

pub use side_by_side::SideBySide;
pub use sizes::Sizes;

use super::bloom::{ClassicFilter, word};
use super::{Answer, Baseline, BaselineError, Pick, Touch};
use scalebricks_types::KeyHash;

/// Maximum hash functions per name (`k_max`), as in the Concise paper.
pub const K_MAX: u8 = 8;

/// The filters in fast memory.
#[derive(Debug)]
pub struct Buffalo {
    /// One per action.
    filters: Vec<ClassicFilter>,
    seed: u64,
}

impl Buffalo {
    /// Builds the filters of these names.
    ///
    /// # Errors
    /// [`BaselineError::Action`] if an action has no filter.
    pub fn build(names: &[(KeyHash, u16)], sizes: &Sizes) -> Result<Self, BaselineError> {
        let mut filters: Vec<ClassicFilter> =
            sizes.filters().iter().map(|&params| ClassicFilter::new(params)).collect();
        for &(name, action) in names {
            let actions = filters.len();
            let filter = filters.get_mut(usize::from(action));
            filter.ok_or(BaselineError::Action { action, actions })?.insert(name);
        }
        Ok(Self { filters, seed: sizes.seed() })
    }
}

impl Baseline for Buffalo {
    fn table_bytes(&self) -> u64 {
        let filters = self.filters.iter().map(|filter| filter.table_bytes() + size_of::<ClassicFilter>());
        filters.sum::<usize>() as u64
    }

    fn find(&self, name: KeyHash, touch: &mut impl Touch) -> Answer {
        let words: [u64; K_MAX as usize] = std::array::from_fn(|number| word(name, self.seed, number as u64));
        let mut pick = Pick::new(name);
        for (filter, action) in self.filters.iter().zip(0..=u16::MAX) {
            // The filter's own position and size.
            touch.line(0, usize::from(action) * size_of::<ClassicFilter>() / 64);
            if filter.contains_words(words.into_iter(), |line| touch.line(1 + usize::from(action), line)) {
                pick.add(action);
            }
        }
        pick.answer()
    }
}
