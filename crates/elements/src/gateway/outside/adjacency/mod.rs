//! Next hops on the outside links: an immutable snapshot that the fast path reads.
//!
//! The slow path ([`LocalStack`]) makes a new snapshot when it learns more; a node takes the newest once per turn
//! ([`set_adjacencies`](crate::gateway::settings::set_adjacencies)). Networks and next hops come from the configuration
//! and are shared by all snapshots. Only resolved MAC addresses change, and the node's own addresses, as it may take
//! over another node's ([`Claims`](crate::gateway::local::Claims)).
//!
//! [`LocalStack`]: crate::gateway::local::LocalStack

mod table;

pub(crate) use table::{Net, Table, Target};

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::flow::{BaseStation, BaseStationId};
use crate::gateway::outside::local_addrs::LocalAddresses;
use scalebricks_wire::MacAddr;
use scalebricks_wire::scope::is_forwarded;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The station on the link to which a packet goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// Resolved, with its MAC address.
    Via(MacAddr),
    /// Known by its IP address only; its MAC address must be resolved.
    Ask(IpAddr),
    /// There is no route.
    NoRoute,
}

impl NextHop {
    /// Its MAC address, or zeros until it is known.
    #[inline]
    pub const fn mac(self) -> MacAddr {
        match self {
            Self::Via(mac) => mac,
            Self::Ask(_) | Self::NoRoute => MacAddr([0; 6]),
        }
    }
}

/// The configured part, which does not change with the neighbours.
#[derive(Debug)]
pub(crate) struct RouteTables {
    /// By [`OutputPort`].
    pub(crate) links: [LinkRoutes; 2],
    /// Each base station's tunnel address and its target.
    pub(crate) base_stations: Box<[(Ipv4Addr, Target)]>,
}

/// The networks reachable through one link.
#[derive(Debug)]
pub(crate) struct LinkRoutes {
    pub(crate) v4: Table<u32>,
    pub(crate) v6: Table<u128>,
    /// Addresses in the link's networks that no neighbour has: the node's own, and the first and last of each IPv4
    /// network. Sorted.
    pub(crate) no_neighbours: Box<[IpAddr]>,
}

/// A group of equal next hops, as far as they are resolved.
#[derive(Debug)]
pub(crate) enum NextHopGroup {
    /// One resolved next hop.
    Via(MacAddr),
    /// Several; the flow's hash selects one.
    Spread(Box<[MacAddr]>),
    /// None is resolved; resolve this one.
    Ask(IpAddr),
    /// The group is empty.
    Nowhere,
}

impl NextHopGroup {
    /// The group of these MAC addresses, or of `ask` if there are none.
    pub(crate) fn new(macs: &[MacAddr], ask: Option<IpAddr>) -> Self {
        match (macs, ask) {
            ([mac], _) => Self::Via(*mac),
            ([], Some(address)) => Self::Ask(address),
            ([], None) => Self::Nowhere,
            (macs, _) => Self::Spread(macs.into()),
        }
    }

    #[inline]
    fn next_hop(&self, hash: u64) -> NextHop {
        match self {
            Self::Via(mac) => NextHop::Via(*mac),
            Self::Spread(macs) => {
                // Mixed again: the handling node may depend on the flow's hash, and a node's flows must not all take
                // one path.
                let drawn = u128::from(hash.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                let at = (drawn * macs.len() as u128) >> 64;
                macs.get(at as usize).map_or(NextHop::NoRoute, |mac| NextHop::Via(*mac))
            }
            Self::Ask(address) => NextHop::Ask(*address),
            Self::Nowhere => NextHop::NoRoute,
        }
    }
}

/// The stations known on one link, sorted by address: lookup takes few steps whatever their number, and no choice of
/// addresses makes it slower.
#[derive(Debug, Default)]
pub(crate) struct Stations {
    pub(crate) v4: Vec<(u32, MacAddr)>,
    pub(crate) v6: Vec<(u128, MacAddr)>,
}

impl Stations {
    fn find(&self, address: IpAddr) -> Option<MacAddr> {
        fn find<A: Ord>(stations: &[(A, MacAddr)], address: &A) -> Option<MacAddr> {
            let at = stations.binary_search_by(|(known, _)| known.cmp(address)).ok()?;
            stations.get(at).map(|(_, mac)| *mac)
        }
        match address {
            IpAddr::V4(address) => find(&self.v4, &address.to_bits()),
            IpAddr::V6(address) => find(&self.v6, &address.to_bits()),
        }
    }
}

/// A base station and its only next hop, if there is exactly one: in one place because nearly every downstream packet
/// needs it.
#[derive(Debug, Clone, Copy)]
struct Station {
    address: Ipv4Addr,
    mac: Option<MacAddr>,
}

/// A snapshot of all next hops.
#[derive(Debug)]
pub struct Adjacencies {
    shape: Arc<RouteTables>,
    base_stations: Box<[Station]>,
    groups: Box<[NextHopGroup]>,
    /// By [`OutputPort`].
    stations: [Stations; 2],
    /// See [`Self::is_strict`].
    is_strict: bool,
    /// The addresses that the node answers for on the Internet link, if they may change.
    own: Option<LocalAddresses>,
}

impl Adjacencies {
    /// A snapshot. The stations of each link must be sorted by address.
    pub(crate) fn new(shape: Arc<RouteTables>, groups: Box<[NextHopGroup]>, stations: [Stations; 2]) -> Self {
        Self { shape, base_stations: Box::default(), groups, stations, is_strict: true, own: None }
            .with_base_stations()
    }

