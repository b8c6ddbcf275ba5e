//! Captures see what passes a node and what it drops, and never hold it up.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::common::{PEER_MAC, downstream, flows, g_pdu, station, to_gateway, upstream_inner};
use scalebricks_apps::gateway::flow_tables::{Layout, bulk};
use scalebricks_apps::gateway::tap::{
    Capture, Direction, DropSelection, Filter, MAX_CAPTURES, Place, QUEUE_FRAMES, Selection, Taps,
    TooManyCaptures,
};
use scalebricks_apps::gateway::{Architecture, Node, NodePorts};
use scalebricks_elements::gateway::{
    Adjacencies, DropReason, Identifications, NodeConfig, OutsideMacs, Policy, PortRole,
};
use scalebricks_io::{Burst, MemoryPort, Packet, PacketBuf, Pool, RxPort, TxPort, memory_port_pair};
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

fn drain(capture: &mut Capture) -> Vec<(Place, Vec<u8>)> {
    std::iter::from_fn(|| capture.take()).map(|frame| (frame.place, frame.data.to_vec())).collect()
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
        internet: Box::new(taps.port(PortRole::Internet, internet)),
        base_station: Box::new(taps.port(PortRole::BaseStation, base_station)),
        fabric: Box::new(taps.port(PortRole::Fabric, fabric)),
    };
    let config = NodeConfig {
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
    node.watch_drops(Box::new(taps.drops()));
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
    let mut capture = taps.start(Selection::all()).unwrap();
    one.downstream(downstream(0, b"hello"));
    one.node.turn(Duration::ZERO);
    let before = capture.take().unwrap();
    assert_eq!(before.place, Place::Port(PortRole::Internet, Direction::Received));
    assert_eq!((before.at, before.original_len), (CLOCK, before.data.len()));
    assert_eq!(before.data[42..], *b"hello");
    let after = capture.take().unwrap();
    assert_eq!(after.place, Place::Port(PortRole::BaseStation, Direction::Sent));
    assert_eq!(*after.data, *one.base_station.receive().unwrap().data());
    assert_eq!((capture.take(), capture.lost()), (None, 0));
}

#[test]
fn a_drop_is_seen_whole_with_its_reason() {
    let taps = taps();
    let mut one = one(&taps, 64);
    let drops = Selection { received: false, sent: false, ..Selection::all() };
    let mut all = taps.start(drops.clone()).unwrap();
    let of = DropSelection::Of(vec![DropReason::MalformedInner]);
    let mut some = taps.start(Selection { drops: of, ..drops }).unwrap();
    one.downstream(downstream(5_000, b"nobody's"));
    let mut bad_inner = upstream(0, b"x");
    bad_inner[14 + 20 + 8 + 8] = 0x15; // no version of IP
    one.upstream(bad_inner.clone());
    one.node.turn(Duration::ZERO);
    assert!(ethernet::set_destination(&mut bad_inner, MACS.base_station));
    let seen = drain(&mut all);
    assert_eq!(seen.len(), 2);
    assert!(seen.contains(&(Place::Dropped(DropReason::MalformedInner), bad_inner.clone())));
    assert!(seen.iter().any(|(place, _)| *place == Place::Dropped(DropReason::UnknownFlow)));
    assert_eq!(drain(&mut some), [(Place::Dropped(DropReason::MalformedInner), bad_inner)]);
}

#[test]
fn what_a_port_refused_was_not_sent() {
    let taps = taps();
    let mut one = one(&taps, 3);
    let mut capture = taps.start(Selection { received: false, ..Selection::all() }).unwrap();
    for n in 0..5 {
        one.downstream(downstream(n, b""));
    }
    one.node.turn(Duration::ZERO);
    let places: Vec<Place> = drain(&mut capture).into_iter().map(|(place, _)| place).collect();
    let sent = Place::Port(PortRole::BaseStation, Direction::Sent);
    let full = Place::Dropped(DropReason::PortFull);
    assert_eq!(places, [sent, sent, sent, full, full]);
}

#[test]
fn frames_are_cut_and_say_how_long_they_were() {
    let taps = taps();
    let mut one = one(&taps, 64);
    let selection = Selection { snap_bytes: 60, sent: false, ..Selection::all() };
    let mut capture = taps.start(selection).unwrap();
    one.downstream(downstream(0, &[7; 500]));
    one.node.turn(Duration::ZERO);
    let frame = capture.take().unwrap();
    assert_eq!((frame.data.len(), frame.original_len), (60, 542));
}

#[test]
fn a_capture_nobody_reads_loses_frames_and_no_packets() {
    let taps = taps();
    let (near, mut far) = memory_port_pair::<Packet>(64);
    let mut port = taps.port(PortRole::Fabric, near);
    let mut capture = taps.start(Selection::all()).unwrap();
    let mut pool = Pool::new(64, 100).unwrap();
    let offered = QUEUE_FRAMES + 100;
    for _ in 0..offered {
        let mut burst: Burst<Packet> = std::iter::once(pool.packet(&[1; 60]).unwrap()).collect();
        assert_eq!(port.tx_burst(&mut burst), 1);
        assert!(far.receive().is_some());
    }
    assert_eq!(capture.lost(), 100);
    assert_eq!(drain(&mut capture).len(), QUEUE_FRAMES);
    far.send(pool.packet(&[2; 60]).unwrap()).unwrap();
    assert_eq!(port.rx_burst(&mut Burst::new()), 1);
    assert_eq!(drain(&mut capture).len(), 1, "there is room again");
}

#[test]
fn captures_come_and_go_while_a_port_is_used() {
    let taps = taps();
    let (near, mut far) = memory_port_pair::<Packet>(64);
    let mut port = taps.port(PortRole::Internet, near);
    let mut pool = Pool::new(64, 100).unwrap();
    let mut send = |port: &mut scalebricks_apps::gateway::tap::Tapped<_>| {
        let mut burst: Burst<Packet> = std::iter::once(pool.packet(&[1; 60]).unwrap()).collect();
        port.tx_burst(&mut burst);
        far.receive();
    };
    send(&mut port);
    let mut captures: Vec<Capture> =
        (0..MAX_CAPTURES).map(|_| taps.start(Selection::all()).unwrap()).collect();
    assert_eq!(taps.start(Selection::all()).unwrap_err(), TooManyCaptures);
    send(&mut port);
    assert!(captures.iter_mut().all(|capture| drain(capture).len() == 1));
    captures.pop();
    assert_eq!(taps.running(), MAX_CAPTURES - 1);
    assert!(taps.start(Selection::all()).is_ok());
    drop(captures);
    send(&mut port);
    assert_eq!(taps.running(), 0);
}

#[test]
fn a_filter_looks_at_outer_and_inner_headers_and_at_arp() {
    let host = |host: Ipv4Addr| Filter { host: Some(IpAddr::V4(host)), ..Filter::default() };
    let teid = |teid| Filter { teid: Some(Teid::new(teid)), ..Filter::default() };
    let port = |port| Filter { udp_port: Some(port), ..Filter::default() };
    let (plain, tunnelled) = (downstream(0, b""), upstream(0, b""));
    let request = arp_request();
    let (ue, gateway) = (crate::common::ue(0), Policy::default().gateway_address);
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
