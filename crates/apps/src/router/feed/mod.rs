//! Route feeds: full BGP tables from files, static routes, and live routes.
//!
//! | module | contents |
//! |---|---|
//! | [`text`] | lines `PREFIX ORIGIN` |
//! | [`statics`] | lines `PREFIX via NEXT_HOP [preference N]` |
//! | [`fpm`] | live routes from FRR, by its forwarding-plane interface |
//! | [`mrt`] | MRT dumps of type `TABLE_DUMP_V2` (RFC 6396), as RIPE RIS and `RouteViews` publish them |
//! | `rule` | which output a route gets |
//!
//! [`read`] tells the two forms apart by their first bytes, and decompresses gzip. Memory is bounded by the
//! longest line or record ([`text::MAX_LINE_BYTES`], [`mrt::MAX_RECORD_BYTES`]). Every error names the line
//! or record.

pub mod fpm;
pub mod mrt;
mod rule;
pub mod statics;
#[cfg(test)]
mod tests;
pub mod text;

pub use rule::OutputRule;

use scalebricks_io::gzip::decompressed;
use scalebricks_tables::lpm::{Prefix, PrefixError};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes read at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// A prefix of one of the two families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FeedPrefix {
    /// IPv4.
    V4(Prefix<Ipv4Addr>),
    /// IPv6.
    V6(Prefix<Ipv6Addr>),
}

impl fmt::Display for FeedPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(prefix) => prefix.fmt(f),
            Self::V6(prefix) => prefix.fmt(f),
        }
    }
}

/// A route of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedRoute {
    /// The prefix.
    pub prefix: FeedPrefix,
    /// The autonomous system that originates it, if the feed names one.
    pub origin: Option<u32>,
    /// The BGP next hop, if the feed names one. Text has none.
    pub next_hop: Option<IpAddr>,
}

/// What a feed contained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeedCounts {
    /// Routes of IPv4.
    pub v4: u64,
    /// Routes of IPv6.
    pub v6: u64,
    /// MRT records of other types, and prefixes without a path: nothing a router needs.
    pub skipped: u64,
}

impl FeedCounts {
    const fn count(&mut self, route: &FeedRoute) {
        match route.prefix {
            FeedPrefix::V4(_) => self.v4 += 1,
            FeedPrefix::V6(_) => self.v6 += 1,
        }
    }
}

/// Why a feed cannot be read. Routes before the error were visited.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The stream failed, or is no valid gzip.
    #[error("reading the feed failed: {0}")]
    Io(#[from] io::Error),
    /// A line of text is wrong.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        problem: LineError,
    },
    /// An MRT record is wrong.
    #[error("record {record}: {problem}")]
    Record {
        /// Its number, from 1.
        record: u64,
        /// What is wrong.
        problem: RecordError,
    },
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is too long.
    #[error("more than {limit} bytes", limit = text::MAX_LINE_BYTES)]
    TooLong,
    /// It is not UTF-8.
    #[error("not UTF-8")]
    NotText,
    /// The prefix is wrong.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// The origin is not the number of an autonomous system.
    #[error("{0:?} is no AS number")]
    Origin(String),
    /// There are more words than a prefix and an origin.
    #[error("more than a prefix and an origin")]
    Words,
    /// It is no static route.
    #[error("not PREFIX via NEXT_HOP [preference N]")]
    Static,
    /// The next hop is not the address of a host, or not of the prefix's family.
    #[error("{0:?} is no next hop of the prefix's family")]
    NextHop(String),
    /// The preference is not a number of 32 bits.
    #[error("{0:?} is no preference: write 0 to 4294967295")]
    Preference(String),
}

/// What is wrong with an MRT record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The stream ends in it.
    #[error("the file ends in the record")]
    Truncated,
    /// Its length exceeds the limit.
    #[error("{0} bytes: more than {limit}", limit = mrt::MAX_RECORD_BYTES)]
    TooLong(u32),
    /// A field reaches past the end of what contains it.
    #[error("{0} reaches past the end of its record")]
    Short(&'static str),
    /// The prefix is wrong.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
}

/// Reads a feed, and calls `visit` for each route in its order. A prefix may occur again.
///
/// Cost: one pass; memory for one line or record.
///
/// # Errors
/// [`FeedError`].
pub fn read(
    stream: impl Read + Send + 'static,
    visit: impl FnMut(FeedRoute),
) -> Result<FeedCounts, FeedError> {
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, decompressed(stream)?);
    if mrt::is_mrt(stream.fill_buf()?) { mrt::read(stream, visit) } else { text::read(stream, visit) }
}
