//! Defragmentation: packets fragmented by `wire` or by hand come back whole; attacks are refused by name.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use proptest::prelude::*;
use scalebricks_flows::fragments::{Config, Defragmented, Defragmenter, Event, Refusal};
use scalebricks_wire::fragment::FragmentPlan;
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::{checksum, ipv4_header_checksum_ok, parse_ip};
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_000);

/// An IPv4 packet with these octets of payload.
fn packet(source: [u8; 4], identification: u16, payload: &[u8]) -> Vec<u8> {
    let header = Ipv4Header {
        dscp_ecn: 0,
        total_len: 20 + payload.len() as u16,
        identification,
        dont_fragment: false,
        more_fragments: false,
        fragment_units: 0,
        ttl: 64,
        protocol: 17,
        src: source.into(),
        dst: [192, 0, 2, 9].into(),
    };
    [&header.to_bytes()[..], payload].concat()
}

/// A fragment by hand.
fn fragment(offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    fragment_of([192, 0, 2, 1], 7, offset, more, payload)
}

fn fragment_of(source: [u8; 4], id: u16, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut bytes = packet(source, id, payload);
    bytes[6..8].copy_from_slice(&((u16::from(more) << 13) | (offset / 8)).to_be_bytes());
    bytes[10..12].fill(0);
    let sum = checksum::checksum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn fragments_of(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let plan = FragmentPlan::new(packet, mtu).unwrap();
    let payload = &packet[20..];
    plan.clone()
        .map(|piece| {
            let mut out = vec![0; piece.header_len];
            plan.write_header(piece, &mut out).unwrap();
            out.extend_from_slice(&payload[piece.offset..piece.offset + piece.len]);
            out
        })
        .collect()
}

/// An IPv6 fragment: an optional destination options header before the fragment header.
fn fragment6(id: u32, offset: u16, more: bool, options: bool, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 44, 64];
    bytes.extend_from_slice(&[0x20; 16]);
    bytes.extend_from_slice(&[0x30; 16]);
    if options {
        bytes[6] = 60;
        bytes.extend_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0]);
    }
    bytes.extend_from_slice(&[17, 0]);
    bytes.extend_from_slice(&(offset | u16::from(more)).to_be_bytes());
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(data);
    let len = bytes.len() as u16 - 40;
    bytes[4..6].copy_from_slice(&len.to_be_bytes());
    bytes
}

fn add<'a>(defragmenter: &'a mut Defragmenter, bytes: &[u8], now: Duration) -> Defragmented<'a> {
    let ip = parse_ip(bytes).unwrap();
    defragmenter.add(ip.bytes(), &ip.summary, now)
}

fn new() -> Defragmenter {
    Defragmenter::new(Config::default())
}

proptest! {
    /// The whole packet comes back, byte for byte, whatever order its fragments have and whichever come twice.
    #[test]
    fn fragments_in_any_order_give_the_packet(
        payload in proptest::collection::vec(any::<u8>(), 1..3_000),
        mtu in 68_usize..1_500,
        seed in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let packet = packet([192, 0, 2, 1], 9, &payload);
        let mut fragments = fragments_of(&packet, mtu);
        for (at, other) in seed.iter().enumerate() {
            let (at, other) = (at % fragments.len(), other.index(fragments.len()));
            fragments.swap(at, other);
        }
        let repeated = fragments[0].clone();
        fragments.insert(fragments.len() / 2, repeated);
        let mut defragmenter = new();
        let mut whole = Vec::new();
        for bytes in &fragments {
            match add(&mut defragmenter, bytes, NOW) {
                Defragmented::Whole(bytes) => whole.push(bytes.to_vec()),
                Defragmented::NoFragment => whole.push(packet.clone()),
                Defragmented::Held | Defragmented::Refused(Refusal::Repeated) => {}
                Defragmented::Refused(refusal) => prop_assert!(false, "{:?}", refusal),
            }
        }
        whole.dedup();
        prop_assert_eq!(&whole, &[packet]);
        prop_assert!(ipv4_header_checksum_ok(&whole[0]));
        // A repetition behind the last fragment waits alone.
        prop_assert!(defragmenter.packets() <= 1);
    }

    /// Against a map of octets: a packet is completed only if no two of its fragments say something about one octet.
    #[test]
    fn random_fragments_are_bounded_and_never_overlap(
        steps in proptest::collection::vec((0_u8..4, 0_u16..12, any::<bool>(), 0_usize..40), 0..120),
    ) {
        let config = Config { packets: 3, source_packets: 2, bytes: 2_000, packet_fragments: 6, ..Config::default() };
        let mut defragmenter = Defragmenter::new(config);
        for (source, offset, more, len) in steps {
            let len = if more { len / 8 * 8 } else { len };
            let payload: Vec<u8> = (0..len).map(|at| (usize::from(offset) * 8 + at) as u8).collect();
            let bytes = fragment_of([10, 0, 0, source / 2], u16::from(source), offset * 8, more, &payload);
            if let Defragmented::Whole(whole) = add(&mut defragmenter, &bytes, NOW) {
                let expected: Vec<u8> = (0..whole.len() - 20).map(|at| at as u8).collect();
                prop_assert_eq!(&whole[20..], &expected);
            }
            prop_assert!(defragmenter.packets() <= 3);
            prop_assert!(defragmenter.bytes() <= 2_000);
        }
        defragmenter.expire(NOW + Duration::from_secs(60));
        prop_assert_eq!((defragmenter.packets(), defragmenter.bytes()), (0, 0));
    }
}

