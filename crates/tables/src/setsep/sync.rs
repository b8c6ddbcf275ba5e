//! The atomics of what readers and the writer share; under `--cfg loom`, those of the model checker.

#[cfg(loom)]
pub(super) use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering, fence},
};

/// Lets other threads run while waiting for them.
pub(super) fn yield_now() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}
