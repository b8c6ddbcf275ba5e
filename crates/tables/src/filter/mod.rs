//! Bloom filters over name hashes: they answer "is this name known?" before a lookup in a table that answers
//! for every name.
//!
//! # How it works
//! A filter is an array of `m` bits. A name sets `k` of them, which follow from its hash. A name that was
//! never added is reported absent unless other names happen to have set all of its bits. So a known name is
//! never refused. An *alien* name passes at a rate that depends on the number of bits: 4.8 bits per name
//! reduce it by a factor of ten, if `k` is the optimum.
//!
//! Othello and SetSep return an arbitrary value for an alien name. The Concise paper offers a filter in front
//! of the table as one of the remedies. Checksums in the slots
//! ([`othello::Params::with_check_bits`](crate::othello::Params::with_check_bits)) are another, and they need
//! no additional cache line. A filter is the better choice if many queries are for aliens (they end here), if
//! it is needed only at the ingress, or if the table has no room for checksums, as SetSep.
//!
//! # Layout
//! The hash first selects a cache line of 512 bits, and all bits of the name are in that line, so a query
//! touches one line. Some lines get more names than others, and those pass more aliens, which costs additional
//! bits: 9.9, 15.5 and 21.9 bits per name at 1 %, 0.1 % and 0.01 %, where a filter whose bits may be anywhere
//! needs 9.6, 14.4 and 19.2.
//!
//! # Changes
//! A bit that several names have set cannot be cleared for one of them. [`CountingFilter`], in the control
//! plane, counts the names of each bit in four bits of its own. Names are added and removed there, and the
//! changed bits are sent as a [`FilterDelta`] to every [`BloomFilter`] that follows. Its bits are atomic
//! words: any number of threads may query while a delta is applied. Names that are present before and after
//! the delta pass at every moment, because no delta clears one of their bits.
//!
//! Sources: Bloom, "Space/time trade-offs in hash coding with allowable errors" (CACM 1970); Fan et al.,
//! "Summary cache" (SIGCOMM 1998) for the formulas and counters; Putze, Sanders and Singler, "Cache-, hash-
//! and space-efficient Bloom filters" (WEA 2007) for blocks; Yu et al., "A concise forwarding information
//! base" (ICNP 2016) for the combination with Othello.
//!
//! ```
//! use scalebricks_tables::filter::{CountingFilter, FilterParams};
//! use scalebricks_types::KeyHash;
//!
//! let name = |number: u64| KeyHash::new(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(number));
//! let mut control = CountingFilter::new(FilterParams::for_names(1000, 0.01)?);
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
mod counting;
mod delta;
mod params;
mod probe;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use bloom::BloomFilter;
pub use counting::{CountingFilter, UnknownName};
pub use delta::{FilterDelta, FilterDeltaError};
pub use params::{FilterParams, FilterParamsError, MAX_LINES};
pub use probe::MAX_HASHES;

/// Bits per cache line.
pub const LINE_BITS: u64 = 512;
