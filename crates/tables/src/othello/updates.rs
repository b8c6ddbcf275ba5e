//! Updates of a control structure: a batch is applied to the ranges of its names, and results in deltas.

use super::control::OthelloControl;
use super::structure::{LocalTable, Op, Othello, OthelloStructure};
use crate::published::{UpdateError, Updates};
use scalebricks_types::{Delta, PartitionId, Position};

impl Updates for OthelloStructure {
    fn change(
        control: &mut OthelloControl,
        table: Option<&Othello>,
        ops: &[Op],
        counted: Option<Position>,
    ) -> Result<Vec<Delta>, UpdateError> {
        if let [op] = ops {
            return Ok(vec![control.single(*op, table, counted)?]);
        }
        let mut local = table.map(Othello::lock_local);
        let (added, refused) = control.distribute(ops);
        let limit = refused.as_ref().map_or(ops.len(), |refused| refused.0);
        let partitions = control.params().partitions();
        let failed = control.keys.batch.perform(&mut control.keys.parts, partitions, ops, limit);
        let failed = failed.or(refused.map(|refused| refused.1));
        if let Some(error) = failed.or_else(|| control.out_of_step(local.as_ref())) {
            control.keys.batch.undo(&mut control.keys.parts);
            return Err(error);
        }
        control.count = control.count.wrapping_add(added); // all distributed operations were performed
        control.keys.reseeded += control.keys.batch.reseeded;
        let touched: Vec<PartitionId> = control.keys.batch.partitions().collect();
        Ok(touched.into_iter().map(|partition| control.delta(partition, local.as_mut(), counted)).collect())
    }

    fn one(control: &mut OthelloControl, table: Option<&Othello>, op: Op) -> Result<Delta, UpdateError> {
        control.single(op, table, None)
    }
}

impl OthelloControl {
    /// An error if the local table's position differs from that of this structure.
    fn out_of_step(&self, local: Option<&LocalTable<'_>>) -> Option<UpdateError> {
        let local = local?;
        let is_at = |&partition: &PartitionId| {
            let at = self.positions[usize::from(partition.0)];
            self.part(partition).is_some_and(|store| local.is_in(partition, at, &store.layout().params))
        };
        let found = self.keys.batch.partitions().find(|partition| !is_at(partition));
        found.map(|partition| UpdateError::OutOfStep { partition })
    }

    /// Assigns every operation to the range of its name, up to the first operation that is not possible.
    /// Returns how many names they add (modulo 2^64).
    fn distribute(&mut self, ops: &[Op]) -> (u64, Option<(usize, UpdateError)>) {
        self.keys.batch.clear();
        let partitions = self.params().partitions();
        let mut added = 0_u64;
        for (op, change) in ops.iter().enumerate() {
            let hash = change.hash();
            added = added.wrapping_add(change.added());
            let partition = partitions.of(hash);
            let Some(store) = &self.keys.parts[usize::from(partition.0)] else {
                return (added, Some((op, UpdateError::NotHeld { op, partition })));
            };
            let params = &store.layout().params;
            if let Some(value) = change.value().filter(|&value| !params.is_value(value)) {
                let bits = params.value_bits();
                return (added, Some((op, UpdateError::Value { op, value, bits })));
            }
            let range = self.keys.firsts[usize::from(partition.0)] + params.locate(hash).1;
            self.keys.batch.add(range, op, hash.get());
        }
        (added, None)
    }

    /// Converts the batch's changes to a partition into a delta, and applies them to the owner's table.
    fn delta(
        &mut self,
        partition: PartitionId,
        mut local: Option<&mut LocalTable<'_>>,
        counted: Option<Position>,
    ) -> Delta {
        let scratch = std::mem::take(&mut self.scratch);
        let Some(store) = &self.keys.parts[usize::from(partition.0)] else {
            unreachable!("only partitions held here are touched");
        };
        let writer = self.keys.batch.commit(store, partition, scratch, local.as_deref_mut());
        self.advance(partition, writer.finish(), counted, local)
    }
}
