//! Nodes on real links: next hops, errors, pings, hostile frames.

use super::node_rig::{
    Cluster, Lone, SECRET, frame, frame6, gateway, gateway6, hello, host, host_mac, host6, nodes, port_mac,
    udp,
};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use scalebricks_apps::router::cluster::Steering;
use scalebricks_apps::router::node::NodeConfig;
use scalebricks_elements::fabric::mac::{ExternalPort, RouterMac};
use scalebricks_elements::fabric::next_hops::{Neighbour, NextHopError};
use scalebricks_types::{NodeId, NodeSet};
use scalebricks_wire::ethernet;
use std::net::IpAddr;

fn three() -> Cluster {
    Cluster::ready(nodes(3, Steering::Flowlets, 1))
}

/// Source and destination of a packet, and the type and code of its ICMP message.
fn icmp(frame: &[u8]) -> Option<(IpAddr, IpAddr, u8, u8)> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let (src, dst) = match sliced.net? {
        NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Arp(_) => return None,
    };
    match sliced.transport? {
        TransportSlice::Icmpv4(icmp) => Some((src, dst, icmp.type_u8(), icmp.code_u8())),
        TransportSlice::Icmpv6(icmp) => Some((src, dst, icmp.type_u8(), icmp.code_u8())),
        _ => None,
    }
}

#[test]
fn packets_reach_hosts_on_the_networks_of_other_nodes() {
    let mut cluster = three();
    cluster.send(0, &frame(0, host(2, 7), |_| {}, &udp(1)));
    cluster.send(0, &frame6(0, host6(2, 7), |_| {}, &udp(1)));
    cluster.run(20);
    let got = cluster.take(2);
    assert_eq!(got.len(), 2, "{:?}", cluster.asked);
    for frame in &got {
        assert_eq!(ethernet::addresses(frame), Some((host_mac(2, 7), port_mac(2))));
    }
    assert_eq!((got[0][22], got[1][21]), (63, 63), "TTL and hop limit");
    assert_eq!(cluster.asked.values().sum::<usize>(), 2);
    // A host on the node's own network.
    cluster.send(1, &frame(1, host(1, 8), |_| {}, &udp(1)));
    cluster.run(5);
    assert_eq!(cluster.take(1).len(), 1);
}

/// A next hop is resolved when control defines it, so the first packet finds its MAC address.
#[test]
fn next_hops_are_resolved_before_the_first_packet() {
    let mut cluster = three();
    let tables = cluster.nodes[2].1.clone();
    let port = ExternalPort::new(0).unwrap();
    let mac = RouterMac::new(NodeId::new(2), port, 5);
    tables.next_hops.define(5, Some(Neighbour { port, address: host(2, 50).into() })).unwrap();
    tables.next_hops.define(6, Some(Neighbour { port, address: host6(2, 51).into() })).unwrap();
    tables.routes.insert("198.51.100.0/24".parse().unwrap(), mac.hop()).unwrap();
    let mac6 = RouterMac { next_hop: 6, ..mac };
    tables.routes6.insert("2001:db8:ffff::/48".parse().unwrap(), mac6.hop()).unwrap();
    cluster.run(50);
    assert_eq!(
        (tables.next_hops.get(5), tables.next_hops.get(6)),
        (Some(host_mac(2, 50)), Some(host_mac(2, 51)))
    );
    let before = cluster.counter("to_neighbours");
    cluster.send(0, &frame(0, [198, 51, 100, 7].into(), |_| {}, &udp(1)));
    cluster.send(0, &frame6(0, "2001:db8:ffff::1".parse().unwrap(), |_| {}, &udp(1)));
    cluster.run(10);
    let to: Vec<_> = cluster.take(2).iter().map(|frame| ethernet::destination(frame).unwrap()).collect();
    assert_eq!((to, cluster.counter("to_neighbours")), (vec![host_mac(2, 50), host_mac(2, 51)], before));
    // Another neighbour under the same number: until it is resolved, packets wait.
    tables.next_hops.define(5, Some(Neighbour { port, address: host(2, 60).into() })).unwrap();
    cluster.send(0, &frame(0, [198, 51, 100, 7].into(), |_| {}, &udp(1)));
    cluster.run(20);
    let to: Vec<_> = cluster.take(2).iter().map(|frame| ethernet::destination(frame).unwrap()).collect();
    assert_eq!((to, tables.next_hops.get(5)), (vec![host_mac(2, 60)], Some(host_mac(2, 60))));
    // The table is full.
    let hop = Some(Neighbour { port, address: host(2, 61).into() });
    assert_eq!(tables.next_hops.define(100, hop), Err(NextHopError::NoNumber { number: 100, count: 100 }));
}

