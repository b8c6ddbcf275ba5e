//! The example router over captures, checked by an independent parser.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use etherparse::{
    ArpHardwareId, EtherType, Icmpv4Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
};
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::click::run::{End, run};
use scalebricks_graph::{Clock, Ledger, Worker};
use scalebricks_io::{CaptureReader, CaptureWriter, Packet, Pool};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) type Frames = Vec<(u64, Vec<u8>)>;

const OWN: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0x10], [2, 0, 0, 0, 1, 0x10]];
const OWN_IP: [[u8; 4]; 2] = [[192, 0, 2, 1], [198, 51, 100, 1]];
/// A host of each network, and the gateway.
const HOST: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 1, 7], [2, 0, 0, 0, 1, 0xfe]];
const HOST_IP: [[u8; 4]; 3] = [[192, 0, 2, 7], [198, 51, 100, 7], [198, 51, 100, 254]];

const MILLISECOND: u64 = 1_000_000;
const START: u64 = 1_700_000_000_000_000_000;

fn udp(from: usize, to: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST[from], OWN[from.min(1)])
        .ipv4(HOST_IP[from], to, ttl)
        .udp(1_000, 2_000)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

fn ping(from: usize, to: [u8; 4]) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet = PacketBuilder::ethernet2(HOST[from], OWN[from]).ipv4(HOST_IP[from], to, 64);
    packet.icmpv4_echo_request(7, 9).write(&mut frame, b"are you there?").unwrap();
    frame
}

/// ARP over Ethernet: operation, sender, target.
pub(crate) fn arp(
    dst: [u8; 6],
    operation: u8,
    sender: ([u8; 6], [u8; 4]),
    target: ([u8; 6], [u8; 4]),
) -> Vec<u8> {
    let fixed = [8, 6, 0, 1, 8, 0, 6, 4, 0, operation];
    let mut frame = [&dst[..], &sender.0, &fixed, &sender.0, &sender.1, &target.0, &target.1].concat();
    frame.resize(60, 0);
    frame
}

fn write(path: &Path, frames: &Frames) {
    let mut writer = CaptureWriter::create(path).unwrap();
    for (at, frame) in frames {
        writer.write_frame(Duration::from_nanos(START + at), frame).unwrap();
    }
    writer.finish().unwrap();
}

fn read(path: &Path) -> Frames {
    let frame = |frame: Result<scalebricks_io::CapturedFrame, _>| {
        let frame = frame.unwrap();
        (frame.timestamp.as_nanos() as u64 - START, frame.data)
    };
    CaptureReader::open(path).unwrap().map(frame).collect()
}

/// The frames that leave each interface of the example.
fn routed(come: [&Frames; 2], folder: &Path) -> [Frames; 2] {
    routed_by(include_str!("../../../examples/router.click"), come, folder)
}

/// The frames that leave each interface of a router.
pub(crate) fn routed_by(text: &str, come: [&Frames; 2], folder: &Path) -> [Frames; 2] {
    let registry = scalebricks_elements::registry::<Packet>();
    let router = Router::read("router.click", text.as_bytes(), &[], &registry)
        .unwrap_or_else(|errors| panic!("{errors}"));
    let mut graph = router.graph(&registry, &mut Ledger::new()).unwrap_or_else(|errors| panic!("{errors}"));
    let mut outside = Devices::new(Clock::Captures);
    for (device, frames) in ["eth0", "eth1"].into_iter().zip(come) {
        let path = |way: &str| folder.join(format!("{way}-{device}.pcap"));
        write(&path("in"), frames);
        outside
            .receive(Some(device), ReceiveBinding::Capture(path("in")))
            .send(device, SendBinding::Capture(path("out")));
    }
    router.open(&mut graph, &mut outside).unwrap_or_else(|errors| panic!("{errors}"));
    let mut worker = Worker::new(graph, Box::new(Pool::new(1_000, 2_048).unwrap()), ());
    assert_eq!(run(&mut worker, Clock::Captures, None, &AtomicBool::new(false)), End::Done);
    assert_eq!(worker.graph().held(), 0);
    outside.finish().unwrap();
    ["eth0", "eth1"].map(|device| read(&folder.join(format!("out-{device}.pcap"))))
}

