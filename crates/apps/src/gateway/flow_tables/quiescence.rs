//! Detects when no worker can still count a flow that has left: after each worker has begun another turn.
//!
//! A worker looks up and counts a flow within one turn and keeps no lookup result for the next. So after the flow's
//! last key has left the FIB, it is enough to see every worker between two turns: see [`Quiescence`]. A clock cannot
//! tell: a worker may lose its core between lookup and count for any time.

use scalebricks_graph::{GracePeriod, Mark, Quiescence};

/// The marks of all workers.
#[derive(Debug)]
pub(super) struct Marks {
    views: Vec<Quiescence>,
    /// Marks that no worker has taken yet.
    marks: Vec<Option<Mark>>,
}

impl Marks {
    /// Marks that all count as active: an unused one blocks departures instead of miscounting.
    pub(super) fn new(workers: usize) -> Self {
        let mut marks: Vec<Mark> = (0..workers).map(|_| Mark::new()).collect();
        marks.iter_mut().for_each(Mark::pass);
        Self { views: marks.iter().map(Mark::view).collect(), marks: marks.into_iter().map(Some).collect() }
    }

    pub(super) fn take(&mut self, worker: usize) -> Option<Mark> {
        self.marks.get_mut(worker)?.take()
    }

    /// The workers' current positions, for [`Marks::all_passed`].
    pub(super) fn all(&self) -> Vec<GracePeriod> {
        self.views.iter().map(Quiescence::since).collect()
    }

    /// Whether every worker has since begun another turn, or was away.
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
