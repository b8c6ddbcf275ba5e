//! Logs that lost entries: an older one took their place.

use super::ownership::Ownership;
use super::{Action, Agent};
use crate::distribution::Tables;
use scalebricks_types::{PartitionId, Position};

impl<T: Tables> Agent<T> {
    /// The engine says that the log of a partition ends at `last`, before the entry that was applied here last: an older log took its
    /// place. The partition is loaded anew, and all tables are brought to what it is then.
    pub fn log_lost(&mut self, partition: PartitionId, last: Position) {
        if let Some(ownership) = self.owned.get_mut(&partition) {
            *ownership = Ownership::new(self.keeping.limits).behind(last);
            // What was to be logged may have been logged, and lost.
            self.desks.remove(&partition);
            self.actions.push(Action::Load(partition));
        }
    }

    /// The log of a partition ends at `last`, as the engine said after a node had reported a position. A log that ends before it has
    /// lost entries that are in tables: it was replaced by an older one.
    pub fn log_ends(&mut self, partition: PartitionId, reported: Position, last: Position) {
        let owner = self.owned.get_mut(&partition).and_then(Ownership::owner_mut);
        if let Some(owner) = owner.filter(|owner| reported > last && owner.partition().position() <= last) {
            owner.rewind(last);
            self.touched.insert(partition);
        }
    }
}
