//! The routes of a cluster router: which port of which node leads to a prefix. All nodes compute them from one log.
//!
//! A *feeder* announces paths to prefixes: a file, or a BGP speaker. Several feeders may announce the same prefix. Each
//! node applies the log's batches in order and selects the same path: among those whose exit is a living node, the one
//! of the lowest preference value. When a node dies, [`RouteRib::set_alive`] moves its prefixes to their next paths, or
//! withdraws them.
//!
//! | module | contents |
//! |---|---|
//! | [`record`] | entries of the log |
//! | [`rib`] | paths by prefix, and the selected ones |
//! | [`hops`] | the numbers of next hops, the same at all nodes |
//! | [`feed`] | the records that change a feeder's routes into others |

pub mod feed;
pub mod hops;
pub mod record;
pub mod rib;
#[cfg(test)]
mod tests;

pub use feed::{batches, difference};
pub use hops::{CONNECTED, HopChange, MAX_NEXT_HOPS, NumberedExit};
pub use record::{Exit, FeederId, IpPrefix, MAX_PATHS, Path, Paths, RouteBatch, RouteRecord, TooManyPaths};
pub use rib::{ApplyCounts, MAX_PREFIXES, RouteChange, RouteChanges, RoutePaths, RouteRib};
