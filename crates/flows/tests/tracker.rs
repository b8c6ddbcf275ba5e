//! The tracker on whole packets: flows of each protocol, exhaustion, timeouts, hostile input.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use proptest::prelude::*;
use scalebricks_flows::Direction::{self, Forward, Reverse};
use scalebricks_flows::reassembly::{self, Chunk};
use scalebricks_flows::tcp::{self, Anomaly};
use scalebricks_flows::tracker::{
    Config, EndCause, Ended, Event, Packet, Sink, State, Tables, Tracker, Untracked,
};
use scalebricks_flows::{Tracked, simple};
use scalebricks_types::HashSeed;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 7];
const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;
const RST: u8 = 4;

/// An IPv4 packet.
fn ip(protocol: u8, from: [u8; 4], to: [u8; 4], l4: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    bytes[2..4].copy_from_slice(&(20 + l4.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&from);
    bytes.extend_from_slice(&to);
    bytes.extend_from_slice(l4);
    bytes
}

fn segment(ports: (u16, u16), sequence: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&ports.0.to_be_bytes());
    bytes.extend_from_slice(&ports.1.to_be_bytes());
    bytes.extend_from_slice(&sequence.to_be_bytes());
    bytes.extend_from_slice(&ack.to_be_bytes());
    bytes.extend_from_slice(&[0x50, flags, 0x70, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&ports.0.to_be_bytes());
    bytes.extend_from_slice(&ports.1.to_be_bytes());
    bytes.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

/// A client's packet, or the server's to it.
fn tcp_packet(port: u16, from: Direction, sequence: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    match from {
        Forward => ip(6, CLIENT, SERVER, &segment((port, 80), sequence, ack, flags, payload)),
        Reverse => ip(6, SERVER, CLIENT, &segment((80, port), sequence, ack, flags, payload)),
    }
}

/// Everything that a tracker says.
#[derive(Default)]
struct Log {
    streams: BTreeMap<(u64, usize), Vec<u8>>,
    missing: u64,
    /// Number and packets of flows that lasted.
    active: Vec<(u64, [u64; 2])>,
    ended: Vec<(u64, EndCause, State, [u64; 2])>,
    anomalies: Vec<(u64, Anomaly)>,
}

impl Sink for Log {
    fn chunk(&mut self, serial: u64, direction: Direction, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Data { bytes, .. } => {
                self.streams.entry((serial, direction.index())).or_default().extend_from_slice(bytes);
            }
            Chunk::Gap(gap) => self.missing += gap.len,
        }
    }

    fn anomaly(&mut self, serial: u64, anomaly: Anomaly) {
        self.anomalies.push((serial, anomaly));
    }

    fn active(&mut self, so_far: &Ended<'_>) {
        assert_eq!(so_far.cause, EndCause::ActiveTimeout);
        self.active.push((so_far.flow.serial, so_far.flow.packets));
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        self.ended.push((ended.flow.serial, ended.cause, ended.state, ended.flow.packets));
    }
}

struct Rig {
    tracker: Tracker,
    log: Log,
    now: Duration,
}

impl Rig {
    fn new(config: &Config) -> Self {
        let tracker = Tracker::new(config, HashSeed::new(1, 2), Tables::default()).unwrap();
        Self { tracker, log: Log::default(), now: Duration::from_secs(1_000) }
    }

    fn track(&mut self, bytes: &[u8]) -> Result<Tracked, Untracked> {
        self.tracker.track(bytes, 0, self.now, &mut self.log)
    }

    #[track_caller]
    fn tcp(
        &mut self,
        port: u16,
        from: Direction,
        sequence: u32,
        ack: u32,
        flags: u8,
        payload: &[u8],
    ) -> Tracked {
        self.track(&tcp_packet(port, from, sequence, ack, flags, payload)).unwrap()
    }

    /// A handshake; the client's data starts at 101, the server's at 501.
    fn open(&mut self, port: u16) {
        self.tcp(port, Forward, 100, 0, SYN, b"");
        self.tcp(port, Reverse, 500, 101, SYN | ACK, b"");
        self.tcp(port, Forward, 101, 501, ACK, b"");
    }
}

#[test]
fn a_connection_has_one_flow_with_its_streams() {
    let mut rig = Rig::new(&Config::default());
    assert!(rig.tcp(9, Forward, 100, 0, SYN, b"").is_new);
    let answer = rig.tcp(9, Reverse, 500, 101, SYN | ACK, b"");
    assert_eq!((answer.direction, answer.is_new), (Reverse, false));
    assert_eq!(rig.tracker.young_flows(), 1);
    rig.tcp(9, Forward, 101, 501, ACK, b"");
    assert_eq!((rig.tracker.young_flows(), rig.tracker.flows()), (0, 1));
    rig.tcp(9, Forward, 105, 501, ACK, b"world");
    rig.tcp(9, Forward, 101, 501, ACK, b"hell");
    rig.tcp(9, Reverse, 501, 110, ACK, b"fine");
    rig.tcp(9, Reverse, 505, 110, ACK | FIN, b"");
    rig.tcp(9, Forward, 110, 506, ACK | FIN, b"");
    let last = rig.tcp(9, Reverse, 506, 111, ACK, b"");
    assert_eq!(last.state, State::Tcp(tcp::State::TimeWait));
    rig.tracker.finish(&mut rig.log);
    assert_eq!(rig.log.streams[&(1, 0)], b"hellworld");
    assert_eq!(rig.log.streams[&(1, 1)], b"fine");
    assert_eq!(rig.log.ended, [(1, EndCause::Closed, last.state, [5, 4])]);
    assert_eq!(rig.log.missing, 0);
}

#[test]
fn a_flow_that_lasts_is_reported_when_it_had_packets() {
    let config = Config { active_timeout: Some(Duration::from_secs(60)), ..Config::default() };
    let mut rig = Rig::new(&config);
    rig.open(9);
    let at = |rig: &mut Rig, seconds: u64| {
        rig.now = Duration::from_secs(1_000 + seconds);
        rig.tracker.sweep(rig.now, usize::MAX, &mut rig.log);
        rig.log.active.split_off(0)
    };
    assert_eq!(at(&mut rig, 59), []);
    assert_eq!(at(&mut rig, 60), [(1, [2, 1])]);
    assert_eq!(at(&mut rig, 130), [], "no packet since the last report");
    rig.tcp(9, Forward, 101, 501, ACK, b"data");
    assert_eq!(at(&mut rig, 131), [(1, [3, 1])]);
    rig.tcp(9, Reverse, 501, 105, ACK, b"");
    assert_eq!(at(&mut rig, 190), []);
    rig.tcp(9, Reverse, 501, 105, ACK, b"answer");
    assert_eq!(at(&mut rig, 191), [(1, [3, 3])]);
    assert_eq!(rig.tracker.events().get(Event::Reported), 3);
    rig.tracker.finish(&mut rig.log);
    assert_eq!(rig.log.ended.len(), 1, "a report is no end");
    assert_eq!(rig.tracker.ends().get(EndCause::ActiveTimeout), 0);
}

#[test]
fn zones_keep_equal_addresses_apart() {
    let mut rig = Rig::new(&Config::default());
    let packet = ip(17, CLIENT, SERVER, &udp((5, 53), b"?"));
    for zone in [0, 7] {
        assert!(rig.tracker.track(&packet, zone, rig.now, &mut ()).unwrap().is_new);
    }
    assert_eq!(rig.tracker.flows(), 2);
}

#[test]
fn other_protocols_are_flows_with_timeouts() {
    let mut rig = Rig::new(&Config::default());
    let question = ip(17, CLIENT, SERVER, &udp((5, 53), b"?"));
    let answer = ip(17, SERVER, CLIENT, &udp((53, 5), b"!"));
    assert!(rig.track(&question).unwrap().is_new);
    let tracked = rig.track(&answer).unwrap();
    assert_eq!((tracked.direction, tracked.state), (Reverse, State::Simple(simple::State::TwoWay)));
    let ping = |kind, id, from, to| ip(1, from, to, &[kind, 0, 0, 0, 0, id, 0, 1]);
    assert!(rig.track(&ping(8, 1, CLIENT, SERVER)).unwrap().is_new);
    assert!(!rig.track(&ping(0, 1, SERVER, CLIENT)).unwrap().is_new);
    assert!(rig.track(&ping(8, 2, CLIENT, SERVER)).unwrap().is_new);
    let mut init = [0; 16];
    init[..4].copy_from_slice(&[0, 7, 0, 9]);
    init[12] = 1;
    assert!(rig.track(&ip(132, CLIENT, SERVER, &init)).unwrap().is_new);
    assert!(rig.track(&ip(47, CLIENT, SERVER, b"")).unwrap().is_new);
    assert_eq!(rig.tracker.flows(), 5);
    // SCTP's INIT 30 s, ICMP 60 s, UDP 300 s, others 600 s.
    for (seconds, left) in [(30, 5), (31, 4), (61, 2), (300, 2), (301, 1), (601, 0)] {
        rig.tracker.sweep(rig.now + Duration::from_secs(seconds), usize::MAX, &mut rig.log);
        rig.tracker.sweep(rig.now + Duration::from_secs(seconds), usize::MAX, &mut rig.log);
        assert_eq!(rig.tracker.flows(), left, "after {seconds} s");
    }
    assert!(rig.log.ended.iter().all(|(_, cause, ..)| *cause == EndCause::TimedOut));
}

#[test]
fn icmp_errors_belong_to_the_flow_that_they_quote() {
    let mut rig = Rig::new(&Config::default());
    let sent = ip(17, CLIENT, SERVER, &udp((5, 53), b"?"));
    let error =
        |quoted: &[u8]| ip(1, [192, 0, 2, 254], CLIENT, &[&[3, 1, 0, 0, 0, 0, 0, 0], quoted].concat());
    assert_eq!(rig.track(&error(&sent)), Err(Untracked::UnrelatedError));
    let flow = rig.track(&sent).unwrap();
    let tracked = rig.track(&error(&sent[..28])).unwrap();
    assert!(tracked.is_related);
    assert_eq!((tracked.record, tracked.direction), (flow.record, Reverse));
    assert_eq!(rig.tracker.flow(&tracked).packets, [1, 0]);
    assert_eq!(rig.tracker.events().get(Event::RelatedError), 1);
}

#[test]
fn a_flow_whose_time_is_over_is_replaced_by_the_next_packet() {
    let mut rig = Rig::new(&Config::default());
    let question = ip(17, CLIENT, SERVER, &udp((5, 53), b"?"));
    rig.track(&question).unwrap();
    rig.now += Duration::from_secs(121);
    assert!(rig.track(&question).unwrap().is_new);
    assert_eq!(rig.log.ended.len(), 1);
    assert_eq!(rig.tracker.flows(), 1);
}

#[test]
fn fragments_join_their_flow() {
    let mut rig = Rig::new(&Config::default());
    let l4 = udp((5, 53), &[7; 100]);
    let fragment = |offset: usize, more: bool, data: &[u8]| {
        let mut bytes = ip(17, CLIENT, SERVER, data);
        bytes[6..8].copy_from_slice(&(u16::from(more) << 13 | (offset / 8) as u16).to_be_bytes());
        bytes
    };
    assert_eq!(rig.track(&fragment(64, false, &l4[64..])), Err(Untracked::FragmentHeld));
    let tracked = rig.track(&fragment(0, true, &l4[..64])).unwrap();
    assert_eq!(rig.tracker.flow(&tracked).bytes, [128, 0]);
    assert!(!rig.track(&ip(17, SERVER, CLIENT, &udp((53, 5), b"!"))).unwrap().is_new);
}

/// A flood of SYNs from 10 M addresses: memory does not grow, and established flows go on.
#[test]
fn half_open_flows_have_their_limit_and_go_first() {
    let config = Config { flows: 4_096, young_flows: 1_024, reassembly: None, ..Config::default() };
    let mut rig = Rig::new(&config);
    for port in 1..=2_000 {
        rig.open(port);
    }
    assert_eq!((rig.tracker.flows(), rig.tracker.young_flows()), (2_000, 0));
    let flood = |n: u32| ip(6, Ipv4Addr::from_bits(n).octets(), SERVER, &segment((7, 80), n, 0, SYN, b""));
    let mut settled = None;
    let mut ended = 0;
    for n in 0..10_000_000_u32 {
        rig.track(&flood(n)).unwrap();
        if n % 100_000 == 99_999 {
            assert_eq!((rig.tracker.flows(), rig.tracker.young_flows()), (2_000 + 1_024, 1_024));
            let memory = rig.tracker.table_v4().memory().total_bytes();
            assert_eq!(*settled.get_or_insert(memory), memory, "after {n} SYNs");
            ended += rig.log.ended.len();
            assert!(rig.log.ended.iter().all(|(_, cause, ..)| *cause == EndCause::Evicted));
            rig.log.ended.clear();
        }
    }
    assert_eq!(ended, 10_000_000 - 1_024);
    for port in 1..=2_000 {
        assert!(!rig.tcp(port, Reverse, 501, 101, ACK, b"still here").is_new);
    }
    // And new ones come through.
    rig.open(3_000);
    assert_eq!(rig.tracker.flows(), 2_000 + 1_024);
    assert_eq!(rig.tracker.young_flows(), 1_023);
}

#[test]
fn a_table_full_of_established_flows_refuses_others() {
    let config = Config { flows: 100, young_flows: 10, ..Config::default() };
    let mut rig = Rig::new(&config);
    for port in 1..=100 {
        rig.open(port);
    }
    let syn = tcp_packet(500, Forward, 1, 0, SYN, b"");
    assert_eq!(rig.track(&syn), Err(Untracked::TableFull));
    rig.tcp(1, Forward, 101, 501, RST, b"");
    rig.tracker.sweep(rig.now + Duration::from_secs(11), usize::MAX, &mut rig.log);
    rig.tracker.sweep(rig.now + Duration::from_secs(11), usize::MAX, &mut rig.log);
    assert_eq!(rig.log.ended.len(), 1);
    assert!(rig.track(&syn).unwrap().is_new);
}

#[test]
fn refused_segments_begin_no_flow() {
    let mut rig = Rig::new(&Config::default());
    for flags in [ACK, RST, FIN | ACK, SYN | ACK, 0, SYN | FIN] {
        assert_eq!(rig.track(&tcp_packet(9, Forward, 1, 1, flags, b"")), Err(Untracked::Segment));
    }
    assert_eq!(rig.tracker.flows(), 0);
    assert_eq!(rig.tracker.anomalies().get(Anomaly::NoConnection), 4);
    assert_eq!(rig.tracker.anomalies().get(Anomaly::BadFlags), 2);
}

#[test]
fn a_reset_ends_streams_with_their_gaps() {
    let mut rig = Rig::new(&Config::default());
    rig.open(9);
    rig.tcp(9, Forward, 103, 501, ACK, b"late");
    rig.tcp(9, Forward, 107, 501, RST, b"");
    assert_eq!((rig.log.missing, rig.log.streams[&(1, 0)].as_slice()), (2, b"late".as_slice()));
    // The same ports again.
    assert!(rig.tcp(9, Forward, 40, 0, SYN, b"").is_new);
    assert_eq!(rig.log.ended[0].1, EndCause::Reset);
}

#[test]
fn a_connection_that_its_server_has_forgotten_is_replaced() {
    let mut rig = Rig::new(&Config::default());
    rig.open(9);
    assert_eq!(rig.track(&tcp_packet(9, Forward, 7_000, 0, SYN, b"")), Err(Untracked::Segment));
    let answer = rig.tcp(9, Reverse, 9_000, 7_001, SYN | ACK, b"");
    assert_eq!((answer.is_new, answer.direction), (true, Reverse));
    rig.tcp(9, Forward, 7_001, 9_001, ACK, b"again");
    rig.tracker.finish(&mut rig.log);
    assert_eq!(rig.log.streams[&(2, 0)], b"again");
    assert_eq!(rig.log.ended[0].1, EndCause::Replaced);
}

/// Packets of a few conversations: which, what, and how long after the last.
fn conversations() -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
    let packet = (1_u16..6, any::<bool>(), 0_u8..8, 0_u32..6).prop_map(|(port, forward, kind, at)| {
        let (from, sequence, ack) =
            if forward { (Forward, 101 + at, 501) } else { (Reverse, 501 + at, 101 + at) };
        match kind {
            0 => tcp_packet(port, Forward, 100, 0, SYN, b""),
            1 => tcp_packet(port, Reverse, 500, 101, SYN | ACK, b""),
            2 => tcp_packet(port, from, sequence, ack, FIN | ACK, b""),
            3 => tcp_packet(port, from, sequence, ack, RST, b""),
            4 => ip(17, CLIENT, SERVER, &udp((port, 53), b"?")),
            _ => tcp_packet(port, from, sequence, ack, ACK, b"data"),
        }
    });
    proptest::collection::vec((packet, prop_oneof![9 => Just(0), 1 => 0_u64..200]), 0..150)
}

