//! The query structure in one shape: blocks that readers look keys up in, and how one writer changes them.

use super::arena::{Arena, Line, Spares, spare_slots};
use super::balance::group_under;
use super::changes::{BlockChange, Changes, PayloadReader};
use super::geometry::bucket_of;
use super::image::{Layout, group_of, set_choice};
use super::linear::Rows;
use super::params::{KEYS_PER_LINE, Params};
use crate::publish::epoch::Epochs;
use crate::publish::sync::{Arc, Memory, Ordering};
use crate::touched::Lines;
use scalebricks_types::{ApplyError, PartitionId};

/// What readers see of a table in one shape.
#[derive(Debug)]
pub(super) struct Face {
    pub(super) params: Params,
    pub(super) layout: Layout,
    pub(super) arena: Arena,
    /// The row hash of the linear formats.
    pub(super) rows: Rows,
}

/// What only whoever changes a [`Face`] needs.
#[derive(Debug)]
pub(super) struct FaceWriter {
    spares: Spares,
    lines_used: Vec<u32>,
    pub(super) fallback_keys: u64,
    words: Vec<u64>,
    /// What the section checked last changes.
    changes: Changes,
}

/// What a payload's section does to a partition's fallback.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    lines: u32,
    fallback_keys: u64,
}

/// Blocks asked for ahead of the one to be replaced.
const BLOCKS_AHEAD: usize = 3;

/// One block of a table: its words and its fallback pairs.
pub(super) type BlockState = (Vec<u64>, Vec<(u64, u8)>);

/// Fallback lines that this many keys of one block need.
pub(super) fn lines_for(keys: usize) -> u32 {
    keys.div_ceil(KEYS_PER_LINE) as u32 // at most a block's keys
}

impl Face {
    /// A face without keys.
    pub(super) fn empty(params: Params, epochs: Arc<Epochs>) -> (Self, FaceWriter) {
        Self::with_memory(params, Self::memory(&params), Vec::new(), epochs)
    }

    /// Zeroed lines for a face of these parameters: those of all its blocks, in their order, which the caller may
    /// fill before it gives the memory to [`with_memory`](Self::with_memory), and some spare ones behind.
    pub(super) fn memory(params: &Params) -> Memory<Line> {
        let blocks = params.blocks() as usize;
        Arena::memory(blocks, params.slot_words() / 8, spare_slots(blocks))
    }

    /// A face of the blocks in a [`memory`](Self::memory) made for the same parameters, and the fallback lists of some
    /// of them.
    pub(super) fn with_memory(
        params: Params,
        memory: Memory<Line>,
        lists: Vec<(u32, Vec<(u64, u8)>)>,
        epochs: Arc<Epochs>,
    ) -> (Self, FaceWriter) {
        let layout = Layout::of(&params);
        let limit = params.fallback_lines().saturating_mul(params.partitions().get());
        let spare = spare_slots(params.blocks() as usize);
        let (arena, mut spares) = Arena::new(memory, layout.words / 8, spare, limit, epochs);
        let mut words = vec![0; layout.words];
        let mut lines_used = vec![0; params.partitions().get() as usize];
        let mut fallback_keys = 0;
        for (block, pairs) in lists {
            arena.copy_block(arena.slot(block), &mut words);
            arena.publish(&mut spares, block, &words, Some(&pairs));
            lines_used[usize::from(params.partition_of_block(block).0)] += lines_for(pairs.len());
            fallback_keys += pairs.len() as u64;
        }
        (
            Self { params, layout, arena, rows: Rows::of(&params) },
            FaceWriter { spares, lines_used, fallback_keys, words, changes: Changes::default() },
        )
    }

    /// Tells the lines that a lookup reads: those of index word, choice and group. Of a key of the fallback, those of the
    /// group that says so.
    pub(super) fn touched(&self, hash: u64, lines: &mut Lines<'_>) {
        let (block, bucket) = bucket_of(hash, self.params.blocks());
        lines.read(&self.arena.parts().0[block as usize]);
        let slot = self.arena.block(self.arena.slot(block));
        let cell = |word: usize| &slot[word / 8].0[word % 8];
        let choices = cell(bucket / 32);
        lines.read(choices);
        let choice = choices.load(Ordering::Relaxed) >> (bucket % 32 * 2) & 3;
        let group = group_under(bucket, choice as u8); // two bits
        self.layout.words_read(group).for_each(|word| lines.read(cell(word)));
    }

