//! Callers that wait until all nodes have applied the entries up to some position.

use scalebricks_types::{PartitionId, Position};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::oneshot;

/// A caller that waits for several partitions.
struct Waiter {
    left: AtomicUsize,
    answer: std::sync::Mutex<Option<oneshot::Sender<()>>>,
}

impl Waiter {
    fn one_less(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Ok(mut answer) = self.answer.lock()
            && let Some(answer) = answer.take()
        {
            let _gone = answer.send(());
        }
    }

    fn is_gone(&self) -> bool {
        self.answer.lock().is_ok_and(|answer| answer.as_ref().is_none_or(oneshot::Sender::is_closed))
    }
}

/// All waiting callers.
#[derive(Default)]
pub(super) struct Waiters(BTreeMap<PartitionId, BTreeMap<Position, Vec<Arc<Waiter>>>>);

impl Waiters {
    /// Adds a caller that waits for all of these positions.
    pub(super) fn add(&mut self, positions: Vec<(PartitionId, Position)>, answer: oneshot::Sender<()>) {
        let waiter = Waiter {
            // One more than there are, so that it does not finish before all are added.
            left: AtomicUsize::new(positions.len() + 1),
            answer: std::sync::Mutex::new(Some(answer)),
        };
        let waiter = Arc::new(waiter);
        for (partition, position) in positions {
            self.0.entry(partition).or_default().entry(position).or_default().push(Arc::clone(&waiter));
        }
        waiter.one_less();
    }

    /// A partition is settled up to here.
    pub(super) fn settled(&mut self, partition: PartitionId, position: Position) {
        let Some(waiting) = self.0.get_mut(&partition) else { return };
        while let Some(first) = waiting.first_entry().filter(|first| *first.key() <= position) {
            first.remove().iter().for_each(|waiter| waiter.one_less());
        }
    }

    /// The log of a partition lost all entries after this one: callers that wait for them are dropped without an answer.
    pub(super) fn lost(&mut self, partition: PartitionId, last: Position) {
        if let Some(waiting) = self.0.get_mut(&partition) {
            waiting.split_off(&Position(last.0.saturating_add(1)));
        }
    }

    /// Removes callers that gave up.
    pub(super) fn tidy(&mut self) {
        for waiting in self.0.values_mut() {
            waiting.retain(|_, waiters| {
                waiters.retain(|waiter| !waiter.is_gone());
                !waiters.is_empty()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_partitions_are_waited_for() {
        let mut waiters = Waiters::default();
        let (answer, mut done) = oneshot::channel();
        waiters.add(vec![(PartitionId(1), Position(5)), (PartitionId(2), Position(7))], answer);
        waiters.settled(PartitionId(1), Position(4));
        waiters.settled(PartitionId(2), Position(9));
        assert!(done.try_recv().is_err());
        waiters.settled(PartitionId(1), Position(5));
        assert_eq!(done.try_recv(), Ok(()));
        let (answer, mut done) = oneshot::channel();
        waiters.add(Vec::new(), answer);
        assert_eq!(done.try_recv(), Ok(()), "nothing to wait for");
    }

    #[test]
    fn abandoned_waiters_are_forgotten() {
        let mut waiters = Waiters::default();
        let (answer, done) = oneshot::channel();
        waiters.add(vec![(PartitionId(1), Position(5))], answer);
        drop(done);
        waiters.tidy();
        assert!(waiters.0[&PartitionId(1)].is_empty());
    }
}
