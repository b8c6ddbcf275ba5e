//! Ranges as the units of a published table: how deltas change them, and how snapshots encode them.

use super::changes::{Changes, section};
use super::kernels::{Lookup, one};
use super::layout::Layout;
use super::params::{PARAMS_BYTES, Params, ParamsError};
use crate::bits::BitReader;
use crate::checksum_io::ChecksumReader;
use crate::gpt::Gpt;
use crate::published::arena::FreeSlots;
use crate::published::reader::FEW_KEYS;
use crate::published::snapshot::corrupt;
use crate::published::{self, SnapshotError, Structure, TableParams, Units, bits_per_key};
use scalebricks_types::{ApplyError, KeyHash, PartitionCount, PartitionId, Position, TableKind};
use std::io::{self, Read};

/// The structure of Othello tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OthelloStructure {}

/// The query structure of an Othello table: two arrays of slots for each range, 2.33 slots per name, and no
/// names.
///
/// It returns the value of every name that its control structure holds, and an arbitrary value for any other
/// name. With checksums it detects nearly all other names.
pub type Othello = published::Table<OthelloStructure>;
/// One thread's reader of an [`Othello`].
pub type OthelloReader = published::Reader<OthelloStructure>;
/// A pinned [`OthelloReader`].
pub type OthelloPin<'a> = published::Pin<'a, OthelloStructure>;
/// One change to the set of names. Concise calls them add, alter and delete.
pub type Op = published::Op<u16>;

pub(super) type Generation = published::Generation<OthelloStructure>;
pub(super) type GenerationWriter = published::GenerationWriter<OthelloStructure>;
pub(super) type Pinned<'a> = published::Pinned<'a, OthelloStructure>;
pub(super) type LocalTable<'a> = published::LocalTable<'a, OthelloStructure>;
pub(super) type Reshaping = published::Reshaping<Params>;

/// Bits of a slot's number in an index word; the range's seed is above them.
pub(super) const SLOT_BITS: u32 = 24;

/// How many ranges ahead of the one to be replaced are prefetched.
const RANGES_AHEAD: usize = 4;

/// Number of words read at a time.
const WORDS_AT_ONCE: usize = 4096;

/// Sizes of an [`Othello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Bytes of memory used, including index and spare slots.
    pub table_bytes: usize,
    /// The bytes of the ranges alone, each rounded up to whole cache lines.
    pub range_bytes: usize,
}

impl TableStats {
    /// Bits of memory per name, for `keys` names.
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        bits_per_key(self.table_bytes, keys)
    }
}

impl TableParams for Params {
    type Error = ParamsError;
    type Bytes = [u8; PARAMS_BYTES];

    fn partitions(&self) -> PartitionCount {
        self.partitions()
    }

    fn units_per_partition(&self) -> u32 {
        self.ranges_per_partition()
    }

    fn unit_words(&self) -> usize {
        (self.range_bits().div_ceil(512) * 8) as usize // a partition fits a delta
    }

    fn encode(&self) -> Self::Bytes {
        self.encode()
    }

    fn decode(bytes: &Self::Bytes) -> Option<Result<Self, ParamsError>> {
        Self::decode(bytes)
    }
}

impl Structure for OthelloStructure {
    type Params = Params;
    type Value = u16;
}

impl Units for OthelloStructure {
    const KIND: TableKind = TableKind::Othello;
    const TABLE_MAGIC: [u8; 8] = *b"SBOthelo";
    const CONTROL_MAGIC: [u8; 8] = *b"SBOthCtl";
    const SNAPSHOT_VERSION: u32 = 1;
    const SLOT_BITS: u32 = SLOT_BITS;
    const LINES_AHEAD: usize = 8;
    const WHOLE_PARTITIONS: bool = true;

    type Layout = Layout;
    /// The seed.
    type Extra = u8;
    type SideData = ();
    type SideDataWriter = ();
    type Changes = Changes;
    type Effect = ();
    type Lookup = Lookup;

    fn layout(params: &Params) -> Layout {
        Layout::of(params)
    }

    /// All names are redistributed, so any ranges are possible.
    fn side(_: &Params, _: usize) -> ((), ()) {
        ((), ())
    }

    fn place(generation: &Generation, _: &mut GenerationWriter, range: u32, seed: u8) {
        let slot = generation.slot(range);
        generation.arena.set_word(range, slot | u32::from(seed) << SLOT_BITS);
    }

    fn extra(generation: &Generation, range: u32) -> u8 {
        (generation.arena.word(range) >> SLOT_BITS) as u8
    }

    fn section(
        bits: &mut BitReader<'_>,
        _: PartitionId,
        has_params: bool,
        layout: &Layout,
        changes: &mut Changes,
    ) -> Result<(), ApplyError> {
        section(bits, has_params, layout, changes)
    }

    /// A section that could be parsed fits every table of its shape.
    fn check(_: &Generation, _: &mut GenerationWriter, _: PartitionId) -> Result<(), ApplyError> {
        Ok(())
    }

