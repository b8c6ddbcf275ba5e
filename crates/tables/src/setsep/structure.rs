//! Blocks as the units of a published table: how deltas change them, and how snapshots encode them.

use super::balance::group_under;
use super::changes::{BlockChange, Changes, section};
use super::fallback::{ListWriter, Lists, lines_for};
use super::geometry::{GROUPS, bucket_of};
use super::kernels::lookup;
use super::layout::{Layout, group_of, set_choice};
use super::params::{PARAMS_BYTES, Params, ParamsError};
use super::reshape::MAX_RATIO;
use super::solver::is_clean;
use crate::bits::BitReader;
use crate::checksum_io::ChecksumReader;
use crate::gpt::Gpt;
use crate::published::snapshot::corrupt;
use crate::published::{self, ReshapeError, SnapshotError, Structure, TableParams, Units, bits_per_key};
use crate::reclaim::sync::Ordering;
use crate::touched_lines::LineRecorder;
use scalebricks_types::{ApplyError, PartitionCount, PartitionId, TableKind};
use std::io::Read;

/// The structure of SetSep tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetSepStructure {}

/// The query structure of a SetSep table: about 0.4 + 1.4·l bits per key in the default format.
///
/// It returns the value of every key that its control structure holds, and an arbitrary value for any other
/// key. It stores no keys except those of the fallback.
pub type SetSep = published::Table<SetSepStructure>;
/// One thread's reader of a [`SetSep`].
pub type SetSepReader = published::Reader<SetSepStructure>;
/// A pinned [`SetSepReader`].
pub type SetSepPin<'a> = published::Pin<'a, SetSepStructure>;
/// One change to the key set.
pub type Op = published::Op<u8>;

pub(super) type Generation = published::Generation<SetSepStructure>;
pub(super) type GenerationWriter = published::GenerationWriter<SetSepStructure>;
pub(super) type Pinned<'a> = published::Pinned<'a, SetSepStructure>;
pub(super) type LocalTable<'a> = published::LocalTable<'a, SetSepStructure>;
pub(super) type Reshaping = published::Reshaping<Params>;

/// How many blocks ahead of the one to be replaced are prefetched.
const BLOCKS_AHEAD: usize = 3;

/// Sizes of a [`SetSep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Bytes of memory used, including spare slots and the fallback.
    pub table_bytes: usize,
    /// Number of keys that the fallback answers.
    pub fallback_keys: u64,
}

impl TableStats {
    /// Bits of memory per key, for `keys` keys.
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        bits_per_key(self.table_bytes, keys)
    }
}

/// The effect of a payload's section on a partition's fallback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    lines: u32,
    fallback_keys: u64,
}

impl TableParams for Params {
    type Error = ParamsError;
    type Bytes = [u8; PARAMS_BYTES];

    fn partitions(&self) -> PartitionCount {
        self.partitions()
    }

    fn units_per_partition(&self) -> u32 {
        self.blocks_per_partition()
    }

    fn unit_words(&self) -> usize {
        self.slot_words()
    }

    fn encode(&self) -> Self::Bytes {
        self.encode()
    }

    fn decode(bytes: &Self::Bytes) -> Option<Result<Self, ParamsError>> {
        Self::decode(bytes)
    }
}

impl Structure for SetSepStructure {
    type Params = Params;
    type Value = u8;
}

impl Units for SetSepStructure {
    const KIND: TableKind = TableKind::SetSep;
    const TABLE_MAGIC: [u8; 8] = *b"SBSetSep";
    const CONTROL_MAGIC: [u8; 8] = *b"SBSetCtl";
    const SNAPSHOT_VERSION: u32 = 2;
    const SLOT_BITS: u32 = u32::BITS;
    const LINES_AHEAD: usize = usize::MAX;
    const WHOLE_PARTITIONS: bool = false;

    type Layout = Layout;
    /// The fallback list, in ascending order of hash.
    type Extra = Vec<(u64, u8)>;
    type SideData = Lists;
    type SideDataWriter = ListWriter;
    type Changes = Changes;
    type Effect = Effect;
    type Lookup = lookup::Lookup;

    fn layout(params: &Params) -> Layout {
        Layout::of(params)
    }

    fn check_units(from: &Params, to: &Params) -> Result<(), ReshapeError> {
        let (from, to) = (from.blocks(), to.blocks());
        let fits = to.is_multiple_of(from) && to / from <= MAX_RATIO;
        if fits { Ok(()) } else { Err(ReshapeError::Blocks { from, to }) }
    }

