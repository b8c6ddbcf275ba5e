//! The size of a table, as far as lookup kernels depend on it.

use super::{Generation, Units};

/// Where the memory of a table is, and whether vector kernels can index it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableSpan {
    /// The table may stay in a private cache.
    Near,
    /// A lookup waits for cache lines from distant memory.
    Far,
    /// Indices in the table are too large for vector kernels.
    Beyond,
}

#[cfg(all(test, not(loom)))]
thread_local! {
    /// Whether this thread treats all tables as far.
    pub(crate) static ALL_FAR: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl TableSpan {
    /// The span of a table: from `far` lines on it is far, and with more than `most` lines it is beyond.
    #[inline(always)]
    pub(crate) fn of<S: Units>(generation: &Generation<S>, far: usize, most: usize) -> Self {
        #[cfg(all(test, not(loom)))]
        if ALL_FAR.get() {
            return Self::Far;
        }
        let lines = generation.arena.parts().1.len();
        if lines < far {
            Self::Near
        } else if lines <= most {
            Self::Far
        } else {
            Self::Beyond
        }
    }
}
