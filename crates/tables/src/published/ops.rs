//! Operations on a control structure, and the errors of operations, builds and reshaping.

use crate::compact;
use crate::threads::SpawnError;
use scalebricks_types::{KeyHash, PartitionId};

/// One change to the key set. Concise calls them add, alter and delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<V> {
    /// Adds a key that is not in the table.
    Insert(KeyHash, V),
    /// Changes the value of a key in the table.
    Update(KeyHash, V),
    /// Removes a key from the table.
    Remove(KeyHash),
}

impl<V: Copy> Op<V> {
    /// The key of the operation.
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

/// Why a batch was refused. The control structure is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The key to insert is already in the table.
    #[error("operation {op}: the key is already there")]
    Exists {
        /// Index in the batch.
        op: usize,
    },
    /// The key to update or remove is not in the table.
    #[error("operation {op}: the key is not there")]
    Missing {
        /// Index in the batch.
        op: usize,
    },
    /// The key lies in a partition that this control structure is not responsible for.
    #[error("operation {op}: {partition:?} is not held here")]
    NotHeld {
        /// Index in the batch.
        op: usize,
        /// The key's partition.
        partition: PartitionId,
    },
    /// The value does not fit the value bits.
    #[error("operation {op}: value {value} has more than {bits} bits")]
    Value {
        /// Index in the batch.
        op: usize,
        /// The value.
        value: u16,
        /// The table's value bits.
        bits: u8,
    },
    /// The table to change together with the control structure is at another position, or in another shape.
    #[error(
        "the table is not where its control structure is in {partition:?}: apply the missing deltas first"
    )]
    OutOfStep {
        /// A partition whose position or shape differs.
        partition: PartitionId,
    },
    /// The partition's stream is already at the requested position, or beyond it.
    #[error("{partition:?} is at that position already")]
    Position {
        /// The partition.
        partition: PartitionId,
    },
    /// The table has no room.
    #[error(transparent)]
    Full(#[from] Full),
    /// The table to change together with the control structure is of the other structure.
    #[error("a control structure of {control} cannot change a table of {table}")]
    Structure {
        /// The structure of the control structure.
        control: compact::Structure,
        /// The structure of the table.
        table: compact::Structure,
    },
}

/// What is full, and the size it would need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// A block of SetSep holds its maximum number of keys: rebuild with more blocks.
    #[error("block {block} would hold {need} keys of at most {limit}: rebuild with more blocks")]
    Block {
        /// The block.
        block: u32,
        /// Number of keys it would hold.
        need: usize,
        /// [`Format::block_capacity`](crate::setsep::Format::block_capacity).
        limit: usize,
    },
    /// The fallback of a partition of SetSep is full.
    #[error("{partition:?} would need {need} fallback lines of {limit}: rebuild with more blocks or lines")]
    Fallback {
        /// The partition.
        partition: PartitionId,
        /// Number of lines it would need.
        need: u32,
        /// [`Params::fallback_lines`](crate::setsep::Params::fallback_lines).
        limit: u32,
    },
    /// A range of Othello has its maximum number of names: reshape the table to more ranges.
    #[error("range {range} would hold {names} names of at most {limit}: reshape to more ranges")]
    Names {
        /// The range.
        range: u32,
        /// Number of names it would hold.
        names: usize,
        /// [`Params::capacity`](crate::othello::Params::capacity).
        limit: usize,
    },
    /// Every seed gives the names of a range of Othello a graph with a cycle.
    #[error("no seed suits the {names} names of range {range}: reshape to more ranges")]
    Seeds {
        /// The range.
        range: u32,
        /// Number of names it would hold.
        names: usize,
    },
}

/// Why a build failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Two entries have the same hash.
    #[error("two entries have the hash {:#018x}", .0.get())]
    Duplicate(KeyHash),
    /// A value does not fit the value bits.
    #[error("value {value} has more than {bits} bits")]
    Value {
        /// The value.
        value: u16,
        /// The table's value bits.
        bits: u8,
    },
    /// A key lies in a partition that is not built here.
    #[error("{0:?} is not held here")]
    NotHeld(PartitionId),
    /// Too many keys for the parameters.
    #[error(transparent)]
    Full(#[from] Full),
    /// The worker threads could not be started.
    #[error("cannot start worker threads: {0}")]
    Threads(String),
}

impl BuildError {
    /// The hash that two entries have, if this is the reason.
    pub const fn duplicate(&self) -> Option<KeyHash> {
        match self {
            Self::Duplicate(hash) => Some(*hash),
            _ => None,
        }
    }
}

impl From<SpawnError> for BuildError {
    fn from(SpawnError(error): SpawnError) -> Self {
        Self::Threads(error)
    }
}

/// Why a table cannot be reshaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReshapeError {
    /// The table is already being reshaped.
    #[error("the table is being reshaped already")]
    Busy,
    /// The table already has this shape.
    #[error("the table has this shape already")]
    Same,
    /// The number of partitions cannot change.
    #[error("a table of {from} partitions cannot be reshaped to {to}")]
    Partitions {
        /// Current number of partitions.
        from: u32,
        /// Requested number of partitions.
        to: u32,
    },
    /// Every block of SetSep must become a whole number of blocks, at most four.
    #[error("{to} blocks are not one to four times {from}")]
    Blocks {
        /// Current number of blocks.
        from: u32,
        /// Requested number of blocks.
        to: u32,
    },
    /// The new shape has no room for the keys, or too few bits for a value.
    #[error("the keys do not fit the new shape: {0}")]
    Keys(#[from] UpdateError),
    /// A table keeps its structure.
    #[error("a table of {from} cannot become one of {to}")]
    Structure {
        /// The structure of the table.
        from: compact::Structure,
        /// The requested structure.
        to: compact::Structure,
    },
}
