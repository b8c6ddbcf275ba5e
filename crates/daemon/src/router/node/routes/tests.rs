//! The published tables against the RIB.

use super::connected::FeederKind;
use super::*;
use proptest::prelude::*;
use scalebricks_control::routes::{CONNECTED, Exit, IpPrefix, Path, Paths};
use scalebricks_elements::fabric::mac::{ExternalPort, RouterMac};
use scalebricks_tables::lpm::{Lpm, NextHop, Params};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::net::IpAddr;

type Hops = Arc<Mutex<BTreeMap<u16, (ExternalPort, IpAddr)>>>;

/// Routes of node 0, with what its table of next hops would hold.
fn shared(alive: &[u8], params: Params) -> (SharedRoutes, Hops) {
    let hops = Hops::default();
    let sink = Arc::clone(&hops);
    let set = move |number, neighbour| {
        let mut hops = sink.lock().unwrap();
        match neighbour {
            Some(neighbour) => hops.insert(number, neighbour),
            None => hops.remove(&number),
        };
    };
    let (v4, v6) = (Arc::new(Lpm::new(params)), Arc::new(Lpm::new(params)));
    let tables = RouteTables::new(NodeId::new(0), v4, v6, Box::new(set));
    (SharedRoutes::new(nodes(alive), tables), hops)
}

fn nodes(nodes: &[u8]) -> NodeSet {
    nodes.iter().copied().map(NodeId::new).collect()
}

fn prefix(text: &str) -> IpPrefix {
    text.parse().map(IpPrefix::V4).or_else(|_| text.parse().map(IpPrefix::V6)).unwrap()
}

fn exit(node: u8, port: u8, host: u8) -> Exit {
    let next_hop = (host > 0).then(|| IpAddr::from([192, 0, 2, host]));
    Exit { node: NodeId::new(node), port, next_hop }
}

fn announce(kind: FeederKind, node: u8, net: &str, exits: &[(u32, Exit)]) -> RouteRecord {
    let paths = exits.iter().map(|(preference, exit)| Path { preference: *preference, exit: *exit });
    RouteRecord::Announce(kind.at(NodeId::new(node)), prefix(net), Paths::new(paths).unwrap())
}

/// What a table holds, by prefix.
fn table(routes: &SharedRoutes) -> BTreeMap<IpPrefix, NextHop> {
    let mut all = BTreeMap::new();
    let state = routes.lock();
    state.tables.v4().for_each(|prefix, hop| drop(all.insert(IpPrefix::V4(prefix), hop)));
    state.tables.v6().for_each(|prefix, hop| drop(all.insert(IpPrefix::V6(prefix), hop)));
    all
}

/// The tables are those of the RIB, and the next hops are those of node 0.
fn check(routes: &SharedRoutes, hops: &Hops) {
    let state = routes.lock();
    let hop = |exit: scalebricks_control::routes::NumberedExit| {
        let port = ExternalPort::new(exit.exit.port)?;
        Some(RouterMac::new(exit.exit.node, port, exit.number).hop())
    };
    let wanted: BTreeMap<IpPrefix, NextHop> =
        state.rib.routes().filter_map(|(prefix, exit)| Some((prefix, hop(exit)?))).collect();
    let unusable = state.rib.routes().filter(|(_, exit)| exit.exit.port > 63).count();
    assert_eq!(state.tables.missing(), unusable);
    let own: BTreeMap<_, _> = state
        .rib
        .next_hops()
        .filter(|hop| hop.exit.node == NodeId::new(0))
        .filter_map(|hop| Some((hop.number, (ExternalPort::new(hop.exit.port)?, hop.exit.next_hop?))))
        .collect();
    assert_eq!(state.tables.own_hops(), &own);
    drop(state);
    assert_eq!(table(routes), wanted);
    assert_eq!(*hops.lock().unwrap(), own);
}

#[test]
fn the_number_of_destinations_at_a_port_is_the_one_that_elements_know() {
    assert_eq!(CONNECTED, scalebricks_elements::fabric::next_hops::CONNECTED);
}

