//! A node on its thread, over links in memory: answers, next hops, errors, new flows under traffic, and invalid
//! frames.

#![allow(clippy::unwrap_used, reason = "a test helper fails by panicking")]

use crate::worker;

use etherparse::PacketBuilder;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use scalebricks_apps::directory::RequestError;
use scalebricks_apps::gateway::NodeStats;
use scalebricks_daemon::node::errors;
use scalebricks_elements::gateway::local::{AdoptedAddress, Claims};
use scalebricks_elements::gateway::{DropReason, Lease, OutputPort};
use scalebricks_io::{Packet, PacketBuf};
use scalebricks_types::FlowKey;
use scalebricks_wire::MacAddr;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use worker::{
    GATEWAY, IN_MAC, NODE_IN, NODE_RAN, RAN_MAC, ROUTER, ROUTER_MAC, Rig, STATION, STATION_MAC, arp,
    downstream, flow, gtpu, to_gateway, upstream,
};

const IN: OutputPort = OutputPort::Internet;
const RAN: OutputPort = OutputPort::BaseStation;

fn arp_reply(frame: &[u8]) -> Option<[u8; 6]> {
    (frame[12..14] == [8, 6] && frame[20..22] == [0, 2]).then(|| frame[22..28].try_into().unwrap())
}

#[test]
fn a_node_answers_for_its_addresses_and_for_no_other() {
    let mut rig = Rig::new(&[], 256);
    rig.send(IN, &arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), NODE_IN));
    assert_eq!(rig.expect(IN, arp_reply), IN_MAC.octets());
    rig.send(RAN, &arp(1, STATION_MAC, STATION, MacAddr::default(), NODE_RAN));
    assert_eq!(rig.expect(RAN, arp_reply), RAN_MAC.octets());
    let before = rig.counted(|_| true).dropped.get(DropReason::NonIp);
    rig.send(IN, &arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), NODE_RAN));
    rig.send(IN, &arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), NODE_IN));
    assert_eq!(rig.expect(IN, arp_reply), IN_MAC.octets(), "the other link's address was not answered");
    let stats = rig.stop();
    assert!(stats.dropped.get(DropReason::NonIp) <= before + 1);
}

#[test]
fn packets_wait_for_their_next_hop_and_none_is_lost() {
    let mut rig = Rig::new(&[flow(1, 0)], 256);
    // The first packets arrive before the base station's address is resolved.
    for n in 0..5 {
        rig.send(IN, &downstream(1, &[n; 20]));
    }
    for n in 0..5 {
        let (kind, teid, inner) = rig.expect(RAN, gtpu);
        assert_eq!((kind, teid), (255, 0x2_0001));
        assert_eq!(inner[28..], [n; 20], "in their order");
    }
    rig.send(RAN, &upstream(1, 0x1_0001, b"up"));
    let frame = rig.expect(IN, |frame| (frame[12..14] == [8, 0]).then(|| frame.to_vec()));
    assert_eq!((&frame[..6], &frame[6..12]), (&ROUTER_MAC.octets()[..], &IN_MAC.octets()[..]));
    assert!(frame.ends_with(b"up"));
}

#[test]
fn elements_are_read_while_the_worker_runs() {
    let mut rig = Rig::new(&[flow(1, 0)], 256);
    for n in 0..5 {
        rig.send(IN, &downstream(1, &[n; 20]));
        rig.expect(RAN, gtpu);
    }
    let read = |element, handler| rig.graphs.read(element, handler, "", None).unwrap().text;
    rig.counted(|stats| stats.base_station_out == 5);
    assert_eq!(read("to_base_station", "sent"), "5");
    let answer = rig.graphs.read("steer", "class", "", Some(0)).unwrap();
    assert_eq!((answer.text.as_str(), answer.worker), ("Steer", None));
    assert_eq!(rig.graphs.write("steer", "packets", "0"), Err(RequestError::ReadOnly("packets".to_owned())));
    let graphs = Arc::clone(&rig.graphs);
    let stats = rig.stop();
    let received = graphs.read("from_internet", "received", "", None).unwrap().text;
    assert_eq!(received, stats.internet_in.to_string());
}

