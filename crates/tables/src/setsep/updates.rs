//! Updates of a control structure: a batch goes to the shapes that its keys' blocks are in, and comes out as deltas.

use super::batch::Batch;
use super::control::SetSepControl;
use super::held::Held;
use super::kernels::Finder;
use super::ops::Full;
use super::params::Params;
use super::payload::PayloadWriter;
use super::solver::Solver;
use super::structure::{Op, Own, SetSep, UpdateError};
use crate::isa::Isa;
use scalebricks_types::{Delta, PartitionId, Position};

/// Blocks in one shape, with what it takes to change them.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) held: Held,
    pub(super) solver: Solver,
    batch: Batch,
}

impl Shape {
    pub(super) fn new(mut held: Held, isa: Isa) -> Self {
        held.finder = Finder::new(isa);
        let solver = Solver::new(&held.params, isa);
        Self { held, solver, batch: Batch::default() }
    }

    /// Goes on with kernels of this level.
    pub(super) fn use_isa(&mut self, isa: Isa) {
        self.solver = Solver::new(&self.held.params, isa);
        self.held.finder = Finder::new(isa);
    }

    pub(super) const fn params(&self) -> &Params {
        &self.held.params
    }

    fn perform(&mut self, ops: &[Op], limit: usize) -> Option<(usize, UpdateError)> {
        self.batch.perform(&mut self.held, &mut self.solver, ops, limit)
    }

    fn undo(&mut self) {
        self.batch.undo(&mut self.held);
    }

    fn settle(&mut self) -> Result<(), Full> {
        self.batch.settle(&self.held)
    }

    fn commit(
        &mut self,
        partition: PartitionId,
        writer: &mut PayloadWriter,
        own: Option<(&mut Own<'_>, bool)>,
    ) {
        self.batch.commit(&mut self.held, partition, writer, own);
    }
}

impl SetSepControl {
    /// Applies a batch on the shapes that its keys' blocks are in.
    pub(super) fn change(
        &mut self,
        table: Option<&SetSep>,
        ops: &[Op],
        counted: Option<Position>,
    ) -> Result<Vec<Delta>, UpdateError> {
        let mut own = table.map(SetSep::own);
        let (added, refused) = self.distribute(ops);
        let limit = refused.as_ref().map_or(ops.len(), |refused| refused.0);
        let mut failed = self.keys.now.perform(ops, limit);
        if let Some(next) = &mut self.keys.next {
            let limit = failed.as_ref().map_or(limit, |failed| failed.0);
            failed = next.shape.perform(ops, limit).or(failed);
        }
        let failed = failed.or(refused).map(|(_, error)| error);
        let failed = failed.or_else(|| self.settle().err());
        if let Some(error) = failed.or_else(|| self.out_of_step(own.as_ref())) {
            self.keys.now.undo();
            if let Some(next) = &mut self.keys.next {
                next.shape.undo();
            }
            return Err(error);
        }
        self.keys.moves.add(self.keys.now.batch.moves);
        self.count = self.count.wrapping_add(added); // all distributed operations were performed
        let mut touched: Vec<PartitionId> = self.keys.now.batch.needs.iter().map(|need| need.0).collect();
        if let Some(next) = &self.keys.next {
            self.keys.moves.add(next.shape.batch.moves);
            touched.extend(next.shape.batch.needs.iter().map(|need| need.0));
            touched.sort_unstable();
            touched.dedup();
        }
        Ok(touched.into_iter().map(|partition| self.delta(partition, own.as_mut(), counted)).collect())
    }

    /// An error if a table is not where this structure is.
    fn out_of_step(&self, own: Option<&Own<'_>>) -> Option<UpdateError> {
        let own = own?;
        let next = self.keys.next.as_ref();
        let needs =
            self.keys.now.batch.needs.iter().chain(next.into_iter().flat_map(|next| &next.shape.batch.needs));
        let mut partitions = needs.map(|need| need.0);
        let shapes = (*self.params(), next.map(|next| *next.shape.params()));
        let is_at =
            |at: PartitionId| own.is_at(at, self.positions[usize::from(at.0)]) && own.shapes() == shapes;
        let found = partitions.find(|&partition| !is_at(partition));
        found.map(|partition| UpdateError::OutOfStep { partition })
    }

    /// Gives every operation to the shape that its block is in, up to the first that cannot be done anywhere. Returns
    /// how many keys they add (modulo 2^64).
    fn distribute(&mut self, ops: &[Op]) -> (u64, Option<(usize, UpdateError)>) {
        self.keys.now.batch.clear();
        if let Some(next) = &mut self.keys.next {
            next.shape.batch.clear();
        }
        let bits = self.value_bits();
        let mut added = 0_u64;
        for (op, change) in ops.iter().enumerate() {
            let hash = change.hash().get();
            added = added.wrapping_add(change.added());
            let wide = change.value().filter(|&value| u32::from(value) >> bits != 0);
            let error = match (self.keys.now.held.slot_of(hash), wide) {
                (Err(partition), _) => UpdateError::NotMine { op, partition },
                (_, Some(value)) => UpdateError::Value { op, value, bits },
                (Ok(slot), None) => {
                    match self
                        .keys
                        .next
                        .as_mut()
                        .and_then(|next| next.slot_of(&self.keys.now.held, slot, hash))
                    {
                        Some((shape, slot)) => shape.batch.add(slot, op, hash),
                        None => self.keys.now.batch.add(slot, op, hash),
                    }
                    continue;
                }
            };
            return (added, Some((op, error)));
        }
        (added, None)
    }

    fn settle(&mut self) -> Result<(), UpdateError> {
        self.keys.now.settle()?;
        if let Some(next) = &mut self.keys.next {
            next.shape.settle()?;
        }
        Ok(())
    }

    /// Commits what the batch did to a partition, here and in the owner's table.
    fn delta(
        &mut self,
        partition: PartitionId,
        mut own: Option<&mut Own<'_>>,
        counted: Option<Position>,
    ) -> Delta {
        let reshaping = self.keys.next.as_ref().map(|next| next.reshaping(partition));
        let scratch = std::mem::take(&mut self.scratch);
        let mut writer = PayloadWriter::new(&self.keys.now.held.layout, reshaping, scratch);
        self.keys.now.commit(partition, &mut writer, own.as_deref_mut().map(|own| (own, false)));
        if let Some(next) = &mut self.keys.next {
            next.shape.commit(partition, &mut writer, own.as_deref_mut().map(|own| (own, true)));
        }
        self.advance(partition, writer.finish(), counted, own)
    }
}
