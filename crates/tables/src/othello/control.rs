//! The control structure: the names of the partitions a node is responsible for, and how updates become deltas.

use super::batch::Batch;
use super::params::Params;
use super::payload::PayloadWriter;
use super::store::Store;
use super::structure::{Generation, Othello, OthelloStructure};
use crate::publish::line::Line;
use crate::published::bits_per_key;
use crate::published::snapshot::Digest;
use scalebricks_types::{Delta, KeyHash, PartitionId, Position, TableKind};

/// Sizes of a table as its control structure knows them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    /// Names held.
    pub keys: u64,
    /// Names in the fullest range.
    pub max_range_names: usize,
    /// Names the fullest range can still take, [`Params::capacity`] less those it has: the time to
    /// [`reshape`](OthelloControl::reshape) is while there are some.
    pub room: usize,
    /// How often a cycle forced another seed on a range, since this structure was made or read.
    pub reseeded: u64,
    /// Bytes of the query structure's ranges and directory, without spare slots.
    pub table_bytes: usize,
    /// `table_bytes` in bits, for each name held.
    pub bits_per_key: f64,
}

/// The control structure of an Othello table: names (as hashes) with their values, the graph of each range, and the bits
/// it leads to. About 26 bytes a name in the default sizing at its design load.
///
/// Bits are a function of parameters, names and the seeds of the ranges; seeds follow from the history, message by
/// message: a range takes its next seed when an insertion would close a cycle, and only then. So equal histories give
/// equal bits, however they were batched.
#[derive(Debug)]
pub struct OthelloControl {
    params: Params,
    /// The shape it is on its way to, if it is; each partition knows which it is in.
    pub(super) next: Option<Params>,
    pub(super) parts: Vec<Option<Store>>,
    /// For each partition the number of its first range among all those held.
    pub(super) firsts: Vec<u32>,
    pub(super) positions: Vec<Position>,
    pub(super) keys: u64,
    pub(super) reseeded: u64,
    pub(super) batch: Batch,
    /// Memory to write payloads in.
    pub(super) scratch: Vec<u64>,
}

impl OthelloControl {
    /// An empty control structure for all partitions, each at position 0.
    pub fn new(params: Params) -> Self {
        Self::for_partitions(params, (0..params.partitions().get()).map(|p| PartitionId(p as u16)))
    }

    /// An empty control structure for these partitions, each at position 0. Numbers that name no partition are
    /// ignored.
    pub fn for_partitions(params: Params, partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        let mut parts: Vec<Option<Store>> = (0..params.partitions().get()).map(|_| None).collect();
        for partition in partitions {
            if let Some(part) = parts.get_mut(usize::from(partition.0)) {
                *part = Some(Store::new(&params));
            }
        }
        let positions = vec![Position(0); parts.len()];
        Self::from_parts(params, None, parts, positions)
    }

    /// A control structure of ranges made elsewhere: in one shape, or in two.
    pub(super) fn from_parts(
        params: Params,
        next: Option<Params>,
        parts: Vec<Option<Store>>,
        positions: Vec<Position>,
    ) -> Self {
        let heads = parts.iter().flatten().flat_map(Store::heads);
        let keys = heads.map(|head| u64::from(head.names)).sum();
        let mut control = Self {
            params,
            next,
            parts,
            firsts: Vec::new(),
            positions,
            keys,
            reseeded: 0,
            batch: Batch::default(),
            scratch: Vec::new(),
        };
        control.number();
        control
    }

    /// Numbers the ranges of all partitions anew.
    pub(super) fn number(&mut self) {
        let mut first = 0;
        let ranges = self.parts.iter().map(|part| part.as_ref().map_or(0, |store| store.heads().len()));
        self.firsts = ranges
            .map(|ranges| {
                first += ranges as u32; // fewer than 2^24 of either shape
                first - ranges as u32
            })
            .collect();
    }

