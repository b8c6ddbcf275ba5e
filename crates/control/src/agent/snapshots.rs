//! Snapshots of the partitions of a node, stored one at a time.

use super::{Action, Agent};
use crate::distribution::Tables;
use crate::engine::Snapshot;
use crate::replay::Limits;
use scalebricks_types::PartitionId;
use std::collections::BTreeSet;
use std::time::Duration;

/// Most that may have to be replayed of a partition when it is loaded: see [`crate::replay`]. Applying 16 MiB of changes takes as
/// long as restoring a snapshot of that size.
pub const REPLAY: Limits = Limits { entries: 20_000, bytes: 16 << 20 };

/// A snapshot is due when an entry has followed the newest one for this time, however few follow: an engine frees space in the
/// order of writing, so an idle partition must not hold the entries of others.
pub const SNAPSHOT_AGE: Duration = Duration::from_secs(600);

/// A snapshot whose outcome is unknown for this time does not delay others.
const PATIENCE: Duration = Duration::from_secs(60);

/// The node's snapshots.
#[derive(Debug)]
pub(super) struct SnapshotSchedule {
    /// Limits of the replay of each partition.
    pub(super) limits: Limits,
    /// Partitions with more behind their snapshots than they should have.
    due: BTreeSet<PartitionId>,
    /// The one that is being stored; and since when, as far as is known.
    under_way: Option<(PartitionId, Option<Duration>)>,
}

impl Default for SnapshotSchedule {
    fn default() -> Self {
        Self { limits: REPLAY, due: BTreeSet::new(), under_way: None }
    }
}

impl<T: Tables> Agent<T> {
    /// Sets other limits of the replay of a partition.
    #[must_use]
    pub const fn replaying(mut self, limits: Limits) -> Self {
        self.snapshots.limits = limits;
        self
    }

    /// The snapshot of [`Action::Keep`] is durable, or could not be stored.
    pub fn kept(&mut self, partition: PartitionId, is_durable: bool) {
        if let Some(ownership) = self.owned.get_mut(&partition) {
            ownership.replay.stored(is_durable);
            if ownership.replay.is_due() {
                self.snapshots.due.insert(partition);
            }
        }
        if self.snapshots.under_way.is_some_and(|(under_way, _)| under_way == partition) {
            self.snapshots.under_way = None;
        }
        self.keep_next();
    }

    /// An entry was applied. If a snapshot is now due and none is being stored, takes one of the state after this entry.
    pub(super) fn keep_if_due(&mut self, partition: PartitionId) {
        if self.owned.get(&partition).is_some_and(|ownership| ownership.replay.is_due()) {
            self.snapshots.due.insert(partition);
            self.keep_next();
        }
    }

    /// Looks for entries that have been behind a snapshot for long, in these partitions.
    pub(super) fn keep_old(&mut self, partitions: &BTreeSet<PartitionId>, now: Duration) {
        for partition in partitions {
            if self.owned.get_mut(partition).is_some_and(|ownership| ownership.is_old(now)) {
                self.snapshots.due.insert(*partition);
            }
        }
        if let Some((partition, since)) = &mut self.snapshots.under_way {
            let (partition, since) = (*partition, *since.get_or_insert(now));
            if now >= since + PATIENCE {
                self.kept(partition, false);
            }
        }
        self.keep_next();
    }

    /// Takes the snapshot that is most overdue, if none is being stored. Snapshots take time and memory, so one at a time.
    fn keep_next(&mut self) {
        if self.snapshots.under_way.is_some() || self.snapshots.due.is_empty() {
            return;
        }
        let share = |partition: &PartitionId| self.owned.get(partition).map(|own| own.replay.thousandths());
        let Some(partition) = self.snapshots.due.iter().copied().max_by_key(share) else { return };
        self.snapshots.due.remove(&partition);
        let Some(ownership) = self.owned.get_mut(&partition) else { return };
        let Some(state) = ownership.owner().map(crate::distribution::Owner::partition) else { return };
        let snapshot = Snapshot { position: state.position(), bytes: state.snapshot().into() };
        ownership.replay.storing(snapshot.bytes.len());
        self.snapshots.under_way = Some((partition, None));
        self.actions.push(Action::Keep(partition, snapshot));
    }
}
