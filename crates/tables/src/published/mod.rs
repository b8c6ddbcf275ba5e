//! The table that every node holds and changes while readers use it: one mechanism for [`setsep`] and
//! [`othello`].
//!
//! # How it works
//! A table is divided into *units*: blocks of SetSep, ranges of Othello. A unit is replaced as a whole. The
//! writer copies it to a free slot of an `Arena`, changes the copy, and stores one word that leads readers to
//! it. Readers never wait. Old slots are reused when `reclaim::epoch` says that no reader is left in them.
//!
//! A `Generation` is the table in one shape, that is, with one set of parameters. While a table is reshaped
//! it has two generations, and each unit of the old shape is looked up in one of them (`Generations`).
//!
//! The differences between SetSep and Othello are in their implementations of `Units`:
//!
//! | | SetSep | Othello |
//! |---|---|---|
//! | value | 8 bits | 16 bits |
//! | a unit | choices and groups, and a fallback list beside the slot | two arrays of slots, and a seed in the index word |
//! | a change | choices, groups, and the list | slots, or all of the range |
//! | one delta reshapes | some blocks of a partition | a whole partition |
//!
//! | module | contents |
//! |---|---|
//! | `arena` | slots, and the words that lead to them |
//! | `generation` | a table in one shape, and in two |
//! | `table` | [`Table`]: applies deltas |
//! | `payload` | the common header of delta payloads, and which generations a delta changes |
//! | `local_table` | a table that its own control structure changes |
//! | `reader` | [`Reader`] and [`Pin`] |
//! | `split` | a batch in two shapes |
//! | `snapshot` | tables as streams of bytes, and digests |
//! | `span` | the size of a table, as far as lookup kernels depend on it |
//! | `control`, `key_store` | [`Control`]: what all control structures share, and what each implements for it |
//! | `ops` | operations on a control structure, and their errors |
//!
//! [`setsep`]: crate::setsep
//! [`othello`]: crate::othello
#![allow(private_bounds, private_interfaces, reason = "`Units` is sealed: there are two")]

pub(crate) mod arena;
pub(crate) mod control;
pub(crate) mod generation;
pub(crate) mod key_store;
pub(crate) mod local_table;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod ops;
pub(crate) mod payload;
pub(crate) mod reader;
pub(crate) mod snapshot;
pub(crate) mod span;
mod split;
pub(crate) mod table;
#[cfg(not(loom))]
#[cfg(test)]
pub(crate) mod tests;

pub use control::Control;
pub use ops::{BuildError, Full, Op, ReshapeError, UpdateError};
pub use reader::{Pin, Reader};
pub use snapshot::SnapshotError;
pub use table::Table;

pub(crate) use generation::{Generation, GenerationWriter, Pinned};
pub(crate) use key_store::{KeySnapshot, KeyStore, Reshape, Updates};
pub(crate) use local_table::LocalTable;
pub(crate) use payload::Reshaping;
use split::Part;

use crate::bits::BitReader;
use crate::checksum_io::ChecksumReader;
use crate::isa::Isa;
use crate::touched_lines::LineRecorder;
use scalebricks_types::{ApplyError, KeyHash, NodeHint, PartitionCount, PartitionId, TableKind};
use std::fmt::{Debug, Display};
use std::io::Read;

/// The parameters of a table: everything that two nodes must agree on to exchange its bits.
pub(crate) trait TableParams: Debug + Copy + PartialEq + Send + Sync {
    /// Why parameters are invalid.
    type Error: std::error::Error + Send + Sync + 'static;
    /// Bytes of encoded parameters.
    type Bytes: Default + AsRef<[u8]> + AsMut<[u8]>;

    fn partitions(&self) -> PartitionCount;
    fn units_per_partition(&self) -> u32;
    /// 64-bit words of a unit: whole cache lines.
    fn unit_words(&self) -> usize;
    fn encode(&self) -> Self::Bytes;
    /// Decodes parameters. Returns `None` if reserved bytes are not zero or the number of partitions is not a
    /// power of two.
    fn decode(bytes: &Self::Bytes) -> Option<Result<Self, Self::Error>>;

    /// Total number of units.
    fn units(&self) -> u32 {
        self.units_per_partition() * self.partitions().get()
    }

    /// A number that differs for different parameters. Every delta payload carries it.
    fn fingerprint(&self) -> u32 {
        crc32fast::hash(self.encode().as_ref())
    }
}

/// A kind of table: SetSep or Othello.
pub trait Structure: Debug + Sized + Send + Sync + 'static {
    /// Parameters of a table.
    type Params: Debug + Copy + PartialEq;
    /// The value of a key.
    type Value: Debug + Display + Copy + Default + Into<u16> + 'static;
}

/// The specific properties of the units of a kind of table.
pub(crate) trait Units: Structure<Params: TableParams, Value: Part> {
    const KIND: TableKind;
    /// The magic number of table snapshots.
    const TABLE_MAGIC: [u8; 8];
    /// The magic number of control structure snapshots.
    const CONTROL_MAGIC: [u8; 8];
    /// The version of both kinds of snapshots.
    const SNAPSHOT_VERSION: u32;
    /// Number of low bits of an index word that hold the number of a slot.
    const SLOT_BITS: u32;
    /// Number of lines, from the first on, that are prefetched before a unit is copied.
    const LINES_AHEAD: usize;
    /// Whether a delta reshapes a whole partition. If not, it reshapes some of its units, from the first on.
    const WHOLE_PARTITIONS: bool;