    /// The same snapshot with the node's current addresses on the Internet link.
    pub(crate) fn with_own(self, own: LocalAddresses) -> Self {
        Self { own: Some(own), ..self }
    }

    /// The addresses that the node answers for on the Internet link, if they may change.
    pub(crate) const fn own(&self) -> Option<&LocalAddresses> {
        self.own.as_ref()
    }

    /// Whether the node forwards only what a router may: not from or to a link-local address (RFC 4291 §2.5.6, RFC 3927
    /// §7), and not to the destinations that [`Self::internet`] lists. Always true on real links. The in-memory cluster
    /// ([`Self::fixed`]) has no links to which an address could be local, and checks only the destination of packets to
    /// a UE.
    pub(crate) const fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Adds the combined base-station entries.
    fn with_base_stations(self) -> Self {
        let station = |&(address, target): &(Ipv4Addr, Target)| {
            let mac = match target {
                Target::NextHopGroup(group) => self.via(group),
                Target::OnLink => self.stations[OutputPort::BaseStation as usize].find(IpAddr::V4(address)),
                Target::Nowhere => None,
            };
            Station { address, mac }
        };
        let base_stations = self.shape.base_stations.iter().map(station).collect();
        Self { base_stations, ..self }
    }

    /// Everything resolved: one router for the whole Internet, and each base station on the link itself.
    pub fn fixed(router: MacAddr, base_stations: &[BaseStation]) -> Self {
        let all = Target::NextHopGroup(0);
        let station = |(n, station): (u32, &BaseStation)| (station.address, Target::NextHopGroup(n));
        let base_stations_at: Box<[_]> = (1..).zip(base_stations).map(station).collect();
        let ran: Vec<_> = base_stations_at
            .iter()
            .map(|(address, target)| (Net::new(address.to_bits(), 32), *target))
            .collect();
        let internet = LinkRoutes {
            v4: Table::new(&[(Net::new(0, 0), all)]),
            v6: Table::new(&[(Net::new(0, 0), all)]),
            no_neighbours: Box::default(),
        };
        let ran = LinkRoutes { v4: Table::new(&ran), v6: Table::new(&[]), no_neighbours: Box::default() };
        let macs = std::iter::once(router).chain(base_stations.iter().map(|station| station.mac));
        Self {
            shape: Arc::new(RouteTables { links: [internet, ran], base_stations: base_stations_at }),
            base_stations: Box::default(),
            groups: macs.map(NextHopGroup::Via).collect(),
            stations: <[Stations; 2]>::default(),
            is_strict: false,
            own: None,
        }
        .with_base_stations()
    }

    /// The next hop of an IP packet on the Internet link; the flow's `hash` selects among equal ones. Flows may change
    /// their path when a next hop comes or goes.
    ///
    /// Destinations that no router forwards to have none: "this" network, loopback, link-local, multicast, class E (RFC
    /// 1812 §5.3.7, RFC 4291 §2.5.3 and §2.5.6).
    #[inline]
    pub fn internet(&self, dst: IpAddr, hash: u64) -> NextHop {
        if self.is_strict && !is_forwarded(dst) {
            return NextHop::NoRoute;
        }
        self.next_hop(OutputPort::Internet, dst, hash)
    }

