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

/// A table of at least this many lines is mostly in memory, not in the cache that cores share: 16 MiB.
#[cfg(all(target_arch = "x86_64", not(loom)))]
pub(crate) const MEMORY_LINES: usize = 1 << 18;

/// Whether the lines of a table are so far away that long calls prefetch them: whether it has at least so many. Where the
/// processor [hides the latency of its shared cache](crate::isa::hides_cache_latency), only memory is far.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline(always)]
pub(crate) fn is_far<S: Units>(generation: &Generation<S>, from: usize) -> bool {
    #[cfg(all(test, not(loom)))]
    if ALL_FAR.get() {
        return true;
    }
    let nearest = if crate::isa::hides_cache_latency() { MEMORY_LINES } else { 0 };
    lines(generation) >= from.max(nearest)
}