/// The sender learns of its packet's fate from the port where it sent it, wherever its way back is.
#[test]
fn errors_come_from_the_port_where_the_packet_arrived() {
    let mut cluster = three();
    cluster.nodes[0].1.mtus.set(NodeId::new(2), ExternalPort::new(0).unwrap(), 1_280);
    let nowhere = "203.0.113.1".parse().unwrap();
    cluster.send(0, &frame(0, host(2, 7), |header| header.ttl = 1, &udp(1)));
    cluster.send(0, &frame(0, nowhere, |_| {}, &udp(1)));
    cluster.send(0, &frame(0, host(2, 7), |_| {}, &[0; 1_300]));
    cluster.send(0, &frame6(0, host6(2, 7), |header| header.hop_limit = 1, &udp(1)));
    cluster.send(0, &frame6(0, "2001:db9::1".parse().unwrap(), |_| {}, &udp(1)));
    cluster.send(0, &frame6(0, host6(2, 7), |_| {}, &[0; 1_300]));
    // The sender is on another node's network: its error goes there.
    cluster.send(0, &frame(0, host(2, 7), |header| (header.ttl, header.src) = (1, host(1, 9)), &udp(1)));
    cluster.run(30);
    let got = cluster.take(0);
    let errors: Vec<_> = got.iter().filter_map(|frame| icmp(frame)).collect();
    // Both errors about length tell the MTU.
    let is_long =
        |frame: &&Vec<u8>| icmp(frame).is_some_and(|(.., kind, code)| (kind, code) == (3, 4) || kind == 2);
    let mtus: Vec<_> = got
        .iter()
        .filter(is_long)
        .map(|frame| if frame[12] == 8 { [frame[40], frame[41]] } else { [frame[60], frame[61]] })
        .collect();
    assert_eq!(mtus, [[5, 0]; 2], "1,280");
    let (from, to) = (IpAddr::V4(gateway(0)), IpAddr::V4(host(0, 9)));
    let (from6, to6) = (IpAddr::V6(gateway6(0)), IpAddr::V6(host6(0, 9)));
    let expected = [
        (from, to, 11, 0),
        (from, to, 3, 0),
        (from, to, 3, 4),
        (from6, to6, 3, 0),
        (from6, to6, 1, 0),
        (from6, to6, 2, 0),
    ];
    for one in expected {
        assert!(errors.contains(&one), "{one:?} of {errors:?}");
    }
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    let elsewhere: Vec<_> = cluster.take(1).iter().filter_map(|frame| icmp(frame)).collect();
    assert_eq!(elsewhere, [(from, IpAddr::V4(host(1, 9)), 11, 0)]);
    assert_eq!(cluster.take(2).len(), 0);
}

/// Packets longer than the MTU of their port.
#[test]
fn long_packets_are_fragmented_or_answered() {
    let mut all = nodes(2, Steering::Direct, 1);
    all[1].0.ports[0].mtu = 1_280;
    all[0].1.mtus.set(NodeId::new(1), ExternalPort::new(0).unwrap(), 1_280);
    let mut cluster = Cluster::ready(all);
    cluster.send(0, &frame(0, host(1, 7), |header| header.dont_fragment = false, &[1; 1_400]));
    cluster.send(0, &frame(0, host(1, 7), |_| {}, &[2; 1_400]));
    cluster.send(0, &frame6(0, host6(1, 7), |_| {}, &[3; 1_400]));
    cluster.send(0, &frame(0, host(1, 7), |_| {}, &[4; 1_260]));
    cluster.run(30);
    let got = cluster.take(1);
    let lengths: Vec<usize> = got.iter().map(Vec::len).collect();
    let payload: usize = got.iter().filter(|frame| frame[34] == 1).map(|frame| frame.len() - 34).sum();
    assert_eq!((lengths.len(), payload), (3, 1_400), "{lengths:?}");
    assert!(lengths.iter().all(|length| *length <= 1_294), "{lengths:?}");
    let errors: Vec<_> =
        cluster.take(0).iter().filter_map(|frame| icmp(frame)).map(|(.., kind, code)| (kind, code)).collect();
    assert_eq!(errors, [(3, 4), (2, 0)]);
}

