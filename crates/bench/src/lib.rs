//! Measures the tables beside other structures, in one process and in turn, and checks every answer.
//!
//! | module | what it holds |
//! |---|---|
//! | [`args`], [`options`] | what was asked for |
//! | [`bench`](mod@bench), [`session`] | one benchmark, and what it is given |
//! | [`baselines`] | what the Concise paper compares Othello with |
//! | [`benches`] | the benchmarks of the tables |
//! | [`structures`] | the structures they measure |
//! | [`figures`] | the figures and tables of the paper |
//! | [`gateway`] | one node of the gateway, by stage, and latencies of clusters |
//! | [`names`] | names of several kinds by shift registers |
//! | [`keys`], [`timing`], [`rounds`], [`stats`], [`pin`], [`huge`] | keys, time, turns, medians, cores and pages |
//! | [`limit`], [`mod@pair`] | what the machine alone allows: the loads of lookups, and how two cores scale |
//! | [`row`], [`report`], [`table`], [`svg`] | what was measured, as JSON, for a terminal and as pictures |
//! | [`provenance`], [`pages`] | which commit measured, and pages made from what was kept |
//!
//! A benchmark is a [`Bench`]; the crate above may bring its own (the one of the gateway needs the demo). How each
//! measures is in `docs/benchmarks.md`.

#![deny(unsafe_code)]

pub mod args;
pub mod baselines;
pub mod bench;
pub mod benches;
pub mod error;
pub mod figures;
pub mod gateway;
pub mod huge;
pub mod keys;
pub mod limit;
pub mod names;
pub mod options;
pub mod pages;
pub mod pair;
pub mod pin;
pub mod provenance;
pub mod report;
pub mod rounds;
pub mod row;
pub mod session;
pub mod stats;
pub mod stored;
pub mod structures;
pub mod svg;
pub mod table;
pub mod timing;

pub use args::BenchArgs;
pub use bench::{Bench, run};
pub use error::BenchError;
pub use report::Report;
pub use row::{Metric, Row};
pub use session::Session;
