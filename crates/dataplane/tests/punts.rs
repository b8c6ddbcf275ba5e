//! What a node gives to its slow path, and what becomes of it.

mod common;

use common::{SERVER6, bench, downstream, g_pdu, to_gateway, ue, upstream_inner};
use etherparse::PacketBuilder;
use scalebricks_dataplane::punt::PUNTS;
use scalebricks_dataplane::{Architecture, DropReason, OutputPort, Policy, Punt, Why};
use scalebricks_io::{Packet, PacketBuf};

const DOWN: OutputPort = OutputPort::BaseStation;
const UP: OutputPort = OutputPort::Internet;

/// A cluster whose nodes have a slow path.
fn scalebricks() -> common::Bench {
    let mut bench = bench(Architecture::ScaleBricks, 4, Policy::default());
    bench.cluster.nodes_mut().iter_mut().for_each(scalebricks_dataplane::Node::keep_punts);
    bench
}

/// Puts a frame in at node 0; what the nodes handed over, by node.
fn punted(bench: &mut common::Bench, output: OutputPort, frame: &[u8]) -> Vec<(usize, Punt<Packet>)> {
    bench.inject(0, output, frame, false);
    bench.cluster.run_until_idle(1);
    let mut all = Vec::new();
    for (node, running) in bench.cluster.nodes_mut().iter_mut().enumerate() {
        let mut punts = Vec::new();
        running.take_punts(&mut punts);
        all.extend(punts.into_iter().map(|punt| (node, punt)));
        assert_eq!(running.take_drops(), []);
    }
    all
}

#[test]
fn what_belongs_to_no_flow_is_handed_over_at_its_ingress_node_as_it_came() {
    let arp = [&downstream(0, b"")[..12], &[0x08, 0x06], &[0; 28]].concat();
    let mut echo = Vec::new();
    let link_local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    PacketBuilder::ethernet2([2; 6], [0; 6])
        .ipv6(SERVER6.octets(), link_local, 64)
        .icmpv6_echo_request(1, 2)
        .write(&mut echo, b"ping")
        .unwrap();
    let gateway = Policy::default().gateway_address;
    let request = to_gateway(gateway, 2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 7, 0, 0]);
    // An extension header of the type 0x9f, which its receiver must know.
    let mut unknown_extension = g_pdu(77, &upstream_inner(0, b"x"), true);
    unknown_extension[11] = 0x9f;
    for (output, frame, link, reason) in [
        (DOWN, arp.clone(), UP, DropReason::NonIp),
        (UP, arp, DOWN, DropReason::NonIp),
        (DOWN, echo, UP, DropReason::ForThisNode),
        (UP, request, DOWN, DropReason::GtpuSignalling),
        (UP, to_gateway(gateway, 2152, &unknown_extension), DOWN, DropReason::UnsupportedExtension),
        (UP, to_gateway(ue(1), 2152, b"x"), DOWN, DropReason::NotForGateway),
    ] {
        let mut bench = scalebricks();
        let mut punts = punted(&mut bench, output, &frame);
        assert_eq!(punts.len(), 1);
        let (node, punt) = punts.remove(0);
        assert_eq!((node, punt.link, punt.why), (0, link, Why::NoFlow(reason)));
        assert_eq!(&punt.packet.data()[6..], &frame[6..], "all but the address it was given here");
        bench.cluster.nodes_mut()[0].drop_punt(punt);
        assert_eq!(bench.cluster.nodes_mut()[0].take_drops()[0].reason, reason);
    }
}

#[test]
fn an_unknown_flow_is_handed_over_where_the_gpt_sends_it() {
    let gateway = Policy::default().gateway_address;
    let unknown = to_gateway(gateway, 2152, &g_pdu(77, &upstream_inner(0, b"x"), false));
    let mut bench = scalebricks();
    let punts = punted(&mut bench, UP, &unknown);
    let [(node, punt)] = &punts[..] else { panic!("{punts:?}") };
    assert_eq!((punt.link, punt.why), (DOWN, Why::UnknownFlow));
    assert_eq!(&punt.packet.data()[14..], &unknown[14..], "its headers are still there");
    let stats = bench.cluster.nodes()[*node].stats();
    assert_eq!((stats.forwarded_again, stats.fabric_in), (0, u64::from(*node != 0)));
}

#[test]
fn no_more_wait_than_the_slow_path_takes() {
    let mut bench = scalebricks();
    let arp = [&downstream(0, b"")[..12], &[0x08, 0x06], &[0; 28]].concat();
    for _ in 0..PUNTS + 5 {
        bench.inject(0, DOWN, &arp, false);
    }
    bench.cluster.run_until_idle(1);
    let node = &mut bench.cluster.nodes_mut()[0];
    let drops = node.take_drops();
    assert_eq!(drops.len(), 5);
    assert!(drops.iter().all(|drop| drop.reason == DropReason::SlowPathFull));
    let mut punts = Vec::new();
    node.take_punts(&mut punts);
    assert_eq!(punts.len(), PUNTS);
}

#[test]
fn a_node_whose_exact_table_lacks_a_flow_says_so_itself() {
    let gateway = Policy::default().gateway_address;
    let unknown = to_gateway(gateway, 2152, &g_pdu(77, &upstream_inner(0, b"x"), false));
    for architecture in [Architecture::FullDuplication, Architecture::HashPartition, Architecture::Vlb] {
        let mut bench = bench(architecture, 4, Policy::default());
        bench.cluster.nodes_mut().iter_mut().for_each(scalebricks_dataplane::Node::keep_punts);
        let punts = punted(&mut bench, UP, &unknown);
        let [(_, punt)] = &punts[..] else { panic!("{architecture}: {punts:?}") };
        assert_eq!((punt.link, punt.why), (DOWN, Why::UnknownFlow), "{architecture}");
    }
}
