//! Bloom filters over name hashes: "is this one of ours?", asked before a table that answers whatever it is asked.
//!
//! # How it works
//! A filter is an array of `m` bits. A name sets `k` of them, which follow from its hash; a name that was never put in is
//! found absent unless others happen to have set all of its bits. So a known name is never refused, and an *alien* one is let
//! through at a rate that bits buy: 4.8 bits a name for every factor of ten, as long as `k` is the best for them.
//!
//! Othello and SetSep give an alien name an arbitrary value. The Concise paper offers a filter in front of the table as one
//! of the remedies; checksums in the slots ([`othello::Params::with_check_bits`](crate::othello::Params::with_check_bits))
//! are another, and they cost no line of their own. A filter is the better choice where many queries are of aliens (they end
//! here), where it stands at the ingress alone, or where the table has no room for checksums, as SetSep.
//!
//! # Layouts
//! | [`Layout`] | lines a known name touches | an alien one | bits a name at 1 %, 0.1 %, 0.01 % |
//! |---|---|---|---|
//! | [`Classic`](Layout::Classic) | `k` | 2 on average | 9.6, 14.4, 19.2 |
//! | [`Blocked`](Layout::Blocked) | 1 | 1 | 9.9, 15.5, 21.9 |
//!
//! In the blocked form the hash first chooses a line of 512 bits, and all bits of the name are there. Some lines get more names
//! than others, and those let more aliens through: that is what the additional bits pay for.
//!
//! # Changes
//! A bit that several names have set cannot be cleared for one of them. [`CountingFilter`], at the control side, counts the names
//! of each bit in four bits of its own; names come and go there, and what became of the bits is a [`FilterDelta`] for every
//! [`BloomFilter`] that follows. Its bits are atomic words: any number of threads ask while a delta is applied. Names that are
//! held before and after it are let through at every moment, as no delta clears a bit of theirs.
//!
//! Sources: Bloom, "Space/time trade-offs in hash coding with allowable errors" (CACM 1970); Fan et al., "Summary cache"
//! (SIGCOMM 1998) for the formulas and counters; Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom filters"
//! (WEA 2007) for blocks; Yu et al., "A concise forwarding information base" (ICNP 2016) for its place beside Othello.
//!
//! ```
//! use scalebricks_tables::filter::{CountingFilter, FilterParams, Layout};
//! use scalebricks_types::KeyHash;
//!
//! let name = |number: u64| KeyHash::new(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(number));
//! let mut control = CountingFilter::new(FilterParams::for_names(1000, 0.01, Layout::Blocked)?);
//! let filter = control.export();
//! (1..=1000).for_each(|number| control.insert(name(number)));
//! control.remove(name(7))?;
//! filter.apply(&control.take_delta())?;
//! assert!((1..=1000).all(|number| number == 7 || filter.contains(name(number))));
//! let aliens = (1001..=11_000).filter(|&number| filter.contains(name(number))).count();
//! assert!(aliens < 200, "1 % of 10,000, about");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bloom;
mod bytes;
mod counting;
mod delta;
mod params;
mod probe;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
pub mod theory;

pub use bloom::BloomFilter;
pub use bytes::FilterBytesError;
pub use counting::{CountingFilter, UnknownName};
pub use delta::{FilterDelta, FilterDeltaError};
pub use params::{FilterParams, FilterParamsError, Layout, MAX_LINES};
pub use probe::{MAX_HASHES, ProbeWords};

/// Bits of a cache line.
pub const LINE_BITS: u64 = 512;