    fn side(params: &Params, slots: usize) -> (Lists, ListWriter) {
        Lists::new(params, slots)
    }

    fn side_bytes(side: &Lists, params: &Params) -> usize {
        side.bytes() + params.partitions().get() as usize * size_of::<u32>()
    }

    fn place(generation: &Generation, writer: &mut GenerationWriter, block: u32, list: Self::Extra) {
        let GenerationWriter { spares, side, words, .. } = writer;
        generation.arena.copy(generation.slot(block), words);
        generation.replace((spares, side), block, words, Some(&list));
        let partition = generation.params.partition_of_block(block);
        side.used[usize::from(partition.0)] += lines_for(list.len());
        side.keys += list.len() as u64;
    }

    fn extra(generation: &Generation, block: u32) -> Self::Extra {
        generation.side.pairs(generation.slot(block)).collect()
    }

    fn section(
        bits: &mut BitReader<'_>,
        partition: PartitionId,
        _: bool,
        layout: &Layout,
        changes: &mut Changes,
    ) -> Result<(), ApplyError> {
        section(bits, partition, layout, changes)
    }

    fn check(
        generation: &Generation,
        writer: &mut GenerationWriter,
        partition: PartitionId,
    ) -> Result<Effect, ApplyError> {
        let GenerationWriter { words, changes, side, .. } = writer;
        let used = side.used[usize::from(partition.0)];
        let (mut lines, mut keys) = (used, side.keys);
        (0..BLOCKS_AHEAD).filter_map(|at| changes.number(at)).for_each(|block| generation.prefetch(block));
        for at in 0..changes.len() {
            if used == 0 && !changes.lists() {
                break; // as nearly always: no fallback list, before or after
            }
            let change = changes.get(at);
            let slot = generation.slot(change.block);
            let old = generation.side.pairs(slot).count();
            if !changes.lists() && old == 0 {
                continue;
            }
            generation.change(slot, &change, words);
            let consistent = match change.fallback {
                Some(pairs) => generation.lists_marked_groups(words, pairs.iter().map(|pair| pair.0)),
                None => generation.lists_marked_groups(words, generation.side.pairs(slot).map(|pair| pair.0)),
            };
            if !consistent {
                return Err(ApplyError::Malformed("the fallback list does not match the marked groups"));
            }
            if let Some(pairs) = change.fallback {
                lines = lines - lines_for(old) + lines_for(pairs.len());
                keys = keys - old as u64 + pairs.len() as u64;
            }
        }
        if lines > generation.params.fallback_lines() {
            return Err(ApplyError::Full("more fallback lines than the parameters grant a partition"));
        }
        Ok(Effect { lines, fallback_keys: keys })
    }

    fn publish(
        generation: &Generation,
        writer: &mut GenerationWriter,
        partition: PartitionId,
        effect: Effect,
    ) {
        let GenerationWriter { spares, side, words, changes } = writer;
        for at in 0..changes.len() {
            if let Some(ahead) = changes.number(at + BLOCKS_AHEAD) {
                generation.prefetch(ahead);
            }
            let change = changes.get(at);
            generation.change(generation.slot(change.block), &change, words);
            generation.replace((spares, side), change.block, words, change.fallback);
        }
        side.used[usize::from(partition.0)] = effect.lines;
        side.keys = effect.fallback_keys;
    }

    /// Writes the words and the fallback list: a 16-bit count, then (hash, value) pairs.
    fn put_unit(words: &[u64], list: &Self::Extra, out: &mut Vec<u8>) {
        for word in words {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&(list.len() as u16).to_le_bytes()); // at most a block's keys
        for (hash, value) in list {
            out.extend_from_slice(&hash.to_le_bytes());
            out.push(*value);
        }
    }

