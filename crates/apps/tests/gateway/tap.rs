//! Captures see forwarded and dropped packets of a node, and never delay it.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::gateway::common::{PEER_MAC, downstream, flows, g_pdu, station, to_gateway, upstream_inner};
use scalebricks_apps::gateway::filter::Filter;
use scalebricks_apps::gateway::flow_tables::{Layout, bulk};
use scalebricks_apps::gateway::{Architecture, Node, NodePorts};
use scalebricks_elements::gateway::{
    Adjacencies, DropReason, Identifications, NodeConfig, OutsideMacs, Policy, PortRole,
};
use scalebricks_graph::tap::{
    Capture, CapturePoint, Direction, DropSelection, Filter as _, MAX_CAPTURES, QUEUE_FRAMES, Selection,
    Taps, TooManyCaptures,
};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed, NodeId, Teid};
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::{MacAddr, ethernet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const CLOCK: Duration = Duration::from_secs(1_700_000_000);

/// An upstream frame of flow `n`.
fn upstream(n: u32, payload: &[u8]) -> Vec<u8> {
    let message = g_pdu(0x8000_0000 + n, &upstream_inner(n, payload), false);
    to_gateway(Policy::default().gateway_address, 2152, &message)
}

/// A request of 192.0.2.1 for 192.0.2.9.
fn arp_request() -> Vec<u8> {
    let request = Arp {
        operation: Operation::Request,
        sender_mac: MacAddr(PEER_MAC),
        sender_ip: Ipv4Addr::new(192, 0, 2, 1),
        target_mac: MacAddr([0; 6]),
        target_ip: Ipv4Addr::new(192, 0, 2, 9),
    };
    let link = ethernet::header(MacAddr([0xff; 6]), MacAddr(PEER_MAC), ethernet::ETHERTYPE_ARP);
    [&link[..], &request.to_bytes()].concat()
}

fn taps() -> Taps {
    Taps::new(|| CLOCK)
}

/// Everything at ports, and every drop.
fn all() -> Selection {
    let ports = PortRole::ALL.map(|role| role as usize).to_vec();
    Selection { ports, drops: DropSelection::All, ..Selection::default() }
}

fn at(role: PortRole, direction: Direction) -> CapturePoint {
    CapturePoint::Port(role as usize, direction)
}

fn drain(capture: &mut Capture) -> Vec<(CapturePoint, Vec<u8>)> {
    std::iter::from_fn(|| capture.take()).map(|frame| (frame.seen, frame.data.to_vec())).collect()
}

/// One node with tapped ports, and their far ends: Internet, base stations.
struct One {
    node: Node<Packet>,
    internet: MemoryPort<Packet>,
    base_station: MemoryPort<Packet>,
    pool: Pool,
}

const MACS: OutsideMacs = OutsideMacs {
    internet: MacAddr([2, 0, 0, 0, 0, 1]),
    base_station: MacAddr([2, 0, 0, 0, 0, 2]),
    router: MacAddr([2, 0, 0, 0, 0, 3]),
};

fn one(taps: &Taps, far_capacity: usize) -> One {
    let (size, policy, seed) = (ClusterSize::new(1).unwrap(), Policy::default(), HashSeed::new(7, 8));
    let flows = flows(8, 1, policy.key_profile);
    let layout = Layout { size, architecture: Architecture::ScaleBricks, gpt: Structure::SetSep, seed };
    let tables = bulk::fill(&layout, size.nodes(), 1, &flows.iter().copied()).unwrap();
    let (internet, far_internet) = memory_port_pair(64);
    let (base_station, far_base_station) = memory_port_pair(far_capacity);
    let (fabric, _) = memory_port_pair(64);
    let ports = NodePorts {
        internet: Box::new(internet),
        base_station: Box::new(base_station),
        fabric: Box::new(fabric),
    };
    let config = NodeConfig {
        appliance: None,
        id: NodeId::new(0),
        size,
        policy,
        seed,
        macs: MACS,
        addresses: std::sync::Arc::new([]),
        adjacencies: std::sync::Arc::new(Adjacencies::fixed(MacAddr::default(), &[0, 1, 2, 3].map(station))),
        identifications: std::sync::Arc::new(Identifications::new(NodeId::new(0), size, 0)),
    };
    let pool = Pool::new(512, 2_000).unwrap();
    let mut node = Node::new(config, tables[0].node_tables(0), ports, Box::new(pool.clone()));
    node.set_taps(taps);
    One { node, internet: far_internet, base_station: far_base_station, pool }
}

impl One {
    fn downstream(&mut self, mut frame: Vec<u8>) {
        assert!(ethernet::set_destination(&mut frame, MACS.internet));
        self.internet.send(self.pool.packet(&frame).unwrap()).unwrap();
    }

    fn upstream(&mut self, mut frame: Vec<u8>) {
        assert!(ethernet::set_destination(&mut frame, MACS.base_station));
        self.base_station.send(self.pool.packet(&frame).unwrap()).unwrap();
    }
}

#[test]
fn a_packet_is_seen_before_and_after_with_its_time() {
    let taps = taps();
    let mut one = one(&taps, 64);
    let mut capture = taps.start(all()).unwrap();
    one.downstream(downstream(0, b"hello"));
    one.node.turn(Duration::ZERO);
    let before = capture.take().unwrap();
    assert_eq!(before.seen, at(PortRole::Internet, Direction::Received));
    assert_eq!((before.at, before.original_len), (CLOCK, before.data.len()));
    assert_eq!(before.data[42..], *b"hello");
    let after = capture.take().unwrap();
    assert_eq!(after.seen, at(PortRole::BaseStation, Direction::Sent));
    assert_eq!(*after.data, *one.base_station.receive().unwrap().data());
    assert_eq!((capture.take(), capture.lost()), (None, 0));
}

#[test]
fn a_drop_is_seen_whole_with_its_reason() {
    let taps = taps();
    let mut one = one(&taps, 64);
    let mut all = taps.start(Selection { drops: DropSelection::All, ..Selection::default() }).unwrap();
    let malformed = CapturePoint::Dropped(DropReason::MalformedInner.name());
    let of = DropSelection::Of(vec![DropReason::MalformedInner.name()]);
    let mut some = taps.start(Selection { drops: of, ..Selection::default() }).unwrap();
    one.downstream(downstream(5_000, b"unpinned"));
    let mut bad_inner = upstream(0, b"x");
    bad_inner[14 + 20 + 8 + 8] = 0x15; // no version of IP
    one.upstream(bad_inner.clone());
    one.node.turn(Duration::ZERO);
    assert!(ethernet::set_destination(&mut bad_inner, MACS.base_station));
    let seen = drain(&mut all);
    assert_eq!(seen.len(), 2);
    assert!(seen.contains(&(malformed.clone(), bad_inner.clone())));
    assert!(seen.iter().any(|(seen, _)| *seen == CapturePoint::Dropped(DropReason::UnknownFlow.name())));
    assert_eq!(drain(&mut some), [(malformed, bad_inner)]);
}

#[test]
fn what_a_port_refused_was_not_sent() {
    let taps = taps();
    let mut one = one(&taps, 3);
    let mut capture = taps.start(Selection { received: false, ..all() }).unwrap();
    for n in 0..5 {
        one.downstream(downstream(n, b""));
    }
    one.node.turn(Duration::ZERO);
    let places: Vec<CapturePoint> = drain(&mut capture).into_iter().map(|(seen, _)| seen).collect();
    let sent = || at(PortRole::BaseStation, Direction::Sent);
    let full = || CapturePoint::Dropped(DropReason::PortFull.name());
    assert_eq!(places, [sent(), sent(), sent(), full(), full()]);
}

#[test]
fn frames_are_cut_and_say_how_long_they_were() {
    let taps = taps();
    let mut one = one(&taps, 64);
    let selection = Selection { snap_bytes: 60, sent: false, ..all() };
    let mut capture = taps.start(selection).unwrap();
    one.downstream(downstream(0, &[7; 500]));
    one.node.turn(Duration::ZERO);
    let frame = capture.take().unwrap();
    assert_eq!((frame.data.len(), frame.original_len), (60, 542));
}

#[test]
fn packets_are_seen_between_elements() {
    let taps = taps();
    let mut one = one(&taps, 64);
    let edges = vec![("from_internet".to_owned(), 0), ("missing".to_owned(), 0)];
    let mut capture = taps.start(Selection { edges, ..Selection::default() }).unwrap();
    one.downstream(downstream(0, b"hello"));
    one.upstream(upstream(0, b"not here"));
    one.node.turn(Duration::ZERO);
    let seen = drain(&mut capture);
    let [(CapturePoint::Edge { from, output: 0 }, data)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((&**from, &data[42..]), ("from_internet", &b"hello"[..]));
}

#[test]
fn a_capture_nobody_reads_loses_frames_and_no_packets() {
    let taps = taps();
    let mut one = one(&taps, 64);
    let sent = || Selection { received: false, ..all() };
    let mut capture = taps.start(sent()).unwrap();
    let offered = QUEUE_FRAMES + 100;
    for _ in 0..offered {
        one.downstream(downstream(0, b""));
        one.node.turn(Duration::ZERO);
        assert!(one.base_station.receive().is_some());
    }
    assert_eq!(capture.lost(), 100);
    assert_eq!(drain(&mut capture).len(), QUEUE_FRAMES);
    one.downstream(downstream(0, b""));
    one.node.turn(Duration::ZERO);
    assert_eq!(drain(&mut capture).len(), 1, "there is room again");
}

#[test]
fn captures_come_and_go_while_a_node_runs() {
    let taps = taps();
    let mut one = one(&taps, 64);
    let mut send = || {
        one.downstream(downstream(0, b""));
        one.node.turn(Duration::ZERO);
        assert!(one.base_station.receive().is_some());
    };
    send();
    let received = || Selection { sent: false, ..all() };
    let mut captures: Vec<Capture> = (0..MAX_CAPTURES).map(|_| taps.start(received()).unwrap()).collect();
    assert_eq!(taps.start(received()).unwrap_err(), TooManyCaptures);
    send();
    assert!(captures.iter_mut().all(|capture| drain(capture).len() == 1));
    captures.pop();
    assert_eq!(taps.running(), MAX_CAPTURES - 1);
    assert!(taps.start(received()).is_ok());
    drop(captures);
    send();
    assert_eq!(taps.running(), 0);
}

#[test]
fn a_filter_looks_at_outer_and_inner_headers_and_at_arp() {
    let host = |host: Ipv4Addr| Filter { host: Some(IpAddr::V4(host)), ..Filter::default() };
    let teid = |teid| Filter { teid: Some(Teid::new(teid)), ..Filter::default() };
    let port = |port| Filter { udp_port: Some(port), ..Filter::default() };
    let (plain, tunnelled) = (downstream(0, b""), upstream(0, b""));
    let request = arp_request();
    let (ue, gateway) = (crate::gateway::common::ue(0), Policy::default().gateway_address);
    for (filter, on_plain, on_tunnelled, on_arp) in [
        (Filter::default(), true, true, true),
        (host(ue), true, true, false),
        (host(gateway), false, true, false),
        (host(Ipv4Addr::new(192, 0, 2, 9)), false, false, true),
        (host(Ipv4Addr::new(192, 0, 2, 8)), false, false, false),
        (teid(0x8000_0000), false, true, false),
        (teid(0x8000_0001), false, false, false),
        (port(53), true, true, false),
        (port(2152), false, true, false),
        (port(54), false, false, false),
        (Filter { teid: Some(Teid::new(0x8000_0000)), ..host(ue) }, false, true, false),
        (Filter { teid: Some(Teid::new(0x8000_0001)), ..host(ue) }, false, false, false),
    ] {
        assert_eq!(filter.matches(&plain), on_plain, "{filter:?}");
        assert_eq!(filter.matches(&tunnelled), on_tunnelled, "{filter:?}");
        assert_eq!(filter.matches(&request), on_arp, "{filter:?}");
        for frame in [&plain, &tunnelled] {
            let cut = (0..frame.len()).filter(|len| filter.matches(&frame[..*len])).count(); // none panics
            assert!(cut <= frame.len());
        }
    }
}
