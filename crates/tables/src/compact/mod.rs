//! Either of the two compact tables behind a GPT, chosen when a cluster is created: [`setsep`] or
//! [`othello`].
//!
//! The control plane and the data plane need the same from both: parameters that are stored in records, a
//! control structure that turns operations into deltas, a table that applies them, and readers. This module
//! has one type for each of these. Values are the numbers of nodes. Use [`setsep`] or [`othello`] directly
//! for their other features.
//!
//! | | SetSep | Othello |
//! |---|---|---|
//! | bits per key at 2 value bits | 3.2 | 4.9 |
//! | what an update does | solves one group | flips one side of a tree |
//!
//! ```
//! use scalebricks_tables::compact::{Control, Op, Params, Reader, Structure, Table};
//! use scalebricks_types::{KeyHash, PartitionCount, PartitionId, Position};
//!
//! for structure in Structure::ALL {
//!     let params = Params::for_keys(structure, 1_000, 2, PartitionCount::ONE)?;
//!     let mut control = Control::for_partitions(params, [PartitionId(0)]);
//!     let table = Table::new(params);
//!     let key = KeyHash::new(0x9E37_79B9_7F4A_7C15);
//!     let delta = control.batch_to(Position(1), &[Op::Insert(key, 3)])?.ok_or("a key was added")?;
//!     assert!(table.apply(&delta).is_ok());
//!     assert_eq!(Reader::new(&table).get(key), 3);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`setsep`]: crate::setsep
//! [`othello`]: crate::othello

/// Runs the same expression for either table, or for a type that belongs to it.
macro_rules! either {
    ($of:expr, $it:ident => $act:expr) => {
        match $of {
            Self::SetSep($it) => $act,
            Self::Othello($it) => $act,
        }
    };
}

mod control;
mod params;
mod reader;
mod table;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use crate::published::{BuildError, ReshapeError, SnapshotError, UpdateError};
pub use crate::setsep::Op;
pub use control::Control;
pub use params::{Params, ParamsError, Structure, UnknownStructure};
pub use reader::Reader;
pub use table::Table;
