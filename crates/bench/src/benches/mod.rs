//! The benchmarks of the tables.

mod build;
mod lookup;
mod space;

use crate::bench::Bench;

/// All of them, in the order in which they run.
pub const ALL: [&dyn Bench; 3] = [&build::SetSepBuild, &lookup::SetSepLookup, &space::SetSepSpace];
