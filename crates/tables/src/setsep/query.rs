//! The query structure: what every node holds, any number of threads read, and one writer changes by deltas.

use super::arena::{Arena, Line, Spares, spare_slots};
use super::geometry::GROUPS;
use super::image::{CHOICE_WORDS, Layout, group_of, set_choice};
use super::params::{KEYS_PER_LINE, Params};
use super::payload::{BlockChange, PayloadReader};
use super::reader::SetSepReader;
use super::solver::is_marked;
use crate::gpt::{Gpt, GptReader};
use scalebricks_types::{Applied, ApplyError, Delta, PartitionCount, PartitionId, Position, TableKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The query structure of a SetSep table: about 0.4 + 1.4·l bits a key in the default format.
///
/// It answers for every key that its control structure holds, and gives an arbitrary value for any other. It holds
/// no keys but those of the fallback.
#[derive(Debug)]
pub struct SetSep {
    pub(super) params: Params,
    pub(super) layout: Layout,
    pub(super) arena: Arena,
    writer: Mutex<Writer>,
}

/// What only whoever applies deltas needs.
#[derive(Debug)]
pub(super) struct Writer {
    spares: Spares,
    pub(super) positions: Vec<Position>,
    lines_used: Vec<u32>,
    fallback_keys: u64,
    words: Vec<u64>,
    change: BlockChange,
}

/// One block of a table: its words and its fallback pairs.
pub(super) type BlockState = (Vec<u64>, Vec<(u64, u8)>);

/// Sizes of a [`SetSep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Bytes of memory held, spare slots and fallback included.
    pub table_bytes: usize,
    /// Keys that the fallback answers.
    pub fallback_keys: u64,
}

impl TableStats {
    /// Bits of memory for each of `keys` keys.
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        bits_per_key(self.table_bytes, keys)
    }
}

/// Bits of memory for each key; of an empty table, all of them.
#[expect(clippy::cast_precision_loss, reason = "a ratio to be printed; exact to 2^53 anyway")]
pub(super) fn bits_per_key(bytes: usize, keys: u64) -> f64 {
    bytes as f64 * 8.0 / keys.max(1) as f64
}

/// Fallback lines that this many keys of one block need.
pub(super) fn lines_for(keys: usize) -> u32 {
    keys.div_ceil(KEYS_PER_LINE) as u32 // at most a block's keys
}

impl SetSep {
    /// An empty table: every partition at position 0.
    pub fn new(params: Params) -> Self {
        let lines =
            (0..params.blocks() as usize * params.slot_words() / 8).map(|_| Line::new([0; 8])).collect();
        let positions = vec![Position(0); params.partitions().get() as usize];
        Self::with_lines(params, positions, lines, Vec::new())
    }

    /// A table of these lines, one slot a block, and the fallback lists of some blocks.
    pub(super) fn with_lines(
        params: Params,
        positions: Vec<Position>,
        lines: Vec<Line>,
        lists: Vec<(u32, Vec<(u64, u8)>)>,
    ) -> Self {
        let layout = Layout::of(&params);
        let limit = params.fallback_lines().saturating_mul(params.partitions().get());
        let spare = spare_slots(params.blocks() as usize);
        let (arena, mut spares) = Arena::new(lines, layout.words / 8, spare, limit);
        let mut words = vec![0; layout.words];
        let mut lines_used = vec![0; positions.len()];
        let mut fallback_keys = 0;
        for (block, pairs) in lists {
            arena.copy_block(arena.index(block), &mut words);
            arena.publish(&mut spares, block, &words, Some(&pairs));
            lines_used[usize::from(params.partition_of_block(block).0)] += lines_for(pairs.len());
            fallback_keys += pairs.len() as u64;
        }
        let change = BlockChange::default();
        let writer = Mutex::new(Writer { spares, positions, lines_used, fallback_keys, words, change });
        Self { params, layout, arena, writer }
    }

    /// What the table was made with.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sizes, from counters; reads no block.
    pub fn stats(&self) -> TableStats {
        TableStats { table_bytes: self.table_bytes(), fallback_keys: self.writer().fallback_keys }
    }

    /// Copies one block out. The caller holds the writer's lock, so that it stays.
    pub(super) fn block_state(&self, block: u32) -> BlockState {
        let index = self.arena.index(block);
        let mut words = vec![0; self.layout.words];
        self.arena.copy_block(index, &mut words);
        (words, self.arena.fallback(index).collect())
    }

