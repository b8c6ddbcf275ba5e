//! Control structures: the keys of the partitions that a node is responsible for, and how updates become
//! deltas.

use super::key_store::{ControlStructure, KeyStore};
use super::local_table::LocalTable;
use super::ops::{Op, ReshapeError, UpdateError};
use super::snapshot::{Digest, SnapshotError, SnapshotHeader, end};
use super::table::Table;
use super::{Generation, TableParams, Units, check_shapes, marked};
use crate::reclaim::cache_line::Line;
use scalebricks_types::{Delta, KeyHash, PartitionId, Position};
use std::io::{self, Read, Write};

/// The control structure of a table: keys (as hashes) with their values, and the bits computed from them. It
/// uses about 14 bytes per key for SetSep in the default format, and about 26 for Othello in the default
/// sizing, at their design loads.
///
/// Bits are a function of the parameters, the keys, and the choices made for them: the groups of SetSep's
/// buckets, the seeds of Othello's ranges. Choices follow from the history, message by message: for SetSep
/// from the counts of keys in each bucket; for Othello only from insertions that would close a cycle. So
/// equal histories give equal bits, however they were batched.
#[derive(Debug)]
pub struct Control<S: KeyStore> {
    pub(crate) keys: S::Keys,
    /// Number of keys stored.
    pub(crate) count: u64,
    pub(crate) positions: Vec<Position>,
    /// Working memory for payloads.
    pub(crate) scratch: Vec<u64>,
}

impl<S: ControlStructure> Control<S> {
    /// An empty control structure for all partitions, each at position 0.
    pub fn new(params: S::Params) -> Self {
        Self::for_partitions(params, (0..params.partitions().get()).map(|p| PartitionId(p as u16)))
    }

    /// An empty control structure for these partitions, each at position 0. Numbers that name no partition are
    /// ignored.
    pub fn for_partitions(params: S::Params, partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        let held = marked(partitions, params.partitions());
        Self::of(S::empty(params, &held), vec![Position(0); held.len()])
    }

    /// A control structure from keys that were stored elsewhere.
    pub(crate) fn of(keys: S::Keys, positions: Vec<Position>) -> Self {
        let count = S::count(&keys);
        Self { keys, count, positions, scratch: Vec::new() }
    }

    /// The parameters of the table; while it is being reshaped, the old shape.
    pub fn params(&self) -> &S::Params {
        S::params(&self.keys)
    }

    /// Whether this structure is responsible for a partition.
    pub fn holds(&self, partition: PartitionId) -> bool {
        S::holds(&self.keys, partition)
    }

    /// The position of a partition's stream, if it is held here.
    pub fn position(&self, partition: PartitionId) -> Option<Position> {
        self.holds(partition).then(|| self.positions[usize::from(partition.0)])
    }

    /// Number of keys stored.
    pub const fn len(&self) -> u64 {
        self.count
    }

