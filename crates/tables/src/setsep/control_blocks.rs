//! The blocks that a control structure is responsible for, in one shape (one set of parameters).

use super::block::{self, Block, group_in};
use super::fallback::lines_for;
use super::geometry::{GROUPS, bucket_of};
use super::kernels::Finder;
use super::layout::Layout;
use super::params::Params;
use super::payload::PayloadWriter;
use super::store::{BlockRef, Store};
use crate::isa::Isa;
use crate::prefetch::prefetch_read;
use scalebricks_types::PartitionId;

/// Blocks of some partitions, in one shape.
#[derive(Debug)]
pub(super) struct ControlBlocks {
    pub(super) params: Params,
    pub(super) layout: Layout,
    /// For each partition, the index of its first block in the store; `None` if another node holds it.
    pub(super) first: Vec<Option<u32>>,
    /// The held partitions, in the order in which their blocks lie in the store: partition after partition.
    pub(super) partitions: Vec<PartitionId>,
    pub(super) store: Store,
    pub(super) finder: Finder,
    /// Fallback lines in use, per partition.
    pub(super) lines_used: Vec<u32>,
}

impl ControlBlocks {
    /// The blocks of these partitions: empty, or without memory.
    pub(super) fn new(params: Params, held: &[bool], with_memory: bool) -> Self {
        let mut next = 0;
        let first = held.iter().map(|&held| {
            let here = held.then_some(next);
            next += u32::from(held) * params.blocks_per_partition();
            here
        });
        let first: Vec<_> = first.collect();
        let numbers = (0..held.len()).filter(|&partition| held[partition]);
        let partitions = numbers.map(|partition| PartitionId(partition as u16)).collect(); // fewer than 2^16
        let blocks = next as usize;
        let store = if with_memory { Store::empty(&params, blocks) } else { Store::absent(&params, blocks) };
        let (layout, lines_used) = (Layout::of(&params), vec![0; held.len()]);
        let finder = Finder::new(Isa::best());
        Self { params, layout, first, partitions, store, finder, lines_used }
    }

    /// Which partitions are held here.
    pub(super) fn held(&self) -> Vec<bool> {
        self.first.iter().map(Option::is_some).collect()
    }

    /// The index in the store of a hash's block, or the partition that holds it if it is not held here.
    #[inline]
    pub(super) fn slot_of(&self, hash: u64) -> Result<usize, PartitionId> {
        let (block, _) = bucket_of(hash, self.params.blocks());
        let partition = self.params.partition_of_block(block);
        let first = self.first[usize::from(partition.0)].ok_or(partition)?;
        Ok((first + block % self.params.blocks_per_partition()) as usize)
    }

    /// The partition of a block in the store.
    #[inline]
    pub(super) fn partition_of_slot(&self, slot: usize) -> PartitionId {
        self.partitions[slot / self.params.blocks_per_partition() as usize]
    }

    /// The number in the table of a block in the store.
    #[inline]
    pub(super) fn number_of_slot(&self, slot: usize) -> u32 {
        let each = self.params.blocks_per_partition();
        u32::from(self.partition_of_slot(slot).0) * each + slot as u32 % each // at most 2^24 blocks
    }

    /// A mutable view of a block.
    #[inline]
    pub(super) fn block(&mut self, slot: usize) -> Block<'_> {
        Block::new(&self.params, self.store.view_mut(slot), self.finder)
    }

    /// Prefetches a block's choices and counters.
    #[inline]
    pub(super) fn prefetch_choices(&self, slot: usize) {
        let view = self.store.view(slot);
        prefetch_read(&view.words[0]);
        prefetch_read(&view.head.loads[0]);
        prefetch_read(&view.head.loads[GROUPS / 2]);
        prefetch_read(&view.head.keys);
    }

    /// Prefetches the memory that an operation on this hash will read and change. The block's choices must be
    /// in the cache.
    #[inline]
    pub(super) fn prefetch(&self, slot: usize, hash: u64) {
        let view = self.store.view(slot);
        let bucket = bucket_of(hash, self.params.blocks()).1;
        let group = group_in(view.words, bucket);
        let row = group * self.store.slots();
        let load = usize::from(view.head.loads[group]).clamp(1, self.store.slots());
        for line in view.hashes[row..row + load].chunks(8) {
            prefetch_read(&line[0]);
        }
        prefetch_read(&view.values[row]);
        prefetch_read(&view.head.counts[bucket]);
        prefetch_read(&view.words[self.layout.word_of(group)]);
    }

    /// Prefetches all of a block's bits, to be copied soon.
    #[inline]
    pub(super) fn prefetch_words(&self, slot: usize) {
        self.store.view(slot).words.chunks(8).for_each(|line| prefetch_read(&line[0]));
    }

    /// Recounts the fallback lines.
    pub(super) fn count_lines(&mut self) {
        self.lines_used.fill(0);
        for slot in 0..self.store.len() {
            let keys = block::fallback_keys(self.store.view(slot).head);
            let partition = self.partition_of_slot(slot);
            self.lines_used[usize::from(partition.0)] += lines_for(keys);
        }
    }

    /// The fallback list of a block: keys of marked groups, ascending.
    pub(super) fn fallback(&self, view: &BlockRef<'_>) -> Vec<(u64, u8)> {
        if view.head.marks == 0 { Vec::new() } else { block::fallback(view, self.store.slots()) }
    }

    /// Writes a whole block.
    pub(super) fn write_whole(&self, writer: &mut PayloadWriter, slot: usize) {
        let view = self.store.view(slot);
        writer.whole_block(self.number_of_slot(slot), view.words, &self.fallback(&view));
    }
}
