//! A trace predicts what the node does with a packet: it matches outputs and drops of the real node, frame by frame.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::gateway::common::{Bench, bench, downstream, g_pdu, to_gateway, upstream_inner};
use proptest::prelude::*;
use scalebricks_apps::gateway::Architecture;
use scalebricks_apps::gateway::trace::{TraceError, TraceReport, trace};
use scalebricks_elements::gateway::{DropReason, FabricMac, FlowCount, OutputPort, Phase, Policy, PortRole};
use scalebricks_types::NodeId;
use scalebricks_wire::ethernet;

const NODES: usize = 4;

/// An upstream frame of flow `n`.
fn upstream(n: u32, payload: &[u8]) -> Vec<u8> {
    let message = g_pdu(0x8000_0000 + n, &upstream_inner(n, payload), false);
    to_gateway(Policy::default().gateway_address, 2152, &message)
}

fn traced(bench: &Bench, node: usize, role: PortRole, frame: &[u8]) -> TraceReport {
    let id = NodeId::new(node as u8);
    let config = bench.cluster.nodes()[node].config().clone();
    trace(config, bench.cluster.tables()[id.index()].node_tables(0), role, frame).unwrap()
}

/// The frame as it arrives at a port of a node.
fn addressed(bench: &Bench, node: usize, output: OutputPort, frame: &[u8]) -> (PortRole, Vec<u8>) {
    let macs = bench.cluster.nodes()[node].config().macs;
    let (role, mac) = match output {
        OutputPort::BaseStation => (PortRole::Internet, macs.internet),
        OutputPort::Internet => (PortRole::BaseStation, macs.base_station),
    };
    let mut frame = frame.to_vec();
    assert!(ethernet::set_destination(&mut frame, mac));
    (role, frame)
}

/// Follows traces from node to node until the packet leaves or is dropped.
fn follow(bench: &Bench, node: usize, role: PortRole, frame: &[u8]) -> (usize, TraceReport, u8) {
    let (mut node, mut answer, mut hops) = (node, traced(bench, node, role, frame), 0);
    while let [(PortRole::Fabric, frame)] = &answer.sent[..] {
        let mac = FabricMac::decode(ethernet::destination(frame).unwrap()).unwrap();
        (node, hops) = (mac.node.index(), hops + 1);
        answer = traced(bench, node, PortRole::Fabric, &frame.clone());
    }
    (node, answer, hops)
}

#[test]
fn a_trace_ends_where_the_packet_does_and_with_the_same_bytes() {
    for architecture in Architecture::ALL {
        let mut bench = bench(architecture, NODES, Policy::default());
        for n in (0..600).step_by(37) {
            for (output, frame) in [
                (OutputPort::BaseStation, downstream(n, b"hi")),
                (OutputPort::Internet, upstream(n, b"hello")),
            ] {
                let ingress = n as usize % NODES;
                let (role, frame) = addressed(&bench, ingress, output, &frame);
                let (node, answer, hops) = follow(&bench, ingress, role, &frame);
                assert!(hops <= architecture.max_hops());
                let left = bench.one(ingress, output, &frame, true).unwrap();
                assert_eq!(left.len(), 1);
                let [(port, sent)] = &answer.sent[..] else { unreachable!("{answer:?}") };
                assert_eq!((node, answer.dropped), (left[0].node, None), "{architecture} flow {n}");
                let out = match left[0].output {
                    OutputPort::Internet => PortRole::Internet,
                    OutputPort::BaseStation => PortRole::BaseStation,
                };
                assert_eq!(*port, out);
                assert_eq!(*sent, left[0].frame, "{architecture} flow {n}");
                let (flow, count) = answer.flow.unwrap();
                assert_eq!(flow.node.index(), node);
                assert!(count.is_some());
            }
        }
    }
}