    /// What the table was made with; while it is being reshaped, the old shape.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    pub(super) const fn set_params(&mut self, params: Params) {
        self.params = params;
    }

    pub(super) fn part(&self, partition: PartitionId) -> Option<&Store> {
        self.parts.get(usize::from(partition.0))?.as_ref()
    }

    /// Whether this structure is responsible for a partition.
    pub fn holds(&self, partition: PartitionId) -> bool {
        self.part(partition).is_some()
    }

    /// Where a partition's stream stands, if it is held here.
    pub fn position(&self, partition: PartitionId) -> Option<Position> {
        self.holds(partition).then(|| self.positions[usize::from(partition.0)])
    }

    /// The value of a name: exact. `None` if it is not held here.
    pub fn get(&self, hash: KeyHash) -> Option<u16> {
        let store = self.part(self.params.partitions().of(hash))?;
        store.get(store.layout().params.locate(hash).1, hash.get())
    }

    /// All names held, ascending, with their values. Cost: sorts range by range.
    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, u16)> + '_ {
        let ranges = |store| (0..Store::heads(store).len() as u32).map(move |range| (store, range)); // at most 2^24
        self.parts.iter().flatten().flat_map(ranges).flat_map(|(store, range)| {
            let mut names: Vec<(u64, u16)> = store.names(range).collect();
            names.sort_unstable();
            names.into_iter().map(|(hash, value)| (KeyHash::new(hash), value))
        })
    }

    /// The next delta of a partition's stream; it leads to the next position, or to the one that somebody else counted.
    pub(super) fn advance(
        &mut self,
        partition: PartitionId,
        writer: PayloadWriter,
        counted: Option<Position>,
    ) -> Delta {
        let at = &mut self.positions[usize::from(partition.0)];
        let (delta, scratch) = step(partition, at, writer, counted);
        self.scratch = scratch;
        delta
    }

    /// The absolute state of a partition as a delta from position 0. `None` if the partition is not held here, or
    /// is at position 0 itself, where an empty table already equals it.
    pub fn export_partition(&self, partition: PartitionId) -> Option<Delta> {
        let store = self.part(partition)?;
        state(partition, self.positions[usize::from(partition.0)], store, store.all_words())
    }

    /// A query structure of what is held here; partitions held elsewhere are empty in it, at position 0. As many as are
    /// wanted can be made of one control structure, and follow it by its deltas.
    pub fn export(&self) -> Othello {
        if self.next.is_some() {
            return self.export_by_deltas();
        }
        self.export_of(|_, store| store.all_words(), &self.positions)
    }

    /// The query structure that the graph of a table in one shape and these bits of each partition make.
    pub(super) fn export_of<'a>(
        &'a self,
        words: impl Fn(PartitionId, &'a Store) -> &'a [u64],
        positions: &[Position],
    ) -> Othello {
        let mut memory = Generation::memory(&self.params);
        let each = self.params.ranges_per_partition() as usize;
        let mut seeds = vec![0; self.params.ranges() as usize];
        let lines = super::image::Layout::of(&self.params).words / 8 * each;
        let parts = self.parts.iter().enumerate().zip(memory.chunks_mut(lines)).zip(seeds.chunks_mut(each));
        for (((partition, part), lines), seeds) in parts {
            let Some(store) = part else { continue };
            let words = words(PartitionId(partition as u16), store); // at most 2^16
            for (line, words) in lines.iter_mut().zip(words.as_chunks::<8>().0) {
                *line = Line::new(*words);
            }
            seeds.iter_mut().zip(store.heads()).for_each(|(seed, head)| *seed = head.seed);
        }
        let positions = self.parts.iter().zip(positions);
        let positions = positions.map(|(part, &at)| if part.is_some() { at } else { Position(0) }).collect();
        Othello::with_memory(self.params, positions, memory, (0..).zip(seeds))
    }

    /// The query structure of a table in two shapes.
    fn export_by_deltas(&self) -> Othello {
        let table = Othello::new(self.params);
        for partition in (0..self.parts.len()).map(|partition| PartitionId(partition as u16)) {
            if let Some(delta) = self.export_partition(partition)
                && table.apply(&delta).is_err()
            {
                unreachable!("a control structure's own export applies to an empty table of its shape");
            }
        }
        table
    }

    /// The digest of a partition's bits, equal to that of every [`Othello`] that is where this is. `None` if the partition
    /// is not held here. Cost: reads its bits.
    pub fn digest(&self, partition: PartitionId) -> Option<u32> {
        let store = self.part(partition)?;
        let mut digest = Digest::<OthelloStructure>::of(&store.layout().params);
        for (range, head) in (0..).zip(store.heads()) {
            digest.unit(store.words(range), &head.seed);
        }
        Some(digest.finish())
    }

    /// Names held.
    pub const fn len(&self) -> u64 {
        self.keys
    }

    /// Whether none are held.
    pub const fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// How often a cycle forced another seed on a range, as in [`Stats`], without a pass over the ranges.
    pub const fn reseeded(&self) -> u64 {
        self.reseeded
    }

    /// Bytes of memory held for names, graphs and bits.
    pub fn control_bytes(&self) -> usize {
        self.parts.iter().flatten().map(Store::bytes).sum()
    }

    /// Sizes and counters. Cost: a pass over the ranges' counts.
    pub fn stats(&self) -> Stats {
        let fullest = |store: &Store| {
            let names = store.heads().iter().map(|head| head.names as usize).max().unwrap_or(0);
            (names, store.layout().params.capacity() - names)
        };
        let stores = || self.parts.iter().flatten();
        let table_bytes = stores().map(|store| store.all_words().len() * 8 + store.heads().len() * 4).sum();
        Stats {
            keys: self.keys,
            max_range_names: stores().map(|store| fullest(store).0).max().unwrap_or(0),
            room: stores().map(|store| fullest(store).1).min().unwrap_or(0),
            reseeded: self.reseeded,
            table_bytes,
            bits_per_key: bits_per_key(table_bytes, self.keys),
        }
    }
}

/// The payload of all of a partition: its graph's seeds, and these bits.
pub(super) fn whole(store: &Store, words: &[u64], scratch: Vec<u64>) -> PayloadWriter {
    let mut writer = PayloadWriter::of_partition(store.layout(), scratch);
    for (words, head) in words.chunks(store.layout().words).zip(store.heads()) {
        writer.image(head.seed, words);
    }
    writer
}

/// The absolute state of a partition with these bits as a delta from position 0; `None` at position 0 itself.
pub(super) fn state(
    partition: PartitionId,
    position: Position,
    store: &Store,
    words: &[u64],
) -> Option<Delta> {
    let (payload, _) = (position != Position(0)).then(|| whole(store, words, Vec::new()).finish())?;
    Some(Delta { kind: TableKind::Othello, partition, position, previous: Position(0), payload })
}

/// The next delta of a stream, which is then at the next position, or at the one that somebody else counted; and the
/// scratch.
pub(super) fn step(
    partition: PartitionId,
    at: &mut Position,
    writer: PayloadWriter,
    counted: Option<Position>,
) -> (Delta, Vec<u64>) {
    let previous = *at;
    *at = counted.unwrap_or(Position(previous.0 + 1));
    let (payload, scratch) = writer.finish();
    (Delta { kind: TableKind::Othello, partition, position: *at, previous, payload }, scratch)
}