    /// Asks for what the next change will write.
    pub(super) fn prefetch_spare(&self, writer: &FaceWriter) {
        self.arena.prefetch_spare(&writer.spares);
    }

    /// Copies one block out. The caller holds the writer's lock, so that it stays.
    pub(super) fn block_state(&self, block: u32) -> BlockState {
        let slot = self.arena.slot(block);
        let mut words = vec![0; self.layout.words];
        self.arena.copy_block(slot, &mut words);
        (words, self.arena.fallback(slot).collect())
    }

    /// Reads a section of a payload and checks what it would do to the fallback of its partition.
    pub(super) fn check(
        &self,
        writer: &mut FaceWriter,
        partition: PartitionId,
        payload: &mut PayloadReader<'_>,
    ) -> Result<Effect, ApplyError> {
        let FaceWriter { words, changes, lines_used, fallback_keys, .. } = writer;
        let (mut lines, mut keys) = (lines_used[usize::from(partition.0)], *fallback_keys);
        payload.section(&self.layout, changes)?;
        (0..BLOCKS_AHEAD)
            .filter_map(|at| changes.number(at))
            .for_each(|block| self.arena.prefetch_block(block));
        for at in 0..changes.len() {
            if lines_used[usize::from(partition.0)] == 0 && !changes.lists() {
                break; // as nearly always: no fallback list, before or after
            }
            let change = changes.get(at);
            let slot = self.arena.slot(change.block);
            let old = self.arena.fallback(slot).count();
            if !changes.lists() && old == 0 {
                continue;
            }
            self.change(slot, &change, words);
            let consistent = match change.fallback {
                Some(pairs) => self.lists_marked_groups(words, pairs.iter().map(|pair| pair.0)),
                None => self.lists_marked_groups(words, self.arena.fallback(slot).map(|pair| pair.0)),
            };
            if !consistent {
                return Err(ApplyError::Malformed("the fallback list does not match the marked groups"));
            }
            if let Some(pairs) = change.fallback {
                lines = lines - lines_for(old) + lines_for(pairs.len());
                keys = keys - old as u64 + pairs.len() as u64;
            }
        }
        if lines > self.params.fallback_lines() {
            return Err(ApplyError::Full("more fallback lines than the parameters grant a partition"));
        }
        Ok(Effect { lines, fallback_keys: keys })
    }

    /// Publishes the blocks of the section that was checked last.
    pub(super) fn publish(&self, writer: &mut FaceWriter, partition: PartitionId, effect: Effect) {
        let FaceWriter { spares, words, changes, .. } = writer;
        for at in 0..changes.len() {
            if let Some(ahead) = changes.number(at + BLOCKS_AHEAD) {
                self.arena.prefetch_block(ahead);
            }
            let change = changes.get(at);
            self.change(self.arena.slot(change.block), &change, words);
            self.arena.publish(spares, change.block, words, change.fallback);
        }
        writer.lines_used[usize::from(partition.0)] = effect.lines;
        writer.fallback_keys = effect.fallback_keys;
    }

    /// A block as it will be.
    fn change(&self, slot: u32, change: &BlockChange<'_>, words: &mut [u64]) {
        self.arena.copy_block(slot, words);
        for &(bucket, choice) in change.choices {
            set_choice(words, bucket.into(), choice);
        }
        for (group, packed) in change.groups() {
            self.layout.set_group(words, group, packed);
        }
    }

    /// Publishes a block as its control structure has it, and its fallback list if it has or had one.
    pub(super) fn publish_own(
        &self,
        writer: &mut FaceWriter,
        partition: PartitionId,
        block: u32,
        words: &[u64],
        list: Option<&[(u64, u8)]>,
    ) {
        if let Some(pairs) = list {
            let old = self.arena.fallback(self.arena.slot(block)).count();
            let lines = &mut writer.lines_used[usize::from(partition.0)];
            *lines = *lines - lines_for(old) + lines_for(pairs.len());
            writer.fallback_keys = writer.fallback_keys - old as u64 + pairs.len() as u64;
        }
        self.arena.publish(&mut writer.spares, block, words, list);
    }

    /// Whether these hashes lie in marked groups, and every marked group has one.
    fn lists_marked_groups(&self, words: &[u64], hashes: impl Iterator<Item = u64>) -> bool {
        let listed =
            hashes.fold(0u64, |listed, hash| listed | 1 << group_of(words, hash, self.params.blocks()));
        listed == self.layout.marks(words)
    }
}
