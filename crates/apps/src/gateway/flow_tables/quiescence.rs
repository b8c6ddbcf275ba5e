//! When no worker can still count where a flow was: after each of them has begun another turn.
//!
//! A worker looks a flow up and counts for it within one turn, and takes nothing it looked up into the next. So it is
//! enough to see every worker between two turns, after the last key of the flow has left the FIB: see
//! [`Quiescence`]. No clock can say that: a worker may lose its core between the two for as long as the machine likes.

use scalebricks_graph::{GracePeriod, Mark, Quiescence};

/// The marks of all workers.
#[derive(Debug)]
pub(super) struct Marks {
    views: Vec<Quiescence>,
    /// Those that no worker has yet.
    marks: Vec<Option<Mark>>,
}

impl Marks {
    /// All of them at work: one that is forgotten is waited for, rather than counted wrong.
    pub(super) fn new(workers: usize) -> Self {
        let mut marks: Vec<Mark> = (0..workers).map(|_| Mark::new()).collect();
        marks.iter_mut().for_each(Mark::pass);
        Self { views: marks.iter().map(Mark::view).collect(), marks: marks.into_iter().map(Some).collect() }
    }

    pub(super) fn take(&mut self, worker: usize) -> Option<Mark> {
        self.marks.get_mut(worker)?.take()
    }

    /// Where all workers are now, to be given to [`Marks::all_passed`].
    pub(super) fn all(&self) -> Vec<GracePeriod> {
        self.views.iter().map(Quiescence::since).collect()
    }

    /// Whether every worker has begun another turn since, or was away.
    pub(super) fn all_passed(&self, since: &[GracePeriod]) -> bool {
        self.views.iter().zip(since).all(|(view, &since)| view.has_passed(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_is_waited_for_unless_it_is_away() {
        let mut marks = Marks::new(2);
        let since = marks.all();
        let (mut a, mut b) = (marks.take(0).unwrap(), marks.take(1).unwrap());
        assert!(marks.take(0).is_none(), "one worker holds it");
        assert!(marks.take(2).is_none());
        assert!(!marks.all_passed(&since), "no worker has begun");
        a.pass();
        assert!(!marks.all_passed(&since));
        b.leave();
        assert!(marks.all_passed(&since));
        let since = marks.all();
        assert!(!marks.all_passed(&since));
        a.pass();
        assert!(marks.all_passed(&since), "the other one was away all the time");
        b.pass();
        let since = marks.all();
        a.pass();
        assert!(!marks.all_passed(&since), "back at work");
        b.leave();
        b.leave();
        assert!(marks.all_passed(&since));
        drop(a);
        assert!(marks.all_passed(&marks.all()));
        assert!(Marks::new(0).all_passed(&[]));
    }
}
