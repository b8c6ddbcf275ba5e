//! A table that its own control structure changes: units are copied to it, not decoded from deltas.

use super::Units;
use super::generation::{Generation, GenerationWriter, Generations};
use super::table::{Table, Writer};
use scalebricks_types::{PartitionId, Position};
use std::sync::{Arc, MutexGuard};

/// A table, locked by its control structure.
pub(crate) struct LocalTable<'a, S: Units> {
    pub(crate) generations: Arc<Generations<S>>,
    writer: MutexGuard<'a, Writer<S>>,
}

impl<S: Units> Table<S> {
    /// Locks the table for its control structure.
    pub(crate) fn lock_local(&self) -> LocalTable<'_, S> {
        let writer = self.writer();
        let generations = self.generations.load_full();
        generations.now.prefetch_spare(&writer.now);
        LocalTable { generations, writer }
    }
}

impl<S: Units> LocalTable<'_, S> {
    /// Whether a partition is at this position.
    pub(crate) fn is_at(&self, partition: PartitionId, at: Position) -> bool {
        self.writer.positions.get(usize::from(partition.0)) == Some(&at)
    }

    /// The current shape of the table, and the one it is being reshaped to.
    pub(crate) fn shapes(&self) -> (S::Params, Option<S::Params>) {
        let next = self.generations.next.as_ref();
        (self.generations.now.params, next.map(|next| next.generation.params))
    }

    /// The generation in the old or the new shape, mutable.
    pub(crate) fn generation(&mut self, is_new: bool) -> (&Generation<S>, &mut GenerationWriter<S>) {
        let Writer { now, next, .. } = &mut *self.writer;
        match (is_new, &self.generations.next, next) {
            (true, Some(new), Some(writer)) => (&new.generation, writer),
            _ => (&self.generations.now, now),
        }
    }

    /// Sets the position of a partition.
    pub(crate) fn advance(&mut self, partition: PartitionId, position: Position) {
        self.writer.positions[usize::from(partition.0)] = position;
    }
}
