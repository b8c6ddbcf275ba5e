//! A tracker beside one that judges every packet by the general parser and the full state machine: both say the same of
//! everything.

use super::{Config, Ended, Event, Packet, Sink, Tables, Tracked, Tracker, Untracked};
use crate::reassembly::{self, Chunk};
use crate::tcp::{self, Anomaly, Segment, Vantage};
use crate::{Direction, Named};
use proptest::prelude::*;
use scalebricks_types::HashSeed;
use scalebricks_types::mix::SplitMix64;
use scalebricks_wire::checksum;
use std::net::IpAddr;
use std::time::Duration;

/// Everything that a tracker says, in order.
#[derive(Default, PartialEq, Eq)]
struct Log(Vec<String>);

impl Sink for Log {
    fn segment(&mut self, serial: u64, direction: Direction, segment: &Segment, payload: &[u8]) {
        self.0.push(format!("segment {serial} {direction:?} {segment:?} {payload:?}"));
    }

    fn chunk(&mut self, serial: u64, direction: Direction, chunk: Chunk<'_>) {
        self.0.push(format!("chunk {serial} {direction:?} {chunk:?}"));
    }

    fn anomaly(&mut self, serial: u64, anomaly: Anomaly) {
        self.0.push(format!("anomaly {serial} {}", anomaly.name()));
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        self.0.push(format!("{ended:?}"));
    }
}

/// A connection as its endpoints see it, and how they misbehave.
struct Talk {
    is_v6: bool,
    port: u16,
    /// The next sequence number of each end.
    next: [u32; 2],
    /// What each end has received.
    received: [u32; 2],
    has_timestamps: bool,
    has_scaling: bool,
    clock: u32,
    steps: u32,
}

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;
const RST: u8 = 4;

/// The fields of a segment that is made into a packet.
struct Made {
    from: usize,
    sequence: u32,
    ack: u32,
    flags: u8,
    window: u16,
    len: usize,
    timestamp: Option<u32>,
}

impl Talk {
    fn new(random: &mut SplitMix64, number: u16) -> Self {
        let word = random.next_u64();
        // Some numbers wrap soon.
        let first =
            |word: u64| if word & 1 == 0 { u32::MAX - (word >> 8) as u32 % 300 } else { (word >> 8) as u32 };
        let next = [first(word), first(word >> 24)];
        Self {
            is_v6: word >> 60 == 0,
            port: 1_000 + number,
            next,
            received: [0, 0],
            has_timestamps: word & 2 != 0,
            has_scaling: word & 4 != 0,
            clock: 100,
            steps: 0,
        }
    }

    /// The next packet: mostly the expected one. `wildness` of 16 are not.
    fn step(&mut self, random: &mut SplitMix64, wildness: u64, has_checksums: bool) -> Vec<u8> {
        let word = random.next_u64();
        self.steps += 1;
        self.clock += 1;
        if self.steps <= 3 && word >> 32 & 0xF >= wildness / 2 {
            return self.handshake(has_checksums);
        }
        let from = (word & 1) as usize;
        let len = [0, 0, 1, 13, 60, 1_000][(word >> 1) as usize % 6];
        let window = [0x7000, 0x7000, 0xFFFF, 300, 1, 0x7000, 0x7000, 0][(word >> 8) as usize % 8];
        let mut made = Made {
            from,
            sequence: self.next[from],
            ack: self.received[from],
            flags: ACK | if word & 1 << 12 == 0 { 8 } else { 0 },
            window: if wildness == 0 { 0x7000 } else { window },
            len,
            timestamp: self.has_timestamps.then_some(self.clock),
        };
        let mut is_lost = false;
        let choice = random.next_u64();
        if choice % 16 < wildness {
            let near = [1, 13, 60, 5_000, 1 << 20, 1 << 31][(choice >> 24) as usize % 6];
            match (choice >> 4) % 18 {
                0 => made.sequence = made.sequence.wrapping_sub(near),
                1 => made.sequence = made.sequence.wrapping_add(near),
                2 => (made.sequence, made.len) = (made.sequence.wrapping_sub(1), (choice >> 32) as usize % 2),
                3 => made.ack = made.ack.wrapping_sub(near),
                4 => made.ack = made.ack.wrapping_add(near),
                5 => made.window = 0,
                6 => made.timestamp = made.timestamp.map(|value| value.wrapping_sub(near)),
                7 => made.timestamp = if made.timestamp.is_some() { None } else { Some(7) },
                8 => made.flags |= FIN,
                9 => (made.flags, made.len) = (RST | ACK, 0),
                10 => (made.flags, made.len) = (RST, 0),
                11 => (made.flags, made.len) = (SYN, 0),
                12 => (made.flags, made.len) = (SYN | ACK, 0),
                13 => made.flags = (choice >> 32) as u8,
                14 => made.len = 1,
                15 | 16 => is_lost = true,
                _ => made.ack = 0,
            }
        }
        let in_order = made.sequence == self.next[from] && made.flags & (SYN | RST) == 0;
        if in_order && (made.flags & FIN == 0 || choice & 1 << 40 == 0) {
            self.next[from] = made.sequence.wrapping_add(made.len as u32 + u32::from(made.flags & FIN));
            if !is_lost {
                self.received[1 - from] = self.next[from];
            }
        }
        let mut bytes = self.packet(&made, has_checksums);
        if is_lost && choice & 1 << 41 == 0 {
            return Vec::new();
        }
        if choice >> 42 & 0x1F < wildness / 4 {
            let at = (choice >> 48) as usize % bytes.len();
            match choice >> 47 & 3 {
                0 => bytes.truncate(at),
                1 => bytes.resize(bytes.len() + at % 9, 0xee),
                _ => bytes[at % 60] ^= 1 << (choice >> 60 & 7),
            }
        }
        bytes
    }

