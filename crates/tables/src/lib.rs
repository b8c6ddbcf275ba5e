//! Tables that answer "which node?" and "which flow?".
//!
//! | module | what it holds |
//! |---|---|
//! | [`compact`] | either of the two tables behind a GPT, as one type |
//! | [`cuckoo`] | a concurrent exact table of one key and value size |
//! | [`fib`] | a node's exact table of flows, of two key sizes |
//! | [`filter`] | Bloom filters: whether a name is known at all, asked before a table that answers any |
//! | [`full_copy`], [`hash_partition`] | the two simple answers to "which node?": hold every key, or compute it |
//! | [`gpt`] | the one interface to "which node?", and what of it every table shares |
//! | [`hashing`] | the hash of many keys at once |
//! | [`huge`], [`isa`] | memory on huge pages; which instructions kernels use |
//! | [`lpm`] | longest-prefix match for IPv4 and IPv6: from an address to its next hop |
//! | [`othello`] | the second compact table: larger than SetSep, and much faster to change |
//! | [`published`] | what SetSep and Othello share: tables that one writer changes under readers, and their control structures |
//! | [`setsep`] | the compact table behind every GPT: 2 to 13 bits a key, no keys stored |
//! | [`weighted`] | what unknown names get, as a weighted choice: a balancer of new flows |

#![deny(unsafe_code)]

mod bits;
mod checksum_io;
pub mod compact;
pub mod cuckoo;
pub mod fib;
pub mod filter;
pub mod full_copy;
pub mod gpt;
pub mod hash_partition;
pub mod hashing;
pub mod huge;
pub mod isa;
pub mod lpm;
mod mix;
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
mod test_readers;
mod threads;
mod touched_lines;
pub mod weighted;

pub use gpt::{Fib, FibError, FibValue, Gpt, GptReader, KeyBatch};
pub use prefetch::{prefetch_in_front, prefetch_read};
pub use weighted::{Spread, WeightError, WeightedActions};

/// The example of the page about the tables, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tables.md")]
struct Page;