    fn publish(generation: &Generation, writer: &mut GenerationWriter, partition: PartitionId, (): ()) {
        let GenerationWriter { spares, words, changes, .. } = writer;
        let (arena, layout) = (&generation.arena, &generation.layout);
        let first = u32::from(partition.0) * generation.params.ranges_per_partition();
        for at in 0..changes.len() {
            if let Some(ahead) = changes.number(at + RANGES_AHEAD) {
                generation.prefetch(first + ahead);
            }
            let change = changes.get(at);
            let range = first + change.range;
            if let Some((seed, whole)) = change.whole {
                generation.replace(spares, range, whole, seed);
                continue;
            }
            arena.copy(generation.slot(range), words);
            for &(slot, value) in change.slots {
                let difference = layout.get(words, slot) ^ value;
                layout.flip(words, slot, difference);
            }
            generation.replace(spares, range, words, Self::extra(generation, range));
        }
    }

    /// Writes the seed, and the words.
    fn put_unit(words: &[u64], seed: &u8, out: &mut Vec<u8>) {
        out.push(*seed);
        for word in words {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn take_unit<R: Read>(
        source: &mut ChecksumReader<R>,
        layout: &Layout,
        _: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<(Vec<u64>, u8), SnapshotError> {
        let [seed] = source.take()?;
        let words = take_words(source, layout, buffer)?;
        if layout.is_clean(&words) { Ok((words, seed)) } else { corrupt("bits behind the last slot") }
    }
}

/// Reads the words of a range.
pub(super) fn take_words<R: Read>(
    source: &mut ChecksumReader<R>,
    layout: &Layout,
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<u64>> {
    let mut words = Vec::new();
    while words.len() < layout.words {
        words.extend(source.words((layout.words - words.len()).min(WORDS_AT_ONCE), buffer)?);
    }
    Ok(words)
}

impl Generation {
    /// Replaces a range and its seed.
    pub(super) fn replace(&self, spares: &mut FreeSlots, range: u32, words: &[u64], seed: u8) {
        let old = self.slot(range);
        let slot = self.arena.fill(spares, words);
        self.arena.lead(spares, range, slot | u32::from(seed) << SLOT_BITS, old);
    }
}

impl LocalTable<'_> {
    /// Whether a partition is at this position, and in this shape.
    pub(super) fn is_in(&self, partition: PartitionId, at: Position, shape: &Params) -> bool {
        let generation = self.generations.of_partition(partition);
        self.is_at(partition, at) && generation.is_some_and(|generation| generation.params == *shape)
    }

    /// Publishes a range of a partition as its control structure holds it.
    pub(super) fn publish(&mut self, partition: PartitionId, range: u32, words: &[u64], seed: u8) {
        let is_new = self.generations.done(partition) > 0;
        let (generation, writer) = self.generation(is_new);
        generation.replace(&mut writer.spares, range, words, seed);
    }
}

impl Othello {
    /// Sizes; reads no range.
    pub fn stats(&self) -> TableStats {
        let generations = self.generations.load();
        let ranges =
            |generation: &Generation| generation.layout.words * 8 * generation.params.ranges() as usize;
        let next = generations.next.as_ref().map_or(0, |next| ranges(&next.generation));
        TableStats { table_bytes: self.table_bytes(), range_bytes: ranges(&generations.now) + next }
    }
}

impl OthelloReader {
    /// The value of each name in the table. In a table with checksums of r bits, other names return `None`,
    /// except one in 2^r; in a table without checksums, none of them do.
    ///
    /// Cost: as [`lookup_batch`](Self::lookup_batch), plus a multiplication.
    ///
    /// # Panics
    /// If `found` is shorter than `hashes`.
    pub fn check_batch(&mut self, hashes: &[KeyHash], found: &mut [Option<u16>]) {
        let found = &mut found[..hashes.len()];
        for (hashes, found) in hashes.chunks(FEW_KEYS).zip(found.chunks_mut(FEW_KEYS)) {
            self.checked(hashes, found, |value| value);
        }
    }

    /// Converts the value of each of at most [`FEW_KEYS`] names.
    #[inline]
    pub(super) fn checked<T: Copy>(
        &mut self,
        hashes: &[KeyHash],
        found: &mut [T],
        of: impl Fn(Option<u16>) -> T,
    ) {
        let kernel = |lookup: Lookup, pinned: Pinned<'_>, hashes: &[KeyHash], found: &mut [T]| {
            let mut differences = [0; FEW_KEYS];
            lookup.differences(pinned, hashes, &mut differences[..hashes.len()]);
            let places = pinned.generation().layout.places;
            for ((found, &hash), &difference) in found.iter_mut().zip(hashes).zip(&differences) {
                *found = of(places.value(hash, difference));
            }
        };
        self.read(hashes, found, kernel, None);
    }
}

impl OthelloPin<'_> {
    /// The value of one name. `None` if the checksum shows that the name is not in the table.
    #[inline]
    pub fn check(&self, hash: KeyHash) -> Option<u16> {
        let pinned = self.of(hash);
        pinned.generation().layout.places.value(hash, one(pinned, hash))
    }
}
