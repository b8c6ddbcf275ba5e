//! When no worker can still count where a flow was: after each of them has begun another turn.
//!
//! A worker looks a flow up and counts for it within one turn, and takes nothing it looked up into the next. So it is
//! enough to see every worker between two turns, after the last key of the flow has left the FIB. No clock can say that:
//! a worker may lose its core between the two for as long as the machine likes.
//!
//! **Why it holds.** All writes to a worker's mark are read-modify-writes, those of [`Marks::all`] too, so each reads from
//! the one before, and acquires what was done before it. Say `all` reads the mark `s` of a worker at work, after keys have
//! left the FIB. The worker's next mark follows this read: whatever it looks up from then on, it finds without those
//! keys. And who sees a mark other than `s` sees all that the worker has counted before it made that mark. Of a worker at
//! rest the same is true at once: its counts came before its mark, its next lookups come after the next one.

use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Even: at work. Odd: at rest.
type Mark = CachePadded<AtomicU64>;

/// A worker's word that it is between two turns. Dropped, the worker rests for good.
///
/// One worker holds it, and uses it beside its [`NodeTables`](crate::gateway::NodeTables): [`Turns::pass`] before each turn.
#[derive(Debug)]
pub struct Turns {
    mark: Arc<Mark>,
}

impl Turns {
    /// The worker begins another turn: it holds nothing that it looked up before. Cost: one locked instruction on a
    /// line of the cache that is mostly its own.
    #[inline]
    pub fn pass(&mut self) {
        // Only this worker changes the mark: it is still what was loaded.
        let mark = self.mark.load(Ordering::Relaxed);
        self.mark.swap((mark | 1).wrapping_add(1), Ordering::AcqRel);
    }

    /// The worker looks nothing up until its next [`Turns::pass`], and need not be waited for. For workers that sleep
    /// long. Cost: as [`Turns::pass`].
    pub fn rest(&mut self) {
        self.mark.fetch_or(1, Ordering::AcqRel);
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.rest();
    }
}

/// The marks of all workers.
#[derive(Debug)]
pub(super) struct Marks {
    marks: Vec<Arc<Mark>>,
    /// Those that no worker has yet.
    turns: Vec<Option<Turns>>,
}

impl Marks {
    /// All of them at work: one that is forgotten is waited for, rather than counted wrong.
    pub(super) fn new(workers: usize) -> Self {
        let marks: Vec<Arc<Mark>> = (0..workers).map(|_| Arc::default()).collect();
        let turns = marks.iter().map(|mark| Some(Turns { mark: Arc::clone(mark) })).collect();
        Self { marks, turns }
    }

    pub(super) fn take(&mut self, worker: usize) -> Option<Turns> {
        self.turns.get_mut(worker)?.take()
    }

    /// Where all workers are now, to be given to [`Marks::all_passed`].
    pub(super) fn all(&self) -> Vec<u64> {
        // An addition of nothing, not a load: see the module.
        self.marks.iter().map(|mark| mark.fetch_add(0, Ordering::AcqRel)).collect()
    }

    /// Whether every worker has begun another turn since, or was at rest.
    pub(super) fn all_passed(&self, since: &[u64]) -> bool {
        self.marks
            .iter()
            .zip(since)
            .all(|(mark, &since)| since & 1 == 1 || mark.load(Ordering::Acquire) != since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_is_waited_for_unless_it_rests() {
        let mut marks = Marks::new(2);
        let since = marks.all();
        let (mut a, mut b) = (marks.take(0).unwrap(), marks.take(1).unwrap());
        assert!(marks.take(0).is_none(), "one worker holds it");
        assert!(marks.take(2).is_none());
        assert!(!marks.all_passed(&since), "no worker has begun");
        a.pass();
        assert!(!marks.all_passed(&since));
        b.rest();
        assert!(marks.all_passed(&since));
        let since = marks.all();
        assert!(!marks.all_passed(&since));
        a.pass();
        assert!(marks.all_passed(&since), "the other one rested all the time");
        b.pass();
        let since = marks.all();
        a.pass();
        assert!(!marks.all_passed(&since), "back at work");
        b.rest();
        b.rest();
        assert!(marks.all_passed(&since));
        drop(a);
        assert!(marks.all_passed(&marks.all()));
        assert!(Marks::new(0).all_passed(&[]));
    }
}