#[test]
fn ipv6_fragments_give_the_packet_without_fragment_header() {
    for options in [false, true] {
        let mut defragmenter = new();
        assert_eq!(
            add(&mut defragmenter, &fragment6(1, 16, false, options, &[3; 5]), NOW),
            Defragmented::Held
        );
        let Defragmented::Whole(whole) =
            add(&mut defragmenter, &fragment6(1, 0, true, options, &[7; 16]), NOW)
        else {
            panic!("not complete")
        };
        let ip = parse_ip(whole).unwrap();
        assert_eq!((ip.summary.protocol, ip.summary.fragment), (17, None));
        assert_eq!(ip.l4(), [[7; 16].as_slice(), &[3; 5]].concat());
        assert_eq!(ip.summary.l4_offset, if options { 48 } else { 40 });
    }
}

/// Teardrop and its relatives: the packet is refused, and so is all that comes later.
#[test]
fn overlaps_refuse_the_packet() {
    let first = fragment(0, true, &[1; 24]);
    for (second, refusal) in [
        (fragment(16, false, &[2; 4]), Refusal::End), // inside the first: teardrop
        (fragment(16, false, &[2; 30]), Refusal::Overlap), // from inside the first
        (fragment(16, true, &[2; 16]), Refusal::Overlap),
        (fragment(0, true, &[2; 24]), Refusal::Overlap), // the same place, other bytes
        (fragment(0, true, &[1; 32]), Refusal::Overlap),
        (fragment(8, false, &[2; 8]), Refusal::End),
    ] {
        let mut defragmenter = new();
        assert_eq!(add(&mut defragmenter, &first, NOW), Defragmented::Held);
        assert_eq!(add(&mut defragmenter, &second, NOW), Defragmented::Refused(refusal));
        let rest = fragment(24, false, &[3; 8]);
        assert_eq!(add(&mut defragmenter, &rest, NOW), Defragmented::Refused(Refusal::Refused));
        // The other packets of the source are not concerned, and after its lifetime neither is the identification.
        assert_eq!(
            add(&mut defragmenter, &fragment_of([192, 0, 2, 1], 8, 0, true, &[1; 8]), NOW),
            Defragmented::Held
        );
        let later = NOW + Duration::from_secs(30);
        assert_eq!(add(&mut defragmenter, &first, later), Defragmented::Held);
    }
}

#[test]
fn ends_that_contradict_each_other_refuse_the_packet() {
    for (second, refusal) in [
        (fragment(32, false, &[2; 8]), Refusal::End),
        (fragment(24, true, &[2; 8]), Refusal::End),
        (fragment(8, false, &[2; 4]), Refusal::End),
    ] {
        let mut defragmenter = new();
        assert_eq!(add(&mut defragmenter, &fragment(16, false, &[1; 8]), NOW), Defragmented::Held);
        assert_eq!(add(&mut defragmenter, &second, NOW), Defragmented::Refused(refusal));
    }
    let mut defragmenter = new();
    assert_eq!(add(&mut defragmenter, &fragment(8, true, &[]), NOW), Defragmented::Refused(Refusal::Empty));
    assert_eq!(add(&mut defragmenter, &packet([1; 4], 1, b"whole"), NOW), Defragmented::NoFragment);
}

