//! The benchmarks of the tables. A new one implements [`Bench`], is listed here, and named in [`crate::args::NAMES`].

pub(crate) mod build;
mod choice;
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
pub const ALL: [&dyn Bench; 10] = [
    &build::SetSepBuild,
    &lookup::SetSepLookup,
    &update::SetSepUpdate,
    &othello::OthelloUpdate,
    &concise::Concise,
    &choice::Choice,
    &space::SetSepSpace,
    &fib::Fib,
    &figures::SetSepFigures,
    &figures::Capacity,
];
