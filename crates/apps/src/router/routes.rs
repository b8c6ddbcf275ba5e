//! Routes of a cluster router from a table of prefixes.

use crate::router::feed::{self, FeedError};
use scalebricks_elements::fabric::mac::{ExternalPort, RouterMac};
use scalebricks_elements::fabric::next_hops::NextHops;
use scalebricks_tables::lpm::{IpPrefix, Lpm, LpmError, Params, Prefix};
use scalebricks_types::mix::SplitMix64;
use scalebricks_types::{ClusterSize, NodeId};
use scalebricks_wire::MacAddr;
use std::io::Read;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A prefix and the network that announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// The prefix.
    pub prefix: Prefix<Ipv4Addr>,
    /// The number of the autonomous system, or any other number by which routes are grouped.
    pub origin: u32,
}

/// Why a table of routes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RoutesError {
    /// It cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// It has no routes.
    #[error("the table has no IPv4 routes with an origin")]
    Empty,
    /// The table of the router is full.
    #[error(transparent)]
    Full(#[from] LpmError),
}

/// The IPv4 routes of a feed that names their origins. Memory: 12 bytes per route.
///
/// # Errors
/// [`RoutesError`] with the number of the line or record.
pub fn read(stream: impl Read + Send + 'static) -> Result<Vec<Announcement>, RoutesError> {
    let mut routes = Vec::new();
    feed::read(stream, |route| {
        if let (IpPrefix::V4(prefix), Some(origin)) = (route.prefix, route.origin) {
            routes.push(Announcement { prefix, origin });
        }
    })?;
    if routes.is_empty() { Err(RoutesError::Empty) } else { Ok(routes) }
}

/// A table of a seed: distinct prefixes of 1.0.0.0 to 223.255.255.255, three in five of 24 bits, the others of 16 to 23, as
/// in today's tables; each of one of `origins` networks.
pub fn generate(count: usize, origins: u32, seed: u64) -> Vec<Announcement> {
    let mut seen = std::collections::HashSet::new();
    let mut routes = Vec::with_capacity(count);
    let mut number = 0;
    while routes.len() < count.min(1 << 21) {
        let (random, more) = (hash(seed, number), hash(!seed, number));
        number += 1;
        let length = if random % 5 < 3 { 24 } else { 16 + (random >> 8) as u8 % 8 };
        let first = 1 + (random >> 16) as u32 % 223;
        let address = Ipv4Addr::from_bits(first << 24 | (random >> 40) as u32 & 0x00ff_ffff);
        let Ok(prefix) = Prefix::of(address, length) else { continue };
        if seen.insert(prefix) {
            routes.push(Announcement { prefix, origin: more as u32 % origins.max(1) });
        }
    }
    routes
}

/// 64 random bits of a number.
pub(crate) const fn hash(seed: u64, number: u64) -> u64 {
    SplitMix64(seed).after(number)
}

/// Where a cluster sends the networks of a table: origins are spread over external ports and next hops by a hash.
#[derive(Debug, Clone, Copy)]
pub struct Exits {
    /// Number of nodes.
    pub size: ClusterSize,
    /// External ports per node.
    pub ports: u8,
    /// Next hops per port.
    pub next_hops: u16,
}

impl Exits {
    /// Where packets to a network leave.
    pub const fn of(&self, origin: u32) -> RouterMac {
        let random = hash(0, origin as u64);
        let node = NodeId::new((random % self.size.get() as u64) as u8); // at most 256 nodes
        let port = (random >> 16) as u8 % if self.ports == 0 { 1 } else { self.ports };
        let Some(port) = ExternalPort::new(port & 63) else { unreachable!() }; // below 64
        let hop = (random >> 32) as u16 % if self.next_hops == 0 { 1 } else { self.next_hops };
        RouterMac::new(node, port, hop)
    }

    /// The routing table that all nodes share.
    ///
    /// # Errors
    /// [`RoutesError::Full`].
    pub fn table(&self, routes: &[Announcement], params: Params) -> Result<Arc<Lpm<Ipv4Addr>>, RoutesError> {
        let table = Lpm::new(params);
        for route in routes {
            table.insert(route.prefix, self.of(route.origin).hop())?;
        }
        Ok(Arc::new(table))
    }

    /// The next hops of each node.
    pub fn next_hops(&self) -> Vec<Arc<NextHops>> {
        let table = |node: NodeId| {
            let hops = NextHops::new(usize::from(self.next_hops));
            for number in 0..self.next_hops {
                hops.set(number, Some(next_hop_mac(node, number)));
            }
            Arc::new(hops)
        };
        self.size.nodes().map(table).collect()
    }
}

/// The MAC address of a next hop of a node.
pub const fn next_hop_mac(node: NodeId, number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr([0x02, 0x5a, 0x20, node.get(), high, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_without_an_origin_and_of_ipv6_are_left_out() {
        let routes = read(&b"# a table\n10.0.0.0/8 7\n2001:db8::/32 1\n192.0.2.0/24\n"[..]).unwrap();
        assert_eq!(routes, [Announcement { prefix: "10.0.0.0/8".parse().unwrap(), origin: 7 }]);
        assert!(matches!(read(&b"# nothing\n"[..]), Err(RoutesError::Empty)));
        assert!(read(&b"10.0.0.1/8 7\n"[..]).unwrap_err().to_string().starts_with("line 1: "));
    }

    #[test]
    fn a_generated_table_is_that_of_its_seed() {
        let routes = generate(5_000, 1_000, 1);
        assert_eq!((routes.len(), generate(5_000, 1_000, 1) == routes), (5_000, true));
        assert!(generate(5_000, 1_000, 2) != routes);
        let exits = Exits { size: ClusterSize::new(4).unwrap(), ports: 2, next_hops: 8 };
        let table = exits.table(&routes, Params::SMALL).unwrap();
        assert_eq!(table.len(), 5_000);
        let mut by_port = [0; 8];
        for route in &routes {
            let mac = exits.of(route.origin);
            by_port[mac.output_node.index() * 2 + mac.port.index()] += 1;
            assert!(mac.next_hop < 8);
        }
        assert!(by_port.iter().all(|count| (400..900).contains(count)), "{by_port:?}");
    }
}
