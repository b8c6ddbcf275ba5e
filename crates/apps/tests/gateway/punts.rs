//! Packets that a node hands to its slow path, and their outcome.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use crate::gateway::common::{
    SERVER, SERVER6, bench, downstream, g_pdu, to_gateway, ue, ue6, upstream_inner,
};
use etherparse::PacketBuilder;
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::punt::PUNTS;
use scalebricks_elements::gateway::{DropReason, OutputPort, Policy, Punt, PuntReason};
use scalebricks_io::{Packet, PacketBuf};
use scalebricks_types::{FlowKey, KeyProfile, Teid};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const DOWN: OutputPort = OutputPort::BaseStation;
const UP: OutputPort = OutputPort::Internet;

/// A cluster whose nodes have a slow path.
fn scalebricks() -> crate::gateway::common::Bench {
    let mut bench = bench(Architecture::ScaleBricks, 4, Policy::default());
    bench.cluster.nodes_mut().iter_mut().for_each(scalebricks_apps::gateway::Node::keep_punts);
    bench
}

/// Sends a frame to node 0; returns the packets that each node handed over.
fn punted(
    bench: &mut crate::gateway::common::Bench,
    output: OutputPort,
    frame: &[u8],
) -> Vec<(usize, Punt<Packet>)> {
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
    // An extension header of type 0x9f, which its receiver must understand.
    let mut unknown_extension = g_pdu(77, &upstream_inner(0, b"x"), true);
    unknown_extension[11] = 0x9f;
    for (output, frame, link, reason) in [
        (DOWN, arp.clone(), UP, DropReason::NonIp),
        (UP, arp, DOWN, DropReason::NonIp),
        (DOWN, echo, UP, DropReason::LinkLocal),
        (UP, request, DOWN, DropReason::GtpuSignalling),
        (UP, to_gateway(gateway, 2152, &unknown_extension), DOWN, DropReason::UnsupportedExtension),
        (UP, to_gateway(ue(1), 2152, b"x"), DOWN, DropReason::NotForGateway),
    ] {
        let mut bench = scalebricks();
        let mut punts = punted(&mut bench, output, &frame);
        assert_eq!(punts.len(), 1);
        let (node, punt) = punts.remove(0);
        assert_eq!((node, punt.link, punt.why), (0, link, PuntReason::NoFlow(reason)));
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
    assert_eq!((punt.link, punt.why), (DOWN, PuntReason::UnknownFlow(FlowKey::teid(Teid::new(77)))));
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
        bench.cluster.nodes_mut().iter_mut().for_each(scalebricks_apps::gateway::Node::keep_punts);
        let punts = punted(&mut bench, UP, &unknown);
        let [(_, punt)] = &punts[..] else { panic!("{architecture}: {punts:?}") };
        assert_eq!(
            (punt.link, punt.why),
            (DOWN, PuntReason::UnknownFlow(FlowKey::teid(Teid::new(77)))),
            "{architecture}"
        );
    }
}

const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(169, 254, 7, 9);
const NEIGHBOUR6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);

/// A UDP packet without Ethernet.
fn udp(src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let mut packet = Vec::new();
    let ip = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => PacketBuilder::ipv4(src.octets(), dst.octets(), 60),
        (IpAddr::V6(src), IpAddr::V6(dst)) => PacketBuilder::ipv6(src.octets(), dst.octets(), 60),
        other => panic!("{other:?}"),
    };
    ip.udp(53, 4000).write(&mut packet, b"hello").unwrap();
    packet
}

fn framed(packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    [&downstream(0, b"")[..12], &ethertype, packet].concat()
}

/// On real links no packet from or to a link-local address is forwarded. In the in-memory cluster, which has no links,
/// no packet to the link-local address of a UE is.
#[test]
fn link_local_packets_do_not_cross_to_another_link() {
    let policy = Policy { key_profile: KeyProfile::Ue, ..Policy::default() };
    let mut in_memory = bench(Architecture::ScaleBricks, 4, policy);
    let mut on_links = bench(Architecture::ScaleBricks, 4, policy);
    let slow_path = crate::gateway::lab::Lab::resolved().local;
    for node in on_links.cluster.nodes_mut() {
        node.set_adjacencies(slow_path.adjacencies());
    }
    let teid = in_memory.flows[0].uplink_teid.get();
    let up = |packet: &[u8]| to_gateway(policy.gateway_address, 2152, &g_pdu(teid, packet, false));
    let global = Ipv4Addr::new(203, 0, 113, 5);
    let global6 = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 5);
    let refused = Some("link_local");
    for (output, src, dst, wanted_in_memory, wanted_on_links) in [
        (DOWN, IpAddr::V4(SERVER), IpAddr::V4(ue(0)), None, None),
        (DOWN, SERVER.into(), NEIGHBOUR.into(), refused, refused),
        (DOWN, SERVER6.into(), NEIGHBOUR6.into(), refused, refused),
        (DOWN, NEIGHBOUR6.into(), NEIGHBOUR6.into(), refused, refused),
        (DOWN, NEIGHBOUR.into(), ue(0).into(), None, refused),
        (DOWN, NEIGHBOUR6.into(), ue6(1).into(), None, refused),
        (DOWN, NEIGHBOUR6.into(), crate::gateway::lab::LINK_LOCAL.into(), refused, Some("for_this_node")),
        (UP, ue(0).into(), global.into(), None, None),
        (UP, ue6(1).into(), global6.into(), None, None),
        (UP, ue(0).into(), NEIGHBOUR.into(), None, refused),
        (UP, ue6(1).into(), NEIGHBOUR6.into(), None, refused),
        (UP, NEIGHBOUR.into(), global.into(), None, refused),
        (UP, NEIGHBOUR6.into(), global6.into(), None, refused),
    ] {
        let packet = udp(src, dst);
        let frame = if output == DOWN { framed(&packet) } else { up(&packet) };
        for ingress in 0..4 {
            let is = in_memory.one(ingress, output, &frame, false).err();
            assert_eq!(is, wanted_in_memory, "in memory, {output:?}: {src} to {dst}");
            let is = on_links.one(ingress, output, &frame, false).err();
            assert_eq!(is, wanted_on_links, "on links, {output:?}: {src} to {dst}");
        }
    }
}