    fn handshake(&mut self, has_checksums: bool) -> Vec<u8> {
        let (from, flags) = [(0, SYN), (1, SYN | ACK), (0, ACK)][self.steps as usize - 1];
        let (sequence, ack) = (self.next[from], self.received[from]);
        if flags & SYN != 0 {
            self.next[from] = sequence.wrapping_add(1);
            self.received[1 - from] = self.next[from];
        }
        let timestamp = self.has_timestamps.then_some(self.clock);
        self.packet(&Made { from, sequence, ack, flags, window: 0x7000, len: 0, timestamp }, has_checksums)
    }

    fn packet(&self, made: &Made, has_checksums: bool) -> Vec<u8> {
        let mut l4 = Vec::new();
        let ports = if made.from == 0 { [self.port, 80] } else { [80, self.port] };
        l4.extend(ports.map(u16::to_be_bytes).concat());
        l4.extend(made.sequence.to_be_bytes());
        l4.extend(made.ack.to_be_bytes());
        l4.extend([0, made.flags]);
        l4.extend(made.window.to_be_bytes());
        l4.extend([0; 4]);
        if let Some(value) = made.timestamp {
            l4.extend([1, 1, 8, 10]);
            l4.extend(value.to_be_bytes());
            l4.extend([0; 4]);
        }
        if made.flags & SYN != 0 && self.has_scaling {
            l4.extend([1, 3, 3, 4]);
        }
        l4[12] = ((l4.len() / 4) << 4) as u8;
        l4.extend((0..made.len).map(|at| (made.sequence as usize + at) as u8));
        let ends: [IpAddr; 2] = if self.is_v6 {
            ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap())
        } else {
            ["10.0.0.1", "192.0.2.7"].map(|text| text.parse().unwrap())
        };
        let (from, to) = (ends[made.from], ends[1 - made.from]);
        if has_checksums {
            let sum = checksum::upper_layer(from, to, 6, &l4).unwrap();
            l4[16..18].copy_from_slice(&sum.to_be_bytes());
        }
        let mut bytes = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut head = vec![0x45, 0, 0, 0, 0, 9, 0x40, 0, 64, 6, 0, 0];
                head[2..4].copy_from_slice(&(20 + l4.len() as u16).to_be_bytes());
                head.extend(from.octets());
                head.extend(to.octets());
                let sum = checksum::checksum(&head);
                head[10..12].copy_from_slice(&sum.to_be_bytes());
                head
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut head = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
                head[4..6].copy_from_slice(&(l4.len() as u16).to_be_bytes());
                head.extend(from.octets());
                head.extend(to.octets());
                head
            }
            _ => unreachable!("both ends are of one family"),
        };
        bytes.extend(l4);
        bytes
    }
}

/// What the trackers are, and what they are given.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "options of a tracker")]
struct Case {
    seed: u64,
    vantage: Vantage,
    pick_up: bool,
    is_reassembling: bool,
    verify_checksums: bool,
    grows: bool,
    /// Of 16 packets, so many are unusual.
    wildness: u64,
    talks: u16,
    packets: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let vantage = prop::sample::select(vec![Vantage::InPath, Vantage::Capture]);
    let flags = (any::<bool>(), prop::bool::weighted(0.8), prop::bool::weighted(0.2), any::<bool>());
    let wildness = prop::sample::select(vec![0_u64, 1, 1, 2, 4, 16]);
    (any::<u64>(), vantage, flags, wildness, 1_u16..5, 1_usize..150).prop_map(
        |(seed, vantage, (pick_up, is_reassembling, verify_checksums, grows), wildness, talks, packets)| {
            Case {
                seed,
                vantage,
                pick_up,
                is_reassembling,
                verify_checksums,
                grows,
                wildness,
                talks,
                packets,
            }
        },
    )
}

/// Packets with the moment of each, and whether a sweep follows.
type Given = (Vec<(Vec<u8>, Duration)>, bool);