    fn take_unit<R: Read>(
        source: &mut ChecksumReader<R>,
        layout: &Layout,
        block: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<(Vec<u64>, Self::Extra), SnapshotError> {
        let words = source.words(layout.words, buffer)?;
        let list = take_list(source, &layout.params, block)?;
        let in_groups =
            |marks: u64, pair: &(u64, u8)| marks | 1 << group_of(&words, pair.0, layout.params.blocks());
        if !clean_groups(&words, layout) || list.iter().fold(0, in_groups) != layout.marks(&words) {
            return corrupt("a group that no one stores, or a fallback list that does not match the groups");
        }
        Ok((words, list))
    }

    fn has_room(params: &Params, lists: &[(u32, Self::Extra)]) -> bool {
        let mut used = vec![0; params.partitions().get() as usize];
        for (block, list) in lists {
            used[usize::from(params.partition_of_block(*block).0)] += lines_for(list.len());
        }
        used.iter().all(|&lines| lines <= params.fallback_lines())
    }
}

/// Whether every group's bits are a valid encoding.
pub(super) fn clean_groups(words: &[u64], layout: &Layout) -> bool {
    (0..GROUPS).all(|group| is_clean(&layout.group(words, group), &layout.params))
}

fn take_list<R: Read>(
    source: &mut ChecksumReader<R>,
    params: &Params,
    block: u32,
) -> Result<Vec<(u64, u8)>, SnapshotError> {
    let count = usize::from(u16::from_le_bytes(source.take()?));
    if count > params.format().block_capacity() {
        return corrupt("more fallback keys than a block can hold");
    }
    let mut fallback: Vec<(u64, u8)> = Vec::new();
    for _ in 0..count {
        let (hash, [value]) = (u64::from_le_bytes(source.take()?), source.take()?);
        let ascends = fallback.last().is_none_or(|&(last, _)| last < hash);
        if !ascends || !params.is_value(value) || bucket_of(hash, params.blocks()).0 != block {
            return corrupt("a fallback key that is out of order, out of its block, or of too many bits");
        }
        fallback.push((hash, value));
    }
    Ok(fallback)
}

impl Generation {
    /// Computes the changed block.
    fn change(&self, slot: u32, change: &BlockChange<'_>, words: &mut [u64]) {
        self.arena.copy(slot, words);
        for &(bucket, choice) in change.choices {
            set_choice(words, bucket.into(), choice);
        }
        for (group, packed) in change.groups() {
            self.layout.set_group(words, group, packed);
        }
    }

    /// Whether all these hashes lie in marked groups, and every marked group has at least one of them.
    fn lists_marked_groups(&self, words: &[u64], hashes: impl Iterator<Item = u64>) -> bool {
        let listed =
            hashes.fold(0u64, |listed, hash| listed | 1 << group_of(words, hash, self.params.blocks()));
        listed == self.layout.marks(words)
    }

    /// Records the cache lines that a lookup reads: those of index word, choice and group. For a key of the
    /// fallback, it records those of the group that marks it.
    pub(super) fn touched(&self, hash: u64, lines: &mut LineRecorder<'_>) {
        let (block, bucket) = bucket_of(hash, self.params.blocks());
        lines.read(&self.arena.parts().0[block as usize]);
        let slot = self.arena.lines(self.slot(block));
        let cell = |word: usize| &slot[word / 8].0[word % 8];
        let choices = cell(bucket / 32);
        lines.read(choices);
        let choice = choices.load(Ordering::Relaxed) >> (bucket % 32 * 2) & 3;
        let group = group_under(bucket, choice as u8); // two bits
        self.layout.words_read(group).for_each(|word| lines.read(cell(word)));
    }
}

impl LocalTable<'_> {
    /// Prefetches the index word of a block that will be published soon.
    #[inline]
    pub(super) fn prefetch_word(&mut self, is_new: bool, block: u32) {
        self.generation(is_new).0.arena.prefetch_word(block);
    }

    /// Publishes a block of the old or the new shape as its control structure holds it, and its fallback list
    /// if it has or had one.
    pub(super) fn publish(
        &mut self,
        is_new: bool,
        partition: PartitionId,
        block: u32,
        words: &[u64],
        list: Option<&[(u64, u8)]>,
    ) {
        let (generation, GenerationWriter { spares, side, .. }) = self.generation(is_new);
        if let Some(pairs) = list {
            let old = generation.side.pairs(generation.slot(block)).count();
            let lines = &mut side.used[usize::from(partition.0)];
            *lines = *lines - lines_for(old) + lines_for(pairs.len());
            side.keys = side.keys - old as u64 + pairs.len() as u64;
        }
        generation.replace((spares, side), block, words, list);
    }
}

impl SetSep {
    /// Sizes, computed from counters; reads no block.
    pub fn stats(&self) -> TableStats {
        let writer = self.writer();
        let fallback_keys = writer.now.side.keys + writer.next.as_ref().map_or(0, |next| next.side.keys);
        drop(writer);
        TableStats { table_bytes: self.table_bytes(), fallback_keys }
    }
}

impl SetSepReader {
    /// Whether a batched lookup processes several keys per vector register. The formats with searched
    /// functions have no such kernel.
    pub const fn has_vector_lookup(&self) -> bool {
        self.lookup.has_vectors()
    }
}