fn ping(from: usize, dst: IpAddr, ttl: u8) -> Vec<u8> {
    let mut packet = Vec::new();
    let ethernet = PacketBuilder::ethernet2(host_mac(from, 9).octets(), port_mac(from).octets());
    match dst {
        IpAddr::V4(dst) => {
            let echo = ethernet.ipv4(host(from, 9).octets(), dst.octets(), ttl).icmpv4_echo_request(7, 1);
            echo.write(&mut packet, b"are you there?").unwrap();
        }
        IpAddr::V6(dst) => {
            let echo = ethernet.ipv6(host6(from, 9).octets(), dst.octets(), ttl).icmpv6_echo_request(7, 1);
            echo.write(&mut packet, b"are you there?").unwrap();
        }
    }
    packet
}

/// Every node answers pings to its addresses, wherever they arrive, also with the last hop of a trace.
#[test]
fn nodes_answer_pings() {
    let mut cluster = three();
    let own: [IpAddr; 2] = [gateway(0).into(), gateway6(0).into()];
    let far: [IpAddr; 2] = [gateway(2).into(), gateway6(2).into()];
    for (dst, ttl) in [
        (own[0], 64),
        (own[1], 64),
        (own[0], 1),
        (own[1], 1),
        (far[0], 64),
        (far[1], 64),
        (far[0], 2),
        (far[1], 2),
    ] {
        cluster.send(0, &ping(0, dst, ttl));
        cluster.run(20);
        let got = cluster.take(0);
        let kind = if dst.is_ipv4() { 0 } else { 129 };
        let back: IpAddr = if dst.is_ipv4() { host(0, 9).into() } else { host6(0, 9).into() };
        let answers: Vec<_> = got.iter().filter_map(|frame| icmp(frame)).collect();
        assert_eq!(answers, [(dst, back, kind, 0)], "{dst}, TTL {ttl}");
    }
}

/// Requests for the node's addresses.
#[test]
fn nodes_answer_questions_for_their_mac_addresses() {
    let mut cluster = three();
    let request = scalebricks_wire::arp::Arp {
        operation: scalebricks_wire::arp::Operation::Request,
        sender_mac: host_mac(1, 9),
        sender_ip: host(1, 9),
        target_mac: scalebricks_wire::MacAddr([0; 6]),
        target_ip: gateway(1),
    };
    let header =
        ethernet::header(scalebricks_wire::MacAddr::BROADCAST, host_mac(1, 9), ethernet::ETHERTYPE_ARP);
    cluster.send(1, &[&header[..], &request.to_bytes()].concat());
    let group = scalebricks_wire::nd::solicited_node(gateway6(1));
    let header = ethernet::header(
        scalebricks_wire::nd::multicast_mac(group),
        host_mac(1, 9),
        ethernet::ETHERTYPE_IPV6,
    );
    let asks = scalebricks_wire::nd::Solicitation::packet(host6(1, 9), group, gateway6(1), host_mac(1, 9));
    cluster.send(1, &[&header[..], &asks].concat());
    cluster.run(3);
    let got = cluster.take(1);
    assert_eq!(got.len(), 2);
    for frame in got {
        assert_eq!(ethernet::addresses(&frame), Some((host_mac(1, 9), port_mac(1))));
    }
}

/// A neighbour that does not answer: a bounded number of packets waits, questions are limited, and the others go on.
#[test]
fn silent_neighbours_cost_a_bounded_number_of_packets_and_questions() {
    let mut cluster = three();
    cluster.answers = false;
    for number in 0..40u16 {
        for flow in 0..10 {
            cluster.send(
                0,
                &frame(0, [10, 2, (number / 20) as u8, (number % 20) as u8 + 20].into(), |_| {}, &udp(flow)),
            );
        }
        cluster.run(5);
    }
    let waiting = cluster.counter("length_now");
    assert!((1..=2_048).contains(&waiting), "{waiting} packets wait");
    cluster.run(5_000);
    let asked: usize = cluster.asked.values().sum();
    assert_eq!((cluster.counter("no_answer"), cluster.counter("length_now"), asked), (400, 0, 40 * 3));
    cluster.answers = true;
    cluster.send(0, &frame(0, host(2, 20), |_| {}, &udp(1)));
    cluster.run(20);
    assert_eq!(cluster.take(2).len(), 1);
}

