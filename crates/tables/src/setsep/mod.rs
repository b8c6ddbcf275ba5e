//! SetSep: a table that separates sets of keys without storing them (SIGCOMM'15, §4).

mod arena;
mod balance;
mod block;
mod builder;
mod control;
mod epoch;
mod geometry;
mod image;
mod journal;
mod params;
mod payload;
mod query;
mod reader;
mod snapshot;
mod solver;
mod sync;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use block::Moves;
pub use builder::{BuildError, Progress, SetSepBuilder};
pub use control::{Full, Op, SetSepControl, Stats, UpdateError};
pub use geometry::{BUCKETS, CANDIDATES_PER_BUCKET, GROUPS};
pub use params::{BLOCK_CAPACITY, Format, KEYS_PER_BLOCK, MAX_BLOCKS, Params, ParamsError};
pub use query::{SetSep, TableStats};
pub use reader::{SetSepPin, SetSepReader};
pub use snapshot::SnapshotError;
