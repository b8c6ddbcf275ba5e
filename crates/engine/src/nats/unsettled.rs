//! Batches that were sent and of which it is not known what became.

use scalebricks_control::engine::BatchId;
use scalebricks_types::Position;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// So many at the most.
const LIMIT: usize = 16 << 10;

/// If there is no room, what was not asked for again for so long is forgotten.
const LIFE: Duration = Duration::from_secs(600);

/// What is known of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in the log.
    Known(Position),
    /// It was sent before.
    Sent,
    /// It was not.
    New,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    since: Instant,
    /// If it is in the log, it stands behind this position.
    floor: u64,
}

/// The batches.
#[derive(Debug, Default)]
pub(super) struct Unsettled(HashMap<BatchId, Sent>);

impl Unsettled {
    pub(super) fn contains(&self, id: BatchId) -> bool {
        self.0.contains_key(&id)
    }

    /// How long ago it was sent first.
    pub(super) fn age(&self, id: BatchId) -> Option<Duration> {
        self.0.get(&id).map(|sent| sent.since.elapsed())
    }

    /// A batch is about to be sent, when the log was seen to reach `floor`. `None`: there are too many.
    pub(super) fn send(&mut self, id: BatchId, floor: u64) -> Option<Verdict> {
        if self.0.contains_key(&id) {
            return Some(Verdict::Sent);
        }
        if self.0.len() >= LIMIT {
            self.0.retain(|_, sent| sent.since.elapsed() < LIFE);
            if self.0.len() >= LIMIT {
                return None;
            }
        }
        self.0.insert(id, Sent { since: Instant::now(), floor });
        Some(Verdict::New)
    }

    /// It is known what became of it.
    pub(super) fn remove(&mut self, id: BatchId) {
        self.0.remove(&id);
    }

    /// All of them stand behind this, if they are in the log.
    pub(super) fn floor(&self) -> Option<u64> {
        self.0.values().map(|sent| sent.floor).min()
    }

    /// None of them stands at or below this position.
    pub(super) fn raise(&mut self, floor: u64) {
        self.0.values_mut().for_each(|sent| sent.floor = sent.floor.max(floor));
    }

    /// None of them is in the log up to here: they are as good as sent now.
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
        let mut unsettled = Unsettled::default();
        assert_eq!(unsettled.send(id(1), 7), Some(Verdict::New));
        assert_eq!(unsettled.send(id(1), 9), Some(Verdict::Sent));
        assert_eq!(unsettled.send(id(2), 5), Some(Verdict::New));
        assert_eq!(unsettled.floor(), Some(5));
        unsettled.raise(6);
        assert_eq!(unsettled.floor(), Some(6));
        unsettled.remove(id(2));
        assert_eq!((unsettled.floor(), unsettled.contains(id(2))), (Some(7), false));
        assert!(unsettled.age(id(1)).is_some() && unsettled.age(id(2)).is_none());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut unsettled = Unsettled::default();
        assert!((0..LIMIT as u64).all(|number| unsettled.send(id(number), 0) == Some(Verdict::New)));
        assert_eq!(unsettled.send(id(LIMIT as u64), 0), None);
        assert_eq!(unsettled.send(id(3), 0), Some(Verdict::Sent));
        unsettled.remove(id(3));
        assert_eq!(unsettled.send(id(LIMIT as u64), 0), Some(Verdict::New));
    }
}