/// An IPv4 packet in a frame between these two, with valid checksums: source, destination, TTL, payload.
fn ip(frame: &[u8], from: [u8; 6], to: [u8; 6]) -> ([u8; 4], [u8; 4], u8, Vec<u8>) {
    assert_eq!((&frame[..6], &frame[6..12]), (&to[..], &from[..]));
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("no IPv4: {frame:02x?}") };
    let header = ip.header().to_header();
    assert_eq!(header.calc_header_checksum(), header.header_checksum);
    let Some(transport) = packet.transport else { panic!("nothing in IPv4") };
    match &transport {
        TransportSlice::Udp(udp) => {
            let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
            assert_eq!(sum, udp.checksum());
        }
        TransportSlice::Icmpv4(icmp) => {
            let sum = icmp.icmp_type().calc_checksum(icmp.payload());
            assert_eq!(sum, icmp.checksum());
        }
        other => panic!("{other:?}"),
    }
    (header.source, header.destination, header.time_to_live, ip.payload().payload.to_vec())
}

fn icmp(payload: &[u8]) -> (Icmpv4Type, Vec<u8>) {
    let slice = etherparse::Icmpv4Slice::from_slice(payload).unwrap();
    (slice.icmp_type(), slice.payload().to_vec())
}

#[track_caller]
fn is_arp(frame: &[u8], operation: u16, from: usize, target: [u8; 4]) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Arp(arp)) = packet.net else { panic!("no ARP: {frame:02x?}") };
    assert_eq!((arp.hw_addr_type(), arp.proto_addr_type()), (ArpHardwareId::ETHERNET, EtherType::IPV4));
    assert_eq!(
        (arp.operation().0, arp.sender_hw_addr(), arp.sender_protocol_addr()),
        (operation, &OWN[from][..], &OWN_IP[from][..])
    );
    assert_eq!(arp.target_protocol_addr(), &target[..]);
}

