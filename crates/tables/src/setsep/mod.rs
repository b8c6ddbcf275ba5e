//! SetSep: a table from keys to small values that stores no keys (ScaleBricks, SIGCOMM'15, §4).
//!
//! # How it works
//! To say which of two sets a key is in, a table need not store the keys. It is enough to find a hash
//! function that sends all keys of one set to 0 and all keys of the other set to 1. For 16 keys, one function
//! in 2^16 does. Trying functions in order and storing the number of the first that works costs about 16
//! bits, one per key. SetSep needs far fewer attempts: the function only selects one of `m` cells of a small
//! array, and it works if no cell is selected by keys of both sets. The cells then store the answers, which
//! costs a few more bits. With a 16-bit function number and 8 cells, written 16+8, a *group* of 16 keys costs
//! 24 bits, or 1.5 per key. A value of `l` bits is `l` such questions at once.
//!
//! The number of attempts grows exponentially with the number of keys, so groups must be equally full. Keys
//! are hashed to *buckets* of 4 on average. Each bucket chooses one of 4 candidate groups. A greedy
//! assignment (largest bucket first, to its emptiest candidate) brings the fullest of a million groups to 19
//! or 20 keys where the average is 16. The choice costs 2 bits per bucket, 0.5 per key. 256 buckets and 64
//! groups, 1024 keys, make a *block*: the unit of balancing, of memory, and of updates. The total is 0.5 +
//! 1.5·l bits per key, plus 8 bytes per block to find the block.
//!
//! A group without a solution is marked, and all its keys go to an exact *fallback* list of its block. At
//! 16+8 this takes more than 20 keys in a group or a very unlikely set of keys; at 8+16 it affects one key in
//! a hundred per value bit.
//!
//! # Limits
//! A key that was never inserted gets an arbitrary value. That is why the answer of a [`Gpt`](crate::Gpt) is
//! a hint.
//!
//! # Parts
//! * [`SetSep`], the query structure that every node holds. Any number of [`SetSepReader`]s run concurrently
//!   with one writer that applies deltas. The writer copies a block, changes the copy, and publishes it as a
//!   whole (`docs/adr/0002-publish-blocks-whole.md`).
//! * [`SetSepControl`], the control structure: the keys (as hashes) of some partitions with their values. It
//!   turns operations into deltas.
//! * [`SetSepBuilder`]: makes a control structure from many keys at once.
//! * [`Params`]: the parameters on which both structures must agree.
//!
//! ```
//! use scalebricks_tables::setsep::{Params, SetSepBuilder, SetSepReader};
//! use scalebricks_types::{KeyHash, PartitionCount};
//! use std::sync::Arc;
//!
//! let flows: Vec<(KeyHash, u8)> =
//!     (1..=1000).map(|i| (KeyHash::new(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(i)), (i % 4) as u8)).collect();
//! let params = Params::for_keys(1000, 2, PartitionCount::ONE)?;
//! let mut control = SetSepBuilder::new(params).build(&flows)?;
//! let table = Arc::new(control.export());
//! let mut reader = SetSepReader::new(Arc::clone(&table));
//! assert_eq!(reader.pin().get(flows[6].0), 3);
//!
//! let delta = control.update(flows[6].0, 0)?; // at the node that is responsible for this part of the key space
//! table.apply(&delta)?; // at every node
//! assert_eq!(reader.pin().get(flows[6].0), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod balance;
mod batch;
mod block;
mod brute;
mod builder;
mod changes;
mod control;
mod control_blocks;
mod fallback;
mod format;
mod geometry;
#[cfg(not(loom))]
#[cfg(any(test, feature = "cuda"))]
pub mod gpu;
mod kernels;
mod layout;
mod linear;
mod paper;
mod params;
mod payload;
mod reshape;
mod snapshot;
mod solver;
mod store;
mod structure;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
mod updates;

pub use block::Moves;
pub use builder::SetSepBuilder;
pub use control::{SetSepControl, Stats};
pub use format::Format;
pub use geometry::{BUCKETS, CANDIDATES_PER_BUCKET, GROUPS};
pub use kernels::search::SearchBits;
pub use params::{MAX_BLOCKS, PARAMS_BYTES, Params, ParamsError};
pub use structure::{Op, SetSep, SetSepPin, SetSepReader, SetSepStructure, TableStats};

pub use crate::published::{BuildError, Full, ReshapeError, SnapshotError, UpdateError};