#[test]
fn a_flood_of_expired_packets_gets_few_errors_and_stops_nothing() {
    let mut cluster = three();
    for flow in 0..2_000 {
        cluster.send(0, &frame(0, host(2, 7), |header| header.ttl = 1, &udp(flow)));
        cluster.send(0, &frame6(0, host6(2, 7), |header| header.hop_limit = 1, &udp(flow)));
        if flow % 10 == 0 {
            cluster.send(0, &frame(0, host(2, 8), |_| {}, &udp(flow)));
            cluster.run(5);
        }
    }
    cluster.run(20);
    // 100 errors a second of each kind, and a burst of 10.
    let errors = cluster.take(0).iter().filter(|frame| icmp(frame).is_some()).count();
    assert!((200..=260).contains(&errors), "{errors} errors in a second");
    assert_eq!(cluster.counter("rate_limited") + errors as u64, 4_000);
    assert_eq!(cluster.take(2).len(), 200);
}

/// Two routers whose routes lead to each other: the TTL bounds the loop.
#[test]
fn a_loop_of_routes_ends_with_the_packets_ttl() {
    let mut cluster = three();
    // Node 2's neighbour is another router that sends the packets back to node 2's port.
    let tables = cluster.nodes[2].1.clone();
    let port = ExternalPort::new(0).unwrap();
    tables.next_hops.define(1, Some(Neighbour { port, address: host(2, 66).into() })).unwrap();
    let mac = RouterMac::new(NodeId::new(2), port, 1);
    tables.routes.insert("203.0.113.0/24".parse().unwrap(), mac.hop()).unwrap();
    cluster.run(50);
    cluster.send(0, &frame(0, [203, 0, 113, 1].into(), |header| header.ttl = 20, &udp(1)));
    let mut rounds = 0;
    for _ in 0..500 {
        cluster.run(1);
        for mut looping in cluster.take(2) {
            if ethernet::destination(&looping) != Some(host_mac(2, 66)) {
                continue;
            }
            rounds += 1;
            // The other router decrements the TTL too.
            looping[..12].copy_from_slice(&[&port_mac(2).octets()[..], &host_mac(2, 66).octets()].concat());
            looping[22] -= 1;
            looping[24..26].fill(0);
            let sum = scalebricks_wire::checksum::checksum(&looping[14..34]);
            looping[24..26].copy_from_slice(&sum.to_be_bytes());
            cluster.send(2, &looping);
        }
    }
    assert_eq!(rounds, 10);
    let errors: Vec<_> = cluster.take(0).iter().filter_map(|frame| icmp(frame)).collect();
    assert_eq!(errors, [(IpAddr::V4(gateway(2)), IpAddr::V4(host(0, 9)), 11, 0)]);
}

/// Encoded addresses from outside are never those of the cluster's own links.
#[test]
fn encoded_addresses_from_outside_are_dropped() {
    let mut cluster = three();
    let port = ExternalPort::new(0).unwrap();
    for (node, hop) in [(2, 65_535), (0, 65_535), (1, 1)] {
        let mut forged = frame(0, host(2, 7), |_| {}, &udp(1));
        forged[..6].copy_from_slice(&RouterMac::new(NodeId::new(node), port, hop).encode().octets());
        cluster.send(0, &forged);
    }
    // A hello from outside, which would take a link down.
    cluster.send(0, &hello((1, 0), u64::MAX, NodeSet::EMPTY, SECRET));
    cluster.run(20);
    assert_eq!((0..3).map(|port| cluster.take(port).len()).sum::<usize>(), 0);
    assert_eq!(cluster.counter("other_host"), 3);
    assert_eq!(cluster.links(0).map().up().len(), 2, "the links are as they were");
}