#[test]
fn packets_are_forwarded_and_everything_else_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let at = |milliseconds: u64| milliseconds * MILLISECOND;
    let own = |n: usize| (OWN[n], OWN_IP[n]);
    let host = |n: usize| (HOST[n], HOST_IP[n]);
    let asks = arp([0xff; 6], 1, host(0), ([0; 6], OWN_IP[0]));
    let answers = |from: usize| arp(OWN[from.min(1)], 2, host(from), own(from.min(1)));
    let mut to_other = udp(0, HOST_IP[1], 64, b"not for the router");
    to_other[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    let mut broken = udp(0, HOST_IP[1], 64, b"broken");
    broken[24] ^= 0xff;
    let left: Frames = vec![
        (at(0), asks),                                      // who has 192.0.2.1?
        (at(10), udp(0, HOST_IP[1], 64, b"one")),           // to the host of eth1: waits for an answer
        (at(30), udp(0, HOST_IP[1], 64, b"two")),           // goes at once
        (at(40), udp(0, [203, 0, 113, 9], 9, b"far")),      // by the gateway
        (at(60), udp(0, HOST_IP[1], 1, b"expired")),        // time exceeded
        (at(61), answers(0)),                               // to the question that the error waits for
        (at(70), ping(0, OWN_IP[0])),                       // answered
        (at(80), to_other),                                 // somebody else's
        (at(90), broken),                                   // wrong checksum
        (at(100), udp(0, [198, 51, 100, 255], 64, b"all")), // the router's own: a directed broadcast
    ];
    let right: Frames = vec![
        (at(11), answers(1)),
        (at(41), answers(2)),
        (at(50), udp(1, HOST_IP[0], 64, b"back")), // waits for the host of eth0
        (at(55), answers(1)),
    ];
    let [eth0, eth1] = routed([&left, &right], folder.path());

    // eth1: two ARP requests, the two packets for the host, the one for the gateway.
    is_arp(&eth1[0].1, 1, 1, HOST_IP[1]);
    assert_eq!(eth1[0].0, at(10));
    let (source, destination, ttl, payload) = ip(&eth1[1].1, OWN[1], HOST[1]);
    assert_eq!((source, destination, ttl, &payload[8..]), (HOST_IP[0], HOST_IP[1], 63, &b"one"[..]));
    assert_eq!((eth1[1].0, eth1[2].0), (at(11), at(30)));
    assert_eq!(ip(&eth1[2].1, OWN[1], HOST[1]).3[8..], *b"two");
    is_arp(&eth1[3].1, 1, 1, HOST_IP[2]);
    let (_, destination, ttl, payload) = ip(&eth1[4].1, OWN[1], HOST[2]);
    assert_eq!((eth1[4].0, destination, ttl, &payload[8..]), (at(41), [203, 0, 113, 9], 8, &b"far"[..]));
    assert_eq!(eth1.len(), 5);

    // eth0: an ARP reply, an ARP request, the packet back, time exceeded, an echo reply.
    is_arp(&eth0[0].1, 2, 0, HOST_IP[0]);
    is_arp(&eth0[1].1, 1, 0, HOST_IP[0]);
    assert_eq!((eth0[0].0, eth0[1].0), (at(0), at(50)));
    let (source, destination, ttl, payload) = ip(&eth0[2].1, OWN[0], HOST[0]);
    assert_eq!(
        (eth0[2].0, source, destination, ttl, &payload[8..]),
        (at(61), HOST_IP[1], HOST_IP[0], 63, &b"back"[..])
    );
    let (source, destination, _, payload) = ip(&eth0[3].1, OWN[0], HOST[0]);
    assert_eq!((source, destination), (OWN_IP[0], HOST_IP[0]));
    let (kind, quoted) = icmp(&payload);
    assert!(matches!(kind, Icmpv4Type::TimeExceeded(_)), "{kind:?}");
    assert_eq!(quoted[..28], left[4].1[14..42], "the header and eight bytes of what expired");
    let (source, destination, _, payload) = ip(&eth0[4].1, OWN[0], HOST[0]);
    let (kind, data) = icmp(&payload);
    let Icmpv4Type::EchoReply(echo) = kind else { panic!("{kind:?}") };
    assert_eq!((source, destination, echo.id, echo.seq), (OWN_IP[0], HOST_IP[0], 7, 9));
    assert_eq!((eth0[4].0, &data[..]), (at(70), &b"are you there?"[..]));
    assert_eq!(eth0.len(), 5);
}

/// The router of Click's publications: a compound per output, `ToHost` for packets to the router, and ARP replies
/// passed to both queriers.
#[test]
fn the_router_of_clicks_documentation_forwards() {
    let text = include_str!("../../click/tests/data/ip-router.click")
        .replace("00:00:5e:00:53:01", "02:00:00:00:00:10")
        .replace("00:00:5e:00:53:02", "02:00:00:00:01:10");
    let folder = tempfile::tempdir().unwrap();
    let at = |milliseconds: u64| milliseconds * MILLISECOND;
    let answer = |host: usize| arp(OWN[host], 2, (HOST[host], HOST_IP[host]), (OWN[host], OWN_IP[host]));
    let asks = |target| arp([0xff; 6], 1, (HOST[0], HOST_IP[0]), ([0; 6], target));
    let left: Frames = vec![
        (at(0), asks(OWN_IP[0])),
        (at(1), asks(HOST_IP[1])), // the router answers for the other network
        (at(10), udp(0, HOST_IP[1], 64, b"there")), // waits for an answer
        (at(20), udp(0, HOST_IP[1], 1, b"expired")), // time exceeded, waits for an answer
        (at(21), answer(0)),
        (at(30), ping(0, OWN_IP[0])), // for the router, which cannot resolve the sender
    ];
    let right: Frames = vec![(at(11), answer(1)), (at(40), udp(1, HOST_IP[0], 64, b"back"))];
    let [eth0, eth1] = routed_by(&text, [&left, &right], folder.path());
    is_arp(&eth1[0].1, 1, 1, HOST_IP[1]);
    let (source, destination, ttl, payload) = ip(&eth1[1].1, OWN[1], HOST[1]);
    assert_eq!((source, destination, ttl, &payload[8..]), (HOST_IP[0], HOST_IP[1], 63, &b"there"[..]));
    assert_eq!((eth1[1].0, eth1.len()), (at(11), 2));
    is_arp(&eth0[0].1, 2, 0, HOST_IP[0]);
    assert_eq!(eth0[1].1[22..32], [&OWN[0][..], &HOST_IP[1]].concat());
    is_arp(&eth0[2].1, 1, 0, HOST_IP[0]);
    let (kind, _) = icmp(&ip(&eth0[3].1, OWN[0], HOST[0]).3);
    assert!(matches!(kind, Icmpv4Type::TimeExceeded(_)), "{kind:?}");
    assert_eq!(ip(&eth0[4].1, OWN[0], HOST[0]).3[8..], *b"back");
    assert_eq!((eth0[3].0, eth0[4].0, eth0.len()), (at(21), at(40), 5));
}

