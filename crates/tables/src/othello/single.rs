//! A single operation: equivalent to a batch of one, but without an undo log, because a range that refuses an
//! operation is unchanged.

use super::batch::named;
use super::control::OthelloControl;
use super::payload::PayloadWriter;
use super::store::{PrefetchStage, with};
use super::structure::{Op, Othello};
use crate::published::UpdateError;
use scalebricks_types::{Delta, Position};

impl OthelloControl {
    /// Applies one operation, also to the given query structure if there is one. The delta leads to the next
    /// position, or to the given position, which another component assigned.
    pub(super) fn single(
        &mut self,
        op: Op,
        table: Option<&Othello>,
        counted: Option<Position>,
    ) -> Result<Delta, UpdateError> {
        let hash = op.hash();
        let partition = self.params().partitions().of(hash);
        let at = usize::from(partition.0);
        let Some(store) = &mut self.keys.parts[at] else {
            return Err(UpdateError::NotHeld { op: 0, partition });
        };
        let layout = *store.layout();
        let (_, range) = layout.params.locate(hash);
        let first = u32::from(partition.0) * layout.params.ranges_per_partition();
        store.prefetch(range, hash.get(), PrefetchStage::AllSlots);
        if let Some(value) = op.value().filter(|&value| !layout.params.is_value(value)) {
            return Err(UpdateError::Value { op: 0, value, bits: layout.params.value_bits() });
        }
        let mut local = table.map(Othello::lock_local);
        if local.as_ref().is_some_and(|local| !local.is_in(partition, self.positions[at], &layout.params)) {
            return Err(UpdateError::OutOfStep { partition });
        }
        let work = &mut self.keys.batch.work;
        work.changed.clear();
        let done = with!(store, ranges => {
            let mut graph = ranges.graph(range);
            match op {
                Op::Insert(_, value) => graph.put(hash.get(), value, work).map(|old| (1, old.is_some())),
                Op::Update(_, value) => graph.set(hash.get(), value, work).map(|_old| (0, false)),
                Op::Remove(_) => graph.take(hash.get(), work).map(|_old| (u64::MAX, false)),
            }
        });
        let (added, is_reseeded) = done.map_err(|refused| named(refused, store, (first, range), 0))?;
        self.count = self.count.wrapping_add(added);
        self.keys.reseeded += u64::from(is_reseeded);
        let (words, seed) = (store.words(range), store.head(range).seed);
        let mut writer = PayloadWriter::of_changes(&layout, 1, std::mem::take(&mut self.scratch));
        if is_reseeded {
            writer.range(range, seed, words);
        } else {
            work.changed.sort_unstable();
            writer.slots(range, &work.changed, words);
        }
        if let Some(local) = &mut local
            && (is_reseeded || !work.changed.is_empty())
        {
            local.publish(partition, first + range, words, seed);
        }
        Ok(self.advance(partition, writer.finish(), counted, local.as_mut()))
    }
}