    /// Applies one update: each changed block is copied, changed, and replaced by one store; readers do not wait.
    /// The whole payload is checked before anything is replaced.
    ///
    /// Cost: two passes over the payload; about a block's size (450 bytes at 2-bit values) copied twice for each
    /// changed block. Waits only for readers that hold the last spare slots, at most one batch each; so a thread must
    /// not apply while it holds a [`SetSepPin`](super::SetSepPin) of the same table.
    ///
    /// # Errors
    /// [`ApplyError`]; the table is then unchanged. [`ApplyError::Full`] never happens for a delta made by a control
    /// structure of the same parameters.
    pub fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        if delta.kind != TableKind::SetSep {
            return Err(ApplyError::Kind { want: TableKind::SetSep, got: delta.kind });
        }
        let partition = usize::from(delta.partition.0);
        let mut guard = self.writer();
        let writer = &mut *guard;
        let have = *writer.positions.get(partition).ok_or(ApplyError::Partition(delta.partition))?;
        if !delta.follows(have)? {
            return Ok(Applied::Stale);
        }
        let (fingerprint, mut changes) = PayloadReader::new(delta.partition, &self.params, &delta.payload)?;
        if fingerprint != self.params.fingerprint() {
            return Err(ApplyError::Malformed("made with other parameters"));
        }
        if changes.reshaping()?.is_some() {
            return Err(ApplyError::Malformed("reshaping is not supported"));
        }
        changes.section(&self.params)?;
        // What the changed lists need, and what they gave back.
        let (mut lines, mut keys, mut old_lines, mut old_keys) = (0, 0, 0, 0);
        self.each_block(changes.clone(), writer, |_, change, _, old| {
            let Some(pairs) = &change.fallback else { return };
            (lines, keys) = (lines + lines_for(pairs.len()), keys + pairs.len() as u64);
            (old_lines, old_keys) = (old_lines + lines_for(old), old_keys + old as u64);
        })?;
        let lines = writer.lines_used[partition] - old_lines + lines;
        if lines > self.params.fallback_lines() {
            return Err(ApplyError::Full("more fallback lines than the parameters grant a partition"));
        }
        self.each_block(changes, writer, |spares, change, words, _| {
            self.arena.publish(spares, change.block, words, change.fallback.as_deref());
        })?;
        writer.lines_used[partition] = lines;
        writer.fallback_keys = writer.fallback_keys - old_keys + keys;
        writer.positions[partition] = delta.position;
        Ok(Applied::Advanced)
    }

    /// Calls `act` with each changed block as it will be: spares, change, new words, old number of fallback keys.
    fn each_block(
        &self,
        mut changes: PayloadReader<'_>,
        writer: &mut Writer,
        mut act: impl FnMut(&mut Spares, &BlockChange, &[u64], usize),
    ) -> Result<(), ApplyError> {
        while changes.next(&mut writer.change)? {
            let Writer { spares, words, change, .. } = writer;
            let index = self.arena.index(change.block);
            self.arena.copy_block(index, words);
            for &(bucket, choice) in &change.choices {
                set_choice(words, bucket.into(), choice);
            }
            for (group, fields) in &change.groups {
                self.layout.set_group(words, (*group).into(), fields);
            }
            let old = if index >> 32 == 0 { 0 } else { self.arena.fallback(index).count() };
            let marked = change.groups.iter().any(|(_, fields)| is_marked(fields, &self.params));
            let listed = change.fallback.as_ref().map_or(old, Vec::len) > 0;
            if old > 0 || marked || listed {
                let consistent = match &change.fallback {
                    Some(pairs) => self.lists_marked_groups(words, pairs.iter().map(|pair| pair.0)),
                    None => self.lists_marked_groups(words, self.arena.fallback(index).map(|pair| pair.0)),
                };
                if !consistent {
                    return Err(ApplyError::Malformed("the fallback list does not match the marked groups"));
                }
            }
            act(spares, change, words, old);
        }
        changes.end()
    }

    /// Whether these hashes lie in marked groups, and every marked group has one.
    pub(super) fn lists_marked_groups(&self, words: &[u64], hashes: impl Iterator<Item = u64>) -> bool {
        let listed =
            hashes.fold(0u64, |listed, hash| listed | 1 << group_of(words, hash, self.params.blocks()));
        listed == self.layout.marks(words)
    }
}

impl Gpt for SetSep {
    fn kind(&self) -> TableKind {
        TableKind::SetSep
    }

    fn partitions(&self) -> PartitionCount {
        self.params.partitions()
    }

    fn reader(self: Arc<Self>) -> Box<dyn GptReader> {
        Box::new(SetSepReader::new(self))
    }

    fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        Self::apply(self, delta)
    }

    fn position(&self, partition: PartitionId) -> Option<Position> {
        self.writer().positions.get(usize::from(partition.0)).copied()
    }

    fn table_bytes(&self) -> usize {
        let partitions = self.params.partitions().get() as usize;
        self.arena.bytes() + partitions * (size_of::<Position>() + size_of::<u32>())
    }
}

const _: () = assert!(CHOICE_WORDS * 64 == 512 && GROUPS == 64, "a slot is a whole number of cache lines");
