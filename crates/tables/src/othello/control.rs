//! The control structure: the names of the partitions that a node is responsible for, and how updates become
//! deltas.

use super::batch::Batch;
use super::params::Params;
use super::payload::PayloadWriter;
use super::store::Store;
use super::structure::OthelloStructure;
use crate::published::{Control, KeyStore, bits_per_key};
use scalebricks_types::{KeyHash, PartitionId};

/// Sizes of a table, as its control structure knows them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    /// Number of names stored.
    pub keys: u64,
    /// Number of names in the fullest range.
    pub max_range_names: usize,
    /// Number of names that the fullest range can still take: [`Params::capacity`] minus those it has. Call
    /// [`reshape`](OthelloControl::reshape) before it is 0.
    pub room: usize,
    /// How often a cycle forced a new seed for a range, since this structure was made or read.
    pub reseeded: u64,
    /// Bytes of the query structure's ranges and directory, without spare slots.
    pub table_bytes: usize,
    /// `table_bytes` in bits, per name stored.
    pub bits_per_key: f64,
}

/// The control structure of an Othello table.
pub type OthelloControl = Control<OthelloStructure>;

/// The names of some partitions, stored in ranges.
#[derive(Debug)]
pub(crate) struct RangeKeys {
    pub(super) params: Params,
    /// The shape that the table is being reshaped to, if any. Each partition stores which shape it is in.
    pub(super) next: Option<Params>,
    pub(super) parts: Vec<Option<Store>>,
    /// For each partition, the number of its first range among all held ranges.
    pub(super) firsts: Vec<u32>,
    pub(super) reseeded: u64,
    pub(super) batch: Batch,
}

impl KeyStore for OthelloStructure {
    type Keys = RangeKeys;

    fn empty(params: Params, held: &[bool]) -> RangeKeys {
        RangeKeys::new(params, None, held.iter().map(|held| held.then(|| Store::new(&params))).collect())
    }

    fn params(keys: &RangeKeys) -> &Params {
        &keys.params
    }

    fn holds(keys: &RangeKeys, partition: PartitionId) -> bool {
        keys.parts.get(usize::from(partition.0)).is_some_and(Option::is_some)
    }

    fn reshaping(keys: &RangeKeys) -> Option<&Params> {
        keys.next.as_ref()
    }

    fn done(keys: &RangeKeys) -> Vec<u32> {
        let all = |is_done: bool| u32::from(is_done) * keys.params.ranges_per_partition();
        keys.done().into_iter().map(all).collect()
    }

    fn unit(keys: &RangeKeys, partition: PartitionId, _: bool, range: u32) -> Option<(&[u64], u8)> {
        let store = keys.parts.get(usize::from(partition.0))?.as_ref()?;
        Some((store.words(range), store.head(range).seed))
    }

    fn count(keys: &RangeKeys) -> u64 {
        let heads = keys.parts.iter().flatten().flat_map(Store::heads);
        heads.map(|head| u64::from(head.names)).sum()
    }

    fn payload(control: &OthelloControl, partition: PartitionId) -> Vec<u8> {
        control
            .part(partition)
            .map_or_else(Vec::new, |store| whole(store, store.all_words(), Vec::new()).finish().0)
    }
}

impl RangeKeys {
    /// Ranges in one shape, or in two.
    pub(super) fn new(params: Params, next: Option<Params>, parts: Vec<Option<Store>>) -> Self {
        let mut keys = Self { params, next, parts, firsts: Vec::new(), reseeded: 0, batch: Batch::default() };
        keys.number();
        keys
    }

    /// Which partitions are in the new shape.
    pub(super) fn done(&self) -> Vec<bool> {
        let is_done = |part: &Option<Store>| {
            part.as_ref().is_some_and(|store| Some(store.layout().params) == self.next)
        };
        self.parts.iter().map(is_done).collect()
    }

    /// Renumbers the ranges of all partitions.
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
}

impl OthelloControl {
    pub(super) fn part(&self, partition: PartitionId) -> Option<&Store> {
        self.keys.parts.get(usize::from(partition.0))?.as_ref()
    }

    /// The exact value of a name. `None` if the name is not stored here.
    pub fn get(&self, hash: KeyHash) -> Option<u16> {
        let store = self.part(self.keys.params.partitions().of(hash))?;
        store.get(store.layout().params.locate(hash).1, hash.get())
    }

    /// All stored names with their values, in ascending order. Cost: sorts range by range.
    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, u16)> + '_ {
        let ranges = |store| (0..Store::heads(store).len() as u32).map(move |range| (store, range)); // at most 2^24
        self.keys.parts.iter().flatten().flat_map(ranges).flat_map(|(store, range)| {
            let mut names: Vec<(u64, u16)> = store.names(range).collect();
            names.sort_unstable();
            names.into_iter().map(|(hash, value)| (KeyHash::new(hash), value))
        })
    }

    /// How often a cycle forced a new seed for a range, as in [`Stats`], but without a pass over the ranges.
    pub const fn reseeded(&self) -> u64 {
        self.keys.reseeded
    }

    /// Bytes of memory used for names, graphs and bits.
    pub fn control_bytes(&self) -> usize {
        self.keys.parts.iter().flatten().map(Store::bytes).sum()
    }

    /// Sizes and counters. Cost: one pass over the counts of the ranges.
    pub fn stats(&self) -> Stats {
        let fullest = |store: &Store| {
            let names = store.heads().iter().map(|head| head.names as usize).max().unwrap_or(0);
            (names, store.layout().params.capacity() - names)
        };
        let stores = || self.keys.parts.iter().flatten();
        let table_bytes = stores().map(|store| store.all_words().len() * 8 + store.heads().len() * 4).sum();
        Stats {
            keys: self.count,
            max_range_names: stores().map(|store| fullest(store).0).max().unwrap_or(0),
            room: stores().map(|store| fullest(store).1).min().unwrap_or(0),
            reseeded: self.keys.reseeded,
            table_bytes,
            bits_per_key: bits_per_key(table_bytes, self.count),
        }
    }
}

/// The payload of a whole partition: the seeds of its graph, and these bits.
pub(super) fn whole(store: &Store, words: &[u64], scratch: Vec<u64>) -> PayloadWriter {
    let mut writer = PayloadWriter::of_partition(store.layout(), scratch);
    for (words, head) in words.chunks(store.layout().words).zip(store.heads()) {
        writer.image(head.seed, words);
    }
    writer
}