#[test]
fn path_management_is_answered_and_unknown_tunnels_are_told_of() {
    let mut rig = Rig::new(&[flow(1, 0), flow(2, 1)], 256);
    rig.send(RAN, &to_gateway(&[0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]));
    let (kind, teid, rest) = rig.expect(RAN, gtpu);
    // Sequence number of the request, then the recovery element (TS 29.281 §7.2.2).
    assert_eq!((kind, teid, &rest[..6]), (2, 0, &[0x12, 0x34, 0, 0, 14, 0][..]));
    // A TEID without flow: the GPT returns some node, which sends the Error Indication after its FIB missed.
    for teid in 0x9_0000..0x9_0040 {
        rig.send(RAN, &upstream(1, teid, b"?"));
    }
    let (kind, _, rest) = rig.expect(RAN, |frame| gtpu(frame).filter(|(kind, ..)| *kind == 26));
    let told = u32::from_be_bytes(rest[5..9].try_into().unwrap());
    assert_eq!((kind, rest[4]), (26, 16));
    assert!((0x9_0000..0x9_0040).contains(&told));
    assert_eq!(rest[9..16], [&[133, 0, 4][..], &GATEWAY.octets()].concat());
    // A flow of the other node goes over the fabric, without an Error Indication.
    rig.send(RAN, &upstream(2, 0x1_0002, b"elsewhere"));
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(packet) = rig.fabric.receive()
            && packet.data().ends_with(b"elsewhere")
        {
            break;
        }
        assert!(Instant::now() < until);
    }
}

/// Scripted answers of the owners of partitions.
struct Owners {
    has_caught_up: bool,
    exists: Option<bool>,
    asked: Arc<AtomicUsize>,
}

impl errors::Owners for Owners {
    fn has_caught_up(&self) -> bool {
        self.has_caught_up
    }

    fn ask(&self, _: FlowKey, answer: Box<dyn FnOnce(Option<bool>) + Send>) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let exists = self.exists;
        std::thread::spawn(move || answer(exists)); // on another thread, a little later
    }
}

/// A node of a cluster with these owners, after packets of many unknown tunnels and users; the number of requests to owners.
fn unknown(has_caught_up: bool, exists: Option<bool>, lease: &Arc<Lease>) -> (Rig, usize) {
    let asked = Arc::<AtomicUsize>::default();
    let owners = Owners { has_caught_up, exists, asked: Arc::clone(&asked) };
    let errors = errors::Errors::new(Arc::clone(lease), Some(Box::new(owners)));
    let mut rig = Rig::with_errors(&[flow(1, 0), flow(2, 1)], 256, errors);
    // Fewer than the limit of concurrent requests: no packet is skipped, however late the answers are.
    for n in 0..errors::QUESTIONS as u32 / 4 {
        rig.send(RAN, &upstream(1, 0x9_0000 + n, b"?"));
        rig.send(IN, &downstream(0x100 + n, b"?"));
    }
    // A packet of an existing flow follows all of them.
    if lease.may_forward(Duration::ZERO) {
        rig.send(IN, &downstream(1, b"known"));
        rig.expect(RAN, |frame| gtpu(frame).filter(|(kind, ..)| *kind == 255));
    }
    let of = |stats: &NodeStats, reason| stats.dropped.get(reason);
    rig.counted(|stats| of(stats, DropReason::UnknownFlow) + of(stats, DropReason::NoLease) > 0);
    (rig, asked.load(Ordering::Relaxed))
}

fn errors_sent(rig: &Rig) -> u64 {
    let stats = rig.slow_path.stats();
    stats["error_indications_out"] + stats["unreachables_out"]
}

