//! Packets of every flow, from every ingress node, in every architecture, leave once, at their node, in their tunnel,
//! unchanged.

use crate::gateway::common::{
    Left, bench, downstream, g_pdu, station, to_gateway, tunnelled, upstream_inner,
};
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::{OutputPort, Policy};
use scalebricks_types::{FlowIndex, KeyProfile};
use std::collections::HashMap;

fn by_id(left: Vec<Left>) -> HashMap<u64, Left> {
    let count = left.len();
    let map: HashMap<_, _> = left.into_iter().map(|l| (l.tag.id, l)).collect();
    assert_eq!(map.len(), count, "a packet left twice");
    map
}

fn every_flow_from_every_node(architecture: Architecture, nodes: usize, profile: KeyProfile, threads: usize) {
    let policy = Policy { key_profile: profile, ..Policy::default() };
    let mut bench = bench(architecture, nodes, policy);
    let flows = bench.flows.clone();
    let mut hops = Vec::new();
    for ingress in 0..nodes {
        let mut sent = HashMap::new();
        for (n, flow) in flows.iter().enumerate() {
            let n = n as u32;
            let payload = vec![n as u8; 20 + n as usize];
            let down = downstream(n, &payload);
            sent.insert(bench.inject(ingress, OutputPort::BaseStation, &down, false), (flow, false, down));
            let inner = upstream_inner(n, &payload);
            let up = to_gateway(
                policy.gateway_address,
                2152,
                &g_pdu(flow.uplink_teid.get(), &inner, n.is_multiple_of(5)),
            );
            sent.insert(bench.inject(ingress, OutputPort::Internet, &up, false), (flow, true, inner));
        }
        let (left, dropped) = bench.run(threads);
        assert_eq!(dropped, []);
        let left = by_id(left);
        assert_eq!(left.len(), sent.len());
        for (id, (flow, is_up, bytes)) in sent {
            let got = &left[&id];
            assert_eq!(got.node, flow.node.index());
            assert!(got.tag.hops <= architecture.max_hops(), "{} hops", got.tag.hops);
            let pays_no_hop = architecture != Architecture::HashPartition && ingress == flow.node.index();
            assert!(
                !pays_no_hop || got.tag.hops == 0,
                "{} hops for a packet that was there already",
                got.tag.hops
            );
            hops.push(got.tag.hops);
            if is_up {
                assert_eq!(got.output, OutputPort::Internet);
                assert_eq!(got.frame[14..], bytes);
            } else {
                assert_eq!(got.output, OutputPort::BaseStation);
                let (dst, teid, qfi, inner) = tunnelled(&got.frame);
                assert_eq!(dst, station(flow.base_station.0).address);
                assert_eq!(got.frame[..6], station(flow.base_station.0).mac.octets());
                assert_eq!(
                    (teid, qfi),
                    (flow.downlink_teid.get(), flow.qfi.map(scalebricks_types::Qfi::get))
                );
                assert_eq!(inner, bytes[14..]);
            }
        }
    }
    assert_eq!(hops.iter().max(), Some(&architecture.max_hops()));
    check_counters(&bench, &flows, nodes);
}

/// Each flow carried one packet per ingress node and direction, counted at its node.
fn check_counters(
    bench: &crate::gateway::common::Bench,
    flows: &[scalebricks_apps::gateway::FlowSpec],
    nodes: usize,
) {
    let mut next = vec![0u32; nodes];
    for (n, flow) in flows.iter().enumerate() {
        let index = FlowIndex(next[flow.node.index()]);
        next[flow.node.index()] += 1;
        let count = bench.cluster.nodes()[flow.node.index()].counters().read(index);
        let headers = if n % 2 == 0 { 28 } else { 48 };
        let bytes = (nodes * (headers + 20 + n)) as u64;
        assert_eq!(
            (count.downstream_packets, count.upstream_packets),
            (nodes as u64, nodes as u64),
            "flow {n}"
        );
        assert_eq!((count.downstream_bytes, count.upstream_bytes), (bytes, bytes), "flow {n}");
    }
}

#[test]
fn full_duplication() {
    every_flow_from_every_node(Architecture::FullDuplication, 4, KeyProfile::Flow5, 1);
}

#[test]
fn hash_partition() {
    every_flow_from_every_node(Architecture::HashPartition, 4, KeyProfile::Flow5, 2);
}

#[test]
fn vlb() {
    every_flow_from_every_node(Architecture::Vlb, 5, KeyProfile::Flow5, 2);
}

#[test]
fn scalebricks() {
    every_flow_from_every_node(Architecture::ScaleBricks, 4, KeyProfile::Flow5, 1);
}

#[test]
fn scalebricks_by_ue_on_three_threads() {
    every_flow_from_every_node(Architecture::ScaleBricks, 7, KeyProfile::Ue, 3);
}

#[test]
fn more_threads_than_nodes() {
    every_flow_from_every_node(Architecture::ScaleBricks, 2, KeyProfile::Ue, 16);
}

#[test]
fn fabric_bytes_are_what_crossed() {
    let mut bench = bench(Architecture::ScaleBricks, 4, Policy::default());
    let frame = downstream(7, &[0; 100]);
    let home = bench.flows[7].node.index();
    bench.one(home, OutputPort::BaseStation, &frame, false).unwrap();
    assert_eq!(bench.cluster.fabric_stats().frames, 0);
    bench.one((home + 1) % 4, OutputPort::BaseStation, &frame, false).unwrap();
    let stats = bench.cluster.fabric_stats();
    assert_eq!((stats.frames, stats.bytes, stats.unknown_address), (1, frame.len() as u64, 0));
}

#[test]
fn a_stale_ingress_costs_a_hop_and_no_packet() {
    // Node 0's GPT names another node than that of flow 8, as if it had missed a move.
    let mut bench = bench(Architecture::ScaleBricks, 4, Policy::default());
    let flow = bench.flows[8];
    let wrong = (flow.node.index() + 1) % 4;
    let ingress = (flow.node.index() + 2) % 4;
    let stale = bench.stale_delta(&flow.key, wrong as u8);
    let _ = bench.cluster.tables_mut()[ingress].apply_gpt(&stale).unwrap();
    let left = bench.one(ingress, OutputPort::BaseStation, &downstream(8, b"late"), false).unwrap();
    assert_eq!((left.len(), left[0].node, left[0].tag.hops), (1, flow.node.index(), 2));
    assert_eq!(bench.cluster.nodes()[wrong].stats().forwarded_again, 1);
    // If no node holds the flow, the second miss drops the packet: it does not circle.
    let unknown = bench.one(ingress, OutputPort::BaseStation, &downstream(60_000, b"?"), false);
    assert_eq!(unknown.err(), Some("unknown_flow"));
}

#[test]
fn the_outer_source_port_is_the_flows_and_differs_between_flows() {
    let mut bench = bench(Architecture::ScaleBricks, 4, Policy::default());
    let port_of = |left: &[Left]| u16::from_be_bytes([left[0].frame[34], left[0].frame[35]]);
    let mut ports = std::collections::HashSet::new();
    for n in 0..100 {
        let [first, second] =
            [1, 2].map(|node| bench.one(node, OutputPort::BaseStation, &downstream(n, b"x"), false).unwrap());
        assert_eq!(port_of(&first), port_of(&second), "flow {n} would be reordered");
        ports.insert(port_of(&first));
    }
    assert!(ports.len() > 90, "{} ports for 100 flows of 16,384 ports", ports.len());
}
