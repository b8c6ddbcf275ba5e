//! Entries of the route log.

use crate::codec::{Encoded, checked};
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_tables::lpm::{Address, Prefix};
use scalebricks_types::NodeId;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// A prefix of either family. IPv4 comes first in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpPrefix {
    /// IPv4.
    V4(Prefix<Ipv4Addr>),
    /// IPv6.
    V6(Prefix<Ipv6Addr>),
}

/// Family, length, and the octets that the length covers.
impl BorshSerialize for IpPrefix {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        let (family, length, octets) = match self {
            Self::V4(prefix) => (4u8, prefix.length(), &prefix.address().octets()[..]),
            Self::V6(prefix) => (6u8, prefix.length(), &prefix.address().octets()[..]),
        };
        writer.write_all(&[family, length])?;
        writer.write_all(&octets[..usize::from(length).div_ceil(8)])
    }
}

/// Reads the octets of a prefix and checks that no bit after the prefix is set.
fn read_prefix<A: Address, const N: usize>(
    reader: &mut impl Read,
    length: u8,
    address: impl Fn([u8; N]) -> A,
) -> io::Result<Prefix<A>> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut octets = [0; N];
    let covered = octets
        .get_mut(..usize::from(length).div_ceil(8))
        .ok_or_else(|| wrong(format!("a prefix of {length} bits")))?;
    reader.read_exact(covered)?;
    Prefix::new(address(octets), length).map_err(|error| wrong(error.to_string()))
}

impl BorshDeserialize for IpPrefix {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let [family, length] = <[u8; 2]>::deserialize_reader(reader)?;
        match family {
            4 => read_prefix(reader, length, Ipv4Addr::from).map(Self::V4),
            6 => read_prefix(reader, length, Ipv6Addr::from).map(Self::V6),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("address family {family}"))),
        }
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
