//! The control structure of either table.

use super::params::Params;
use super::{Op, Table};
use crate::othello::{self, Othello, OthelloBuilder, OthelloControl, OthelloStructure};
use crate::published::{BuildError, ReshapeError, SnapshotError, Units as _, UpdateError};
use crate::setsep::{SetSepBuilder, SetSepControl};
use scalebricks_types::{Delta, KeyHash, PartitionId, Position};
use std::io::{self, Write};
use std::sync::Arc;

/// Keys, as hashes, with the numbers of their nodes, and the bits they lead to.
#[derive(Debug)]
pub enum Control {
    /// Of a SetSep table.
    SetSep(Box<SetSepControl>),
    /// Of an Othello table.
    Othello(Box<OthelloControl>),
}

impl Control {
    /// An empty one for these partitions, each at position 0. Numbers that name no partition are ignored.
    pub fn for_partitions(params: Params, partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        match params {
            Params::SetSep(params) => {
                Self::SetSep(Box::new(SetSepControl::for_partitions(params, partitions)))
            }
            Params::Othello(params) => {
                Self::Othello(Box::new(OthelloControl::for_partitions(params, partitions)))
            }
        }
    }

    /// An empty one for all partitions, each at position 0.
    pub fn new(params: Params) -> Self {
        Self::for_partitions(params, (0..params.partitions().get()).map(|at| PartitionId(at as u16))) // at most 2^16
    }

    /// Builds from keys and nodes, on one thread. Every partition is then at position 1. An Othello takes more ranges where
    /// the keys do not fit those of the parameters.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(params: Params, keys: &[(KeyHash, u8)]) -> Result<Self, BuildError> {
        Ok(match params {
            Params::SetSep(params) => Self::SetSep(Box::new(SetSepBuilder::new(params).build(keys)?)),
            Params::Othello(params) => {
                let names: Vec<(KeyHash, u16)> =
                    keys.iter().map(|&(hash, node)| (hash, node.into())).collect();
                Self::Othello(Box::new(OthelloBuilder::new(params).may_grow().build(&names)?))
            }
        })
    }

    /// The shape it has.
    pub fn params(&self) -> Params {
        either!(self, control => (*control.params()).into())
    }

    /// Whether this structure is responsible for a partition.
    pub fn holds(&self, partition: PartitionId) -> bool {
        either!(self, control => control.holds(partition))
    }

    /// Where a partition's stream stands, if it is held here.
    pub fn position(&self, partition: PartitionId) -> Option<Position> {
        either!(self, control => control.position(partition))
    }

    /// The node of a key: exact. `None` if it is not held here.
    pub fn get(&self, hash: KeyHash) -> Option<u8> {
        either!(self, control => control.get(hash).map(node))
    }

    /// Keys held.
    pub fn len(&self) -> u64 {
        either!(self, control => control.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies operations on one partition, all or none, by a delta that leads to this position: that of a log. `None` if
    /// there are no operations.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn batch_to(&mut self, position: Position, ops: &[Op]) -> Result<Option<Delta>, UpdateError> {
        match self {
            Self::SetSep(control) => control.batch_to(position, ops),
            Self::Othello(control) => control.batch_to(position, &of_names(ops)),
        }
    }

    /// Applies operations on one partition, all or none, as one of several batches that lead to the same position. There is no
    /// delta: [`export_partition`](Self::export_partition) has the state after the last of them.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn step_to(&mut self, position: Position, ops: &[Op]) -> Result<(), UpdateError> {
        match self {
            Self::SetSep(control) => control.step_to(position, ops),
            Self::Othello(control) => control.step_to(position, &of_names(ops)),
        }
    }

    /// Applies operations, all or none: a delta for each partition that changed.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn batch(&mut self, ops: &[Op]) -> Result<Vec<Delta>, UpdateError> {
        match self {
            Self::SetSep(control) => control.batch(ops),
            Self::Othello(control) => control.batch(&of_names(ops)),
        }
    }

    /// Applies operations, all or none, to the table of the same bits as well: a batch of changes costs less than the deltas
    /// it is in.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn batch_with(&mut self, table: &Table, ops: &[Op]) -> Result<Vec<Delta>, UpdateError> {
        match (self, table) {
            (Self::SetSep(control), Table::SetSep(table)) => control.batch_with(table, ops),
            (Self::Othello(control), Table::Othello(table)) => control.batch_with(table, &of_names(ops)),
            (control, table) => Err(UpdateError::Structure {
                control: control.params().structure(),
                table: table.params().structure(),
            }),
        }
    }

    /// Keeps the table in shape for the keys it holds: a step of growing, as a delta, if one is due. To be called until there
    /// is none, after a few updates. For control structures that hold all partitions.
    ///
    /// # Errors
    /// [`UpdateError`] when the table cannot grow.
    pub fn maintain(&mut self) -> Result<Option<Delta>, UpdateError> {
        either!(self, control => control.maintain())
    }

    /// Bytes of memory held.
    pub fn control_bytes(&self) -> usize {
        either!(self, control => control.control_bytes())
    }

    /// Gives the one partition held another shape at once, by a delta that leads to this position.
    ///
    /// # Errors
    /// [`ReshapeError`]; nothing is then changed.
    pub fn reshape_to(
        &mut self,
        partition: PartitionId,
        to: Params,
        position: Position,
    ) -> Result<Delta, ReshapeError> {
        match (self, to) {
            (Self::SetSep(control), Params::SetSep(to)) => control.reshape_to(partition, to, position),
            (Self::Othello(control), Params::Othello(to)) => control.reshape_to(partition, to, position),
            (control, to) => {
                let (from, to) = (control.params().structure(), to.structure());
                Err(ReshapeError::Structure { from, to })
            }
        }
    }

    /// The absolute state of a partition as a delta from position 0. `None` if it is not held here, or at position 0 itself.
    pub fn export_partition(&self, partition: PartitionId) -> Option<Delta> {
        either!(self, control => control.export_partition(partition))
    }

    /// The table of what is held here.
    pub fn export(&self) -> Table {
        match self {
            Self::SetSep(control) => Table::SetSep(Arc::new(control.export())),
            Self::Othello(control) => Table::Othello(Arc::<Othello>::new(control.export())),
        }
    }

    /// The digest of a partition's bits, if it is held here.
    pub fn digest(&self, partition: PartitionId) -> Option<u32> {
        either!(self, control => control.digest(partition))
    }

    /// Writes all of it. The snapshot says which structure it is of.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        either!(self, control => control.write_snapshot(to))
    }

    /// What was written.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn read_snapshot(bytes: &[u8]) -> Result<Self, SnapshotError> {
        Ok(if bytes.starts_with(&OthelloStructure::CONTROL_MAGIC) {
            Self::Othello(Box::new(OthelloControl::read_snapshot(bytes)?))
        } else {
            Self::SetSep(Box::new(SetSepControl::read_snapshot(bytes)?))
        })
    }
}

/// The same operations on names.
fn of_names(ops: &[Op]) -> Vec<othello::Op> {
    ops.iter().map(|op| op.map(u16::from)).collect()
}

/// A value that was a node's number when it came in.
pub(super) fn node(value: impl Into<u16>) -> u8 {
    value.into() as u8 // what is held was a `u8`; what is not is arbitrary
}
