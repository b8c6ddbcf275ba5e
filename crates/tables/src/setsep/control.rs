//! The control structure: the keys of the partitions that a node is responsible for, and how updates become
//! deltas.

use super::block::{self, Moves};
use super::control_blocks::ControlBlocks;
use super::geometry::GROUPS;
use super::params::Params;
use super::payload::PayloadWriter;
use super::reshape::ReshapeTarget;
use super::store::BlockHeader;
use super::structure::{Reshaping, SetSepStructure};
use super::updates::BlockUpdater;
use crate::isa::Isa;
use crate::published::{Control, KeyStore, bits_per_key};
use scalebricks_types::{KeyHash, PartitionId};

/// Sizes of a table, as its control structure knows them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    /// Number of keys stored.
    pub keys: u64,
    /// Number of keys in groups without a solution. The fallback answers them.
    pub fallback_keys: u64,
    /// Groups without a solution.
    pub marked_groups: u64,
    /// Number of keys in the fullest group.
    pub max_group_load: u16,
    /// Number of keys in the fullest block; the limit is
    /// [`Format::block_capacity`](super::Format::block_capacity).
    pub max_block_keys: usize,
    /// Bytes of the query structure's blocks and fallback lists, without its spare slots.
    pub table_bytes: usize,
    /// `table_bytes` in bits, per key stored.
    pub bits_per_key: f64,
    /// How often buckets had to move.
    pub moves: Moves,
}

/// The control structure of a SetSep table.
pub type SetSepControl = Control<SetSepStructure>;

/// The keys of some partitions, stored in blocks.
#[derive(Debug)]
pub(crate) struct BlockKeys {
    pub(super) now: BlockUpdater,
    /// The shape that the table is being reshaped to, if any.
    pub(super) next: Option<ReshapeTarget>,
    pub(super) moves: Moves,
}

impl KeyStore for SetSepStructure {
    type Keys = BlockKeys;

    fn empty(params: Params, held: &[bool]) -> BlockKeys {
        BlockKeys::new(ControlBlocks::new(params, held, true), None, Moves::default())
    }

    fn params(keys: &BlockKeys) -> &Params {
        keys.now.params()
    }

    fn holds(keys: &BlockKeys, partition: PartitionId) -> bool {
        keys.now.blocks.first.get(usize::from(partition.0)).is_some_and(Option::is_some)
    }

    fn reshaping(keys: &BlockKeys) -> Option<&Params> {
        keys.next.as_ref().map(|next| next.updater.params())
    }

    fn done(keys: &BlockKeys) -> Vec<u32> {
        keys.next.as_ref().map_or_else(Vec::new, |next| next.all().to_vec())
    }

    fn unit(
        keys: &BlockKeys,
        partition: PartitionId,
        is_new: bool,
        block: u32,
    ) -> Option<(&[u64], Vec<(u64, u8)>)> {
        let blocks = keys.blocks_in(is_new);
        let first = blocks.first.get(usize::from(partition.0)).copied().flatten()?;
        let view = blocks.store.view((first + block) as usize);
        Some((view.words, blocks.fallback(&view)))
    }

    fn count(keys: &BlockKeys) -> u64 {
        keys.heads().map(|head| u64::from(head.keys)).sum()
    }

    fn payload(control: &SetSepControl, partition: PartitionId) -> Vec<u8> {
        let BlockKeys { now, next, .. } = &control.keys;
        let now = &now.blocks;
        let Some(first) = now.first[usize::from(partition.0)] else { return Vec::new() };
        let whole = Reshaping { to: now.params, done: 0 };
        let reshaping = next.as_ref().map_or(whole, |next| next.reshaping(partition));
        let mut writer = PayloadWriter::new(&now.layout, Some(reshaping), Vec::new());
        let each = now.params.blocks_per_partition();
        writer.section(&now.layout, each - reshaping.done, (each - reshaping.done) as usize * GROUPS);
        (first + reshaping.done..first + each).for_each(|slot| now.write_whole(&mut writer, slot as usize));
        if let Some(next) = next {
            let ratio = next.updater.params().blocks() / now.params.blocks();
            let blocks = reshaping.done * ratio;
            writer.section(&next.updater.blocks.layout, blocks, blocks as usize * GROUPS);
            let new = first * ratio..(first + reshaping.done) * ratio;
            new.for_each(|slot| next.updater.blocks.write_whole(&mut writer, slot as usize));
        }
        writer.finish().0
    }
}

