//! The atomics that readers and the writer share; under `--cfg loom`, those of the model checker.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use super::loom_shims::Memory;
/// Zeroed memory of atomics: on huge pages, except under the model checker, whose atomics have additional
/// state.
#[cfg(not(loom))]
pub(crate) use crate::huge::HugeSlice as Memory;

#[cfg(loom)]
pub(crate) use super::loom_shims::{ArcSwap, Cache};
/// Lead readers, without waiting, to a value that a writer replaces.
#[cfg(not(loom))]
pub(crate) use arc_swap::{ArcSwap, Cache};

/// Lets other threads run while waiting for them.
pub(crate) fn yield_now() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

/// Stores a value so that every later load comes after the store, from the view of any thread that does both
/// with a sequentially consistent fence between. Cost: one fence.
#[inline]
pub(crate) fn store_before_loads(cell: &AtomicU64, value: u64) {
    // On this processor a locked exchange is a full fence, and cheaper than the instruction that a fence
    // compiles to. Tools that check executions get the fence, on which the argument is based.
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
    {
        cell.swap(value, Ordering::SeqCst);
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, tsan)))))]
    {
        cell.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}