#[test]
fn a_packet_that_is_too_long_is_cut_or_refused_and_a_detour_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let at = |milliseconds: u64| milliseconds * MILLISECOND;
    let answers = |from: usize| {
        arp(OWN[from.min(1)], 2, (HOST[from], HOST_IP[from]), (OWN[from.min(1)], OWN_IP[from.min(1)]))
    };
    let mut whole = udp(0, HOST_IP[1], 64, &[7; 1_600]);
    // Fragmentation allowed: DF cleared, and the checksum adjusted.
    whole[20] &= !0x40;
    whole[24..26].copy_from_slice(&[0, 0]);
    let sum =
        etherparse::Ipv4HeaderSlice::from_slice(&whole[14..34]).unwrap().to_header().calc_header_checksum();
    whole[24..26].copy_from_slice(&sum.to_be_bytes());
    let left: Frames = vec![
        (at(0), udp(0, HOST_IP[1], 64, b"first")),
        (at(10), whole),
        (at(20), udp(0, HOST_IP[1], 64, &[7; 1_600])),
        (at(21), answers(0)),
        (at(30), udp(0, HOST_IP[0], 64, b"to where it came from")),
    ];
    let [eth0, eth1] = routed([&left, &vec![(at(1), answers(1))]], folder.path());
    let fragments: Vec<_> =
        eth1[2..].iter().map(|(_, frame)| SlicedPacket::from_ethernet(frame).unwrap()).collect();
    assert_eq!(fragments.len(), 2);
    let mut total = 0;
    for fragment in &fragments {
        let Some(NetSlice::Ipv4(ip)) = &fragment.net else { panic!("no IPv4") };
        assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
        assert_eq!(usize::from(ip.header().fragments_offset().value()) * 8, total);
        total += ip.payload().payload.len();
    }
    assert_eq!(total, 1_608);
    // The ARP request for the host, the error, the redirect, and the packet that caused it.
    let kinds: Vec<_> = eth0[1..].iter().map(|(_, frame)| frame[23]).collect();
    assert_eq!((kinds, eth0.len()), (vec![1, 17, 1], 4), "ICMP, UDP, ICMP");
    let (kind, _) = icmp(&ip(&eth0[1].1, OWN[0], HOST[0]).3);
    let Icmpv4Type::DestinationUnreachable(why) = kind else { panic!("{kind:?}") };
    assert_eq!(why, etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1_500 });
    let (kind, _) = icmp(&ip(&eth0[3].1, OWN[0], HOST[0]).3);
    let Icmpv4Type::Redirect(redirect) = kind else { panic!("{kind:?}") };
    assert_eq!(redirect.gateway_internet_address, HOST_IP[0]);
}
