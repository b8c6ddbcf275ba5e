//! Updates of a control structure: a batch is applied to the shapes that its keys' blocks are in, and results
//! in deltas.

use super::batch::Batch;
use super::control::SetSepControl;
use super::control_blocks::ControlBlocks;
use super::kernels::Finder;
use super::params::Params;
use super::payload::PayloadWriter;
use super::solver::Solver;
use super::structure::{LocalTable, Op, SetSep, SetSepStructure};
use crate::isa::Isa;
use crate::published::{Full, UpdateError, Updates};
use scalebricks_types::{Delta, PartitionId, Position};

/// Blocks in one shape, and the scratch state for changing them.
#[derive(Debug)]
pub(super) struct BlockUpdater {
    pub(super) blocks: ControlBlocks,
    pub(super) solver: Solver,
    batch: Batch,
}

impl BlockUpdater {
    pub(super) fn new(mut blocks: ControlBlocks, isa: Isa) -> Self {
        blocks.finder = Finder::new(isa);
        let solver = Solver::new(&blocks.params, isa);
        Self { blocks, solver, batch: Batch::default() }
    }

    /// Switches to the kernels of this instruction set.
    pub(super) fn use_isa(&mut self, isa: Isa) {
        self.solver = Solver::new(&self.blocks.params, isa);
        self.blocks.finder = Finder::new(isa);
    }

    pub(super) const fn params(&self) -> &Params {
        &self.blocks.params
    }

    fn perform(&mut self, ops: &[Op], limit: usize) -> Option<(usize, UpdateError)> {
        self.batch.perform(&mut self.blocks, &mut self.solver, ops, limit)
    }

    fn undo(&mut self) {
        self.batch.undo(&mut self.blocks);
    }

    fn settle(&mut self) -> Result<(), Full> {
        self.batch.settle(&self.blocks)
    }

    fn commit(
        &mut self,
        partition: PartitionId,
        writer: &mut PayloadWriter,
        local: Option<(&mut LocalTable<'_>, bool)>,
    ) {
        self.batch.commit(&mut self.blocks, partition, writer, local);
    }
}

impl Updates for SetSepStructure {
    fn change(
        control: &mut SetSepControl,
        table: Option<&SetSep>,
        ops: &[Op],
        counted: Option<Position>,
    ) -> Result<Vec<Delta>, UpdateError> {
        let mut local = table.map(SetSep::lock_local);
        let (added, refused) = control.distribute(ops);
        let limit = refused.as_ref().map_or(ops.len(), |refused| refused.0);
        let mut failed = control.keys.now.perform(ops, limit);
        if let Some(next) = &mut control.keys.next {
            let limit = failed.as_ref().map_or(limit, |failed| failed.0);
            failed = next.updater.perform(ops, limit).or(failed);
        }
        let failed = failed.or(refused).map(|(_, error)| error);
        let failed = failed.or_else(|| control.settle().err());
        if let Some(error) = failed.or_else(|| control.out_of_step(local.as_ref())) {
            control.keys.now.undo();
            if let Some(next) = &mut control.keys.next {
                next.updater.undo();
            }
            return Err(error);
        }
        control.keys.moves.add(control.keys.now.batch.moves);
        control.count = control.count.wrapping_add(added); // all distributed operations were performed
        let mut touched: Vec<PartitionId> = control.keys.now.batch.needs.iter().map(|need| need.0).collect();
        if let Some(next) = &control.keys.next {
            control.keys.moves.add(next.updater.batch.moves);
            touched.extend(next.updater.batch.needs.iter().map(|need| need.0));
            touched.sort_unstable();
            touched.dedup();
        }
        Ok(touched.into_iter().map(|partition| control.delta(partition, local.as_mut(), counted)).collect())
    }
}

impl SetSepControl {
    /// An error if the local table's position differs from that of this structure.
    fn out_of_step(&self, local: Option<&LocalTable<'_>>) -> Option<UpdateError> {
        let local = local?;
        let next = self.keys.next.as_ref();
        let needs = self
            .keys
            .now
            .batch
            .needs
            .iter()
            .chain(next.into_iter().flat_map(|next| &next.updater.batch.needs));
        let mut partitions = needs.map(|need| need.0);
        let shapes = (*self.params(), next.map(|next| *next.updater.params()));
        let is_at =
            |at: PartitionId| local.is_at(at, self.positions[usize::from(at.0)]) && local.shapes() == shapes;
        let found = partitions.find(|&partition| !is_at(partition));
        found.map(|partition| UpdateError::OutOfStep { partition })
    }

    /// Assigns every operation to the shape that its block is in, up to the first operation that is not
    /// possible in either. Returns how many keys they add (modulo 2^64).
    fn distribute(&mut self, ops: &[Op]) -> (u64, Option<(usize, UpdateError)>) {
        self.keys.now.batch.clear();
        if let Some(next) = &mut self.keys.next {
            next.updater.batch.clear();
        }
        let bits = self.value_bits();
        let mut added = 0_u64;
        for (op, change) in ops.iter().enumerate() {
            let hash = change.hash().get();
            added = added.wrapping_add(change.added());
            let wide = change.value().filter(|&value| u32::from(value) >> bits != 0);
            let error = match (self.keys.now.blocks.slot_of(hash), wide) {
                (Err(partition), _) => UpdateError::NotHeld { op, partition },
                (_, Some(value)) => UpdateError::Value { op, value: value.into(), bits },
                (Ok(slot), None) => {
                    match self
                        .keys
                        .next
                        .as_mut()
                        .and_then(|next| next.slot_of(&self.keys.now.blocks, slot, hash))
                    {
                        Some((updater, slot)) => updater.batch.add(slot, op, hash),
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
            next.updater.settle()?;
        }
        Ok(())
    }

    /// Commits the batch's changes to a partition, here and in the owner's table.
    fn delta(
        &mut self,
        partition: PartitionId,
        mut local: Option<&mut LocalTable<'_>>,
        counted: Option<Position>,
    ) -> Delta {
        let reshaping = self.keys.next.as_ref().map(|next| next.reshaping(partition));
        let scratch = std::mem::take(&mut self.scratch);
        let mut writer = PayloadWriter::new(&self.keys.now.blocks.layout, reshaping, scratch);
        self.keys.now.commit(partition, &mut writer, local.as_deref_mut().map(|local| (local, false)));
        if let Some(next) = &mut self.keys.next {
            next.updater.commit(partition, &mut writer, local.as_deref_mut().map(|local| (local, true)));
        }
        self.advance(partition, writer.finish(), counted, local)
    }
}
