//! The networks at the ports of all nodes. A next hop is found by the network that contains it.

use scalebricks_control::routes::{Exit, FeederId, IpPrefix, MAX_PATHS, Path, Paths, RouteRib};
use scalebricks_tables::lpm::{Address, Prefix};
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A kind of feeder. Each node has at most one of a kind, so its number follows from both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeederKind {
    /// The networks at the node's ports.
    Connected = 0,
    /// A file of static routes.
    Static = 1,
    /// A BGP speaker.
    Fpm = 2,
}

impl FeederKind {
    /// The feeder of this kind at a node.
    pub const fn at(self, node: NodeId) -> FeederId {
        FeederId((self as u16) << 8 | node.get() as u16)
    }

    /// Its name and node.
    pub fn name_of(feeder: FeederId) -> String {
        let node = feeder.0 & 0xff;
        match feeder.0 >> 8 {
            0 => format!("connected of node {node}"),
            1 => format!("static of node {node}"),
            2 => format!("fpm of node {node}"),
            _ => format!("feeder {}", feeder.0),
        }
    }
}

/// The networks at ports, and the ports that each is at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connected(BTreeMap<IpPrefix, BTreeSet<(NodeId, u8)>>);

impl Connected {
    /// Whether a feeder announces networks at ports.
    pub(crate) const fn is_from(feeder: FeederId) -> bool {
        feeder.0 >> 8 == FeederKind::Connected as u16
    }

    /// The networks that nodes announced. Cost: visits every prefix.
    pub fn of(rib: &RouteRib) -> Self {
        let mut all = Self::default();
        for entry in rib.paths_from(None) {
            for (path, feeder) in entry.paths() {
                if Self::is_from(feeder) && path.exit.next_hop.is_none() {
                    all.0.entry(entry.prefix).or_default().insert((path.exit.node, path.exit.port));
                }
            }
        }
        all
    }

    /// Number of networks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The exits to a neighbour: the ports in the longest network that contains it, at most [`MAX_PATHS`].
    pub fn exits(&self, neighbour: IpAddr) -> Vec<Exit> {
        let ports = match neighbour {
            IpAddr::V4(address) => self.longest(address, IpPrefix::V4),
            IpAddr::V6(address) => self.longest(address, IpPrefix::V6),
        };
        let exit = |(node, port): &(NodeId, u8)| Exit { node: *node, port: *port, next_hop: Some(neighbour) };
        ports.into_iter().flatten().take(MAX_PATHS).map(exit).collect()
    }

    fn longest<A: Address>(
        &self,
        address: A,
        prefix: impl Fn(Prefix<A>) -> IpPrefix,
    ) -> Option<&BTreeSet<(NodeId, u8)>> {
        let prefixes = (0..=A::BITS).rev().filter_map(|length| Prefix::of(address, length).ok());
        prefixes.map(prefix).find_map(|prefix| self.0.get(&prefix))
    }
}

/// The routes that a feeder wants to have in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The paths, by prefix.
    pub paths: BTreeMap<IpPrefix, Paths>,
    /// Next hops that are in no network of a port, and one of them.
    pub unresolved: (u64, Option<IpAddr>),
    /// Paths beyond [`MAX_PATHS`] to a prefix. The best ones are used.
    pub surplus: u64,
}

impl Wanted {
    /// The paths to a prefix over these next hops, each with its preference.
    pub fn add(
        &mut self,
        connected: &Connected,
        prefix: IpPrefix,
        next_hops: impl IntoIterator<Item = (IpAddr, u32)>,
    ) {
        let mut paths = BTreeSet::new();
        for (next_hop, preference) in next_hops {
            let exits = connected.exits(next_hop);
            if exits.is_empty() {
                self.unresolved.0 += 1;
                self.unresolved.1.get_or_insert(next_hop);
            }
            paths.extend(exits.into_iter().map(|exit| Path { preference, exit }));
        }
        self.surplus += paths.len().saturating_sub(MAX_PATHS) as u64;
        if let Ok(paths) = Paths::new(paths.into_iter().take(MAX_PATHS)) {
            self.paths.insert(prefix, paths);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_control::routes::{RouteBatch, RouteChanges, RouteRecord};
    use scalebricks_types::NodeSet;

    fn connected(nets: &[(&str, u8, u8)]) -> Connected {
        let mut rib = RouteRib::new(NodeSet::EMPTY);
        for (net, node, port) in nets {
            let prefix = net.parse().map(IpPrefix::V4).or_else(|_| net.parse().map(IpPrefix::V6)).unwrap();
            let exit = Exit { node: NodeId::new(*node), port: *port, next_hop: None };
            let paths = Paths::new([Path { preference: 0, exit }]).unwrap();
            let feeder = FeederKind::Connected.at(NodeId::new(*node));
            let batch = RouteBatch(vec![RouteRecord::Announce(feeder, prefix, paths)]);
            rib.apply(&batch, &mut RouteChanges::default());
        }
        Connected::of(&rib)
    }

    #[test]
    fn a_neighbour_is_at_the_ports_in_its_longest_network() {
        let all = connected(&[
            ("192.0.2.0/24", 0, 0),
            ("192.0.2.0/25", 1, 3),
            ("192.0.2.0/25", 2, 1),
            ("2001:db8::/64", 3, 0),
        ]);
        assert_eq!(all.len(), 3);
        let at = |text: &str| {
            let address = text.parse().unwrap();
            let exits = all.exits(address);
            assert!(exits.iter().all(|exit| exit.next_hop == Some(address)));
            exits.iter().map(|exit| (exit.node.get(), exit.port)).collect::<Vec<_>>()
        };
        assert_eq!(at("192.0.2.200"), [(0, 0)]);
        assert_eq!(at("192.0.2.1"), [(1, 3), (2, 1)]);
        assert_eq!(at("2001:db8::1"), [(3, 0)]);
        assert_eq!(at("198.51.100.1"), []);
    }

    #[test]
    fn what_has_no_port_or_is_too_much_is_counted() {
        let nets: Vec<(&str, u8, u8)> = (0..12).map(|node| ("192.0.2.0/24", node, 0)).collect();
        let all = connected(&nets);
        let mut wanted = Wanted::default();
        let prefix = IpPrefix::V4("10.0.0.0/8".parse().unwrap());
        let hops = ["192.0.2.1", "192.0.2.2", "198.51.100.1"].map(|hop| (hop.parse().unwrap(), 1));
        wanted.add(&all, prefix, hops);
        wanted.add(&all, IpPrefix::V4("11.0.0.0/8".parse().unwrap()), [hops[2]]);
        assert_eq!(wanted.paths[&prefix].as_slice().len(), MAX_PATHS);
        assert_eq!((wanted.paths.len(), wanted.surplus), (1, 8));
        assert_eq!(wanted.unresolved, (2, Some(hops[2].0)));
    }

    #[test]
    fn feeders_have_their_own_numbers() {
        let node = NodeId::new(255);
        assert_eq!(
            [FeederKind::Connected, FeederKind::Static, FeederKind::Fpm].map(|kind| kind.at(node).0),
            [255, 511, 767]
        );
        assert_eq!(FeederKind::name_of(FeederId(511)), "static of node 255");
        assert!(Connected::is_from(FeederId(255)) && !Connected::is_from(FeederId(256)));
    }
}
