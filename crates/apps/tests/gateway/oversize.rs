//! Packets larger than the base-station link allows: which are fragmented, which are refused, and the identifications
//! of outer packets. An independent library checks and reassembles the result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test helper fails by panicking"
)]

use crate::gateway::common::{Bench, SERVER, SERVER6, bench, downstream, station, tunnelled};
use etherparse::defrag::IpDefragPool;
use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{Icmpv4Type, Icmpv6Type, IpNumber, Ipv4HeaderSlice, NetSlice, SlicedPacket, TransportSlice};
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::packet::oversize::ICMP_PIECE;
use scalebricks_elements::gateway::{OutputPort, Oversize, Policy};
use std::collections::{BTreeMap, BTreeSet};

const DOWN: OutputPort = OutputPort::BaseStation;
const UP: OutputPort = OutputPort::Internet;

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Whole,
    Fragmented,
    /// Dropped, with an ICMP error that names this MTU.
    Refused(usize),
}

/// A downstream packet of flow `n` (odd: IPv6) with this length and, in IPv4, this DF bit.
fn packet(n: u32, ip_len: usize, df: bool) -> Vec<u8> {
    let headers = if n.is_multiple_of(2) { 28 } else { 48 };
    let mut frame = downstream(n, &vec![n as u8; ip_len - headers]);
    if n.is_multiple_of(2) {
        frame[20] = if df { 0x40 } else { 0 };
        let header = Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap().to_header();
        assert_eq!(header.dont_fragment, df);
        frame[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    }
    frame
}

/// Octets of outer IPv4, UDP, GTP-U and, with a QFI (every third flow), the PDU session container.
fn overhead(n: u32) -> usize {
    if n.is_multiple_of(3) { 44 } else { 36 }
}

/// The rule, case by case.
fn rule(n: u32, ip_len: usize, df: bool, mtu: usize, oversize: Oversize) -> Outcome {
    let is_v4 = n.is_multiple_of(2);
    match mtu - overhead(n) {
        room if ip_len <= room => Outcome::Whole,
        _ if oversize == Oversize::FragmentOuter => Outcome::Fragmented,
        _ if is_v4 && !df => Outcome::Fragmented,
        room if is_v4 => Outcome::Refused(room),
        room if room >= 1_280 => Outcome::Refused(room),
        _ => Outcome::Fragmented,
    }
}

/// Sends a packet through the cluster and checks the outcome.
fn observe(bench: &mut Bench, n: u32, frame: &[u8], mtu: usize) -> Outcome {
    let id = bench.inject(1, DOWN, frame, false);
    let (left, dropped) = bench.run(1);
    let tunnel = (
        station(bench.flows[n as usize].base_station.0).address,
        bench.flows[n as usize].downlink_teid.get(),
    );
    for piece in left.iter().filter(|left| left.output == DOWN) {
        let header = Ipv4HeaderSlice::from_slice(&piece.frame[14..]).unwrap();
        assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
        assert!(piece.frame.len() <= 14 + mtu);
    }
    if let [dropped] = &dropped[..] {
        assert_eq!((dropped.tag.id, dropped.reason.name()), (id, "fragmentation_needed"));
        let [answer] = &left[..] else { panic!("{} frames", left.len()) };
        assert_eq!((answer.output, answer.tag.id, answer.tag.piece), (UP, id, ICMP_PIECE));
        return Outcome::Refused(named_mtu(&answer.frame, frame));
    }
    assert_eq!(dropped, []);
    if let [whole] = &left[..] {
        assert_eq!(whole.output, DOWN);
        let header = Ipv4HeaderSlice::from_slice(&whole.frame[14..]).unwrap();
        assert!(!header.is_fragmenting_payload());
        // RFC 6864 §4.1: an atomic packet has DF set. Any identification is allowed, and it uses up none of those for
        // fragments.
        assert_eq!((header.dont_fragment(), header.identification()), (true, 0));
        let (address, teid, _, inner) = tunnelled(&whole.frame);
        assert_eq!(((address, teid), &inner[..]), (tunnel, &frame[14..]));
        return Outcome::Whole;
    }
    let (address, teid, inner) = reassembled(&left.iter().map(|piece| &piece.frame[..]).collect::<Vec<_>>());
    assert_eq!(((address, teid), &inner[..]), (tunnel, &frame[14..]));
    for (i, piece) in left.iter().enumerate() {
        assert_eq!((piece.output, usize::from(piece.tag.piece)), (DOWN, i + 1));
    }
    // The fewest possible: all fragments but the last have the largest length that is a multiple of 8.
    let (payload, room) = (frame.len() - 14 + overhead(n) - 20, mtu - 20);
    assert_eq!(left.len(), 1 + (payload - room).div_ceil(room / 8 * 8));
    Outcome::Fragmented
}

/// Destination, TEID and inner packet of a fragmented tunnel packet, reassembled by an independent library.
fn reassembled(pieces: &[&[u8]]) -> (std::net::Ipv4Addr, u32, Vec<u8>) {
    let mut pool = IpDefragPool::<(), ()>::new();
    let mut whole = None;
    let mut destination = None;
    for piece in pieces {
        assert_eq!(whole, None, "complete before its last fragment");
        let header = Ipv4HeaderSlice::from_slice(&piece[14..]).unwrap();
        assert!(!header.dont_fragment());
        assert_eq!(*destination.get_or_insert(header.destination_addr()), header.destination_addr());
        let sliced = SlicedPacket::from_ethernet(piece).unwrap();
        whole = pool.process_sliced_packet(&sliced, (), ()).unwrap();
    }
    let whole = whole.expect("all fragments");
    assert_eq!(whole.ip_number, IpNumber::UDP);
    let udp = etherparse::UdpSlice::from_slice(&whole.payload).unwrap();
    assert_eq!((udp.destination_port(), usize::from(udp.length())), (2152, whole.payload.len()));
    let gtpu = udp.payload();
    let inner = match gtpu[0] {
        0x30 => 8,
        0x34 => 16,
        flags => panic!("GTP-U flags {flags:#x}"),
    };
    (destination.unwrap(), u32::from_be_bytes([gtpu[4], gtpu[5], gtpu[6], gtpu[7]]), gtpu[inner..].to_vec())
}

/// The MTU in an ICMP error, after a check that it goes to the sender, has valid checksums and quotes the packet.
fn named_mtu(answer: &[u8], about: &[u8]) -> usize {
    let packet = SlicedPacket::from_ethernet(answer).unwrap();
    match (packet.net.unwrap(), packet.transport.unwrap()) {
        (NetSlice::Ipv4(ip), TransportSlice::Icmpv4(icmp)) => {
            let header = ip.header();
            assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
            assert_eq!(header.destination_addr(), SERVER);
            assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
            assert!(about[14..].starts_with(icmp.payload()) && icmp.payload().len() >= 28);
            match icmp.icmp_type() {
                Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded {
                    next_hop_mtu,
                }) => usize::from(next_hop_mtu),
                other => panic!("{other:?}"),
            }
        }
        (NetSlice::Ipv6(ip), TransportSlice::Icmpv6(icmp)) => {
            let header = ip.header();
            assert_eq!(header.destination_addr(), SERVER6);
            assert!(icmp.is_checksum_valid(header.source(), header.destination()));
            assert!(about[14..].starts_with(icmp.payload()) && icmp.payload().len() >= 48);
            match icmp.icmp_type() {
                Icmpv6Type::PacketTooBig { mtu } => mtu as usize,
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_size_of_either_family_with_df_or_without_has_the_outcome_of_the_rule() {
    let mut seen = BTreeMap::new();
    // At MTUs of 1,316 and 1,324 the tunnels leave 1,280 octets, or one less.
    for mtu in [576, 577, 1_000, 1_280, 1_315, 1_316, 1_323, 1_324, 1_500, 1_600] {
        for oversize in [Oversize::FragmentOuter, Oversize::Icmp] {
            let policy = Policy { base_station_mtu: mtu, oversize, ..Policy::default() };
            let mut bench = bench(Architecture::ScaleBricks, 4, policy);
            let mtu = usize::from(mtu);
            let edges =
                [mtu - 45, mtu - 44, mtu - 43, mtu - 37, mtu - 36, mtu - 35, mtu, 1_279, 1_280, 1_281];
            let sizes = edges.into_iter().chain((48..1_700).step_by(47)).chain([4_000, 20_000]);
            for ip_len in sizes {
                for (n, df) in [(0, true), (0, false), (1, true), (2, true), (2, false), (3, true)] {
                    let frame = packet(n, ip_len, df);
                    let outcome = observe(&mut bench, n, &frame, mtu);
                    let case = format!("flow {n}, {ip_len} octets, DF {df}, MTU {mtu}, {oversize:?}");
                    assert_eq!(outcome, rule(n, ip_len, df, mtu, oversize), "{case}");
                    if let Outcome::Refused(named) = outcome {
                        assert!(if n.is_multiple_of(2) { df } else { named >= 1_280 }, "{case}: {named}");
                    }
                    let kind = std::mem::discriminant(&outcome);
                    *seen.entry((n % 2, format!("{kind:?}"))).or_insert(0) += 1;
                }
            }
            let stats = bench.cluster.nodes().iter().map(scalebricks_apps::gateway::Node::stats);
            let sums = stats.fold((0, 0), |sums, s| (sums.0 + s.icmp_sent, sums.1 + s.packets_fragmented));
            assert_eq!(sums.0 > 0, oversize == Oversize::Icmp);
            assert!(sums.1 > 0);
        }
    }
    assert_eq!(seen.len(), 6, "each outcome in each family: {seen:?}");
}

#[test]
fn packets_from_a_node_without_a_flow_of_its_own_cross_the_fabric_and_are_judged_where_they_leave() {
    for architecture in Architecture::ALL {
        let policy = Policy { base_station_mtu: 1_000, oversize: Oversize::Icmp, ..Policy::default() };
        let mut bench = bench(architecture, 4, policy);
        for n in 0..40 {
            let outcome = observe(&mut bench, n, &packet(n, 1_400, true), 1_000);
            assert_eq!(outcome, rule(n, 1_400, true, 1_000, Oversize::Icmp), "{architecture} flow {n}");
            let outcome = observe(&mut bench, n, &packet(n, 1_400, false), 1_000);
            assert_eq!(outcome, rule(n, 1_400, false, 1_000, Oversize::Icmp), "{architecture} flow {n}");
        }
    }
}

#[test]
fn nodes_that_share_the_gateway_address_never_use_the_same_identification() {
    // Five parts of 65,536 are not of the same size.
    let policy = Policy { base_station_mtu: 576, ..Policy::default() };
    let mut bench = bench(Architecture::ScaleBricks, 5, policy);
    // By source, destination and protocol, which a receiver uses for reassembly.
    let mut drawn: BTreeMap<_, BTreeMap<u16, usize>> = BTreeMap::new();
    let mut nodes = BTreeSet::new();
    for round in 0..20 {
        for n in 0..120 {
            bench.inject(round % 5, DOWN, &packet(n, 1_000, true), false);
        }
        let (left, dropped) = bench.run(2);
        assert_eq!((left.len(), dropped.len()), (240, 0), "two fragments each");
        for piece in &left {
            let header = Ipv4HeaderSlice::from_slice(&piece.frame[14..]).unwrap();
            let key = (header.source_addr(), header.destination_addr(), header.protocol());
            if header.fragments_offset().value() > 0 {
                continue;
            }
            nodes.insert(piece.node);
            let before = drawn.entry(key).or_default().insert(header.identification(), piece.node);
            assert_eq!(before, None, "identification {} again", header.identification());
        }
    }
    assert_eq!((nodes.len(), drawn.len()), (5, 4), "all nodes, to four base stations");
    for of_station in drawn.values() {
        let mut parts: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
        for (&number, &node) in of_station {
            parts.entry(node).or_default().push(number);
        }
        for (node, numbers) in parts {
            let part = (65_536 * node / 5) as u32..(65_536 * (node + 1) / 5) as u32;
            assert!(numbers.iter().all(|&number| part.contains(&u32::from(number))), "node {node}");
        }
    }
}
