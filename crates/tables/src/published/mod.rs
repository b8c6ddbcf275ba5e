//! The table that every node holds and changes under its readers: one mechanism for [`setsep`] and [`othello`].
//!
//! # How it works
//! A table is cut into *units*: blocks of SetSep, ranges of Othello. A unit is replaced whole. The writer copies it to a
//! free slot of an `Arena`, changes the copy, and stores one word that leads readers to it. Readers never
//! wait. Old slots are written again when `reclaim::epoch` says that no reader is left in them.
//!
//! A `Generation` is the table in one shape, that is under one set of parameters. While a table is reshaped it has two
//! generations, and each unit of the old shape answers in one of them (`Generations`).
//!
//! What SetSep and Othello do differently is in their implementations of `Units`:
//!
//! | | SetSep | Othello |
//! |---|---|---|
//! | value | 8 bits | 16 bits |
//! | a unit | choices and groups, and a fallback list beside the slot | two arrays of slots, and a seed in the index word |
//! | a change | choices, groups, and the list | slots, or all of the range |
//! | one delta reshapes | some blocks of a partition | a whole partition |
//!
//! | module | what it holds |
//! |---|---|
//! | `arena` | slots, and the words that lead to them |
//! | `generation` | a table in one shape, and in two |
//! | `table` | [`Table`]: applies deltas |
//! | `payload` | how the payload of every delta begins, and which generations it changes |
//! | `local_table` | a table that its own control structure changes |
//! | `reader` | [`Reader`] and [`Pin`] |
//! | `snapshot` | tables as streams of bytes, and digests |
//! | `control` | [`Control`]: what all control structures share |
//! | `ops` | operations on a control structure, and why they are refused |
//!
//! [`setsep`]: crate::setsep
//! [`othello`]: crate::othello
#![allow(private_bounds, private_interfaces, reason = "`Units` is sealed: there are two")]

pub(crate) mod arena;
pub(crate) mod control;
pub(crate) mod generation;
pub(crate) mod local_table;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod ops;
pub(crate) mod payload;
pub(crate) mod reader;
pub(crate) mod snapshot;
pub(crate) mod table;
#[cfg(not(loom))]
#[cfg(test)]
pub(crate) mod tests;

pub use control::Control;
pub use ops::{BuildError, Op, ReshapeError, UpdateError};
pub use reader::{Pin, Reader};
pub use snapshot::SnapshotError;
pub use table::Table;

pub(crate) use control::ControlStructure;
pub(crate) use generation::{Generation, GenerationWriter, Pinned};
pub(crate) use local_table::LocalTable;
pub(crate) use payload::Reshaping;

use crate::bits::BitReader;
use crate::checksum_io::ChecksumReader;
use crate::isa::Isa;
use crate::touched_lines::LineRecorder;
use scalebricks_types::{ApplyError, KeyHash, NodeHint, PartitionCount, PartitionId, TableKind};
use std::fmt::{Debug, Display};
use std::io::Read;

/// Parameters of a table: everything two nodes must agree on to send each other bits.
pub(crate) trait TableParams: Debug + Copy + PartialEq + Send + Sync {
    /// Why parameters make no table.
    type Error: std::error::Error;
    /// Bytes of encoded parameters.
    type Bytes: Default + AsRef<[u8]> + AsMut<[u8]>;

    fn partitions(&self) -> PartitionCount;
    fn units_per_partition(&self) -> u32;
    /// 64-bit words of a unit: whole cache lines.
    fn unit_words(&self) -> usize;
    fn encode(&self) -> Self::Bytes;
    /// `None` where reserved bytes are not zero or the partitions no power of two.
    fn decode(bytes: &Self::Bytes) -> Option<Result<Self, Self::Error>>;

    /// Units in all.
    fn units(&self) -> u32 {
        self.units_per_partition() * self.partitions().get()
    }

    /// A number that differs for different parameters, carried by every delta payload.
    fn fingerprint(&self) -> u32 {
        crc32fast::hash(self.encode().as_ref())
    }
}

/// A kind of table: that of SetSep, or that of Othello.
pub trait Structure: Debug + Sized + Send + Sync + 'static {
    /// Parameters of a table.
    type Params: Debug + Copy + PartialEq;
    /// Why parameters make no table.
    type ParamsError: std::error::Error + 'static;
    /// What a table tells of a key.
    type Value: Debug + Display + Copy + Default + Into<u16> + 'static;
    /// Why a control structure has no room for a key.
    type Full: std::error::Error + 'static;
}

/// What is special about the units of a kind of table.
pub(crate) trait Units: Structure<Params: TableParams<Error = Self::ParamsError>> {
    const KIND: TableKind;
    /// What snapshots of tables begin with.
    const TABLE_MAGIC: [u8; 8];
    /// What snapshots of control structures begin with.
    const CONTROL_MAGIC: [u8; 8];
    /// Version of both.
    const SNAPSHOT_VERSION: u32;
    /// Bits of an index word that hold the number of a slot: the low ones.
    const SLOT_BITS: u32;
    /// Lines of a unit that are fetched before it is copied: the first so many.
    const LINES_AHEAD: usize;
    /// Whether a delta reshapes a partition whole; if not, some units of it, from its first on.
    const WHOLE_PARTITIONS: bool;

