//! Decides when a partition is due for a snapshot, so that a restart replays a bounded part of its log.
//!
//! A restart reads the newest snapshot and replays the entries after it. A snapshot is due after [`Limits::entries`] entries, or
//! after the larger of [`Limits::bytes`] and twice the newest snapshot in bytes. The second bound keeps the bytes of snapshots
//! below half of the bytes of the log, however large the state grows.
//!
//! The check follows each entry, so between two snapshots lie at most the bound and one batch. Entries logged while a snapshot is
//! stored come on top, until the next.

/// Limits of the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries.
    pub entries: u64,
    /// Bytes of batches. Twice the newest snapshot, if that is more.
    pub bytes: u64,
}

/// A snapshot that could not be stored is due again after this part of the bounds.
const RETRY: u64 = 16;

/// Entries, and bytes of their batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Entries.
    pub entries: u64,
    /// Bytes of their batches.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: usize) {
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }
}

/// A snapshot that is being stored.
#[derive(Debug, Clone, Copy)]
struct Storing {
    snapshot_bytes: u64,
    /// Entries applied since its position.
    since: Amount,
}

/// The part of a log that follows its newest snapshot.
#[derive(Debug, Clone)]
pub struct Replay {
    limits: Limits,
    snapshot_bytes: u64,
    behind: Amount,
    storing: Option<Storing>,
    /// A snapshot could not be stored when so much was behind the one before.
    failed: Option<Amount>,
}

impl Replay {
    /// A state that comes from a snapshot of this size, or from none, and from no entry behind it.
    pub const fn new(limits: Limits, snapshot_bytes: u64) -> Self {
        let behind = Amount { entries: 0, bytes: 0 };
        Self { limits, snapshot_bytes, behind, storing: None, failed: None }
    }

    /// An entry with a batch of so many bytes was applied.
    pub fn applied(&mut self, batch_bytes: usize) {
        self.behind.add(batch_bytes);
        if let Some(storing) = &mut self.storing {
            storing.since.add(batch_bytes);
        }
    }

    /// The entries that a restart would replay.
    pub const fn behind(&self) -> Amount {
        self.behind
    }

    /// The bytes at which a snapshot is due.
    pub const fn limit_bytes(&self) -> u64 {
        let twice = self.snapshot_bytes.saturating_mul(2);
        if twice > self.limits.bytes { twice } else { self.limits.bytes }
    }

    /// The replay as a share of its limits in thousandths: a snapshot is due from 1,000 on.
    pub fn thousandths(&self) -> u64 {
        let share = |of: u64, limit: u64| of.saturating_mul(1_000) / limit.max(1);
        share(self.behind.entries, self.limits.entries).max(share(self.behind.bytes, self.limit_bytes()))
    }

    /// Whether to take a snapshot of the current state.
    pub fn is_due(&self) -> bool {
        let is_retry = self.failed.is_none_or(|failed| {
            self.behind.entries - failed.entries >= self.limits.entries.div_ceil(RETRY)
                || self.behind.bytes - failed.bytes >= self.limit_bytes().div_ceil(RETRY)
        });
        self.storing.is_none() && is_retry && self.thousandths() >= 1_000
    }

    /// A snapshot of the state as it is, of this size, is being stored.
    pub fn storing(&mut self, snapshot_bytes: usize) {
        self.storing = Some(Storing { snapshot_bytes: snapshot_bytes as u64, since: Amount::default() });
    }

    /// The snapshot is durable, or could not be stored.
    pub fn stored(&mut self, is_durable: bool) {
        let Some(Storing { snapshot_bytes, since }) = self.storing.take() else { return };
        if is_durable {
            (self.snapshot_bytes, self.behind, self.failed) = (snapshot_bytes, since, None);
        } else {
            self.failed = Some(self.behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { entries: 100, bytes: 10_000 };

    /// Applies until a snapshot is due.
    fn fill(replay: &mut Replay, batch_bytes: usize) -> Amount {
        while !replay.is_due() {
            replay.applied(batch_bytes);
        }
        replay.behind()
    }

    #[test]
    fn a_snapshot_is_due_by_entries_or_bytes_and_never_a_batch_later() {
        let new = || Replay::new(LIMITS, 0);
        assert_eq!(fill(&mut new(), 1), Amount { entries: 100, bytes: 100 });
        assert_eq!(fill(&mut new(), 3_000), Amount { entries: 4, bytes: 12_000 });
        assert_eq!(fill(&mut new(), 1 << 20), Amount { entries: 1, bytes: 1 << 20 });
    }

    #[test]
    fn large_states_are_stored_after_as_many_bytes_as_two_of_them() {
        let mut replay = Replay::new(LIMITS, 0);
        fill(&mut replay, 1_000);
        replay.storing(9_000);
        replay.stored(true);
        assert_eq!(fill(&mut replay, 1_000), Amount { entries: 18, bytes: 18_000 });
        assert_eq!(fill(&mut Replay::new(LIMITS, 20_000), 1_000), Amount { entries: 40, bytes: 40_000 });
    }

    #[test]
    fn entries_applied_while_a_snapshot_is_stored_follow_it() {
        let mut replay = Replay::new(LIMITS, 0);
        fill(&mut replay, 2_500);
        replay.storing(10);
        for _ in 0..9 {
            replay.applied(2_500);
            assert!(!replay.is_due(), "one at a time");
        }
        replay.stored(true);
        assert_eq!(replay.behind(), Amount { entries: 9, bytes: 22_500 });
        assert!(replay.is_due(), "the next is due at once");
    }

    #[test]
    fn a_snapshot_that_fails_is_due_again_soon() {
        let mut replay = Replay::new(LIMITS, 0);
        fill(&mut replay, 100);
        for failure in 1..5 {
            replay.storing(10);
            replay.stored(false);
            assert!(!replay.is_due(), "not at once");
            assert_eq!(fill(&mut replay, 100).entries, 100 + 7 * failure);
        }
        replay.storing(10);
        replay.stored(true);
        assert_eq!(replay.behind(), Amount::default());
    }
}