impl BlockKeys {
    /// Blocks in one shape, or in two.
    pub(super) fn new(now: ControlBlocks, next: Option<(ControlBlocks, Vec<u32>)>, moves: Moves) -> Self {
        let next =
            next.map(|(blocks, done)| ReshapeTarget::new(BlockUpdater::new(blocks, Isa::best()), done));
        Self { now: BlockUpdater::new(now, Isa::best()), next, moves }
    }

    /// The blocks of the new shape if `is_new`, else of the old shape.
    pub(super) fn blocks_in(&self, is_new: bool) -> &ControlBlocks {
        self.next.as_ref().filter(|_| is_new).map_or(&self.now.blocks, |next| &next.updater.blocks)
    }

    /// The stored blocks in ascending order of their hashes, as shape and index.
    fn blocks(&self) -> impl Iterator<Item = (&ControlBlocks, usize)> {
        let now = &self.now.blocks;
        (0..now.store.len()).flat_map(move |slot| {
            let next = self.next.as_ref().filter(|next| next.is_done(now, slot));
            let (blocks, ratio) = next.map_or((now, 1), |next| {
                (&next.updater.blocks, (next.updater.params().blocks() / now.params.blocks()) as usize)
            });
            (slot * ratio..(slot + 1) * ratio).map(move |slot| (blocks, slot))
        })
    }

    fn heads(&self) -> impl Iterator<Item = &BlockHeader> {
        self.blocks().map(|(blocks, slot)| blocks.store.view(slot).head)
    }
}

impl SetSepControl {
    /// The same structure with kernels of this instruction set, or of the best one below it that this
    /// processor supports. The resulting bits do not depend on it.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.keys.now.use_isa(isa);
        if let Some(next) = &mut self.keys.next {
            next.updater.use_isa(isa);
        }
        self
    }

    /// The exact value of a key. `None` if the key is not stored here.
    pub fn get(&self, hash: KeyHash) -> Option<u8> {
        let (blocks, slot) = self.locate(hash.get())?;
        block::get(&blocks.store.view(slot), &blocks.params, blocks.finder, hash.get())
    }

    /// The shape and index of a hash's block, if it is stored here.
    fn locate(&self, hash: u64) -> Option<(&ControlBlocks, usize)> {
        let slot = self.keys.now.blocks.slot_of(hash).ok()?;
        match self.keys.next.as_ref().filter(|next| next.is_done(&self.keys.now.blocks, slot)) {
            Some(next) => Some((&next.updater.blocks, next.updater.blocks.slot_of(hash).ok()?)),
            None => Some((&self.keys.now.blocks, slot)),
        }
    }

    /// All stored keys with their values, in ascending order. Cost: sorts block by block.
    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, u8)> + '_ {
        self.keys.blocks().flat_map(|(blocks, slot)| {
            let keys = block::sorted_keys(&blocks.store.view(slot), blocks.store.slots());
            keys.into_iter().map(|(hash, value)| (KeyHash::new(hash), value))
        })
    }

    /// Bytes of memory used for keys, values and bits.
    pub fn control_bytes(&self) -> usize {
        self.keys.now.blocks.store.bytes()
            + self.keys.next.as_ref().map_or(0, |next| next.updater.blocks.store.bytes())
    }

    /// Sizes and counters. Cost: one pass over the blocks.
    pub fn stats(&self) -> Stats {
        let keys = self.len();
        let lines = |blocks: &ControlBlocks| blocks.lines_used.iter().sum::<u32>() as usize * 64;
        let blocks: usize = self.keys.blocks().map(|(blocks, _)| blocks.params.slot_words() * 8 + 8).sum();
        let next = self.keys.next.as_ref().map_or(0, |next| lines(&next.updater.blocks));
        let table_bytes = blocks + lines(&self.keys.now.blocks) + next;
        Stats {
            keys,
            fallback_keys: self.keys.heads().map(|head| block::fallback_keys(head) as u64).sum(),
            marked_groups: self.keys.heads().map(|head| u64::from(head.marks.count_ones())).sum(),
            max_group_load: self.keys.heads().flat_map(|head| head.loads).max().unwrap_or(0),
            max_block_keys: self.keys.heads().map(|head| head.keys as usize).max().unwrap_or(0),
            table_bytes,
            bits_per_key: bits_per_key(table_bytes, keys),
            moves: self.keys.moves,
        }
    }
}