    /// [`Self::internet`] where the result is [`NextHop::Via`] the only next hop of a route; otherwise `None`.
    #[inline(always)]
    pub(crate) fn internet_via(&self, dst: Ipv4Addr) -> Option<MacAddr> {
        if self.is_strict && !is_forwarded(IpAddr::V4(dst)) {
            return None;
        }
        match self.shape.links[OutputPort::Internet as usize].v4.lookup(dst.to_bits()) {
            Target::NextHopGroup(group) => self.via(group),
            _ => None,
        }
    }

    /// The next hop of a group that has exactly one, resolved.
    #[inline(always)]
    fn via(&self, group: u32) -> Option<MacAddr> {
        match self.groups.get(group as usize)? {
            NextHopGroup::Via(mac) => Some(*mac),
            _ => None,
        }
    }

    /// [`Self::base_station`] where the result is [`NextHop::Via`] the only path; otherwise `None`. Cost: one cache
    /// line.
    #[inline(always)]
    pub(crate) fn base_station_via(&self, id: BaseStationId) -> Option<(Ipv4Addr, MacAddr)> {
        let station = self.base_stations.get(usize::from(id.0))?;
        Some((station.address, station.mac?))
    }

    /// A base station's tunnel address and the next hop towards it; `None` if there is no such base station.
    pub fn base_station(&self, id: BaseStationId, hash: u64) -> Option<(Ipv4Addr, NextHop)> {
        let &(address, target) = self.shape.base_stations.get(usize::from(id.0))?;
        Some((address, self.follow(OutputPort::BaseStation, target, IpAddr::V4(address), hash)))
    }

    /// The next hop of any address on the base-station link, for the node's own answers.
    pub fn ran(&self, dst: IpAddr, hash: u64) -> NextHop {
        self.next_hop(OutputPort::BaseStation, dst, hash)
    }

    /// The next hop of any address on a link, including link-local ones.
    #[inline]
    pub(crate) fn next_hop(&self, port: OutputPort, dst: IpAddr, hash: u64) -> NextHop {
        let link = &self.shape.links[port as usize];
        let target = match dst {
            IpAddr::V4(dst) => link.v4.lookup(dst.to_bits()),
            IpAddr::V6(dst) => link.v6.lookup(dst.to_bits()),
        };
        self.follow(port, target, dst, hash)
    }

    #[inline]
    fn follow(&self, port: OutputPort, target: Target, dst: IpAddr, hash: u64) -> NextHop {
        match target {
            Target::NextHopGroup(group) => {
                self.groups.get(group as usize).map_or(NextHop::NoRoute, |group| group.next_hop(hash))
            }
            Target::OnLink => self.on_link(port, dst),
            Target::Nowhere => NextHop::NoRoute,
        }
    }

