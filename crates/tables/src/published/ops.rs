//! Operations on a control structure, and why they are refused.

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
    NotMine {
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