    /// The layout of a unit.
    type Layout: Debug + Copy + Send + Sync;
    /// The data of a unit outside its words.
    type Extra: Default + PartialEq;
    /// The data that readers see beside slots.
    type SideData: Debug + Send + Sync;
    /// The state of the side data that only the writer knows.
    type SideDataWriter: Debug + Send;
    /// The changes of a payload to one generation.
    type Changes: Debug + Default + Send;
    /// The effect of checked changes.
    type Effect: Copy;
    type Lookup: Lookup<Self>;

    fn layout(params: &Self::Params) -> Self::Layout;

    /// Checks that the units of one shape can become those of another.
    fn check_units(_from: &Self::Params, _to: &Self::Params) -> Result<(), ReshapeError> {
        Ok(())
    }

    /// The side data of a generation with this many slots.
    fn side(params: &Self::Params, slots: usize) -> (Self::SideData, Self::SideDataWriter);

    /// Bytes of memory used beside slots.
    fn side_bytes(_side: &Self::SideData, _params: &Self::Params) -> usize {
        0
    }

    /// Sets the additional data of a unit, in a generation that no reader has seen yet.
    fn place(
        generation: &Generation<Self>,
        writer: &mut GenerationWriter<Self>,
        unit: u32,
        extra: Self::Extra,
    );

    /// The additional data of a unit. The caller holds the writer's lock, so it does not change.
    fn extra(generation: &Generation<Self>, unit: u32) -> Self::Extra;

    /// Parses the next section of an untrusted payload: its changes to a partition. The payload may have
    /// begun with parameters.
    fn section(
        bits: &mut BitReader<'_>,
        partition: PartitionId,
        has_params: bool,
        layout: &Self::Layout,
        changes: &mut Self::Changes,
    ) -> Result<(), ApplyError>;

    /// Checks the effect of the last parsed section on a generation.
    fn check(
        generation: &Generation<Self>,
        writer: &mut GenerationWriter<Self>,
        partition: PartitionId,
    ) -> Result<Self::Effect, ApplyError>;

    /// Publishes the changes of the last checked section.
    fn publish(
        generation: &Generation<Self>,
        writer: &mut GenerationWriter<Self>,
        partition: PartitionId,
        effect: Self::Effect,
    );

    /// Appends a unit in the encoding of table snapshots and digests.
    fn put_unit(words: &[u64], extra: &Self::Extra, out: &mut Vec<u8>);

    /// Reads an encoded unit from an untrusted source.
    fn take_unit<R: Read>(
        source: &mut ChecksumReader<R>,
        layout: &Self::Layout,
        unit: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<(Vec<u64>, Self::Extra), SnapshotError>;

    /// Whether a table has room for the additional data of these units.
    fn has_room(_params: &Self::Params, _extras: &[(u32, Self::Extra)]) -> bool {
        true
    }
}

/// Checks that a table of one shape can become one of another.
pub(crate) fn check_shapes<S: Units>(from: &S::Params, to: &S::Params) -> Result<(), ReshapeError> {
    if from.partitions() != to.partitions() {
        let (from, to) = (from.partitions().get(), to.partitions().get());
        return Err(ReshapeError::Partitions { from, to });
    }
    S::check_units(from, to)
}

/// Marks these partitions among all `of` partitions. Numbers that name no partition are ignored.
pub(crate) fn marked(partitions: impl IntoIterator<Item = PartitionId>, of: PartitionCount) -> Vec<bool> {
    let mut marks = vec![false; of.get() as usize];
    for partition in partitions {
        if let Some(mark) = marks.get_mut(usize::from(partition.0)) {
            *mark = true;
        }
    }
    marks
}

/// The lookup kernels of a structure, for an instruction set that this processor supports.
pub(crate) trait Lookup<S: Units>: Debug + Copy + Send {
    /// The kernels for tables like this one: the best for this instruction set or one below it.
    fn new(generation: &Generation<S>, isa: Isa) -> Self;

    /// Whether these are the kernels for tables like this one.
    fn is_for(self, generation: &Generation<S>) -> bool;

    /// Looks up the value of each key.
    ///
    /// # Panics
    /// If there are fewer values than hashes, or the kernel was made for a different kind of table.
    fn batch(self, pinned: Pinned<'_, S>, hashes: &[KeyHash], values: &mut [S::Value]);

    /// The value of one key.
    fn one(pinned: Pinned<'_, S>, hash: KeyHash) -> S::Value;

    /// Records the cache lines that a lookup reads.
    fn touched(pinned: Pinned<'_, S>, hash: KeyHash, lines: &mut LineRecorder<'_>);

    /// Answers with [`NodeHint::NONE`] where the table can tell that it does not have a key. Returns whether
    /// the table can tell.
    fn checked_hints(_reader: &mut Reader<S>, _hashes: &[KeyHash], _hints: &mut [NodeHint]) -> bool {
        false
    }
}

/// Bits of memory per key; for an empty table, all bits.
#[expect(clippy::cast_precision_loss, reason = "a ratio to be printed; exact to 2^53 anyway")]
pub(crate) fn bits_per_key(bytes: usize, keys: u64) -> f64 {
    bytes as f64 * 8.0 / keys.max(1) as f64
}
