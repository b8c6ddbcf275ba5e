//! The benchmarks of the tables. A new one is a [`Bench`] in this list and a name in [`crate::args::NAMES`].

pub(crate) mod build;
mod choice;
mod fib;
mod live_table;
mod lookup;
pub(crate) mod lpm;
mod reshape;
mod scale;
mod space;
mod turned_over;
mod update;

pub use turned_over::{CHECK_BITS, CHECKED, TURNED_OVER};

use crate::bench::Bench;
use crate::dhash;
use crate::figures::{self, capacity, concise};
use crate::router;

/// All benchmarks in the order in which they run.
pub const ALL: [Bench; 15] = [
    Bench { name: "setsep-build", run: build::run, draws_itself: false },
    Bench { name: "setsep-lookup", run: lookup::run, draws_itself: false },
    Bench { name: TURNED_OVER, run: turned_over::run, draws_itself: false },
    Bench { name: "setsep-update", run: update::setsep, draws_itself: false },
    Bench { name: "othello-update", run: update::othello, draws_itself: false },
    Bench { name: "concise", run: concise::run, draws_itself: true },
    Bench { name: "choice", run: choice::run, draws_itself: true },
    Bench { name: "setsep-space", run: space::run, draws_itself: false },
    Bench { name: "scale", run: scale::run, draws_itself: false },
    Bench { name: "fib", run: fib::run, draws_itself: false },
    Bench { name: "lpm", run: lpm::run, draws_itself: false },
    Bench { name: "dhash", run: dhash::run, draws_itself: true },
    Bench { name: "setsep-figures", run: figures::run, draws_itself: true },
    Bench { name: "capacity", run: capacity::run, draws_itself: true },
    Bench { name: "router", run: router::run, draws_itself: true },
];
