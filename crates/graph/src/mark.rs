//! Quiescence: when does no worker hold a pointer that it read before?
//!
//! A worker marks once per turn that it holds no pointer into shared tables. A writer that took something out of the
//! workers' sight notes the marks, waits until each has advanced, and may then free it. Both sides put a sequentially
//! consistent fence between their store (mark; pointer) and their load (pointer; mark). So either control sees the
//! newer mark, and waits for one newer still, or the worker sees the newer pointer. An advance of one is enough.

use crossbeam_utils::CachePadded;
#[cfg(loom)]
use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering, fence},
};

/// The worker reads nothing.
const AWAY: u64 = u64::MAX;

/// One worker's mark, which it alone writes.
#[derive(Debug)]
pub(crate) struct Mark(Arc<CachePadded<AtomicU64>>);

/// A worker's mark as others see it.
#[derive(Debug, Clone)]
pub struct Quiescence(Arc<CachePadded<AtomicU64>>);

/// The worker's mark when something was taken out of its sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since(u64);

impl Mark {
    pub(crate) fn new() -> Self {
        Self(Arc::new(CachePadded::new(AtomicU64::new(AWAY))))
    }

    /// The worker holds nothing now, and may read from now on. Cost: one fence.
    #[inline]
    pub(crate) fn pass(&self, turn: u64) {
        self.0.store(turn, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// The worker reads nothing until it passes again.
    pub(crate) fn leave(&self) {
        self.0.store(AWAY, Ordering::Release);
    }

    pub(crate) fn view(&self) -> Quiescence {
        Quiescence(Arc::clone(&self.0))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Quiescence {
    /// To be called after the last path to something was overwritten.
    pub fn since(&self) -> Since {
        fence(Ordering::SeqCst);
        Since(self.0.load(Ordering::Acquire))
    }

    /// Whether the worker can no longer see what was taken out of its sight before `since`.
    pub fn has_passed(&self, since: Since) -> bool {
        since.0 == AWAY || self.0.load(Ordering::Acquire) != since.0
    }
}

#[cfg(loom)]
#[cfg(test)]
mod models {
    use super::*;
    use loom::sync::atomic::{AtomicBool, AtomicUsize};

    /// A worker reads a pointer in each turn; control replaces it, waits, and frees the old one.
    fn model(leaves: bool) {
        loom::model(move || {
            let mark = Mark::new();
            let view = mark.view();
            let pointer = Arc::new(AtomicUsize::new(0));
            let freed = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let worker = {
                let (pointer, freed) = (Arc::clone(&pointer), Arc::clone(&freed));
                loom::thread::spawn(move || {
                    for turn in 0..2 {
                        mark.pass(turn);
                        let at = pointer.load(Ordering::Acquire);
                        assert!(!freed[at].load(Ordering::Relaxed), "a turn reads what was freed");
                        if leaves {
                            mark.leave();
                        }
                    }
                })
            };
            pointer.store(1, Ordering::Release);
            let since = view.since();
            if view.has_passed(since) {
                freed[0].store(true, Ordering::Relaxed);
            }
            assert!(worker.join().is_ok());
            assert!(view.has_passed(since), "the worker is gone");
        });
    }

    #[test]
    fn loom_nothing_is_freed_that_a_turn_reads() {
        model(false);
    }

    #[test]
    fn loom_nothing_is_freed_that_a_turn_after_a_pause_reads() {
        model(true);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_passes_and_so_does_a_worker_that_is_gone() {
        let mark = Mark::new();
        mark.pass(7);
        let view = mark.view();
        let since = view.since();
        assert!(!view.has_passed(since));
        mark.pass(8);
        assert!(view.has_passed(since));
        let since = view.since();
        drop(mark);
        assert!(view.has_passed(since));
        assert!(view.has_passed(view.since()));
    }
}
