//! Batches in doubt: sent, with unknown outcome.

use scalebricks_control::engine::BatchId;
use scalebricks_types::Position;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of batches in doubt.
const LIMIT: usize = 16 << 10;

/// Age after which batches may be dropped when there is no room.
const LIFE: Duration = Duration::from_secs(600);

/// What is known about earlier attempts at a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PriorAttempt {
    /// It is in the log.
    Known(Position),
    /// It was sent before, with unknown outcome.
    Sent,
    /// It was not sent before.
    New,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    since: Instant,
    /// If it is in the log, then after this position.
    floor: u64,
}

/// The batches in doubt.
#[derive(Debug, Default)]
pub(super) struct InDoubt(HashMap<BatchId, Sent>);

impl InDoubt {
    pub(super) fn contains(&self, id: BatchId) -> bool {
        self.0.contains_key(&id)
    }

    /// Time since it was first sent.
    pub(super) fn age(&self, id: BatchId) -> Option<Duration> {
        self.0.get(&id).map(|sent| sent.since.elapsed())
    }

    /// Adds a batch before it is sent; the log ends at `floor` or later. `None`: there are too many.
    pub(super) fn send(&mut self, id: BatchId, floor: u64) -> Option<PriorAttempt> {
        if self.0.contains_key(&id) {
            return Some(PriorAttempt::Sent);
        }
        if self.0.len() >= LIMIT {
            self.0.retain(|_, sent| sent.since.elapsed() < LIFE);
            if self.0.len() >= LIMIT {
                return None;
            }
        }
        self.0.insert(id, Sent { since: Instant::now(), floor });
        Some(PriorAttempt::New)
    }

    /// Removes a batch whose outcome is known.
    pub(super) fn remove(&mut self, id: BatchId) {
        self.0.remove(&id);
    }

    /// All batches that are in the log are after this position.
    pub(super) fn floor(&self) -> Option<u64> {
        self.0.values().map(|sent| sent.floor).min()
    }

    /// Records that none is at or below this position.
    pub(super) fn raise(&mut self, floor: u64) {
        self.0.values_mut().for_each(|sent| sent.floor = sent.floor.max(floor));
    }

    /// Records that none is in the log up to here: they count as sent now.
    pub(super) fn renew(&mut self, floor: u64) {
        self.raise(floor);
        self.0.values_mut().for_each(|sent| sent.since = Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_control::engine::WriterId;

    fn id(number: u64) -> BatchId {
        BatchId { writer: WriterId(1), number }
    }

    #[test]
    fn a_batch_is_new_once_until_it_is_settled() {
        let mut in_doubt = InDoubt::default();
        assert_eq!(in_doubt.send(id(1), 7), Some(PriorAttempt::New));
        assert_eq!(in_doubt.send(id(1), 9), Some(PriorAttempt::Sent));
        assert_eq!(in_doubt.send(id(2), 5), Some(PriorAttempt::New));
        assert_eq!(in_doubt.floor(), Some(5));
        in_doubt.raise(6);
        assert_eq!(in_doubt.floor(), Some(6));
        in_doubt.remove(id(2));
        assert_eq!((in_doubt.floor(), in_doubt.contains(id(2))), (Some(7), false));
        assert!(in_doubt.age(id(1)).is_some() && in_doubt.age(id(2)).is_none());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut in_doubt = InDoubt::default();
        assert!((0..LIMIT as u64).all(|number| in_doubt.send(id(number), 0) == Some(PriorAttempt::New)));
        assert_eq!(in_doubt.send(id(LIMIT as u64), 0), None);
        assert_eq!(in_doubt.send(id(3), 0), Some(PriorAttempt::Sent));
        in_doubt.remove(id(3));
        assert_eq!(in_doubt.send(id(LIMIT as u64), 0), Some(PriorAttempt::New));
    }
}