#[test]
fn errors_wait_for_the_owner_s_word() {
    let (rig, asked) = unknown(true, Some(false), &Arc::new(Lease::unlimited()));
    assert!(asked > 0);
    rig.counted(|_| rig.slow_path.stats()["error_indications_out"] > 0);
    for exists in [Some(true), None] {
        let (rig, asked) = unknown(true, exists, &Arc::new(Lease::unlimited()));
        assert!(asked > 0);
        assert_eq!(errors_sent(&rig), 0);
    }
}

/// After a start without log the tables are empty, and the node knows that they are incomplete.
#[test]
fn a_node_that_knows_nothing_sends_no_error() {
    let (rig, asked) = unknown(false, Some(false), &Arc::new(Lease::unlimited()));
    assert_eq!((asked, errors_sent(&rig)), (0, 0));
    assert!(rig.slow_path.stats()["errors_withheld_not_caught_up"] > 0);
    let lapsed = Arc::new(Lease::none());
    lapsed.set(Duration::ZERO, Duration::from_secs(3_600));
    let (rig, asked) = unknown(true, Some(false), &lapsed);
    assert_eq!((asked, errors_sent(&rig)), (0, 0));
    assert!(rig.slow_path.stats()["errors_withheld_no_lease"] > 0);
    let (mut rig, asked) = unknown(true, Some(false), &Arc::new(Lease::none()));
    assert_eq!((asked, errors_sent(&rig)), (0, 0));
    assert!(rig.stop().dropped.get(DropReason::NoLease) > 0);
}

/// 1 for a packet from a tunnel. On a slow machine the node requests its next hop again, and gets an answer.
fn packet_or_question(rig: &mut Rig, packet: &Packet) -> u64 {
    rig.answer_arp(RAN, packet.data());
    u64::from(gtpu(packet.data()).is_some())
}

/// Packets of unchanged flows are sent while others are added, removed and moved; all arrive.
#[test]
fn new_lists_of_flows_lose_no_packet_of_those_that_stay() {
    const STAY: u32 = 64;
    let list = |round: u32| {
        let mut flows: Vec<_> = (0..STAY).map(|n| flow(n, 0)).collect();
        let others = (1_000..21_000).filter(|n| n % 7 != round % 7);
        flows.extend(others.map(|n| flow(n, ((n + round) % 2) as u8)));
        flows
    };
    let mut rig = Rig::new(&list(0), 4_096);
    // Resolve next hops first, because few packets are held for them.
    rig.send(IN, &downstream(0, b"first"));
    rig.expect(RAN, |frame| gtpu(frame).filter(|(kind, ..)| *kind == 255));
    let (mut sent, mut came) = (0_u64, 0_u64);
    for round in 1..8 {
        let (tables, flows) = (Arc::clone(&rig.tables), list(round));
        let done = std::thread::spawn(move || tables.lock().unwrap().change_to(&flows, |_| {}).unwrap());
        while !done.is_finished() || sent < u64::from(round) * 2_000 {
            for n in 0..32 {
                rig.send(IN, &downstream((sent as u32 + n) % STAY, &sent.to_be_bytes()));
            }
            sent += 32;
            while let Some(packet) = rig.ran.receive() {
                came += packet_or_question(&mut rig, &packet);
            }
        }
        let changes = done.join().unwrap();
        assert!(changes.added > 1_000 && changes.removed > 1_000 && changes.changed > 1_000, "{changes:?}");
        assert!(changes.kept >= STAY as usize);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while came < sent {
        match rig.ran.receive() {
            Some(packet) => came += packet_or_question(&mut rig, &packet),
            None => assert!(Instant::now() < until, "{} of {sent} packets are missing", sent - came),
        }
    }
    assert_eq!(rig.stop().dropped.get(DropReason::UnknownFlow), 0);
}

#[test]
fn exhausted_buffers_are_counted_and_the_node_goes_on() {
    let mut rig = Rig::new(&[flow(1, 0)], 64);
    rig.send(IN, &downstream(1, b"first"));
    rig.expect(RAN, |frame| gtpu(frame).filter(|(kind, ..)| *kind == 255));
    let mut pool = rig.node_pool.clone();
    let hoard: Vec<_> = std::iter::from_fn(|| pool.packet(b"")).collect();
    assert!(hoard.len() > 32);
    // Too large for the link: each fragment needs a buffer, and so does an answer to ARP.
    rig.send(IN, &downstream(1, &[0; 3_000]));
    rig.counted(|stats| stats.dropped.get(DropReason::NoBuffer) == 1);
    rig.send(IN, &arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), NODE_IN));
    let until = Instant::now() + Duration::from_secs(60);
    while rig.slow_path.stats()["no_buffer"] == 0 {
        assert!(Instant::now() < until, "{:?}", rig.slow_path.stats());
    }
    drop(hoard);
    rig.send(IN, &arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), NODE_IN));
    assert_eq!(rig.expect(IN, arp_reply), IN_MAC.octets());
    rig.send(IN, &downstream(1, &[0; 3_000]));
    rig.expect(RAN, |frame| (frame[20] & 0x20 != 0).then_some(()));
}

