//! Longest-prefix match: from an address to the next hop of the longest prefix that covers it. IPv4 and IPv6, one structure.
//!
//! # How it works
//! The first bits of an address, 24 or 16, index the *root*, an array with an entry of four bytes for each of their values. An
//! entry is a next hop, or it leads to a *block* for the next eight bits, and so on. A block is no array of 256 entries: it has one
//! for each run of neighbouring values that have the same one, and a bitmap that tells where runs start. Most blocks of a
//! table of IPv6 fit a cache line. Shorter prefixes are pushed down: the last entry on the way is the answer.
//!
//! With a root of 24 bits a lookup of IPv4 is one load, unless there are prefixes longer than 24 bits in that /24; the address of a
//! /48 of IPv6 needs the root and three blocks. Batches go level by level, 64 addresses at a time, so that their cache misses overlap.
//!
//! Runs start and end with prefixes and never depend on next hops, so a changed next hop is a store for each run, and only a
//! prefix that comes or goes copies blocks: one a level at most. Equal sets of prefixes give equal blocks, whatever came before.
//! The choice and its rivals: `docs/adr/0038-longest-prefix-match.md`.
//!
//! # Changes beside readers
//! One writer at a time; readers take no lock and never wait. A new block is written where nobody looks, and published by one
//! store; the old one is used again when no reader can be in it (module `publish`). Each address changes from one answer to the
//! next by one store; a prefix that covers many entries changes them one after the other, so two addresses may see different
//! sides of a change.
//!
//! # Bounds
//! A table has room for so many bytes of blocks ([`Params::new`]) and refuses a prefix that does not fit ([`LpmError::Full`]). It is
//! then as before. Each prefix longer than the root's bits takes at most one block a level: 14 for a /128 of IPv6 behind a root of 16 bits.
//!
//! ```
//! use scalebricks_tables::lpm::{Lpm, LpmReader, NextHop, Params};
//! use std::net::Ipv4Addr;
//! use std::sync::Arc;
//!
//! let table = Arc::new(Lpm::<Ipv4Addr>::new(Params::SMALL));
//! let hop = |index| NextHop::new(index).expect("a small index");
//! table.insert("10.0.0.0/8".parse()?, hop(1))?;
//! table.insert("10.1.2.128/25".parse()?, hop(2))?;
//!
//! let mut reader = LpmReader::new(Arc::clone(&table)); // one a thread
//! let addresses = ["10.1.2.3", "10.1.2.200", "192.0.2.1"].map(|text| text.parse().expect("an address"));
//! let mut hops = [None; 3];
//! reader.lookup_batch(&addresses, &mut hops);
//! assert_eq!(hops, [Some(hop(1)), Some(hop(2)), None]);
//!
//! assert_eq!(table.remove("10.1.2.128/25".parse()?), Some(hop(2)));
//! assert_eq!(reader.lookup(addresses[1]), Some(hop(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod arena;
mod block;
mod entry;
mod kernels;
#[cfg(loom)]
#[cfg(test)]
mod loom_tests;
mod reader;
mod rib;
#[cfg(not(loom))]
#[cfg(test)]
mod stress;
mod table;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
#[cfg(not(loom))]
#[cfg(test)]
mod trie_comparison;
mod writer;

pub use address::{Address, Prefix, PrefixError};
pub use entry::NextHop;
pub use reader::LpmReader;
pub use table::{Lpm, LpmError, Params, ParamsError, Stats};
