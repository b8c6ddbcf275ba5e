//! Tables that answer "which node?" and "which flow?".
//!
//! | module | contents |
//! |---|---|
//! | [`compact`] | SetSep or Othello behind one type: the compact table of a GPT |
//! | [`cuckoo`] | a concurrent exact table with one key size and one value size |
//! | [`dhash`] | a table of sessions that packets add and delete, and their records |
//! | [`fib`] | a node's exact flow table, for two key sizes |
//! | [`filter`] | Bloom filters: test whether a name is known, before a lookup in a table that answers for every name |
//! | [`full_copy`], [`hash_partition`] | two simple answers to "which node?": store every key, or compute the node |
//! | [`gpt`] | the common interface to "which node?" tables, and the types they share |
//! | [`hashing`] | hashes many keys at once |
//! | [`huge`], [`isa`] | memory on huge pages; the instruction sets that kernels use |
//! | [`lpm`] | longest-prefix match for IPv4 and IPv6: from an address to its next hop |
//! | [`othello`] | the second compact table: larger than SetSep, and much faster to change |
//! | [`published`] | what SetSep and Othello share: tables with one writer and concurrent readers, and their control structures |
//! | [`setsep`] | the compact table behind every GPT: 2 to 13 bits per key, no keys stored |
//! | [`weighted`] | maps unknown names to values by weight: a balancer of new flows |

#![deny(unsafe_code)]

mod bits;
mod checksum_io;
pub mod compact;
pub mod cuckoo;
pub mod dhash;
pub mod fib;
pub mod filter;
pub mod full_copy;
pub mod gpt;
pub mod hash_partition;
pub mod hashing;
pub mod huge;
pub mod isa;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod lanes;
pub mod lpm;
mod op_order;
pub mod othello;
mod partition_pass;
mod prefetch;
pub mod published;
mod reclaim;
pub mod setsep;
mod streaming_store;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
mod threads;
mod touched_lines;
pub mod weighted;

use scalebricks_types::mix;

pub use gpt::{Fib, FibError, FibValue, Gpt, GptReader, KeyBatch};
pub use prefetch::{prefetch_in_front, prefetch_read};
pub use weighted::{Spread, WeightError, WeightedActions};

/// The example of the crate's own page, which the doc tests compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The example of the page about the tables. In the repository a symbolic link, in the package a file.
#[cfg(doctest)]
#[doc = include_str!("../docs/tables.md")]
struct Page;

/// The example of the page about DHash.
#[cfg(doctest)]
#[doc = include_str!("../docs/dhash.md")]
struct DhashPage;
