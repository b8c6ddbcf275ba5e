//! Updates of a control structure: a batch goes to the ranges of its names, and comes out as deltas.

use super::control::OthelloControl;
use super::structure::{Op, Othello, Own, UpdateError};
use scalebricks_types::{Delta, PartitionId, Position};

impl OthelloControl {
    /// Applies a batch, with the outcome of its operations one after another: all, or none. Returns one delta for
    /// each partition touched, ascending; each of them advances by one position.
    ///
    /// # Errors
    /// [`UpdateError`] of the first operation that cannot be done; nothing is then changed.
    pub fn batch(&mut self, ops: &[Op]) -> Result<Vec<Delta>, UpdateError> {
        self.batch_on(None, ops, None)
    }

    /// As [`batch`](Self::batch), and at once on the query structure beside it, which must be at the same positions in
    /// the same shape: what the owner of a partition does to its own copy. Ranges are copied to it, not decoded from
    /// the deltas; those are for the other nodes.
    ///
    /// # Errors
    /// As [`batch`](Self::batch); [`UpdateError::OutOfStep`] if the table is at another position or in another shape:
    /// nothing is then changed, and the table needs the deltas it missed.
    pub fn batch_with(&mut self, table: &Othello, ops: &[Op]) -> Result<Vec<Delta>, UpdateError> {
        self.batch_on(Some(table), ops, None)
    }

    /// As [`batch`](Self::batch) for operations on one partition, whose delta leads to this position: that of a log,
    /// which counts entries that change nothing here, too.
    ///
    /// # Errors
    /// As [`batch`](Self::batch); [`UpdateError::Position`] if the partition is at the position already, or beyond.
    pub fn batch_to(&mut self, position: Position, ops: &[Op]) -> Result<Option<Delta>, UpdateError> {
        self.batch_at(position, ops, false)
    }

    /// One of several batches that lead to the same position: as [`batch_to`](Self::batch_to), but the partition may be at
    /// the position already. Each batch is all or none by itself. Replicas cannot follow batches of one position, so there is
    /// no delta: after the last batch, [`export_partition`](Self::export_partition) has the state.
    ///
    /// # Errors
    /// As [`batch_to`](Self::batch_to); [`UpdateError::Position`] if the partition is beyond the position.
    pub fn step_to(&mut self, position: Position, ops: &[Op]) -> Result<(), UpdateError> {
        self.batch_at(position, ops, true).map(drop)
    }

    fn batch_at(
        &mut self,
        position: Position,
        ops: &[Op],
        again: bool,
    ) -> Result<Option<Delta>, UpdateError> {
        let Some(first) = ops.first() else { return Ok(None) };
        let partitions = self.params().partitions();
        let partition = partitions.of(first.hash());
        if let Some(op) = ops.iter().position(|op| partitions.of(op.hash()) != partition) {
            return Err(UpdateError::NotMine { op, partition: partitions.of(ops[op].hash()) });
        }
        let is_beyond = |at: Position| if again { at > position } else { at >= position };
        if self.position(partition).is_some_and(is_beyond) {
            return Err(UpdateError::Position { partition });
        }
        Ok(self.batch_on(None, ops, Some(position))?.pop())
    }

    fn batch_on(
        &mut self,
        table: Option<&Othello>,
        ops: &[Op],
        counted: Option<Position>,
    ) -> Result<Vec<Delta>, UpdateError> {
        if let [op] = ops {
            return Ok(vec![self.single(*op, table, counted)?]);
        }
        let mut own = table.map(Othello::own);
        let (added, refused) = self.distribute(ops);
        let limit = refused.as_ref().map_or(ops.len(), |refused| refused.0);
        let partitions = self.params().partitions();
        let failed = self.batch.perform(&mut self.parts, partitions, ops, limit);
        let failed = failed.or(refused.map(|refused| refused.1));
        if let Some(error) = failed.or_else(|| self.out_of_step(own.as_ref())) {
            self.batch.undo(&mut self.parts);
            return Err(error);
        }
        self.keys = self.keys.wrapping_add(added); // all distributed operations were performed
        self.reseeded += self.batch.reseeded;
        let touched: Vec<PartitionId> = self.batch.partitions().collect();
        Ok(touched.into_iter().map(|partition| self.delta(partition, own.as_mut(), counted)).collect())
    }

    /// An error if a table is not where this structure is.
    fn out_of_step(&self, own: Option<&Own<'_>>) -> Option<UpdateError> {
        let own = own?;
        let is_at = |&partition: &PartitionId| {
            let at = self.positions[usize::from(partition.0)];
            self.part(partition).is_some_and(|store| own.is_in(partition, at, &store.layout().params))
        };
        let found = self.batch.partitions().find(|partition| !is_at(partition));
        found.map(|partition| UpdateError::OutOfStep { partition })
    }

    /// Gives every operation to the range of its name, up to the first that cannot be done anywhere. Returns how many
    /// names they add (modulo 2^64).
    fn distribute(&mut self, ops: &[Op]) -> (u64, Option<(usize, UpdateError)>) {
        self.batch.clear();
        let partitions = self.params().partitions();
        let mut added = 0_u64;
        for (op, change) in ops.iter().enumerate() {
            let hash = change.hash();
            added = match change {
                Op::Insert(..) => added.wrapping_add(1),
                Op::Remove(_) => added.wrapping_sub(1),
                Op::Update(..) => added,
            };
            let partition = partitions.of(hash);
            let Some(store) = &self.parts[usize::from(partition.0)] else {
                return (added, Some((op, UpdateError::NotMine { op, partition })));
            };
            let params = &store.layout().params;
            if let Some(value) = change.value().filter(|&value| !params.is_value(value)) {
                let bits = params.value_bits();
                return (added, Some((op, UpdateError::Value { op, value, bits })));
            }
            let range = self.firsts[usize::from(partition.0)] + params.locate(hash).1;
            self.batch.add(range, op, hash.get());
        }
        (added, None)
    }

    /// What the batch did to a partition, as a delta, and to the owner's table.
    fn delta(
        &mut self,
        partition: PartitionId,
        mut own: Option<&mut Own<'_>>,
        counted: Option<Position>,
    ) -> Delta {
        let scratch = std::mem::take(&mut self.scratch);
        let Some(store) = &self.parts[usize::from(partition.0)] else {
            unreachable!("only partitions held here are touched");
        };
        let writer = self.batch.commit(store, partition, scratch, own.as_deref_mut());
        let delta = self.advance(partition, writer, counted);
        if let Some(own) = own {
            own.advance(partition, delta.position);
        }
        delta
    }
}