#[test]
fn a_trace_counts_nothing_and_shows_what_was_counted() {
    let mut bench = bench(Architecture::FullDuplication, NODES, Policy::default());
    let (role, frame) = addressed(&bench, 0, OutputPort::BaseStation, &downstream(0, b"abc"));
    let before = bench.cluster.nodes()[0].stats();
    assert_eq!(traced(&bench, 0, role, &frame).flow.unwrap().1, Some(FlowCount::default()));
    assert_eq!(bench.cluster.nodes()[0].stats(), before);
    bench.one(0, OutputPort::BaseStation, &frame, true).unwrap();
    let (_, count) = traced(&bench, 0, role, &frame).flow.unwrap();
    let want = FlowCount { downstream_packets: 1, downstream_bytes: 31, ..FlowCount::default() };
    assert_eq!(count, Some(want));
    // Another node also has the flow's entry, but not its counters.
    let (role, frame) = addressed(&bench, 1, OutputPort::BaseStation, &frame);
    assert_eq!(traced(&bench, 1, role, &frame).flow.unwrap().1, None);
}

#[test]
fn the_tables_answer_beside_the_outcome() {
    let bench = bench(Architecture::ScaleBricks, NODES, Policy::default());
    // Flow 7 is pinned to node 1: the GPT of node 0 says so, and its FIB does not have the flow.
    let (role, frame) = addressed(&bench, 0, OutputPort::BaseStation, &downstream(7, b""));
    let answer = traced(&bench, 0, role, &frame);
    assert_eq!(answer.gpt, Some(Some(NodeId::new(1))));
    assert_eq!((answer.lookup, answer.flow), (None, None));
    let mac = FabricMac::decode(ethernet::destination(&answer.sent[0].1).unwrap()).unwrap();
    assert_eq!((mac.phase, mac.node.get(), mac.port), (Phase::Handling, 1, OutputPort::BaseStation));
    assert!(answer.key.is_some());
}

#[test]
fn an_intermediate_node_needs_no_key() {
    let bench = bench(Architecture::Vlb, NODES, Policy::default());
    let mac = FabricMac::indirect(NodeId::new(2), NodeId::new(1), OutputPort::BaseStation);
    let mut frame = downstream(7, b"");
    assert!(ethernet::set_destination(&mut frame, mac.encode()));
    let answer = traced(&bench, 2, PortRole::Fabric, &frame);
    assert_eq!((answer.key, answer.gpt), (None, None));
    let next = FabricMac::decode(ethernet::destination(&answer.sent[0].1).unwrap()).unwrap();
    assert_eq!((next.phase, next.node.get()), (Phase::Handling, 1));
    assert_eq!(traced(&bench, 0, PortRole::Fabric, &frame).dropped, Some(DropReason::OtherMac));
}

#[test]
fn a_frame_longer_than_any_is_refused() {
    let bench = bench(Architecture::ScaleBricks, NODES, Policy::default());
    let config = bench.cluster.nodes()[0].config().clone();
    let tables = bench.cluster.tables()[0].node_tables(0);
    let frame = vec![0; 70_000];
    let error = trace(config, tables, PortRole::Internet, &frame).unwrap_err();
    assert_eq!(error, TraceError::TooLong(frame.len()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_frames_are_dropped_for_the_same_reason(
        n in 0u32..600, upstream_side: bool, at in 12usize..80, octet: u8, keep in 0usize..120,
    ) {
        let mut bench = bench(Architecture::FullDuplication, 1, Policy::default());
        let (output, mut frame) = if upstream_side {
            (OutputPort::Internet, upstream(n, b"payload"))
        } else {
            (OutputPort::BaseStation, downstream(n, b"payload"))
        };
        let at = at.min(frame.len() - 1);
        frame[at] = octet;
        frame.truncate(keep.max(14));
        let (role, frame) = addressed(&bench, 0, output, &frame);
        let answer = traced(&bench, 0, role, &frame);
        match bench.one(0, output, &frame, true) {
            Ok(left) => prop_assert_eq!(left.len(), answer.sent.len()),
            Err(reason) => prop_assert_eq!(Some(reason), answer.dropped.map(DropReason::name)),
        }
    }
}
