//! The query structure of either table.

use super::params::Params;
use crate::gpt::{Gpt, GptReader};
use crate::othello::Othello;
use crate::setsep::SetSep;
use scalebricks_types::{Applied, ApplyError, Delta, PartitionId, Position};
use std::io::{self, Write};
use std::sync::Arc;

/// What every node holds. Cheap to clone: clones are the same table.
#[derive(Debug, Clone)]
pub enum Table {
    /// SetSep.
    SetSep(Arc<SetSep>),
    /// Othello.
    Othello(Arc<Othello>),
}

impl Table {
    /// An empty table: every partition at position 0.
    pub fn new(params: Params) -> Self {
        match params {
            Params::SetSep(params) => Self::SetSep(Arc::new(SetSep::new(params))),
            Params::Othello(params) => Self::Othello(Arc::new(Othello::new(params))),
        }
    }

    /// As the data plane has it.
    pub fn gpt(&self) -> Arc<dyn Gpt> {
        match self {
            Self::SetSep(table) => Arc::<SetSep>::clone(table),
            Self::Othello(table) => Arc::<Othello>::clone(table),
        }
    }

    /// A reader for one thread, as the data plane has it.
    pub fn gpt_reader(&self) -> Box<dyn GptReader> {
        self.gpt().reader()
    }

    /// The shape it has; the old one while it is being reshaped.
    pub fn params(&self) -> Params {
        either!(self, table => table.params().into())
    }

    /// Applies one update.
    ///
    /// # Errors
    /// [`ApplyError`]; the table is then unchanged.
    pub fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        either!(self, table => table.apply(delta))
    }

    /// The position and the digest of a partition's bits.
    pub fn digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        either!(self, table => table.digest(partition))
    }

    /// Forgets where a partition is: what comes next has to be all of its bits.
    pub fn forget(&self, partition: PartitionId) {
        either!(self, table => table.forget(partition));
    }

    /// Begins anew, without keys, in this shape: every partition at position 0. Whether it did: a table stays in the structure
    /// that it was made in.
    ///
    /// # Panics
    /// If the partitions are not those it has.
    pub fn restart(&self, params: Params) -> bool {
        match (self, params) {
            (Self::SetSep(table), Params::SetSep(params)) => table.restart(params),
            (Self::Othello(table), Params::Othello(params)) => table.restart(params),
            _ => return false,
        }
        true
    }

    /// Bytes of memory held.
    pub fn table_bytes(&self) -> usize {
        either!(self, table => table.table_bytes())
    }

    /// Writes its bits and positions.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        either!(self, table => table.write_snapshot(to))
    }
}
