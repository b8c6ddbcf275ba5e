//! Othello: a table from names to small values that stores no names and is quick to change (Concise,
//! ICNP'16).
//!
//! # How it works
//! There are two arrays of slots, A and B. Two hash functions map every name to a slot in each array. The
//! value of a name is the XOR of its two slots: `A[h_a(name)] xor B[h_b(name)]`. To find contents that are
//! correct for all names, regard the slots as the nodes of a graph and each name as an edge between its two
//! slots. If the graph has no cycle, any slot of a tree may have any contents: a walk of the tree from there
//! determines each further slot from the one before. With 2.33 slots per name, half of all pairs of functions
//! give such a graph, so a few attempts find one. Values of `l` bits cost 2.33·l bits per name.
//!
//! Trees are small, a few slots, so changes are quick. To change a value, flip the bits on one side of its
//! edge. To add a name, add an edge and adapt one of the two trees to the other. To delete a name, remove its
//! edge. Only an edge between two slots of the same tree closes a cycle; then other functions must be found.
//!
//! # Ranges
//! Concise has one graph for all names, and does not say what readers see while a tree is flipped slot by
//! slot. Here names are divided by their hash into *ranges* of 510 slots and about 218 names, each with its
//! own graph and seed. A change copies one range, 128 bytes at two value bits, and publishes it by one store.
//! A cycle costs 218 names instead of all names. A lookup finds both slots in adjacent cache lines
//! (`docs/adr/0021-othello-ranges.md`). Tables of one range, sized as the paper's, are available for
//! comparison: [`Sizing`].
//!
//! The lowest slot of every tree is 0, so bits are a function of names and seeds. A seed changes only when an
//! insertion closes a cycle, to the next seed that works. Equal histories therefore give equal bits, however
//! they were batched.
//!
//! # Limits
//! A name that was never inserted gets an arbitrary value. That is why the answer of a [`Gpt`](crate::Gpt) is
//! a hint. Tables with checksums of `r` bits beside the values ([`Params::with_check_bits`]) detect all such
//! names except one in 2^r, for 2.33·r bits per name.
//!
//! A range holds a limited number of names ([`Params::capacity`]): an insertion may be refused as [`Full`],
//! but names with evenly distributed hashes never fill a range so far. [`Stats::room`] says how near that is,
//! and [`OthelloControl::reshape`] makes room.
//!
//! # Parts
//! * [`Othello`], the query structure that every node holds. Any number of [`OthelloReader`]s run
//!   concurrently with one writer that applies deltas.
//! * [`OthelloControl`], the control structure: the names (as hashes) of some partitions with their values,
//!   and their graphs. It turns operations into deltas. Any number of query structures follow one control
//!   structure.
//! * [`SharedControl`]: one graph for several switches. Each switch has its own actions for the same names,
//!   and its own query structures and deltas.
//! * [`OthelloBuilder`]: makes any of them from many names at once.
//! * [`Params`]: the parameters on which all must agree.
//!
//! ```
//! use scalebricks_tables::othello::{OthelloBuilder, OthelloReader, Params};
//! use scalebricks_types::{KeyHash, PartitionCount};
//! use std::sync::Arc;
//!
//! let flows: Vec<(KeyHash, u16)> =
//!     (1..=1000).map(|i| (KeyHash::new(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(i)), (i % 300) as u16)).collect();
//! let params = Params::for_keys(1000, 9, PartitionCount::ONE)?;
//! let mut control = OthelloBuilder::new(params).build(&flows)?;
//! let table = Arc::new(control.export());
//! let mut reader = OthelloReader::new(Arc::clone(&table));
//! assert_eq!(reader.pin().get(flows[256].0), 257);
//!
//! let delta = control.update(flows[256].0, 3)?; // at the node that is responsible for this part of the key space
//! table.apply(&delta)?; // at every node
//! assert_eq!(reader.pin().get(flows[256].0), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod builder;
mod changes;
mod colour;
mod control;
mod graph;
mod kernels;
mod layout;
mod params;
mod payload;
mod placement;
mod reshape;
mod shared;
mod single;
mod snapshot;
mod store;
mod structure;
mod switch_bits;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
mod updates;

pub use builder::OthelloBuilder;
pub use control::{OthelloControl, Stats};
pub use params::{MAX_RANGES, PARAMS_BYTES, Params, ParamsError, Sizing};
pub use shared::{SharedControl, SharedError};
pub use structure::{Op, Othello, OthelloPin, OthelloReader, OthelloStructure, TableStats};

pub use crate::published::{BuildError, Full, ReshapeError, SnapshotError, UpdateError};