/// Random and partly valid frames on all links, as fast as the node receives them. `SOAK_SECONDS` makes it longer.
#[test]
fn hostile_frames_from_every_side_leave_the_node_well() {
    let seconds = std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut rig = Rig::new(&(0..100).map(|n| flow(n, (n % 2) as u8)).collect::<Vec<_>>(), 1_024);
    let random = &mut StdRng::seed_from_u64(11);
    let fabric_mac = [2, 0x5b, 0, 0, 0, 1];
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut sent = 0_u64;
    while Instant::now() < until {
        for _ in 0..512 {
            let n = random.random_range(0..120);
            let mut frame = match random.random_range(0..7) {
                0 => downstream(n, &[1; 100]),
                1 => upstream(n, 0x1_0000 + n, &[2; 100]),
                2 => arp(random.random_range(0..4), ROUTER_MAC, ROUTER, MacAddr::default(), NODE_IN),
                3 => arp(2, STATION_MAC, STATION, RAN_MAC, NODE_RAN),
                4 => to_gateway(&[0x32, random.random(), 0, 4, 0, 0, 0, 0, 0, 7, 0, 0]),
                5 => vec![random.random(); random.random_range(0..200)],
                _ => (0..random.random_range(0..1_600)).map(|_| random.random()).collect(),
            };
            for _ in 0..random.random_range(0..4) {
                if !frame.is_empty() {
                    let at = random.random_range(0..frame.len());
                    frame[at] = random.random();
                }
            }
            frame.truncate(random.random_range(0..2_000));
            let packet = rig.pool.packet(&frame);
            let Some(mut packet) = packet else { break };
            let done = match random.random_range(0..3) {
                0 => rig.internet.send(packet),
                1 => rig.ran.send(packet),
                _ => {
                    if packet.data().len() >= 6 {
                        packet.data_mut()[..6].copy_from_slice(&fabric_mac);
                    }
                    rig.fabric.send(packet)
                }
            };
            sent += u64::from(done.is_ok());
        }
        for port in [&mut rig.internet, &mut rig.ran, &mut rig.fabric] {
            while port.receive().is_some() {}
        }
    }
    // It still forwards.
    let taken = |s: &NodeStats| s.internet_in + s.base_station_in + s.fabric_in;
    rig.counted(|stats| taken(stats) >= sent);
    rig.send(IN, &arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), NODE_IN));
    assert_eq!(rig.expect(IN, arp_reply), IN_MAC.octets());
    // Its next hops may have been forged; it requests them again, and gets the correct ones.
    let until = Instant::now() + Duration::from_secs(60);
    let arrived = |frame: &[u8]| {
        frame[..6] == STATION_MAC.octets() && frame[12..14] == [8, 0] && frame.ends_with(b"there")
    };
    'told: loop {
        assert!(Instant::now() < until, "{:?}", rig.slow_path.neighbours());
        rig.send(IN, &downstream(2, b"still there"));
        std::thread::sleep(Duration::from_millis(20));
        for link in OutputPort::ALL {
            while let Some(packet) = rig.port(link).receive() {
                let frame = packet.data().to_vec();
                if link == RAN && arrived(&frame) {
                    break 'told;
                }
                rig.answer_arp(link, &frame);
            }
        }
    }
    let stats = rig.stop();
    assert!(stats.dropped.total() > sent / 10, "{stats:?}");
}

