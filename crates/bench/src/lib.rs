//! Measures the tables and other structures in one process, interleaved, and checks every answer.
//!
//! | module | contents |
//! |---|---|
//! | [`args`], [`options`] | command line |
//! | [`bench`](mod@bench), [`bench_run`] | runs the benchmarks; the context of one that runs |
//! | [`baselines`] | structures that the Concise paper compares Othello with |
//! | [`dhash`] | sessions that packets add, find and delete |
//! | [`benches`] | benchmarks of the tables |
//! | [`structures`] | the structures under test |
//! | [`figures`] | figures and tables of both papers |
//! | [`gateway`] | one gateway node by stage, and latencies of clusters |
//! | `gpu` | builds of SetSep on a GPU, with the feature `cuda` |
//! | [`names`] | names of several kinds from shift registers |
//! | [`keys`], [`timing`], [`rounds`], [`pin`] | keys, clocks, interleaved runs, cores |
//! | [`limit`], [`mod@pair`] | limits of the machine: the memory loads of lookups, and how two cores scale |
//! | [`row`], [`report`], [`table`], [`svg`] | results as JSON, as terminal tables and as pictures |
//! | [`router`] | one server as a router |
//! | [`sheet`] | tables and charts of pages, by columns and series |
//! | [`kinds`] | the kinds of results that are stored for pages |
//!
//! `docs/benchmarks.md` says how each [`Bench`] measures.

#![deny(unsafe_code)]

pub mod args;
pub mod baselines;
pub mod bench;
pub mod bench_run;
pub mod benches;
pub mod dhash;
pub mod error;
pub mod figures;
pub mod gateway;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod keys;
pub mod kinds;
pub mod limit;
pub mod names;
pub mod options;
pub mod pair;
pub mod pin;
pub mod report;
pub mod rounds;
pub mod router;
pub mod row;
pub mod sheet;
pub mod structures;
pub mod svg;
pub mod table;
pub mod timing;

pub use args::BenchArgs;
pub use bench::{Bench, run};
pub use bench_run::BenchRun;
pub use error::BenchError;
pub use report::Report;
pub use row::{Metric, Row};
