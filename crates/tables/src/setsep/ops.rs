//! Operations on a control structure, and why they are refused.

use scalebricks_types::{KeyHash, PartitionId};

/// One change to the key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Adds a key that is not there.
    Insert(KeyHash, u8),
    /// Changes the value of a key that is there.
    Update(KeyHash, u8),
    /// Takes out a key that is there.
    Remove(KeyHash),
}

impl Op {
    /// The key it is about.
    pub const fn hash(&self) -> KeyHash {
        match *self {
            Self::Insert(hash, _) | Self::Update(hash, _) | Self::Remove(hash) => hash,
        }
    }

    pub(super) const fn value(&self) -> Option<u8> {
        match *self {
            Self::Insert(_, value) | Self::Update(_, value) => Some(value),
            Self::Remove(_) => None,
        }
    }
}

/// What is full, and what it would need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// A block has all the keys it can hold: rebuild with more blocks.
    #[error("block {block} would hold {need} keys of at most {limit}: rebuild with more blocks")]
    Block {
        /// The block.
        block: u32,
        /// Keys it would hold.
        need: usize,
        /// [`Format::block_capacity`](super::Format::block_capacity).
        limit: usize,
    },
    /// A partition's fallback has no room.
    #[error("{partition:?} would need {need} fallback lines of {limit}: rebuild with more blocks or lines")]
    Fallback {
        /// The partition.
        partition: PartitionId,
        /// Lines it would need.
        need: u32,
        /// [`Params::fallback_lines`](super::Params::fallback_lines).
        limit: u32,
    },
}

/// A refused batch. The control structure is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
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
        value: u8,
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