/// A packet from the router to an address on the Internet link.
fn to_link(dst: Ipv4Addr, is_ping: bool) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(ROUTER_MAC.octets(), IN_MAC.octets());
    let builder = builder.ipv4(ROUTER.octets(), dst.octets(), 64);
    let mut frame = Vec::new();
    if is_ping {
        builder.icmpv4_echo_request(1, 2).write(&mut frame, b"are you there").unwrap();
    } else {
        builder.udp(1_000, 2_000).write(&mut frame, b"something").unwrap();
    }
    frame
}

#[test]
fn a_running_node_stands_in_for_another_and_no_longer() {
    const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
    let mut rig = Rig::new(&[flow(1, 0)], 256);
    let question = arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), OTHER);
    let pong = |frame: &[u8]| {
        let is_reply = frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] == 0;
        is_reply.then(|| frame[26..30].to_vec())
    };
    let for_itself = |stats: &NodeStats| stats.dropped.get(DropReason::ForThisNode);
    // The address of another node: treated as a user without flow.
    rig.send(IN, &to_link(OTHER, false));
    rig.send(IN, &to_link(NODE_IN, false));
    rig.counted(|stats| for_itself(stats) == 1);
    let other = AdoptedAddress { port: IN, address: OTHER.into(), is_due_to_another: false };
    rig.slow_path.claim(&Claims { own: Some(0), others: vec![other] }, Duration::ZERO);
    // It announces itself: an ARP request for its own address.
    let announced = |frame: &[u8]| {
        let is_request = frame[12..14] == [8, 6] && frame[20..22] == [0, 1];
        (is_request && frame[28..32] == OTHER.octets())
            .then(|| (frame[22..28].to_vec(), frame[38..42].to_vec()))
    };
    assert_eq!(rig.expect(IN, announced), (IN_MAC.octets().to_vec(), OTHER.octets().to_vec()));
    rig.send(IN, &question);
    assert_eq!(rig.expect(IN, arp_reply), IN_MAC.octets());
    // Packets to it are now for the node itself.
    rig.send(IN, &to_link(OTHER, true));
    assert_eq!(rig.expect(IN, pong), OTHER.octets());
    rig.send(IN, &to_link(OTHER, false));
    rig.counted(|stats| for_itself(stats) == 2);
    rig.slow_path.claim(&Claims::default(), Duration::from_secs(1));
    let before = rig.slow_path.stats()["unknown_users_in"];
    let until = Instant::now() + Duration::from_secs(60);
    // Between two turns it learns that the address belongs to the other node again.
    while rig.slow_path.stats()["unknown_users_in"] == before {
        assert!(Instant::now() < until);
        rig.send(IN, &to_link(OTHER, true));
        std::thread::sleep(Duration::from_millis(5));
    }
    rig.send(IN, &question);
    rig.send(IN, &arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), NODE_IN));
    let owner = |frame: &[u8]| arp_reply(frame).map(|_| frame[28..32].to_vec());
    assert_eq!(rig.expect(IN, owner), NODE_IN.octets(), "no host asks it for the other's address any more");
}
