//! Quiescence: when does no worker hold a pointer that it read earlier?
//!
//! Between two turns a worker holds no pointer into shared tables. A writer that has unlinked an object asks each
//! worker for a new mark, waits for it, and may then free the object. Between turns a worker checks with an acquire
//! load whether it was asked, and answers with a release store. So the writer sees everything that the worker read
//! before, and the worker sees the new pointer afterwards. A turn in which no writer asked costs one load and no fence.
//!
//! A paused worker cannot answer. Its mark says that it is away, and no writer waits for it. When it returns, it stores
//! its mark and then loads a pointer, while a writer stores a pointer and then loads the mark. Both sides put a
//! sequentially consistent fence in between, so either the writer sees that the worker is back and waits, or the worker
//! sees the newer pointer.

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

#[derive(Debug)]
struct Cells {
    /// Number of marks requested. Written by writers.
    asked: CachePadded<AtomicU64>,
    /// Number of marks answered, or [`AWAY`]. Written by the worker.
    answered: CachePadded<AtomicU64>,
}

/// One worker's mark. After it is dropped, the worker counts as away.
///
/// A [`Worker`](crate::Worker) has its own. Code that reads shared tables outside a worker needs another.
#[derive(Debug)]
pub struct Mark {
    cells: Arc<Cells>,
    /// Its last answer, unless it is away.
    answered: u64,
    is_away: bool,
}

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

/// Read access to a worker's mark.
#[derive(Debug, Clone)]
pub struct Quiescence(Arc<Cells>);

/// A grace period: the mark requested when an object was unlinked; none if the worker was away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GracePeriod(Option<u64>);

impl Mark {
    /// The mark of a worker that is away.
    pub fn new() -> Self {
        let cell = |value| CachePadded::new(AtomicU64::new(value));
        Self { cells: Arc::new(Cells { asked: cell(0), answered: cell(AWAY) }), answered: 0, is_away: true }
    }

    /// Declares that the worker holds nothing now and may read from now on. Cost: a load, a store if it was asked, and
    /// a fence if it was away.
    #[inline]
    pub fn pass(&mut self) {
        let asked = self.cells.asked.load(Ordering::Acquire);
        if asked != self.answered || self.is_away {
            self.answer(asked);
        }
    }

    #[cold]
    fn answer(&mut self, asked: u64) {
        self.answered = asked;
        self.cells.answered.store(asked, Ordering::Release);
        if std::mem::take(&mut self.is_away) {
            fence(Ordering::SeqCst);
        }
    }

    /// Declares that the worker reads nothing until it passes again, so that no writer waits for it.
    pub fn leave(&mut self) {
        self.is_away = true;
        self.cells.answered.store(AWAY, Ordering::Release);
    }

    /// Read access for others.
    pub fn view(&self) -> Quiescence {
        Quiescence(Arc::clone(&self.cells))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Quiescence {
    /// Requests a mark. Call it after the last path to the object was overwritten.
    pub fn since(&self) -> GracePeriod {
        let mark = self.0.asked.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        let is_away = self.0.answered.load(Ordering::Acquire) == AWAY;
        GracePeriod((!is_away).then_some(mark))
    }

    /// Whether the worker can no longer see what was unlinked before `since`.
    pub fn has_passed(&self, since: GracePeriod) -> bool {
        // `AWAY` is above every mark.
        since.0.is_none_or(|mark| self.0.answered.load(Ordering::Acquire) >= mark)
    }
}

#[cfg(loom)]
#[cfg(test)]
mod models {
    use super::*;
    use loom::sync::atomic::{AtomicBool, AtomicUsize};

    /// A worker reads a pointer in each turn; control code replaces it, waits, and frees the old one.
    fn model(leaves: bool) {
        loom::model(move || {
            let mut mark = Mark::new();
            let view = mark.view();
            let pointer = Arc::new(AtomicUsize::new(0));
            let freed = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let worker = {
                let (pointer, freed) = (Arc::clone(&pointer), Arc::clone(&freed));
                loom::thread::spawn(move || {
                    for _ in 0..2 {
                        mark.pass();
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
        let mut mark = Mark::new();
        let view = mark.view();
        assert!(view.has_passed(view.since()), "it is away");
        mark.pass();
        let first = view.since();
        mark.pass();
        let second = view.since();
        assert!(view.has_passed(first) && !view.has_passed(second));
        mark.pass();
        assert!(view.has_passed(second));
        let since = view.since();
        assert!(!view.has_passed(since));
        drop(mark);
        assert!(view.has_passed(since));
        assert!(view.has_passed(view.since()));
    }
}