    fn on_link(&self, port: OutputPort, dst: IpAddr) -> NextHop {
        if let Some(mac) = self.stations[port as usize].find(dst) {
            return NextHop::Via(mac);
        }
        let is_absent = self.shape.links[port as usize].no_neighbours.binary_search(&dst).is_ok();
        if is_absent { NextHop::NoRoute } else { NextHop::Ask(dst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(n: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, n])
    }

    #[test]
    fn fixed_ones_know_all() {
        let stations: Vec<_> =
            (1..=20).map(|n| BaseStation { address: [10, 0, 0, n].into(), mac: mac(n) }).collect();
        let all = Adjacencies::fixed(mac(99), &stations);
        for dst in ["8.8.8.8", "224.0.0.1", "2001:db8::1", "fe80::1"] {
            assert_eq!(all.internet(dst.parse().unwrap(), 7), NextHop::Via(mac(99)));
            if let Ok(dst) = dst.parse() {
                assert_eq!(all.internet_via(dst), Some(mac(99)));
            }
        }
        for n in 1..=20 {
            let address = Ipv4Addr::new(10, 0, 0, n);
            let station = all.base_station(BaseStationId(u16::from(n) - 1), 7);
            assert_eq!(station, Some((address, NextHop::Via(mac(n)))));
            assert_eq!(all.base_station_via(BaseStationId(u16::from(n) - 1)), Some((address, mac(n))));
            assert_eq!(all.ran(address.into(), 7), NextHop::Via(mac(n)));
        }
        assert_eq!(all.base_station(BaseStationId(20), 7), None);
        assert_eq!(all.ran([10, 0, 0, 21].into(), 7), NextHop::NoRoute);
    }

    #[test]
    fn the_short_ways_agree_with_the_long_ones() {
        let net = |address: &str, len| Net::new(address.parse::<Ipv4Addr>().unwrap().to_bits(), len);
        let link = |nets: &[(Net<u32>, Target)]| LinkRoutes {
            v4: Table::new(nets),
            v6: Table::new(&[]),
            no_neighbours: Box::default(),
        };
        let internet = link(&[
            (net("10.1.0.0", 16), Target::NextHopGroup(0)),
            (net("10.2.0.0", 16), Target::NextHopGroup(1)),
            (net("10.3.0.0", 16), Target::NextHopGroup(2)),
            (net("10.4.0.0", 16), Target::NextHopGroup(3)),
            (net("10.5.0.0", 16), Target::OnLink),
            (net("10.6.0.0", 16), Target::Nowhere),
            (net("127.0.0.0", 8), Target::NextHopGroup(0)),
        ]);
        let at = |n| Ipv4Addr::new(172, 16, 0, n);
        let targets = [
            Target::NextHopGroup(0),
            Target::NextHopGroup(1),
            Target::NextHopGroup(2),
            Target::OnLink,
            Target::OnLink,
        ];
        let base_stations = (0..).map(at).zip(targets).collect();
        let groups = [
            NextHopGroup::Via(mac(1)),
            NextHopGroup::new(&[mac(2), mac(3)], None),
            NextHopGroup::Ask([10, 0, 0, 9].into()),
            NextHopGroup::Nowhere,
        ];
        let known = |address: Ipv4Addr, n| Stations { v4: vec![(address.to_bits(), mac(n))], v6: vec![] };
        let stations = [known(Ipv4Addr::new(10, 5, 0, 1), 4), known(at(3), 5)];
        let shape = RouteTables { links: [internet, link(&[])], base_stations };
        let all = Adjacencies::new(Arc::new(shape), groups.into(), stations);

        let of = |dst: [u8; 4]| (all.internet(dst.into(), 7), all.internet_via(dst.into()));
        assert_eq!(of([10, 1, 0, 1]), (NextHop::Via(mac(1)), Some(mac(1))));
        assert!(matches!(of([10, 2, 0, 1]), (NextHop::Via(_), None)), "the hash has to pick");
        assert!(matches!(of([10, 3, 0, 1]), (NextHop::Ask(_), None)));
        assert_eq!(of([10, 4, 0, 1]), (NextHop::NoRoute, None));
        assert_eq!(of([10, 5, 0, 1]), (NextHop::Via(mac(4)), None), "found among the stations");
        assert!(matches!(of([10, 5, 0, 2]), (NextHop::Ask(_), None)));
        assert_eq!(of([10, 6, 0, 1]), (NextHop::NoRoute, None));
        assert_eq!(of([127, 0, 0, 1]), (NextHop::NoRoute, None), "no router forwards there");

        let of = |n| (all.base_station(BaseStationId(n), 7), all.base_station_via(BaseStationId(n)));
        assert_eq!(of(0), (Some((at(0), NextHop::Via(mac(1)))), Some((at(0), mac(1)))));
        assert!(matches!(of(1), (Some((_, NextHop::Via(_))), None)), "the hash has to pick");
        assert!(matches!(of(2), (Some((_, NextHop::Ask(_))), None)));
        assert_eq!(of(3), (Some((at(3), NextHop::Via(mac(5)))), Some((at(3), mac(5)))));
        assert!(matches!(of(4), (Some((_, NextHop::Ask(_))), None)));
        assert_eq!(of(5), (None, None));
    }

    #[test]
    fn equal_next_hops_share_the_flows() {
        let group = NextHopGroup::new(&[mac(1), mac(2), mac(3)], None);
        let mut flows = [0; 4];
        for hash in 0..3_000_u64 {
            // Flows of one node: their hashes share the high bits.
            let NextHop::Via(MacAddr([.., n])) = group.next_hop(7 << 60 | hash << 3) else { panic!() };
            flows[usize::from(n)] += 1;
        }
        assert!(flows[1..].iter().all(|n| (900..1_100).contains(n)), "{flows:?}");
    }
}
