//! The two passes, each run by all threads.

use super::assemble::Assembler;
use super::{BuildError, KeySource, STRETCH, SetSepBuilder};
use crate::partition_pass::{PartitionedRecords, RecordPacking, TwoPassBuild};
use crate::setsep::control_blocks::ControlBlocks;
use crate::threads::threads_or_all;

/// One stretch to build.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) stretch: usize,
    /// The numbers of its blocks in the table.
    pub(super) numbers: &'a [u32],
    /// The records that each thread wrote in the first pass.
    pub(super) records: &'a [PartitionedRecords<'a>],
}

/// A build in progress.
pub(super) struct Passes<'a> {
    builder: &'a SetSepBuilder,
    held: FirstSlots,
    /// The number in the table of each held block, in the order of the store.
    numbers: Vec<u32>,
    packing: RecordPacking,
    threads: usize,
}

/// The block information that the first pass needs. It must not borrow the store, which the second pass
/// fills.
struct FirstSlots {
    all: bool,
    first: Vec<Option<u32>>,
}

impl<'a> Passes<'a> {
    pub(super) fn new(builder: &'a SetSepBuilder, blocks: &ControlBlocks) -> Self {
        let threads = threads_or_all(builder.threads);
        let all = !builder.held.contains(&false);
        let params = &builder.params;
        let parts = if all { params.blocks() } else { blocks.store.len() as u32 }; // at most 2^24
        let firsts: Vec<u32> = (0..parts).step_by(STRETCH).collect();
        let packing = RecordPacking::new(&firsts, parts, params.value_bits(), all);
        let numbers = (0..blocks.store.len()).map(|slot| blocks.number_of_slot(slot)).collect();
        Self { builder, held: FirstSlots { all, first: blocks.first.clone() }, numbers, packing, threads }
    }

    /// Partitions the keys of `source`, then calls `act` for each stretch with one of `parts`, which are its
    /// output.
    pub(super) fn run<S: KeySource + ?Sized, P: Send, C>(
        &self,
        source: &S,
        parts: Vec<P>,
        scratch: impl Fn() -> C + Sync,
        act: impl Fn(&mut Assembler<'_>, &mut C, Job<'_>, &mut P) -> Result<(), BuildError> + Sync,
    ) -> Result<(), BuildError> {
        let builder = self.builder;
        let passes = TwoPassBuild {
            packing: &self.packing,
            regions: &builder.regions,
            threads: self.threads,
            stretches: self.numbers.len().div_ceil(STRETCH),
            keys: source.len(),
        };
        let outputs = parts.into_iter().zip(self.numbers.chunks(STRETCH)).collect();
        let work = || (Assembler::new(&builder.params, &self.packing, builder.isa, builder.bits), scratch());
        passes.run(
            outputs,
            |keys, records| self.partition_keys(source, keys, records),
            work,
            |stretch, records, (mut part, numbers), (assembler, scratch)| {
                act(assembler, scratch, Job { stretch, numbers, records }, &mut part)
            },
        )
    }

    fn partition_keys<S: KeySource + ?Sized>(
        &self,
        source: &S,
        keys: std::ops::Range<usize>,
        records: &mut PartitionedRecords<'_>,
    ) -> Result<(), BuildError> {
        let blocks = self.builder.params.blocks();
        let mut wide = 0;
        let block = |hash: u64| ((u128::from(hash) * u128::from(blocks)) >> 64) as u32; // below `blocks`
        if self.held.all {
            source.each(keys.clone(), |hash, value| {
                wide |= value;
                records.add(&self.packing, block(hash) as usize / STRETCH, hash, value.into());
            });
        } else {
            for (hash, value) in keys.clone().map(|at| source.get(at)) {
                wide |= value;
                records.add(&self.packing, self.slot(block(hash))? as usize / STRETCH, hash, value.into());
            }
        }
        if !self.builder.params.is_value(wide) {
            let bits = self.builder.params.value_bits();
            let value = keys.map(|at| source.get(at).1).find(|&value| !self.builder.params.is_value(value));
            return Err(BuildError::Value { value: value.unwrap_or(wide).into(), bits });
        }
        Ok(())
    }

    fn slot(&self, block: u32) -> Result<u32, BuildError> {
        let partition = self.builder.params.partition_of_block(block);
        let first = self.held.first[usize::from(partition.0)].ok_or(BuildError::NotHeld(partition))?;
        Ok(first + block % self.builder.params.blocks_per_partition())
    }
}