#[test]
fn routes_move_from_a_dead_node_and_come_back() {
    let (routes, hops) = shared(&[0, 1, 2], Params::SMALL);
    let records = vec![
        announce(FeederKind::Connected, 0, "192.0.2.0/25", &[(0, exit(0, 0, 0))]),
        announce(FeederKind::Static, 0, "10.0.0.0/8", &[(1, exit(1, 0, 9)), (2, exit(0, 0, 7))]),
        announce(FeederKind::Static, 0, "2001:db8::/32", &[(1, exit(1, 2, 9))]),
    ];
    assert_eq!(routes.apply(&RouteBatch(records)).applied, 3);
    check(&routes, &hops);
    assert_eq!(table(&routes).len(), 3);
    assert_eq!(routes.set_alive(nodes(&[0, 2])), 2, "one moves, one is withdrawn");
    check(&routes, &hops);
    let all = table(&routes);
    assert_eq!((all.len(), all[&prefix("10.0.0.0/8")].index()), (2, 0), "node 0, port 0, its next hop 0");
    assert_eq!(routes.set_alive(nodes(&[0, 2])), 0, "nothing new");
    assert_eq!((routes.set_alive(nodes(&[0, 1, 2])), routes.lock().walks), (2, 2));
    check(&routes, &hops);
}

#[test]
fn a_full_table_keeps_what_is_missing_and_takes_it_when_there_is_room() {
    // Each prefix needs blocks of its own.
    let params = Params::new(8, 64 << 10).unwrap();
    let (routes, _) = shared(&[0], params);
    let net = |number: u16| format!("10.{}.{}.64/26", number >> 8, number & 0xff);
    let records = |from: u16, to: u16| {
        let one = |number| announce(FeederKind::Static, 0, &net(number), &[(1, exit(0, 0, 9))]);
        RouteBatch((from..to).map(one).collect())
    };
    routes.apply(&records(0, 2_000));
    let (stored, missing) = (table(&routes).len(), routes.lock().tables.missing());
    assert!(stored > 100 && missing > 100 && stored + missing == 2_000, "{stored} {missing}");
    let gone = |number| RouteRecord::Withdraw(FeederKind::Static.at(NodeId::new(0)), prefix(&net(number)));
    routes.apply(&RouteBatch((0..1_900).map(gone).collect()));
    assert_eq!((table(&routes).len(), routes.lock().tables.missing()), (100, 0));
}

#[test]
fn a_port_that_no_node_can_have_is_in_no_table() {
    let (routes, hops) = shared(&[0], Params::SMALL);
    routes.apply(&RouteBatch(vec![announce(FeederKind::Static, 0, "10.0.0.0/8", &[(1, exit(0, 64, 9))])]));
    check(&routes, &hops);
    assert_eq!((table(&routes).len(), routes.lock().tables.missing()), (0, 1));
}

#[test]
fn feeders_hear_of_new_networks_and_when_routes_are_read_again() {
    let (routes, _) = shared(&[0], Params::SMALL);
    let mut connected = routes.connected();
    connected.mark_unchanged();
    routes.apply(&RouteBatch(vec![announce(FeederKind::Static, 0, "10.0.0.0/8", &[(1, exit(0, 0, 9))])]));
    assert!(!connected.has_changed().unwrap());
    let net = announce(FeederKind::Connected, 1, "192.0.2.0/24", &[(0, exit(1, 4, 0))]);
    routes.apply(&RouteBatch(vec![net.clone()]));
    assert!(connected.has_changed().unwrap());
    assert_eq!(connected.borrow_and_update().exits([192, 0, 2, 9].into()), [exit(1, 4, 9)]);
    routes.apply(&RouteBatch(vec![net]));
    assert!(!connected.has_changed().unwrap(), "the same again");
    let rib = routes.lock().rib.clone();
    routes.replace(rib);
    assert!(connected.has_changed().unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is logged, and whoever is alive, the tables are those of the RIB; also after a snapshot took its place.
    #[test]
    fn the_tables_follow_the_rib(
        steps in prop::collection::vec((0..4u8, 0..6u8, 0..3u8, prop::sample::select(vec![0, 1, 2, 64]), 0..4u8, 0..3u32), 1..60),
    ) {
        let nets = ["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.0/24"];
        let (routes, hops) = shared(&[0, 1, 2], Params::SMALL);
        let mut earlier = routes.lock().rib.clone();
        for (kind, net, node, port, host, preference) in steps {
            let net = nets[usize::from(net)];
            let feeder = FeederKind::Static.at(NodeId::new(node));
            match kind {
                0 => drop(routes.set_alive(nodes(&[0, node, host]))),
                1 => drop(routes.apply(&RouteBatch(vec![RouteRecord::Withdraw(feeder, prefix(net))]))),
                2 => {
                    let now = routes.lock().rib.clone();
                    if host == 0 {
                        routes.replace(std::mem::replace(&mut earlier, now));
                    }
                }
                _ => {
                    let exits = [(preference, exit(node, port, host)), (preference + 1, exit(host % 3, 0, host))];
                    drop(routes.apply(&RouteBatch(vec![announce(FeederKind::Static, node, net, &exits)])));
                }
            }
            check(&routes, &hops);
        }
    }
}
