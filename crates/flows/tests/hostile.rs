//! Attacks on a tracker with established flows: they are refused by name, memory is bounded, and the flows go on.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use scalebricks_flows::Direction;
use scalebricks_flows::fragments::{self, Refusal};
use scalebricks_flows::tcp;
use scalebricks_flows::tracker::{Config, Tables, Tracker, Untracked};
use scalebricks_tables::dhash::{FlowHasher, Key4, Signature};
use scalebricks_types::HashSeed;
use std::net::Ipv4Addr;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_000);
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 7];
/// A secret that the attacker knows.
const KNOWN: HashSeed = HashSeed::new(11, 22);

fn ip(protocol: u8, from: [u8; 4], to: [u8; 4], l4: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    bytes[2..4].copy_from_slice(&(20 + l4.len() as u16).to_be_bytes());
    [bytes, from.to_vec(), to.to_vec(), l4.to_vec()].concat()
}

fn segment(from: Direction, sequence: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let ports: [u16; 2] = if from == Direction::Forward { [7, 80] } else { [80, 7] };
    let mut l4 = ports.map(u16::to_be_bytes).concat();
    l4.extend_from_slice(&sequence.to_be_bytes());
    l4.extend_from_slice(&ack.to_be_bytes());
    l4.extend_from_slice(&[0x50, flags, 0x70, 0, 0, 0, 0, 0]);
    l4.extend_from_slice(payload);
    let (from, to) = if from == Direction::Forward { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    ip(6, from, to, &l4)
}

fn udp(from: [u8; 4], to: [u8; 4], source: u16) -> Vec<u8> {
    let mut l4 = [source.to_be_bytes(), 53_u16.to_be_bytes(), 9_u16.to_be_bytes(), [0, 0]].concat();
    l4.push(1);
    ip(17, from, to, &l4)
}

/// A tracker with one established connection, from `CLIENT` at 101 to `SERVER` at 501.
fn talking(config: &Config) -> Tracker {
    let mut tracker = Tracker::new(config, KNOWN, Tables::default()).unwrap();
    for packet in [
        segment(Direction::Forward, 100, 0, 2, b""),
        segment(Direction::Reverse, 500, 101, 18, b""),
        segment(Direction::Forward, 101, 501, 16, b""),
    ] {
        tracker.track(&packet, 0, NOW, &mut ()).unwrap();
    }
    tracker
}

/// The connection takes data in both directions.
fn goes_on(tracker: &mut Tracker) {
    for packet in [
        segment(Direction::Forward, 101, 501, 16, b"still"),
        segment(Direction::Reverse, 501, 106, 16, b"here"),
    ] {
        let tracked = tracker.track(&packet, 0, NOW, &mut ()).unwrap();
        assert!(!tracked.is_new);
        assert_eq!(tracked.state, scalebricks_flows::tracker::State::Tcp(tcp::State::Established));
    }
}

/// A fragment of a UDP packet between the ends of the connection: offset in octets, and as many octets of data.
fn fragment(id: u16, offset: usize, len: usize, more: bool) -> Vec<u8> {
    let mut bytes = ip(17, CLIENT, SERVER, &vec![0; len]);
    bytes[4..6].copy_from_slice(&id.to_be_bytes());
    bytes[6..8].copy_from_slice(&(u16::from(more) << 13 | (offset / 8) as u16).to_be_bytes());
    bytes
}

/// The attacks on IP reassembly that have names. Each is refused for its reason, and no packet comes of it.
#[test]
fn fragment_attacks_are_refused_by_name() {
    /// Name, fragments (offset, octets, whether more follow), and the reason.
    type Attack = (&'static str, &'static [(usize, usize, bool)], Refusal);
    const ATTACKS: [Attack; 9] = [
        (
            "teardrop: the second fragment lies within the first",
            &[(0, 36, true), (24, 4, false)],
            Refusal::End,
        ),
        ("newtear: the same, shorter", &[(0, 32, true), (24, 4, false)], Refusal::End),
        ("the second ends behind the first", &[(0, 32, true), (24, 16, false)], Refusal::Overlap),
        ("nestea: overlap after a hole", &[(0, 16, true), (48, 224, false), (8, 24, true)], Refusal::Overlap),
        (
            "bonk: the last fragment comes first and overlaps",
            &[(32, 32, false), (0, 40, true)],
            Refusal::Overlap,
        ),
        ("boink: an offset within the last", &[(24, 24, true), (0, 32, true)], Refusal::Overlap),
        ("syndrop: another end", &[(0, 16, true), (24, 16, false), (24, 24, false)], Refusal::End),
        ("data behind the end", &[(8, 24, false), (40, 8, true)], Refusal::End),
        ("no data", &[(0, 0, true)], Refusal::Empty),
    ];
    for (id, (name, parts, reason)) in (1..).zip(ATTACKS) {
        let mut tracker = talking(&Config::default());
        let results: Vec<_> = parts
            .iter()
            .map(|&(offset, len, more)| tracker.track(&fragment(id, offset, len, more), 0, NOW, &mut ()))
            .collect();
        let refused = |result: &Result<_, Untracked>| *result == Err(Untracked::FragmentRefused);
        assert!(results.iter().any(refused), "{name}: {results:?}");
        assert!(results.iter().all(Result::is_err), "{name}: {results:?}");
        assert_eq!(tracker.defragmenter().refusals().get(reason), 1, "{name}");
        // What comes later of this packet is refused too, so no other arrangement of its fragments gets through.
        if reason == Refusal::Overlap {
            let rest = tracker.track(&fragment(id, 0, 8, true), 0, NOW, &mut ());
            assert_eq!(rest, Err(Untracked::FragmentRefused), "{name}");
        }
        goes_on(&mut tracker);
        assert_eq!(tracker.flows(), 1, "{name}");
    }
}

/// The ping of death itself ends beyond any packet: the parser refuses the fragment.
#[test]
fn a_fragment_that_ends_beyond_any_packet_is_malformed() {
    let mut tracker = talking(&Config::default());
    assert_eq!(tracker.track(&fragment(1, 0, 8, true), 0, NOW, &mut ()), Err(Untracked::FragmentHeld));
    let last = fragment(1, 65_528, 1_000, false);
    assert_eq!(tracker.track(&last, 0, NOW, &mut ()), Err(Untracked::MalformedIp));
    goes_on(&mut tracker);
}

/// Rose and jolt: first or last fragments of more packets than there is room for, of many sources.
#[test]
fn incomplete_packets_are_bounded_and_established_flows_go_on() {
    let config = Config {
        fragments: fragments::Config { packets: 100, bytes: 100_000, ..fragments::Config::default() },
        ..Config::default()
    };
    let mut tracker = talking(&config);
    for number in 0..20_000_u32 {
        let mut bytes = if number % 2 == 0 {
            fragment(number as u16, 0, 32, true)
        } else {
            fragment(number as u16, 64_800, 32, false)
        };
        bytes[12..16].copy_from_slice(&(0x0A00_0000 | number / 3).to_be_bytes());
        assert_eq!(tracker.track(&bytes, 0, NOW, &mut ()), Err(Untracked::FragmentHeld));
        assert!(tracker.defragmenter().packets() <= 100 && tracker.defragmenter().bytes() <= 100_000);
    }
    goes_on(&mut tracker);
}

/// An attacker who knows the secret aims all flows at one bucket: its slots and its list fill, further flows are refused by
/// name, and all others go on.
#[test]
fn a_flood_of_one_bucket_with_a_known_secret_is_bounded() {
    let config =
        Config { flows: 4_096, young_flows: 4_000, grows: false, reassembly: None, ..Config::default() };
    let mut tracker = talking(&config);
    let buckets = 4_096_u32 / 8;
    let hasher = FlowHasher::new(Signature::Keyed, KNOWN);
    let aimed = (0..=u32::MAX).filter(|number| {
        let (from, port) = (Ipv4Addr::from_bits(0x0B00_0000 | number >> 12), (number & 0xFFF) as u16 + 1);
        let key = Key4::new(from, SERVER.into(), 17, port, 53, 0);
        // The upper bits of the index choose the bucket.
        u64::from(hasher.hash(&key).index()) * u64::from(buckets) >> 32 == 9
    });
    let results: Vec<_> = aimed
        .take(200)
        .map(|number| {
            let from = (0x0B00_0000 | number >> 12).to_be_bytes();
            let packet = udp(from, SERVER, (number & 0xFFF) as u16 + 1);
            tracker.track(&packet, 0, NOW, &mut ()).map(|tracked| tracked.is_new)
        })
        .collect();
    let begun = results.iter().filter(|result| **result == Ok(true)).count();
    // 16 slots and a list of 64, less what is there already.
    assert!((78..=80).contains(&begun), "{begun}");
    assert!(results[80..].iter().all(|result| *result == Err(Untracked::TableFull)));
    assert_eq!(tracker.untracked().get(Untracked::TableFull) as usize, 200 - begun);
    goes_on(&mut tracker);
    // Flows of other buckets begin as before.
    let begun =
        (1..=200).filter(|&port| tracker.track(&udp([172, 16, 0, 1], SERVER, port), 0, NOW, &mut ()).is_ok());
    assert!(begun.count() >= 197);
}

/// A connection whose numbers wrap in both directions keeps its streams, and forged segments half the space away stay out.
#[test]
fn wrapped_numbers_and_forged_resets_leave_the_stream_whole() {
    struct Stream(Vec<u8>);
    impl scalebricks_flows::Sink for Stream {
        fn chunk(&mut self, _: u64, _: Direction, chunk: scalebricks_flows::reassembly::Chunk<'_>) {
            if let scalebricks_flows::reassembly::Chunk::Data { bytes, .. } = chunk {
                self.0.extend_from_slice(bytes);
            }
        }
    }
    let first = u32::MAX - 20;
    let mut tracker = Tracker::new(&Config::default(), KNOWN, Tables::default()).unwrap();
    let mut stream = Stream(Vec::new());
    let mut track = |packet: Vec<u8>| tracker.track(&packet, 0, NOW, &mut stream);
    track(segment(Direction::Forward, first, 0, 2, b"")).unwrap();
    track(segment(Direction::Reverse, 500, first.wrapping_add(1), 18, b"")).unwrap();
    let mut expected = Vec::new();
    for number in 0..10_u32 {
        let sequence = first.wrapping_add(1 + 7 * number);
        for forged in [sequence.wrapping_add(1 << 31), sequence.wrapping_add(9), sequence.wrapping_sub(3)] {
            assert_eq!(
                track(segment(Direction::Forward, forged, 501, 4, b"")),
                Err(Untracked::Segment),
                "a reset at {forged}, {sequence} is next"
            );
        }
        let data = format!("part {number:02}");
        track(segment(Direction::Forward, sequence, 501, 16, data.as_bytes())).unwrap();
        expected.extend_from_slice(data.as_bytes());
    }
    assert_eq!(stream.0, expected);
}