    /// Where things lie in a unit.
    type Layout: Debug + Copy + Send + Sync;
    /// What belongs to a unit beside its words.
    type Extra: Default + PartialEq;
    /// What readers see beside slots.
    type SideData: Debug + Send + Sync;
    /// What only the writer knows of that.
    type SideDataWriter: Debug + Send;
    /// What a payload changes in one generation.
    type Changes: Debug + Default + Send;
    /// What checked changes come to.
    type Effect: Copy;
    type Lookup: Lookup<Self>;

    fn layout(params: &Self::Params) -> Self::Layout;

    /// Whether the units of one shape can become those of another.
    fn check_units(from: &Self::Params, to: &Self::Params) -> Result<(), ReshapeErrorOf<Self>>;

    /// What a generation of so many slots has beside them.
    fn side(params: &Self::Params, slots: usize) -> (Self::SideData, Self::SideDataWriter);

    /// Bytes of memory held beside slots.
    fn side_bytes(side: &Self::SideData, params: &Self::Params) -> usize;

    /// Gives a unit what belongs to it, in a generation that no reader has seen yet.
    fn place(
        generation: &Generation<Self>,
        writer: &mut GenerationWriter<Self>,
        unit: u32,
        extra: Self::Extra,
    );

    /// What belongs to a unit. The caller holds the writer's lock, so that it stays.
    fn extra(generation: &Generation<Self>, unit: u32) -> Self::Extra;

    /// Reads the next section of a payload, which may come from anywhere: what it changes in a partition. The payload may
    /// have begun with parameters.
    fn section(
        bits: &mut BitReader<'_>,
        partition: PartitionId,
        has_params: bool,
        layout: &Self::Layout,
        changes: &mut Self::Changes,
    ) -> Result<(), ApplyError>;

    /// Checks what the section read last would do to a generation.
    fn check(
        generation: &Generation<Self>,
        writer: &mut GenerationWriter<Self>,
        partition: PartitionId,
    ) -> Result<Self::Effect, ApplyError>;

    /// Publishes what the section checked last changes.
    fn publish(
        generation: &Generation<Self>,
        writer: &mut GenerationWriter<Self>,
        partition: PartitionId,
        effect: Self::Effect,
    );

    /// Appends a unit as it is in snapshots of tables, and in digests.
    fn put_unit(words: &[u64], extra: &Self::Extra, out: &mut Vec<u8>);

    /// Reads such a unit, which may come from anywhere.
    fn take_unit<R: Read>(
        source: &mut ChecksumReader<R>,
        layout: &Self::Layout,
        unit: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<(Vec<u64>, Self::Extra), SnapshotErrorOf<Self>>;

    /// Whether a table has room for what belongs to these units.
    fn has_room(params: &Self::Params, extras: &[(u32, Self::Extra)]) -> bool;
}

/// Why a stream is no snapshot of such a table.
pub(crate) type SnapshotErrorOf<S> = SnapshotError<<S as Structure>::ParamsError>;

/// Why a table cannot be given another shape.
pub(crate) type ReshapeErrorOf<S> = ReshapeError<<S as Structure>::Value, <S as Structure>::Full>;

/// Whether a table of one shape can become one of another.
pub(crate) fn check_shapes<S: Units>(from: &S::Params, to: &S::Params) -> Result<(), ReshapeErrorOf<S>> {
    if from.partitions() != to.partitions() {
        let (from, to) = (from.partitions().get(), to.partitions().get());
        return Err(ReshapeError::Partitions { from, to });
    }
    S::check_units(from, to)
}

/// Which of so many partitions these are. Numbers that name no partition are ignored.
pub(crate) fn marked(partitions: impl IntoIterator<Item = PartitionId>, of: PartitionCount) -> Vec<bool> {
    let mut marks = vec![false; of.get() as usize];
    for partition in partitions {
        if let Some(mark) = marks.get_mut(usize::from(partition.0)) {
            *mark = true;
        }
    }
    marks
}

/// The lookup kernels of a structure, at a level of instructions that this processor has.
pub(crate) trait Lookup<S: Units>: Debug + Copy + Send {
    /// The kernels for tables like this one: the best of these instructions or below.
    fn new(generation: &Generation<S>, isa: Isa) -> Self;

    /// Whether these are the kernels for tables like this one.
    fn is_for(self, generation: &Generation<S>) -> bool;

    /// The value of each key.
    ///
    /// # Panics
    /// If there are fewer values than hashes, or the table is not like the one the kernel was made for.
    fn batch(self, pinned: Pinned<'_, S>, hashes: &[KeyHash], values: &mut [S::Value]);

    /// The value of one key.
    fn one(pinned: Pinned<'_, S>, hash: KeyHash) -> S::Value;

    /// Tells the lines that a lookup reads.
    fn touched(pinned: Pinned<'_, S>, hash: KeyHash, lines: &mut LineRecorder<'_>);

    /// Answers with [`NodeHint::NONE`] where the table can tell that it does not have a key; whether it can.
    fn checked_hints(_reader: &mut Reader<S>, _hashes: &[KeyHash], _hints: &mut [NodeHint]) -> bool {
        false
    }
}

/// Bits of memory for each key; of an empty table, all of them.
#[expect(clippy::cast_precision_loss, reason = "a ratio to be printed; exact to 2^53 anyway")]
pub(crate) fn bits_per_key(bytes: usize, keys: u64) -> f64 {
    bytes as f64 * 8.0 / keys.max(1) as f64
}
