//! Either of the two compact tables behind a GPT, chosen when a cluster is made: [`setsep`] or [`othello`].
//!
//! What the control plane and the data plane need of them is the same: parameters that lie in records, a control structure
//! that turns operations into deltas, a table that applies them, and readers. Here are both as one type each, values being
//! the numbers of nodes. Whoever wants more of one of them takes that one.
//!
//! | | SetSep | Othello |
//! |---|---|---|
//! | bits a key at 2 value bits | 3.2 | 4.9 |
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

/// The same with either table, or what belongs to it.
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

pub use crate::setsep::Op;
pub use control::{BuildError, Control, ReshapeError, SnapshotError, UpdateError};
pub use params::{Params, ParamsError, Structure, UnknownStructure};
pub use reader::Reader;
pub use table::Table;
