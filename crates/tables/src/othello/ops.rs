//! Operations on a control structure, and why they are refused.

use scalebricks_types::{KeyHash, PartitionId};

/// One change to the set of names. In Concise's words: add, alter and delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Adds a name that is not there.
    Insert(KeyHash, u16),
    /// Changes the value of a name that is there.
    Update(KeyHash, u16),
    /// Takes out a name that is there.
    Remove(KeyHash),
}

impl Op {
    /// The name it is about.
    pub const fn hash(&self) -> KeyHash {
        match *self {
            Self::Insert(hash, _) | Self::Update(hash, _) | Self::Remove(hash) => hash,
        }
    }

    pub(super) const fn value(&self) -> Option<u16> {
        match *self {
            Self::Insert(_, value) | Self::Update(_, value) => Some(value),
            Self::Remove(_) => None,
        }
    }
}

/// Which range has no room for a name: reshape the table to more ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// A range has all the names it may have.
    #[error("range {range} would hold {names} names of at most {limit}: reshape to more ranges")]
    Names {
        /// The range.
        range: u32,
        /// Names it would hold.
        names: usize,
        /// [`Params::capacity`](super::Params::capacity).
        limit: usize,
    },
    /// Under every seed, the names of a range make a graph with a cycle.
    #[error("no seed suits the {names} names of range {range}: reshape to more ranges")]
    Seeds {
        /// The range.
        range: u32,
        /// Names it would hold.
        names: usize,
    },
}

/// A refused batch. The control structure is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The name to insert is there already.
    #[error("operation {op}: the name is already there")]
    Exists {
        /// Place in the batch.
        op: usize,
    },
    /// The name to update or remove is not there.
    #[error("operation {op}: the name is not there")]
    Missing {
        /// Place in the batch.
        op: usize,
    },
    /// The name lies in a partition that this control structure is not responsible for.
    #[error("operation {op}: {partition:?} is not held here")]
    NotMine {
        /// Place in the batch.
        op: usize,
        /// The name's partition.
        partition: PartitionId,
    },
    /// The value does not fit the value bits.
    #[error("operation {op}: value {value} has more than {bits} bits")]
    Value {
        /// Place in the batch.
        op: usize,
        /// The value.
        value: u16,
        /// [`Params::value_bits`](super::Params::value_bits).
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
    Full(#[from] Full),
}
