//! Othello: a table from names to small values that stores no names, and is quick to change (Concise, ICNP'16).
//!
//! # How it works
//! Two arrays of slots, A and B. Two hash functions give every name a slot in each, and its value is what the two slots
//! differ in: `A[h_a(name)] xor B[h_b(name)]`. To find contents that are right for all names, draw the slots as the nodes
//! of a graph and each name as an edge between its two. If the graph has no cycle, any slot of a tree may have any
//! contents: walk the tree from there, and each further slot follows from the one before. With 2.33 slots a name, half of
//! all pairs of functions give such a graph, so a few attempts find one: values of `l` bits cost 2.33·l bits a name.
//!
//! Trees are small, a few slots, and that makes changes quick. To alter a value, flip the bits of one side of its edge; to
//! add a name, draw an edge and make one of the two trees fit the other; to delete one, drop the edge. Only an edge
//! between two slots of one tree closes a cycle, and then other functions have to be found.
//!
//! # Ranges
//! Concise has one graph for all names, and says nothing of readers that look on while a tree is flipped slot by slot. Here
//! names are cut by their hash into *ranges* of 510 slots and some 218 names, each with a graph and a seed of its own. A
//! change copies one range, 128 bytes at two value bits, and publishes it by one store; a cycle costs 218 names instead of
//! all; and a lookup finds both slots in lines side by side (`docs/adr/0021-othello-ranges.md`). Tables of one range, sized
//! as the paper's, can be had for comparison: [`Sizing`].
//!
//! The lowest slot of every tree is 0, so bits are a function of names and seeds; a seed changes only when an insertion
//! closes a cycle, to the next that suits. Equal histories therefore give equal bits, however they were batched.
//!
//! # What it does not promise
//! A name that was never inserted gets an arbitrary value. That is why the answer of a [`Gpt`](crate::Gpt) is a hint.
//! Tables with checksums of `r` bits beside the values ([`Params::with_check_bits`]) tell all such names but one in 2^r,
//! for 2.33·r bits a name.
//!
//! A range takes so many names and no more ([`Params::capacity`]): an insertion may be refused as [`Full`], though names
//! hashed evenly never crowd so. [`Stats::room`] says how near that is, and [`OthelloControl::reshape`] makes room.
//!
//! # Parts
//! * [`Othello`], the query structure: what every node holds. Any number of [`OthelloReader`]s beside one writer that
//!   applies deltas.
//! * [`OthelloControl`], the control structure: the names (as hashes) of some partitions with their values, and their
//!   graphs. Turns operations into deltas. Any number of query structures follow one.
//! * [`SharedControl`]: one graph for several switches, each with actions of its own for the same names, and with query
//!   structures and deltas of its own.
//! * [`OthelloBuilder`]: either of them from many names at once.
//! * [`Params`]: what all must agree on.
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
mod ops;
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
pub use ops::Full;
pub use params::{MAX_RANGES, PARAMS_BYTES, Params, ParamsError, Sizing};
pub use shared::{SharedControl, SharedError};
pub use structure::{
    BuildError, Op, Othello, OthelloPin, OthelloReader, OthelloStructure, ReshapeError, SnapshotError,
    TableStats, UpdateError,
};
