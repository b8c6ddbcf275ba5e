//! Builds the fixed part of the next hops from the configuration, and snapshots from the neighbours.

use super::config::Route;
use super::link::OutsideLink;
use super::neighbours::{Key, Neighbours};
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::outside::adjacency::{
    Adjacencies, LinkRoutes, Net, NextHopGroup, RouteTables, Stations, Table, Target,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Networks, routes and base stations, with the addresses of each group's next hops.
#[derive(Debug)]
pub(super) struct Layout {
    shape: Arc<RouteTables>,
    /// The next hops of each group.
    groups: Vec<Vec<Key>>,
}

impl Layout {
    pub(super) fn new(routes: &[Route], base_stations: &[Ipv4Addr], links: &[OutsideLink; 2]) -> Self {
        let mut groups = Groups::default();
        let shapes = links.each_ref().map(|link| link_shape(routes, link, &mut groups));
        let [_, ran] = &shapes;
        let base_stations =
            base_stations.iter().map(|station| (*station, station_target(*station, ran, &mut groups)));
        let base_stations = base_stations.collect();
        Self { shape: Arc::new(RouteTables { links: shapes, base_stations }), groups: groups.list }
    }

    /// Every next hop and base station on a link, without duplicates.
    pub(super) fn wanted(&self) -> BTreeSet<Key> {
        self.groups.iter().flatten().copied().collect()
    }

    /// Whether a neighbour can have this address, which must be in a network of the link.
    pub(super) fn may_be_neighbour(&self, (link, address): Key) -> bool {
        let shape = self.shape.links.get(usize::from(link));
        shape.is_some_and(|shape| shape.no_neighbours.binary_search(&address).is_err())
    }

    /// The current snapshot. Cost: linear in groups and neighbours.
    pub(super) fn snapshot(&self, neighbours: &Neighbours) -> Adjacencies {
        let group = |hops: &Vec<Key>| {
            let known: Vec<_> = hops.iter().filter_map(|hop| neighbours.mac(hop)).collect();
            NextHopGroup::new(&known, hops.first().map(|(_, address)| *address))
        };
        let mut stations = <[Stations; 2]>::default();
        for (&(link, address), entry) in neighbours.iter() {
            let (Some(mac), Some(stations)) = (entry.mac, stations.get_mut(usize::from(link))) else {
                continue;
            };
            match address {
                IpAddr::V4(address) => stations.v4.push((address.to_bits(), mac)),
                IpAddr::V6(address) => stations.v6.push((address.to_bits(), mac)),
            }
        }
        Adjacencies::new(Arc::clone(&self.shape), self.groups.iter().map(group).collect(), stations)
    }
}

/// Groups of next hops. Routes with the same next hops share a group.
#[derive(Default)]
struct Groups {
    list: Vec<Vec<Key>>,
    known: BTreeMap<Vec<Key>, u32>,
}

impl Groups {
    fn target(&mut self, hops: Vec<Key>) -> Target {
        if hops.is_empty() {
            return Target::Nowhere;
        }
        let Self { list, known } = self;
        let next = list.len() as u32; // one per route or base station
        Target::NextHopGroup(*known.entry(hops).or_insert_with_key(|hops| {
            list.push(hops.clone());
            next
        }))
    }
}

fn link_shape(routes: &[Route], link: &OutsideLink, groups: &mut Groups) -> LinkRoutes {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    let mut no_neighbours = BTreeSet::new();
    let mut add = |(network, len): (IpAddr, u8), target| match network {
        IpAddr::V4(network) => v4.push((Net::new(network.to_bits(), len), target)),
        IpAddr::V6(network) => v6.push((Net::new(network.to_bits(), len), target)),
    };
    for &(own, len) in link.addresses() {
        add((own, len), Target::OnLink);
        no_neighbours.insert(own);
        if let IpAddr::V4(own) = own {
            no_neighbours.extend(ends(own, len));
        }
    }
    for route in routes.iter().filter(|route| route.port == link.port) {
        let is_usable = |hop: &IpAddr| {
            let is_on_link = link.source(*hop).is_some();
            hop.is_ipv4() == route.to.0.is_ipv4() && is_on_link && !no_neighbours.contains(hop)
        };
        let hops: BTreeSet<IpAddr> = route.via.iter().copied().filter(is_usable).collect();
        add(route.to, groups.target(hops.into_iter().map(|hop| (link.port as u8, hop)).collect()));
    }
    LinkRoutes {
        v4: Table::new(&v4),
        v6: Table::new(&v6),
        no_neighbours: no_neighbours.into_iter().collect(),
    }
}

/// The first and the last address of a network, which no host has (RFC 1122 §3.2.1.3); a network of one or two
/// addresses has neither (RFC 3021).
fn ends(own: Ipv4Addr, len: u8) -> impl Iterator<Item = IpAddr> {
    let host_bits = u32::MAX.checked_shr(u32::from(len)).unwrap_or(0);
    let ends = [own.to_bits() & !host_bits, own.to_bits() | host_bits];
    ends.into_iter().filter(move |_| len <= 30).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
}

fn station_target(station: Ipv4Addr, ran: &LinkRoutes, groups: &mut Groups) -> Target {
    let address = IpAddr::V4(station);
    match ran.v4.lookup(station.to_bits()) {
        // Its own group: found without a search.
        Target::OnLink if ran.no_neighbours.binary_search(&address).is_err() => {
            groups.target(vec![(OutputPort::BaseStation as u8, address)])
        }
        Target::OnLink => Target::Nowhere,
        routed => routed,
    }
}
