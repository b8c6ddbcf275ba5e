//! What a structure implements for its control structure: how it stores keys, applies operations, is reshaped,
//! and is written to snapshots.

use super::Units;
use super::control::Control;
use super::ops::{Op, ReshapeError, UpdateError};
use super::snapshot::{SnapshotError, SnapshotHeader};
use super::table::Table;
use crate::checksum_io::{ChecksumReader, ChecksumWriter};
use scalebricks_types::{Delta, PartitionId, Position};
use std::fmt::Debug;
use std::io::{self, Read, Write};

/// How a structure stores keys.
pub(crate) trait KeyStore: Units {
    /// The keys of some partitions, in one shape or two.
    type Keys: Debug;

    /// An empty set of keys for these partitions.
    fn empty(params: Self::Params, held: &[bool]) -> Self::Keys;

    /// The parameters of the table; while it is being reshaped, the old shape.
    fn params(keys: &Self::Keys) -> &Self::Params;

    /// Whether a partition is held.
    fn holds(keys: &Self::Keys, partition: PartitionId) -> bool;

    /// The shape that the table is being reshaped to, if any.
    fn reshaping(keys: &Self::Keys) -> Option<&Self::Params>;

    /// For each partition, how many units of the old shape are in the new shape.
    fn done(keys: &Self::Keys) -> Vec<u32>;

    /// The words of a unit of a held partition, and its additional data.
    fn unit(
        keys: &Self::Keys,
        partition: PartitionId,
        is_new: bool,
        unit: u32,
    ) -> Option<(&[u64], Self::Extra)>;

    /// Number of keys.
    fn count(keys: &Self::Keys) -> u64;

    /// The payload that contains all of a held partition.
    fn payload(control: &Control<Self>, partition: PartitionId) -> Vec<u8>;
}

/// How a structure applies operations.
pub(crate) trait Updates: KeyStore {
    /// Applies a batch completely or not at all, also to the given table if there is one. Positions advance
    /// by one, or to the given position, which another component assigned.
    fn change(
        control: &mut Control<Self>,
        table: Option<&Table<Self>>,
        ops: &[Op<Self::Value>],
        counted: Option<Position>,
    ) -> Result<Vec<Delta>, UpdateError>;

    /// Applies one operation, as [`change`](Self::change) does.
    fn one(
        control: &mut Control<Self>,
        table: Option<&Table<Self>>,
        op: Op<Self::Value>,
    ) -> Result<Delta, UpdateError> {
        let Some(delta) = Self::change(control, table, &[op], None)?.pop() else {
            unreachable!("an operation touches one partition")
        };
        Ok(delta)
    }
}

/// How a structure is reshaped.
pub(crate) trait Reshape: KeyStore {
    /// Begins to reshape a table that is in one shape.
    fn begin(control: &mut Control<Self>, to: Self::Params) -> Result<(), ReshapeError>;

    /// Converts a partition. Returns the delta that carries it, or `None` if nothing is left to convert. If
    /// it fails, nothing is changed.
    fn convert(
        control: &mut Control<Self>,
        partition: PartitionId,
        counted: Option<Position>,
    ) -> Result<Option<Delta>, UpdateError>;

    /// Cancels a reshaping in which nothing is converted yet.
    fn abandon(keys: &mut Self::Keys);
}

/// How the keys of a structure are written to snapshots.
pub(crate) trait KeySnapshot: KeyStore {
    /// Writes the part of a snapshot after its header.
    fn put_keys<W: Write>(
        keys: &Self::Keys,
        header: &SnapshotHeader<Self>,
        sink: &mut ChecksumWriter<W>,
    ) -> io::Result<()>;

    /// Reads the part of a snapshot after its header, from an untrusted source.
    fn take_keys<R: Read>(
        header: &SnapshotHeader<Self>,
        source: &mut ChecksumReader<R>,
    ) -> Result<Self::Keys, SnapshotError>;
}

/// A structure with all that its control structure needs.
pub(crate) trait ControlStructure: Updates + Reshape + KeySnapshot {}

impl<S: Updates + Reshape + KeySnapshot> ControlStructure for S {}
