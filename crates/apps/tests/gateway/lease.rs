//! A node with an expired lease forwards nothing, drops packets for a named reason, and sends nothing on its links.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::gateway::common::{bench, downstream, g_pdu, to_gateway, upstream_inner};
use crate::gateway::lab::{INTERNET, Lab, OWN, ROUTERS, arp_request, config, read_arp};
use etherparse::PacketBuilder;
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::local::Consumed;
use scalebricks_elements::gateway::{DropReason, Lease, OutputPort, Policy};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DOWN: OutputPort = OutputPort::BaseStation;
const UP: OutputPort = OutputPort::Internet;
const ARCHITECTURES: [Architecture; 4] = [
    Architecture::ScaleBricks,
    Architecture::HashPartition,
    Architecture::FullDuplication,
    Architecture::Vlb,
];

/// A node without a lease drops packets from outside, and those that a node with a lease sends to it.
#[test]
fn without_a_lease_every_packet_of_a_flow_is_dropped_by_name() {
    const FLOWS: u32 = 64;
    for architecture in ARCHITECTURES {
        for without in [&[0][..], &[1, 2, 3]] {
            let mut bench = bench(architecture, 4, Policy::default());
            let lease = Arc::new(Lease::none());
            for node in without {
                bench.cluster.nodes_mut()[*node].set_lease(Arc::clone(&lease));
            }
            for n in 0..FLOWS {
                bench.inject(0, DOWN, &downstream(2 * n, b"down"), false);
                let up = g_pdu(0x8000_0000 + n, &upstream_inner(n, b"up"), false);
                bench.inject(0, UP, &to_gateway(Policy::default().gateway_address, 2152, &up), false);
            }
            let (left, dropped) = bench.run(1);
            assert_eq!(left.len() + dropped.len(), 2 * FLOWS as usize, "{architecture}");
            if without == [0] {
                assert!(left.is_empty() && dropped.iter().all(|drop| drop.reason == DropReason::NoLease));
            } else {
                let nodes = bench.cluster.nodes().iter().skip(1);
                let no_lease: u64 = nodes.map(|node| node.stats().dropped.get(DropReason::NoLease)).sum();
                assert!(no_lease > 0, "{architecture}");
                assert_eq!(bench.cluster.nodes()[0].stats().dropped.get(DropReason::NoLease), 0);
            }
        }
    }
}

/// The node compares the deadline with the time of its turn: a process that was stopped forwards nothing after it
/// resumes.
#[test]
fn a_lease_expires_by_the_time_of_the_turn_alone() {
    let mut bench = bench(Architecture::FullDuplication, 1, Policy::default());
    let lease = Arc::new(Lease::none());
    lease.set(Duration::from_secs(3), Duration::from_secs(10));
    bench.cluster.nodes_mut()[0].set_lease(lease);
    let mut forwarded = Vec::new();
    for seconds in [9, 10, 40] {
        bench.inject(0, DOWN, &downstream(0, b"x"), false);
        let node = &mut bench.cluster.nodes_mut()[0];
        let before = node.stats().base_station_out;
        node.turn(Duration::from_secs(seconds));
        forwarded.push(node.stats().base_station_out - before);
    }
    assert_eq!(forwarded, [1, 0, 0]);
}

/// The process is stopped during a turn: the lease is valid by the time of the turn, but expired by the clock.
#[test]
fn a_worker_that_was_stopped_in_the_middle_of_a_turn_forwards_nothing_when_it_goes_on() {
    let mut bench = bench(Architecture::FullDuplication, 1, Policy::default());
    let start = Instant::now().checked_sub(Duration::from_secs(11)).unwrap();
    let lease = Lease::none().counted_from(start);
    lease.set(Duration::from_secs(3), Duration::from_secs(10));
    bench.cluster.nodes_mut()[0].set_lease(Arc::new(lease));
    bench.inject(0, DOWN, &downstream(0, b"x"), false);
    let node = &mut bench.cluster.nodes_mut()[0];
    node.turn(Duration::from_secs(9));
    let stats = node.stats();
    assert_eq!((stats.base_station_out, stats.dropped.get(DropReason::NoLease)), (0, 1));
}

#[test]
fn without_a_lease_a_node_neither_answers_for_its_addresses_nor_announces_them() {
    let mut lab = Lab::new(config());
    let lease = Arc::new(Lease::none());
    lab.local.set_lease(Arc::clone(&lease));
    lease.set(lab.now, lab.now + Duration::from_secs(60));
    let sent = lab.pass(Duration::from_secs(5));
    assert!(!sent.is_empty(), "it asks for its neighbours");
    assert!(!sent.iter().any(|(_, frame)| speaks_for(frame)), "as the owner of its address");
    let asked = arp_request(ROUTERS[0], OWN);
    assert_eq!(lab.receive(INTERNET, &asked), Consumed::Yes);
    assert!(!lab.sent().iter().any(|(_, frame)| speaks_for(frame)));
    // When it gets a lease, it sends the announcements that it had not sent.
    lease.set(lab.now + Duration::from_secs(60), lab.now + Duration::from_secs(60));
    let sent = lab.pass(Duration::from_millis(200));
    let announces = |frame: &[u8]| read_arp(frame).is_some_and(|arp| arp.sender_ipv4 == arp.target_ipv4);
    assert!(sent.iter().any(|(_, frame)| speaks_for(frame) && announces(frame)));
    assert_eq!(lab.receive(INTERNET, &asked), Consumed::Yes);
    assert!(lab.sent().iter().any(|(_, frame)| speaks_for(frame)));
}

/// Whether an ARP frame announces the node's address.
fn speaks_for(frame: &[u8]) -> bool {
    read_arp(frame).is_some_and(|arp| arp.sender_ipv4 == OWN.octets())
}

#[test]
fn without_a_lease_a_node_sends_neither_echo_replies_nor_frames_that_it_held() {
    let mut lab = Lab::new(config());
    let lease = Arc::new(Lease::none());
    lab.local.set_lease(Arc::clone(&lease));
    let held = [&[0; 12][..], &[8, 0], &[0x45; 40]].concat();
    let _held = lab.hold(INTERNET, ROUTERS[0], &held);
    let answers = lab.sent();
    lab.answer_all(&answers);
    assert!(lab.sent().iter().all(|(_, frame)| frame[12..14] != [8, 0]));
    assert_eq!(lab.local.stats().dropped_no_lease, 1);
    let mut echo = Vec::new();
    PacketBuilder::ethernet2(crate::gateway::lab::mac_of(ROUTERS[0]), crate::gateway::lab::INTERNET_MAC)
        .ipv4(ROUTERS[0].octets(), OWN.octets(), 64)
        .icmpv4_echo_request(7, 8)
        .write(&mut echo, b"x")
        .unwrap();
    assert_eq!(lab.receive(INTERNET, &echo), Consumed::Yes);
    assert_eq!((lab.local.stats().echo_replies_out, lab.local.stats().dropped_no_lease), (0, 2));
    lease.set(lab.now, lab.now + Duration::from_secs(1));
    assert_eq!(lab.receive(INTERNET, &echo), Consumed::Yes);
    assert_eq!(lab.local.stats().echo_replies_out, 1);
}