    /// Whether no keys are stored.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a key that is not in the table. The delta takes replicas to the next position of its partition.
    ///
    /// Cost: SetSep solves one group, or two or three if buckets move. Othello follows the trees of the key's
    /// two slots, a few slots each on average, and computes the whole range again if both slots are in one tree.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn insert(&mut self, hash: KeyHash, value: S::Value) -> Result<Delta, UpdateError> {
        S::one(self, None, Op::Insert(hash, value))
    }

    /// Changes the value of a key in the table.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn update(&mut self, hash: KeyHash, value: S::Value) -> Result<Delta, UpdateError> {
        S::one(self, None, Op::Update(hash, value))
    }

    /// Removes a key from the table.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn remove(&mut self, hash: KeyHash) -> Result<Delta, UpdateError> {
        S::one(self, None, Op::Remove(hash))
    }

    /// Applies one operation, also to the given table, as [`batch_with`](Self::batch_with) does.
    ///
    /// # Errors
    /// As [`batch_with`](Self::batch_with).
    pub fn change_with(&mut self, table: &Table<S>, op: Op<S::Value>) -> Result<Delta, UpdateError> {
        S::one(self, Some(table), op)
    }

    /// Applies a batch, with the result of its operations one after another: completely or not at all.
    /// Returns one delta for each touched partition, ascending; each of them advances by one position. The
    /// limit on SetSep's fallback lines applies to the state after the batch; all other checks are made
    /// operation by operation.
    ///
    /// Cost: for SetSep, each group that the batch touches is solved once, and large batches (a few
    /// operations per block) cost least per operation. For Othello, the slots below each name in its tree are
    /// followed.
    ///
    /// # Errors
    /// [`UpdateError`] of the first operation that is not possible; nothing is then changed.
    pub fn batch(&mut self, ops: &[Op<S::Value>]) -> Result<Vec<Delta>, UpdateError> {
        S::change(self, None, ops, None)
    }

    /// As [`batch`](Self::batch), and at the same time applied to the given query structure, which must be at
    /// the same positions in the same shape. The owner of a partition uses it for its own copy. Blocks or
    /// ranges are copied to it, not decoded from the deltas, which are for the other nodes.
    ///
    /// # Errors
    /// As [`batch`](Self::batch); [`UpdateError::OutOfStep`] if the table is at another position or in
    /// another shape: nothing is then changed, and the table needs the deltas it missed.
    pub fn batch_with(&mut self, table: &Table<S>, ops: &[Op<S::Value>]) -> Result<Vec<Delta>, UpdateError> {
        S::change(self, Some(table), ops, None)
    }

    /// As [`batch`](Self::batch) for operations on one partition, whose delta leads to this position. A log
    /// assigns it, and also counts entries that change nothing here.
    ///
    /// # Errors
    /// As [`batch`](Self::batch); [`UpdateError::Position`] if the partition is already at the position, or
    /// beyond it.
    pub fn batch_to(
        &mut self,
        position: Position,
        ops: &[Op<S::Value>],
    ) -> Result<Option<Delta>, UpdateError> {
        self.batch_at(position, ops, false)
    }

    /// One of several batches that lead to the same position: as [`batch_to`](Self::batch_to), but the
    /// partition may already be at the position. Each batch is applied completely or not at all. Replicas
    /// cannot follow several batches of one position, so there is no delta: after the last batch,
    /// [`export_partition`](Self::export_partition) has the state.
    ///
    /// # Errors
    /// As [`batch_to`](Self::batch_to); [`UpdateError::Position`] if the partition is beyond the position.
    pub fn step_to(&mut self, position: Position, ops: &[Op<S::Value>]) -> Result<(), UpdateError> {
        self.batch_at(position, ops, true).map(drop)
    }

    fn batch_at(
        &mut self,
        position: Position,
        ops: &[Op<S::Value>],
        again: bool,
    ) -> Result<Option<Delta>, UpdateError> {
        let Some(first) = ops.first() else { return Ok(None) };
        let partition_of = |hash: KeyHash| self.params().partitions().of(hash);
        let partition = partition_of(first.hash());
        if let Some(op) = ops.iter().position(|op| partition_of(op.hash()) != partition) {
            return Err(UpdateError::NotHeld { op, partition: partition_of(ops[op].hash()) });
        }
        let is_beyond = |at: Position| if again { at > position } else { at >= position };
        if self.position(partition).is_some_and(is_beyond) {
            return Err(UpdateError::Position { partition });
        }
        Ok(S::change(self, None, ops, Some(position))?.pop())
    }

    /// The next delta of a partition's stream. It leads to the next position, or to the given position, which
    /// another component assigned. The owner's table advances too.
    pub(crate) fn advance(
        &mut self,
        partition: PartitionId,
        (payload, scratch): (Vec<u8>, Vec<u64>),
        counted: Option<Position>,
        local: Option<&mut LocalTable<'_, S>>,
    ) -> Delta {
        self.scratch = scratch;
        let delta = step::<S>(partition, &mut self.positions[usize::from(partition.0)], payload, counted);
        if let Some(local) = local {
            local.advance(partition, delta.position);
        }
        delta
    }

    /// Begins to reshape the table: for SetSep a multiple of the blocks, other value bits, another seed or
    /// format; for Othello other ranges, slots, bits, or another seed. Nothing changes yet: the work is done
    /// step by step. Until it is complete, values must fit both shapes.
    ///
    /// Cost: for Othello, a pass over the names to check that they fit. One failure cannot be detected in
    /// advance: that no seed works for a range. The step that encounters it is refused; this is extremely
    /// unlikely at the loads that ranges are intended for.
    ///
    /// # Errors
    /// [`ReshapeError`]; nothing is then changed.
    pub fn reshape(&mut self, to: S::Params) -> Result<(), ReshapeError> {
        if self.reshaping().is_some() {
            return Err(ReshapeError::Busy);
        }
        check_shapes::<S>(self.params(), &to)?;
        S::begin(self, to)
    }

    /// The shape that the table is being reshaped to, if any.
    pub fn reshaping(&self) -> Option<&S::Params> {
        S::reshaping(&self.keys)
    }

    /// Reshapes a partition at once, with a delta that leads to this position: that of the log entry that
    /// requests it. For control structures that hold no other partition; it affects others as
    /// [`reshape`](Self::reshape) does.
    ///
    /// Cost: places every key of the partition again, and solves every group or range.
    ///
    /// # Errors
    /// [`ReshapeError`]; nothing is then changed.
    pub fn reshape_to(
        &mut self,
        partition: PartitionId,
        to: S::Params,
        position: Position,
    ) -> Result<Delta, ReshapeError> {
        let Some(at) = self.position(partition) else {
            return Err(UpdateError::NotHeld { op: 0, partition }.into());
        };
        if at >= position {
            return Err(UpdateError::Position { partition }.into());
        }
        self.reshape(to)?;
        match S::convert(self, partition, Some(position)) {
            Ok(Some(delta)) => Ok(delta),
            Ok(None) => Err(ReshapeError::Same),
            Err(error) => {
                // Nothing is in the new shape yet.
                S::abandon(&mut self.keys);
                Err(error.into())
            }
        }
    }

    /// The absolute state of a partition as a delta from position 0. `None` if the partition is not held here, or
    /// is at position 0 itself, where an empty table already equals it.
    pub fn export_partition(&self, partition: PartitionId) -> Option<Delta> {
        state::<S>(partition, self.position(partition)?, || S::payload(self, partition))
    }

    /// A query structure with the data held here; partitions held elsewhere are empty in it, at position 0.
    /// Any number of query structures can be made from one control structure, and follow it by its deltas.
    pub fn export(&self) -> Table<S> {
        if self.reshaping().is_none() {
            return self
                .export_of(|partition, unit| S::unit(&self.keys, partition, false, unit), &self.positions);
        }
        let table = Table::new(*self.params());
        for partition in self.partitions() {
            if let Some(delta) = self.export_partition(partition)
                && table.apply(&delta).is_err()
            {
                unreachable!("a control structure's own export applies to an empty table of its shape");
            }
        }
        table
    }

    /// The query structure of these units, for a table in one shape.
    pub(crate) fn export_of<'a>(
        &'a self,
        unit: impl Fn(PartitionId, u32) -> Option<(&'a [u64], S::Extra)>,
        positions: &[Position],
    ) -> Table<S> {
        let params = *self.params();
        let mut memory = Generation::<S>::memory(&params);
        let (mut lines, mut extras) = (memory.chunks_exact_mut(params.unit_words() / 8), Vec::new());
        let numbers = 0..params.units_per_partition();
        let units =
            self.partitions().flat_map(|partition| numbers.clone().map(move |unit| (partition, unit)));
        for (number, (partition, at)) in (0..).zip(units) {
            let lines = lines.next().into_iter().flatten();
            let Some((words, extra)) = unit(partition, at) else { continue };
            for (line, words) in lines.zip(words.as_chunks::<8>().0) {
                *line = Line::new(*words);
            }
            if extra != S::Extra::default() {
                extras.push((number, extra));
            }
        }
        let at = |(partition, &at)| if self.holds(partition) { at } else { Position(0) };
        let positions = self.partitions().zip(positions).map(at).collect();
        Table::with_memory(params, positions, memory, extras)
    }

    fn partitions(&self) -> impl Iterator<Item = PartitionId> + Clone + use<S> {
        (0..self.positions.len()).map(|partition| PartitionId(partition as u16)) // at most 2^16
    }

    /// The digest of a partition's bits, equal to that of every [`Table`] at the same position. `None` if the
    /// partition is not held here, or is in two shapes. Cost: reads its bits.
    pub fn digest(&self, partition: PartitionId) -> Option<u32> {
        let done = S::done(&self.keys).get(usize::from(partition.0)).copied().unwrap_or(0);
        let (params, is_new) = match self.reshaping() {
            Some(next) if done == self.params().units_per_partition() => (next, true),
            _ if done == 0 => (self.params(), false),
            _ => return None,
        };
        let mut digest = Digest::<S>::of(params);
        for unit in 0..params.units_per_partition() {
            let (words, extra) = S::unit(&self.keys, partition, is_new, unit)?;
            digest.unit(words, &extra);
        }
        Some(digest.finish())
    }

    /// Writes keys, values and bits to a stream, one block or range at a time: use a buffered stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        let next = self.reshaping().map(|&to| (to, S::done(&self.keys)));
        let header = SnapshotHeader::<S> { params: *self.params(), next, positions: self.positions.clone() };
        let mut sink = header.put(to, S::CONTROL_MAGIC)?;
        S::put_keys(&self.keys, &header, &mut sink)?;
        sink.finish()
    }

    /// Reads a control structure from a stream, up to its checksum and no further. It checks that every key
    /// is in order and in its place, and that every bit follows from the keys.
    ///
    /// # Errors
    /// [`SnapshotError`]. Memory use follows what was read: for SetSep a few times as
    /// much and four huge pages per shape; for Othello at most 64 times as much, if slots have one bit and there are hardly any
    /// names.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let (header, mut source) = SnapshotHeader::<S>::take(from, S::CONTROL_MAGIC)?;
        let keys = S::take_keys(&header, &mut source)?;
        end(source)?;
        Ok(Self::of(keys, header.positions))
    }
}

/// The next delta of a stream, which advances to the next position, or to the given position, which another
/// component assigned.
pub(crate) fn step<S: Units>(
    partition: PartitionId,
    at: &mut Position,
    payload: Vec<u8>,
    counted: Option<Position>,
) -> Delta {
    let previous = *at;
    *at = counted.unwrap_or(Position(previous.0 + 1));
    Delta { kind: S::KIND, partition, position: *at, previous, payload }
}

/// The absolute state of a partition as a delta from position 0; `None` at position 0 itself.
pub(crate) fn state<S: Units>(
    partition: PartitionId,
    position: Position,
    payload: impl FnOnce() -> Vec<u8>,
) -> Option<Delta> {
    let payload = (position != Position(0)).then(payload)?;
    Some(Delta { kind: S::KIND, partition, position, previous: Position(0), payload })
}