impl Case {
    fn tracker(&self) -> Tracker {
        let reassembly = reassembly::Config { stream_bytes: 4_000, ..reassembly::Config::default() };
        let config = Config {
            tcp: tcp::Config { vantage: self.vantage, pick_up: self.pick_up, ..tcp::Config::default() },
            reassembly: self.is_reassembling.then_some(reassembly),
            verify_checksums: self.verify_checksums,
            flows: 40,
            young_flows: 3,
            grows: self.grows,
            ..Config::default()
        };
        Tracker::new(&config, HashSeed::new(3, self.seed), Tables::default()).unwrap()
    }

    /// All packets, in batches.
    fn batches(&self) -> Vec<Given> {
        let mut random = SplitMix64(self.seed);
        let mut talks: Vec<Talk> = (0..self.talks).map(|number| Talk::new(&mut random, number)).collect();
        let (mut now, mut batches, mut left) = (Duration::from_secs(1_000), Vec::new(), self.packets);
        while left > 0 {
            let word = random.next_u64();
            let size = (1 + word as usize % 40).min(left);
            left -= size;
            let packets = (0..size).map(|_| {
                let word = random.next_u64();
                let step_ms = [0, 0, 1, 200, 3_000][(word >> 16) as usize % 5];
                let is_long = self.wildness > 0 && (word >> 48).is_multiple_of(256);
                now += Duration::from_millis(if is_long { 10_000_000 } else { step_ms });
                let number = (word >> 32) as usize % talks.len();
                let is_wrong = word >> 60 == 0 && self.wildness > 0;
                let bytes =
                    talks[number].step(&mut random, self.wildness, self.verify_checksums && !is_wrong);
                (bytes, now)
            });
            batches.push((packets.collect(), (word >> 32).is_multiple_of(4)));
        }
        batches
    }
}

/// All that a tracker has counted, and its flows.
fn state(tracker: &Tracker) -> String {
    let streams = tracker.reassembler().map(|reassembler| {
        format!("{:?} {:?} {}", reassembler.events(), reassembler.gaps(), reassembler.waiting_bytes())
    });
    format!(
        "{} {} {:?} {:?} {:?} {:?} {streams:?}",
        tracker.flows(),
        tracker.young_flows(),
        tracker.events(),
        tracker.untracked(),
        tracker.ends(),
        tracker.anomalies(),
    )
}

fn result(tracker: &Tracker, result: &Result<Tracked, Untracked>) -> String {
    let Ok(tracked) = result else { return format!("{result:?}") };
    let (connection, streams) = (tracker.connection(tracked), tracker.streams(tracked));
    format!("{tracked:?} {:?} {connection:?} {streams:?}", tracker.flow(tracked))
}

/// Gives both the same; returns the packets that were expected, and all that were tracked.
fn compare(case: &Case) -> Result<(u64, u64), TestCaseError> {
    let (mut fast, mut slow) = (case.tracker(), case.tracker());
    let (mut said, mut expected) = (Log::default(), Log::default());
    for (packets, is_swept) in case.batches() {
        let batch: Vec<Packet<'_>> =
            packets.iter().map(|(bytes, now)| Packet { bytes, zone: 5, now: *now }).collect();
        let mut results = Vec::new();
        fast.track_batch(&batch, &mut said, |tracker, at, tracked, _| {
            assert_eq!(at, results.len());
            results.push(result(tracker, &tracked));
        });
        for (packet, got) in batch.iter().zip(&results) {
            let tracked = slow.track_slowly(packet.bytes, packet.zone, packet.now, &mut expected);
            prop_assert_eq!(got, &result(&slow, &tracked), "{:?}", packet);
        }
        if is_swept && let Some((_, now)) = packets.last() {
            fast.sweep(*now, 100, &mut said);
            slow.sweep(*now, 100, &mut expected);
        }
        prop_assert_eq!(state(&fast), state(&slow));
        for (said, expected) in said.0.iter().zip(&expected.0) {
            prop_assert_eq!(said, expected);
        }
        prop_assert_eq!(said.0.len(), expected.0.len());
    }
    fast.finish(&mut said);
    slow.finish(&mut expected);
    prop_assert!(said == expected, "the ends differ");
    prop_assert_eq!(state(&fast), state(&slow));
    prop_assert_eq!(slow.expected_packets(), 0);
    Ok((fast.expected_packets(), fast.events().get(Event::Tracked)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn expected_packets_are_judged_as_all_others(case in case()) {
        compare(&case)?;
    }

    /// Connections without anything unusual take the fast path but for their beginning.
    #[test]
    fn almost_all_packets_of_usual_connections_are_expected(seed: u64, verify_checksums: bool, is_reassembling: bool) {
        let case = Case {
            seed,
            vantage: Vantage::InPath,
            pick_up: false,
            is_reassembling,
            verify_checksums,
            grows: true,
            wildness: 0,
            talks: 2,
            packets: 200,
        };
        let (expected, tracked) = compare(&case)?;
        prop_assert!(expected > 170, "{expected} of {tracked} packets");
    }
}
