//! Entries of the route log.

use crate::codec::{Encoded, checked};
use borsh::{BorshDeserialize, BorshSerialize};
pub use scalebricks_tables::lpm::IpPrefix;
use scalebricks_types::NodeId;
use std::io::{self, Read};
use std::net::IpAddr;

/// Most paths that a feeder may announce for one prefix.
pub const MAX_PATHS: usize = 8;

/// A source of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct FeederId(pub u16);

/// Where packets leave the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Exit {
    /// The output node.
    pub node: NodeId,
    /// Its external port, from 0.
    pub port: u8,
    /// The neighbour on that port; `None` if the destination itself is on the link.
    pub next_hop: Option<IpAddr>,
}

/// A path to a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Path {
    /// The path with the lowest value is selected.
    pub preference: u32,
    /// Where it leaves the cluster.
    pub exit: Exit,
}

/// A list of paths is longer than [`MAX_PATHS`], or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} paths to a prefix, where 1 to {MAX_PATHS} are allowed")]
pub struct TooManyPaths(pub usize);

/// One to [`MAX_PATHS`] paths, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct Paths(Vec<Path>);

impl Paths {
    /// These paths, each of them once.
    ///
    /// # Errors
    /// [`TooManyPaths`].
    pub fn new(paths: impl IntoIterator<Item = Path>) -> Result<Self, TooManyPaths> {
        let mut paths: Vec<Path> = paths.into_iter().take(1 << 10).collect();
        paths.sort_unstable();
        paths.dedup();
        if (1..=MAX_PATHS).contains(&paths.len()) { Ok(Self(paths)) } else { Err(TooManyPaths(paths.len())) }
    }

    /// The paths, best first.
    pub fn as_slice(&self) -> &[Path] {
        &self.0
    }
}

impl BorshDeserialize for Paths {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |paths: Vec<Path>| match Self::new(paths.iter().copied()) {
            Ok(canonical) if canonical.0 == paths => Ok(canonical),
            Ok(_) => Err("paths that are not in ascending order"),
            Err(_) => Err("no path, or too many, to a prefix"),
        })
    }
}

/// A change of a feeder's routes.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum RouteRecord {
    /// The feeder's paths to the prefix are these, instead of earlier ones.
    Announce(FeederId, IpPrefix, Paths),
    /// The feeder has no path to the prefix.
    Withdraw(FeederId, IpPrefix),
    /// The feeder starts to announce all of its routes again. Earlier ones stay in use meanwhile (RFC 4724 §4.1).
    Restart(FeederId),
    /// The feeder has announced all of its routes: those not announced since [`RouteRecord::Restart`] are removed.
    Complete(FeederId),
}

/// An entry of the log: records that are applied one after another.
#[derive(Debug, Clone, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub struct RouteBatch(pub Vec<RouteRecord>);

impl Encoded for RouteBatch {
    const NAME: &'static str = "route batch";
}
