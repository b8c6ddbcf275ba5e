//! Changes a table's shape while it is in use: more blocks, other value bits, another seed or another format.
//!
//! Blocks are ranges of the hash. So a block of the old shape becomes one block of the new shape, or `k` of
//! them (up to four) if the new shape has `k` times as many blocks. No key changes its partition. The control
//! structure converts a partition's blocks in ascending order, a few at a time. Each step is a delta that
//! carries the new blocks as a whole, and the number of blocks converted so far. Between steps, updates go to
//! the shape that a key's block is in. A replica looks keys up in the same way
//! ([`generation`](crate::published::generation)). When all partitions are converted, the old shape is
//! dropped.
//!
//! A step is a function of the keys and the parameters: owners that reshape the same history in the same
//! steps send the same bits.

use super::block;
use super::control::{BlockKeys, SetSepControl};
use super::control_blocks::ControlBlocks;
use super::fallback::lines_for;
use super::geometry::{BUCKETS, GROUPS, bucket_of};
use super::params::Params;
use super::payload::PayloadWriter;
use super::structure::{Reshaping, SetSepStructure};
use super::updates::BlockUpdater;
use crate::published::{Full, Reshape, ReshapeError, UpdateError};
use scalebricks_types::{Delta, PartitionId, Position};

/// The maximum number of blocks that one block may become.
pub(super) const MAX_RATIO: u32 = 4;

/// The shape that a control structure is being reshaped to.
#[derive(Debug)]
pub(super) struct ReshapeTarget {
    pub(super) updater: BlockUpdater,
    /// For each partition, how many of its blocks are in the new shape. These are its first blocks.
    done: Vec<u32>,
}

impl ReshapeTarget {
    pub(super) const fn new(updater: BlockUpdater, done: Vec<u32>) -> Self {
        Self { updater, done }
    }

    /// The progress of a partition.
    pub(super) fn reshaping(&self, partition: PartitionId) -> Reshaping {
        Reshaping { to: *self.updater.params(), done: self.done[usize::from(partition.0)] }
    }

    /// The progress of every partition: number of blocks of the old shape that are in the new shape.
    pub(super) fn all(&self) -> &[u32] {
        &self.done
    }

    /// The index in the new shape of the block of a hash, given its index in the old shape, if that block has
    /// been converted.
    #[inline]
    pub(super) fn slot_of(
        &mut self,
        old: &ControlBlocks,
        slot: usize,
        hash: u64,
    ) -> Option<(&mut BlockUpdater, usize)> {
        if !self.is_done(old, slot) {
            return None;
        }
        let slot = self.updater.blocks.slot_of(hash).ok()?;
        Some((&mut self.updater, slot))
    }

    /// Whether a block of the old shape has been converted.
    #[inline]
    pub(super) fn is_done(&self, old: &ControlBlocks, slot: usize) -> bool {
        let partition = old.partition_of_slot(slot);
        (slot as u32) % old.params.blocks_per_partition() < self.done[usize::from(partition.0)]
    }
}

impl Reshape for SetSepStructure {
    fn begin(control: &mut SetSepControl, to: Params) -> Result<(), ReshapeError> {
        let (now, partitions) = (&control.keys.now, control.positions.len());
        let updater = BlockUpdater::new(ControlBlocks::new(to, &now.blocks.held(), false), now.solver.isa());
        control.keys.next = Some(ReshapeTarget { updater, done: vec![0; partitions] });
        Ok(())
    }

    fn convert(
        control: &mut SetSepControl,
        partition: PartitionId,
        counted: Option<Position>,
    ) -> Result<Option<Delta>, UpdateError> {
        control.step(partition, u32::MAX, counted)
    }

    fn abandon(keys: &mut BlockKeys) {
        keys.next = None;
    }
}

impl SetSepControl {
    /// The number of bits that a value may have now.
    pub(super) fn value_bits(&self) -> u8 {
        let now = self.params().value_bits();
        self.reshaping().map_or(now, |next| now.min(next.value_bits()))
    }

    /// Converts the next blocks of a partition, up to `count` of them. Returns a delta that carries them as a
    /// whole, or `None` if nothing is left to convert. After the last block of the last partition held, the
    /// old shape is dropped.
    ///
    /// Cost: places every key of the blocks again and solves every group.
    ///
    /// # Errors
    /// [`UpdateError::NotHeld`]; [`UpdateError::Full`] if the new shape has no room for the keys, and
    /// [`UpdateError::Value`] if a value has too many bits for it: nothing is then changed.
    pub fn reshape_step(&mut self, partition: PartitionId, count: u32) -> Result<Option<Delta>, UpdateError> {
        self.step(partition, count, None)
    }

