//! The size of a table, as far as lookup kernels depend on it.

use super::{Generation, Units};

#[cfg(all(test, not(loom)))]
thread_local! {
    /// Whether this thread treats all tables as far.
    pub(crate) static ALL_FAR: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Number of lines of a table.
#[inline(always)]
pub(crate) fn lines<S: Units>(generation: &Generation<S>) -> usize {
    generation.arena.parts().1.len()
}

/// Whether the lines of a table are far away: whether it has at least so many, so that they are not in a certain cache.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline(always)]
pub(crate) fn is_far<S: Units>(generation: &Generation<S>, from: usize) -> bool {
    #[cfg(all(test, not(loom)))]
    if ALL_FAR.get() {
        return true;
    }
    lines(generation) >= from
}