/// Frames on an internal link with numbers of no node, port or next hop.
#[test]
fn frames_of_unknown_numbers_on_links_are_dropped_by_name() {
    let (config, tables) = nodes(3, Steering::Flowlets, 1).swap_remove(1);
    let mut node = Lone::new(&config, &tables);
    let encoded = |node: u8, port: u8, hop: u16| {
        let mut frame = frame(0, host(1, 7), |_| {}, &udp(1));
        let mac = RouterMac::new(NodeId::new(node), ExternalPort::new(port).unwrap(), hop);
        frame[..6].copy_from_slice(&mac.encode().octets());
        frame
    };
    let cut = |frame: Vec<u8>, len: usize| frame[..len].to_vec();
    let frames = [
        encoded(3, 0, 1),
        encoded(255, 0, 1),
        encoded(1, 63, 1),
        encoded(1, 0, 77),
        encoded(1, 0, 65_534),
        cut(encoded(1, 0, 65_535), 30),
        cut(encoded(1, 0, 65_535), 14),
        cut(encoded(1, 0, 65_535), 5),
        vec![0xff; 60],
        vec![],
    ];
    for frame in &frames {
        node.send("link0", frame);
    }
    node.run(5);
    let counts = ["bad_fabric_mac", "no_port", "no_next_hop", "no_ip_packet", "no_hello"]
        .map(|name| node.counter(name));
    assert_eq!(counts, [4, 1, 2, 2, 1]);
    assert_eq!(node.take("eth0").len(), 0);
    // For another node, whose link is not known to work.
    node.send("link0", &encoded(2, 0, 1));
    node.run(5);
    assert_eq!(
        (node.counter("no_neighbour"), node.take("link2").iter().all(|frame| frame[12] == 0x88)),
        (1, true)
    );
}

/// A full link must not lose hellos, or it would count as failed.
#[test]
fn hellos_pass_data_before_a_full_link() {
    let (config, tables) = nodes(2, Steering::Flowlets, 1).swap_remove(0);
    let mut node = Lone::new(&config, &tables);
    node.make_neighbour(1);
    let mut hellos = 0;
    for ms in 0..2_000 {
        (0..20).for_each(|flow| node.send("eth0", &frame(0, host(1, 7), |_| {}, &udp(flow))));
        if ms % 100 == 0 {
            node.hello_of(1);
        }
        node.run(1);
        // The link takes four of twenty frames.
        let taken = node.take_some("link1", 4);
        hellos += taken.iter().filter(|frame| frame[12] == 0x88).count();
    }
    assert!(node.counter("queue_full") > 10_000, "{} dropped", node.counter("queue_full"));
    assert!((18..=22).contains(&hellos), "{hellos} hellos in 2 s");
}

#[test]
fn descriptions_of_nodes_that_cannot_be_are_refused() {
    let registry = scalebricks_elements::registry::<scalebricks_io::Packet>();
    let mut all = nodes(3, Steering::Flowlets, 1);
    let (config, tables) = all.remove(1);
    assert!(config.graph(&tables, &registry).is_ok());
    let refused = |change: &dyn Fn(&mut NodeConfig)| {
        let mut wrong = config.clone();
        change(&mut wrong);
        wrong.graph(&tables, &registry).is_err()
    };
    assert!(refused(&|node| node.links[0].device = "eth0".to_owned()), "two devices of one name");
    let encoded = RouterMac::new(NodeId::new(1), ExternalPort::new(0).unwrap(), 1).encode();
    assert!(refused(&|node| node.ports[0].interface.mac = encoded), "a port with an encoded address");
    assert!(refused(&|node| node.ports[0].interface.mac.0[0] = 3), "a group");
    assert!(refused(&|node| node.links[0].node = NodeId::new(1)), "a link to itself");
    assert!(refused(&|node| node.links[0].node = NodeId::new(3)), "a link to no node");
    assert!(refused(&|node| node.links[0].node = NodeId::new(2)), "two links to one node");
    assert!(refused(&|node| node.ports[0].mtu = 1_279), "an MTU below IPv6's least");
    assert!(refused(&|node| node.ports.clear()), "no ports");
    assert!(refused(&|node| node.id = NodeId::new(0)), "the links of another node");
}
