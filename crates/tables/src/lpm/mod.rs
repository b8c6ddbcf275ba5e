//! Longest-prefix match: from an address to the next hop of the longest prefix that covers it. IPv4 and IPv6
//! use the same structure.
//!
//! # How it works
//! The first bits of an address, 24 or 16, index the *root*, an array with an entry for each of their values. An
//! entry is a next hop, or leads to a *block* for the next eight bits, and so on. A block is not an array of 256
//! entries. It has one entry for each run of adjacent values with the same entry, and a bitmap of the values where
//! runs start. Most blocks of an IPv6 table fit a cache line. Shorter prefixes are pushed down: the last entry on
//! the path is the answer.
//!
//! Entries have two bytes while all next hops are up to 32,766 and all blocks fit 2 MiB. When the first does not,
//! the writer rebuilds the table with entries of four bytes ([`EntryBytes`]). Nothing is refused for the size of
//! entries.
//!
//! With a root of 24 bits, an IPv4 lookup is one load, unless that /24 contains prefixes longer than 24 bits.
//! An address in an IPv6 /48 needs the root and three blocks. Batches are processed level by level, 64
//! addresses at a time, so that their cache misses overlap.
//!
//! Runs start and end with prefixes and do not depend on next hops. So changing a next hop costs one store
//! per run, and only adding or removing a prefix copies blocks: at most one per level. Equal sets of prefixes
//! give equal blocks, for any history. `docs/adr/0038-longest-prefix-match.md` compares the alternatives.
//!
//! # Updates with concurrent readers
//! There is one writer at a time. Readers take no lock and never wait. A new block is written where no reader
//! looks, and published by one store. The old block is reused when no reader can be in it (module `publish`).
//! Each address changes from one answer to the next by one store. A prefix that covers many entries changes
//! them one after the other, so two addresses may see different sides of a change. A table that is rebuilt with
//! larger entries is published as a whole, and readers use it from their next call on.
//!
//! # Limits
//! A table has room for a fixed number of bytes of blocks ([`Params::new`]) and refuses a prefix that does
//! not fit ([`LpmError::Full`]). It is then unchanged. Each prefix longer than the root's bits takes at most
//! one block per level: 14 for an IPv6 /128 behind a root of 16 bits.
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
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
mod gather;
mod ip_prefix;
mod kernels;
#[cfg(loom)]
#[cfg(test)]
mod loom_tests;
mod reader;
mod rib;
#[cfg(not(loom))]
#[cfg(test)]
mod stress_tests;
mod table;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
#[cfg(not(loom))]
#[cfg(test)]
mod trie_tests;
mod writer;

pub use address::{Address, Prefix, PrefixError};
pub use entry::{EntryBytes, NextHop};
pub use ip_prefix::IpPrefix;
pub use reader::LpmReader;
pub use table::{Lpm, LpmError, Params, ParamsError, Stats};