    fn step(
        &mut self,
        partition: PartitionId,
        count: u32,
        counted: Option<Position>,
    ) -> Result<Option<Delta>, UpdateError> {
        let blocks = &self.keys.now.blocks;
        let first = blocks.first.get(usize::from(partition.0)).copied().flatten();
        let Some(first) = first else { return Err(UpdateError::NotHeld { op: 0, partition }) };
        let each = blocks.params.blocks_per_partition();
        let Some(next) = &mut self.keys.next else { return Ok(None) };
        let from = next.done[usize::from(partition.0)];
        let to = from.saturating_add(count).min(each);
        if from == to {
            return Ok(None);
        }
        let ratio = (next.updater.params().blocks() / blocks.params.blocks()) as usize;
        let mut lines = next.updater.blocks.lines_used[usize::from(partition.0)];
        for slot in first + from..first + to {
            lines += convert(blocks, slot as usize, &mut next.updater, ratio)?;
        }
        let limit = next.updater.params().fallback_lines();
        if lines > limit {
            return Err(Full::Fallback { partition, need: lines, limit }.into());
        }
        let freed = (first + from..first + to)
            .map(|slot| lines_for(block::fallback_keys(blocks.store.view(slot as usize).head)));
        let freed: u32 = freed.sum();
        next.updater.blocks.lines_used[usize::from(partition.0)] = lines;
        next.done[usize::from(partition.0)] = to;
        let mut writer = PayloadWriter::new(
            &blocks.layout,
            Some(next.reshaping(partition)),
            std::mem::take(&mut self.scratch),
        );
        writer.section(&blocks.layout, 0, 0);
        let new = (first + from) as usize * ratio..(first + to) as usize * ratio;
        writer.section(&next.updater.blocks.layout, new.len() as u32, new.len() * GROUPS); // at most 2^24
        new.for_each(|slot| next.updater.blocks.write_whole(&mut writer, slot));
        self.keys.now.blocks.lines_used[usize::from(partition.0)] -= freed;
        let delta = self.advance(partition, writer.finish(), counted, None);
        self.drop_old();
        Ok(Some(delta))
    }

    /// Frees the converted blocks. Ends the reshaping if all blocks are converted.
    fn drop_old(&mut self) {
        let Some(next) = self.keys.next.take() else { return };
        let old = &mut self.keys.now.blocks;
        let converted = (0..old.store.len()).step_by(old.params.blocks_per_partition() as usize);
        let each = old.params.blocks_per_partition() as usize;
        let done = |first: usize| next.done[usize::from(old.partition_of_slot(first).0)] as usize;
        let below = converted.clone().map(done).take_while(|&done| done == each).count() * each;
        if below == old.store.len() {
            self.keys.now = next.updater;
            return;
        }
        let below = below + done(below);
        old.store.free_below(below);
        self.keys.next = Some(next);
    }

    /// Adapts the table's shape to the number of keys it holds. It begins to double the blocks when they are
    /// fuller than intended; while the table is being reshaped, for any reason, it converts a block. Call it
    /// after every update, or every few updates: it does a bounded amount of work, and returns a delta if it
    /// did any. It is for control structures that hold all partitions.
    ///
    /// # Errors
    /// As [`reshape_step`](Self::reshape_step); and [`UpdateError::Full`] when the table cannot have more
    /// blocks.
    pub fn maintain(&mut self) -> Result<Option<Delta>, UpdateError> {
        let params = *self.params();
        let blocks = self.keys.now.blocks.store.len() as u64;
        if self.keys.next.is_none() {
            if self.count <= blocks * params.format().keys_per_block() {
                return Ok(None);
            }
            let Ok(doubled) = params.with_blocks(params.blocks() * 2) else { return Ok(None) };
            if self.reshape(doubled).is_err() {
                return Ok(None);
            }
        }
        let Some(next) = &self.keys.next else { return Ok(None) };
        let each = params.blocks_per_partition();
        let behind = self
            .keys
            .now
            .blocks
            .partitions
            .iter()
            .find(|partition| next.done[usize::from(partition.0)] < each);
        behind.copied().map_or(Ok(None), |partition| self.reshape_step(partition, 1))
    }
}

/// Builds the blocks of the new shape that one block of the old shape becomes. Returns the fallback lines
/// they need.
fn convert(
    old: &ControlBlocks,
    slot: usize,
    updater: &mut BlockUpdater,
    ratio: usize,
) -> Result<u32, UpdateError> {
    let new = &mut updater.blocks;
    let bits = new.params.value_bits();
    let (view, block_count) = (old.store.view(slot), new.params.blocks());
    let first = slot * ratio;
    let mut counts = [[0u16; BUCKETS]; MAX_RATIO as usize];
    let number = new.number_of_slot(first);
    let mut values = 0;
    block::each_row(&view, old.store.slots(), |hashes, held| {
        values |= held.iter().fold(0, |all, value| all | value);
        for &hash in hashes {
            let (block, bucket) = bucket_of(hash, block_count);
            counts[(block - number) as usize][bucket] += 1;
        }
    });
    if !new.params.is_value(values) {
        let keys = block::sorted_keys(&view, old.store.slots());
        let value =
            keys.into_iter().map(|key| key.1).find(|&value| !new.params.is_value(value)).unwrap_or(values);
        return Err(UpdateError::Value { op: 0, value: value.into(), bits });
    }
    // First the group of each bucket, then the keys into their rows.
    let mut group_of = [[0u8; BUCKETS]; MAX_RATIO as usize];
    for (at, (counts, group_of)) in counts.iter().zip(&mut group_of).take(ratio).enumerate() {
        let need = counts.iter().map(|&count| usize::from(count)).sum();
        let (block, limit) = (number + at as u32, new.params.format().block_capacity());
        if need > limit {
            return Err(Full::Block { block, need, limit }.into());
        }
        new.store.make(first + at);
        *group_of = new.block(first + at).begin(counts);
    }
    block::each_row(&view, old.store.slots(), |hashes, values| {
        for (&hash, &value) in hashes.iter().zip(values) {
            let (block, bucket) = bucket_of(hash, block_count);
            let at = (block - number) as usize;
            new.block(first + at).append(group_of[at][bucket].into(), hash, value);
        }
    });
    let BlockUpdater { blocks, solver, .. } = updater;
    let layout = blocks.layout;
    let lines = (first..first + ratio).map(|slot| {
        let mut block = blocks.block(slot);
        block.solve_all(&layout, solver);
        lines_for(block::fallback_keys(block.view.head))
    });
    Ok(lines.sum())
}
