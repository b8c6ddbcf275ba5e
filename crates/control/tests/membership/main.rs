//! Who is held for alive, under directed cuts between nodes and between nodes and the engine: one seed, one run. Judged in every
//! run: no node is removed that most members hear (`judge.rs`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]
#![allow(clippy::print_stdout, reason = "shown with a seed that fails")]

mod cuts;
mod deaths;
mod judge;
mod seeds;
mod world;