#[test]
fn limits_per_packet_source_and_total_hold() {
    let mut defragmenter = new();
    for at in 0..128 {
        assert_eq!(add(&mut defragmenter, &fragment(at * 16, true, &[0; 8]), NOW), Defragmented::Held);
    }
    let more = fragment(128 * 16, true, &[0; 8]);
    assert_eq!(add(&mut defragmenter, &more, NOW), Defragmented::Refused(Refusal::TooMany));

    let mut defragmenter = new();
    for id in 0..64 {
        add(&mut defragmenter, &fragment_of([1; 4], id, 0, true, &[0; 8]), NOW);
    }
    let one = |id| fragment_of([1; 4], id, 0, true, &[0; 8]);
    assert_eq!(add(&mut defragmenter, &one(64), NOW), Defragmented::Refused(Refusal::SourceLimit));

    for n in 0..20_000_u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let bytes = fragment_of([10, a, b, c], 1, 0, true, &[0; 1_200]);
        assert_eq!(add(&mut defragmenter, &bytes, NOW), Defragmented::Held);
        assert!(defragmenter.packets() <= 4_096 && defragmenter.bytes() <= 16 << 20);
    }
    assert_eq!(defragmenter.events().get(Event::Evicted), 20_064 - 4_096);
}

/// The families' lifetimes do not wait for each other, and the first fragment comes back as it came, with its note.
#[test]
fn the_first_fragment_of_a_packet_that_timed_out_is_shown() {
    let seconds = Duration::from_secs;
    let config = Config { ipv4_lifetime: seconds(30), ipv6_lifetime: seconds(60), ..Config::default() };
    let mut defragmenter = Defragmenter::with_notes(config);
    let first = fragment(0, true, &[1; 16]);
    let first6 = fragment6(1, 0, true, true, &[2; 8]);
    let refused = [fragment_of([5; 4], 1, 0, true, &[1; 16]), fragment_of([5; 4], 1, 8, true, &[1; 16])];
    let no_first = fragment_of([6; 4], 1, 8, true, &[1; 16]);
    let later = fragment(32, false, &[1; 7]);
    for (bytes, note) in
        [(&first6, 1), (&later, 2), (&first, 3), (&refused[0], 4), (&refused[1], 5), (&no_first, 6)]
    {
        let padded = [bytes.as_slice(), &[0; 6]].concat();
        let ip = parse_ip(&padded).unwrap();
        defragmenter.add_noted(ip.bytes(), &ip.summary, note, NOW);
    }
    assert_eq!(defragmenter.packets(), 4);
    let mut expired = |now| {
        let mut gone = Vec::new();
        defragmenter.expire_each(now, |bytes, note| gone.push((bytes.to_vec(), note)));
        (gone, defragmenter.packets())
    };
    assert_eq!(expired(NOW + seconds(29)), (Vec::new(), 4));
    assert_eq!(expired(NOW + seconds(30)), (vec![(first, 3)], 1));
    assert_eq!(expired(NOW + seconds(60)), (vec![(first6, 1)], 0));
    assert_eq!(defragmenter.events().get(Event::TimedOut), 4);
}

/// Other bounds hold from the next fragment on; what waits goes on.
#[test]
fn bounds_can_be_changed() {
    let mut defragmenter = new();
    for id in 0..10 {
        add(&mut defragmenter, &fragment_of([1; 4], id, 0, true, &[7; 8]), NOW);
    }
    defragmenter.set_config(Config { packets: 3, ..Config::default() });
    add(&mut defragmenter, &fragment_of([1; 4], 10, 0, true, &[7; 8]), NOW);
    assert_eq!(defragmenter.packets(), 3);
    let last = fragment_of([1; 4], 9, 8, false, &[8; 3]);
    assert!(matches!(add(&mut defragmenter, &last, NOW), Defragmented::Whole(whole) if whole.len() == 31));
}
