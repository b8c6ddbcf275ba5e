//! Logs that lost entries: an older one took their place.

use super::ownership::Ownership;
use super::{Action, Agent};
use crate::distribution::Tables;
use scalebricks_types::{PartitionId, Position};

impl<T: Tables> Agent<T> {
    /// The log of a partition ends at `last`, before the newest entry applied here: an older log replaced it. Loads the partition
    /// again and brings all tables to its state.
    pub fn log_lost(&mut self, partition: PartitionId, last: Position) {
        if let Some(ownership) = self.owned.get_mut(&partition) {
            *ownership = Ownership::new(self.snapshots.limits).behind(last);
            // Calls that were to be logged may have been logged, and lost.
            self.servers.remove(&partition);
            self.actions.push(Action::Load(partition));
        }
    }

    /// The log of a partition ends at `last`, as read after a node reported the position `reported`. A log that ends before that
    /// position was replaced by an older one: it lost entries that are in tables.
    pub fn log_ends(&mut self, partition: PartitionId, reported: Position, last: Position) {
        let owner = self.owned.get_mut(&partition).and_then(Ownership::owner_mut);
        if let Some(owner) = owner.filter(|owner| reported > last && owner.partition().position() <= last) {
            owner.rewind(last);
            self.touched.insert(partition);
        }
    }
}