proptest! {
    /// A batch gives what single calls give, also when flows begin, end and move within it.
    #[test]
    fn a_batch_equals_single_calls(packets in conversations(), sizes in proptest::collection::vec(1_usize..50, 1..150)) {
        let config = Config { flows: 6, young_flows: 3, ..Config::default() };
        let (mut single, mut batched) = (Rig::new(&config), Rig::new(&config));
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        let mut now = single.now;
        let timed: Vec<_> = packets.iter().map(|(bytes, later)| {
            now += Duration::from_secs(*later);
            Packet { bytes, zone: 0, now }
        }).collect();
        for packet in &timed {
            expected.push(single.tracker.track(packet.bytes, 0, packet.now, &mut single.log));
        }
        let (mut rest, mut sizes) = (&timed[..], sizes.into_iter().cycle());
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(1).min(rest.len());
            let (batch, left) = rest.split_at(size);
            let mut places = Vec::new();
            batched.tracker.track_batch(batch, &mut batched.log, |_, at, result, _| places.push((at, result)));
            prop_assert!(places.iter().map(|(at, _)| *at).eq(0..batch.len()));
            got.extend(places.into_iter().map(|(_, result)| result));
            rest = left;
        }
        prop_assert_eq!(expected, got);
        for rig in [&mut single, &mut batched] {
            rig.tracker.finish(&mut rig.log);
        }
        prop_assert_eq!(&single.log.streams, &batched.log.streams);
        prop_assert_eq!(&single.log.ended, &batched.log.ended);
    }

    /// Packets cut and damaged anywhere: no panic, bounded memory, and every packet is counted once.
    #[test]
    fn damaged_packets_are_counted_once(
        edits in proptest::collection::vec((0_usize..8, any::<prop::sample::Index>(), any::<u8>(), 0_usize..90, 0_u64..100), 0..200),
    ) {
        let config = Config {
            flows: 20,
            young_flows: 5,
            reassembly: Some(reassembly::Config { total_bytes: 500, stream_bytes: 300, ..Default::default() }),
            verify_checksums: false,
            ..Config::default()
        };
        let samples = [
            tcp_packet(9, Forward, 100, 0, SYN, b""),
            tcp_packet(9, Reverse, 500, 101, SYN | ACK, b""),
            tcp_packet(9, Forward, 101, 501, ACK, b"hello"),
            tcp_packet(9, Forward, 110, 501, ACK, b"hello"),
            tcp_packet(9, Reverse, 501, 101, FIN | ACK, b""),
            tcp_packet(9, Reverse, 501, 101, RST, b""),
            ip(17, CLIENT, SERVER, &udp((5, 53), b"?")),
            ip(1, SERVER, CLIENT, &[&[3, 1, 0, 0, 0, 0, 0, 0], ip(17, CLIENT, SERVER, &udp((5, 53), b"?")).as_slice()].concat()),
        ];
        let mut rig = Rig::new(&config);
        for (sample, at, value, len, later) in &edits {
            let mut bytes = samples[*sample].clone();
            let at = at.index(bytes.len());
            if at % 3 != 0 {
                bytes[at] ^= *value;
            }
            bytes.truncate((*len).max(20 * usize::from(at % 4 != 0)));
            let _ = rig.track(&bytes);
            rig.now += Duration::from_secs(*later);
            rig.tracker.sweep(rig.now, 7, &mut rig.log);
            prop_assert!(rig.tracker.flows() <= 20 && rig.tracker.young_flows() <= 5);
            prop_assert!(rig.tracker.reassembler().unwrap().waiting_bytes() <= 500);
        }
        rig.tracker.finish(&mut rig.log);
        let events = rig.tracker.events();
        prop_assert_eq!(events.get(Event::Packets), edits.len() as u64);
        prop_assert_eq!(events.get(Event::Tracked) + rig.tracker.untracked().total(), edits.len() as u64);
        prop_assert_eq!(events.get(Event::Began), events.get(Event::Ended));
        prop_assert_eq!(rig.tracker.ends().total(), events.get(Event::Ended));
        prop_assert_eq!(rig.log.ended.len() as u64, events.get(Event::Ended));
        prop_assert_eq!((rig.tracker.flows(), rig.tracker.young_flows()), (0, 0));
        prop_assert_eq!(rig.tracker.reassembler().unwrap().waiting_bytes(), 0);
    }
}
