//! Operations on a control structure, and why it refuses them, a build, or another shape.

use crate::threads::SpawnError;
use scalebricks_types::{KeyHash, PartitionId};
use std::fmt::Display;

/// One change to the key set. Concise calls them add, alter and delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<V> {
    /// Adds a key that is not there.
    Insert(KeyHash, V),
    /// Changes the value of a key that is there.
    Update(KeyHash, V),
    /// Takes out a key that is there.
    Remove(KeyHash),
}

impl<V: Copy> Op<V> {
    /// The key it is about.
    pub const fn hash(&self) -> KeyHash {
        match *self {
            Self::Insert(hash, _) | Self::Update(hash, _) | Self::Remove(hash) => hash,
        }
    }

    pub(crate) const fn value(&self) -> Option<V> {
        match *self {
            Self::Insert(_, value) | Self::Update(_, value) => Some(value),
            Self::Remove(_) => None,
        }
    }

    /// How many keys it adds, modulo 2^64.
    pub(crate) const fn added(&self) -> u64 {
        match self {
            Self::Insert(..) => 1,
            Self::Remove(_) => u64::MAX,
            Self::Update(..) => 0,
        }
    }

    /// The same operation with another form of the value.
    pub(crate) fn map<W>(self, form: impl FnOnce(V) -> W) -> Op<W> {
        match self {
            Self::Insert(hash, value) => Op::Insert(hash, form(value)),
            Self::Update(hash, value) => Op::Update(hash, form(value)),
            Self::Remove(hash) => Op::Remove(hash),
        }
    }
}

/// A refused batch, of values `V` to a table that can be full in the way of `F`. The control structure is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError<V: Display, F: std::error::Error + 'static> {
    /// The key to insert is there already.
    #[error("operation {op}: the key is already there")]
    Exists {
        /// Place in the batch.
        op: usize,
    },
    /// The key to update or remove is not there.
    #[error("operation {op}: the key is not there")]
    Missing {
        /// Place in the batch.
        op: usize,
    },
    /// The key lies in a partition that this control structure is not responsible for.
    #[error("operation {op}: {partition:?} is not held here")]
    NotHeld {
        /// Place in the batch.
        op: usize,
        /// The key's partition.
        partition: PartitionId,
    },
    /// The value does not fit the value bits.
    #[error("operation {op}: value {value} has more than {bits} bits")]
    Value {
        /// Place in the batch.
        op: usize,
        /// The value.
        value: V,
        /// The table's value bits.
        bits: u8,
    },
    /// The table to be changed along is at another position, or in another shape.
    #[error(
        "the table is not where its control structure is in {partition:?}: apply the missing deltas first"
    )]
    OutOfStep {
        /// A partition in which it is not.
        partition: PartitionId,
    },
    /// The partition's stream is at the position asked for already, or beyond.
    #[error("{partition:?} is at that position already")]
    Position {
        /// The partition.
        partition: PartitionId,
    },
    /// No room.
    #[error(transparent)]
    Full(#[from] F),
}

/// Why nothing was built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError<V: Display, F: std::error::Error + 'static> {
    /// Two entries have the same hash.
    #[error("two entries have the hash {:#018x}", .0.get())]
    Duplicate(KeyHash),
    /// A value does not fit the value bits.
    #[error("value {value} has more than {bits} bits")]
    Value {
        /// The value.
        value: V,
        /// The table's value bits.
        bits: u8,
    },
    /// A key lies in a partition that is not to be built here.
    #[error("{0:?} is not held here")]
    NotHeld(PartitionId),
    /// Too many keys for the parameters.
    #[error(transparent)]
    Full(#[from] F),
    /// The cancellation flag was raised.
    #[error("cancelled")]
    Cancelled,
    /// The worker threads could not be started.
    #[error("cannot start worker threads: {0}")]
    Threads(String),
}

impl<V: Display, F: std::error::Error> From<SpawnError> for BuildError<V, F> {
    fn from(SpawnError(error): SpawnError) -> Self {
        Self::Threads(error)
    }
}

/// Why a table cannot be given another shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReshapeError<V: Display + std::fmt::Debug + 'static, F: std::error::Error + 'static> {
    /// One at a time.
    #[error("the table is being reshaped already")]
    Busy,
    /// The table has this shape, and no more is to be had from it.
    #[error("the table has this shape already")]
    Same,
    /// The update streams stay as they are.
    #[error("a table of {from} partitions cannot be reshaped to {to}")]
    Partitions {
        /// Partitions there are.
        from: u32,
        /// Partitions asked for.
        to: u32,
    },
    /// Every block of SetSep becomes a whole number of blocks, at most four.
    #[error("{to} blocks are not one to four times {from}")]
    Blocks {
        /// Blocks there are.
        from: u32,
        /// Blocks asked for.
        to: u32,
    },
    /// The new shape has no room for the keys, or too few bits for a value.
    #[error("the keys do not fit the new shape: {0}")]
    Keys(#[from] UpdateError<V, F>),
}
