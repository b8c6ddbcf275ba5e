//! The benchmarks of the tables. A new one implements [`Bench`], is listed here, and named in [`crate::args::NAMES`].

pub(crate) mod build;
mod concise;
mod fib;
mod figures;
mod live;
mod lookup;
mod othello;
mod reshape;
mod space;
mod turnover;
mod update;

use crate::bench::Bench;

/// All of them, in the order in which they run.
pub const ALL: [&dyn Bench; 9] = [
    &build::SetSepBuild,
    &lookup::SetSepLookup,
    &update::SetSepUpdate,
    &othello::OthelloUpdate,
    &concise::Concise,
    &space::SetSepSpace,
    &fib::Fib,
    &figures::SetSepFigures,
    &figures::Capacity,
];
