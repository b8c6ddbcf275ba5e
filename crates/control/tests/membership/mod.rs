//! Who is held for alive, under directed cuts between nodes and between nodes and the engine: one seed, one run. Judged in every
//! run: no node is removed that most members hear, and none is
//! suspended that is fit or no worse off than most (`judge.rs`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]
#![allow(clippy::print_stdout, reason = "shown with a seed that fails")]

mod cuts;
mod deaths;
mod fitness;
mod judge;
mod restarts;
mod seeds;
mod world;
