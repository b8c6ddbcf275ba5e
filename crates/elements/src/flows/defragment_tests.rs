//! Fragments made by the wire crate's planner, or by hand for IPv6 and attacks, against the packets that they were cut from.

use crate::header;
use crate::rig::{Rig, ipv4_of, ipv6_of};
use proptest::prelude::*;
use scalebricks_graph::Meta;
use scalebricks_wire::fragment::FragmentPlan;
use scalebricks_wire::{checksum, ipv4_header_checksum_ok};
use std::time::Duration;

/// An IPv4 packet behind two bytes that stand for another header.
fn framed(packet: &[u8]) -> Vec<u8> {
    [b"xx", packet].concat()
}

fn packet4(id: u16, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|at| (at + usize::from(id)) as u8).collect();
    ipv4_of(|header| header.identification = id, &payload)
}

fn fragments4(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let plan = FragmentPlan::new(packet, mtu).unwrap();
    let cut = |piece: scalebricks_wire::fragment::Piece| {
        let mut out = vec![0; piece.header_len];
        plan.write_header(piece, &mut out).unwrap();
        out.extend_from_slice(&packet[20 + piece.offset..][..piece.len]);
        out
    };
    plan.clone().map(cut).collect()
}

fn packet6(id: u16, len: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|at| (at + usize::from(id)) as u8).collect();
    ipv6_of(|_| (), &payload)
}

/// Cut by hand (RFC 8200 §4.5).
fn fragments6(packet: &[u8], id: u16, most: usize) -> Vec<Vec<u8>> {
    let data = &packet[40..];
    let cut = |(number, part): (usize, &[u8])| {
        let offset = number * most;
        let more = u16::from(offset + part.len() < data.len());
        let mut fragment = vec![17, 0];
        fragment.extend_from_slice(&(offset as u16 | more).to_be_bytes());
        fragment.extend_from_slice(&u32::from(id).to_be_bytes());
        fragment.extend_from_slice(part);
        ipv6_of(|header| header.next_header = 44, &fragment)
    };
    data.chunks(most).enumerate().map(cut).collect()
}

fn rig(args: &[&str]) -> Rig {
    let args: Vec<&str> = ["2"].iter().chain(args).copied().collect();
    Rig::new(2, |builder| {
        builder.declare("d", "Defragment", &args).chain(&["in", "d", "out0"]).connect("d", 1, "out1", 0);
    })
}

fn passed(rig: &mut Rig, packets: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    rig.send(packets);
    for _ in 0..8 {
        rig.turn();
    }
    rig.got(0)
}

/// All orders of some things.
fn orders<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for at in 0..all.len() {
        let mut rest = all.to_vec();
        let first = rest.remove(at);
        found.extend(orders(&rest).into_iter().map(|order| [vec![first.clone()], order].concat()));
    }
    found
}

#[test]
fn fragments_in_all_orders_leave_as_the_packet() {
    let (packet, other) = (packet4(7, 370), packet6(8, 40 * 3 + 5));
    let mut rig = rig(&[]);
    for (packet, fragments) in [(&packet, fragments4(&packet, 116)), (&other, fragments6(&other, 8, 40))] {
        assert_eq!(fragments.len(), 4);
        for order in orders(&fragments) {
            let sent = order.iter().map(|fragment| framed(fragment));
            assert_eq!(passed(&mut rig, sent), [framed(packet)]);
        }
    }
    assert_eq!(["packets_completed", "fragments_held"].map(|name| rig.number("d", name)), [48, 144]);
    assert_eq!(["packets", "bytes"].map(|name| rig.number("d", name)), [0, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against the obvious twin: what is not fragmented passes where it came; a packet leaves where its last fragment came.
    #[test]
    fn others_pass_in_order_and_packets_leave_at_their_last_fragment(
        kinds in proptest::collection::vec((any::<bool>(), 1_usize..600, 1_usize..8), 1..12),
        draws in proptest::collection::vec(any::<prop::sample::Index>(), 200),
        twice in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        // Each packet with its parts, shuffled, some sent twice before they are complete.
        let (mut steps, mut packets) = (Vec::new(), Vec::new());
        for (id, (is_v6, len, most)) in (1_u16..).zip(kinds) {
            let (packet, parts) = if is_v6 {
                let packet = packet6(id, len);
                let parts = fragments6(&packet, id, 8 * most);
                let parts = if parts.len() == 1 { vec![packet.clone()] } else { parts };
                (packet, parts)
            } else {
                let packet = packet4(id, len);
                let parts = fragments4(&packet, 60 + 8 * most);
                (packet, parts)
            };
            steps.extend(parts.into_iter().map(|part| (packets.len(), part)));
            packets.push(packet);
        }
        for (at, draw) in draws.iter().enumerate() {
            let (at, other) = (at % steps.len(), draw.index(steps.len()));
            steps.swap(at, other);
        }
        let mut left = vec![0; packets.len()];
        for (of, _) in &steps {
            left[*of] += 1;
        }
        let mut sent = Vec::new();
        let mut expected = Vec::new();
        let mut again = 0;
        for (at, (of, part)) in steps.iter().enumerate() {
            sent.push(framed(part));
            left[*of] -= 1;
            if left[*of] == 0 {
                expected.push(framed(&packets[*of]));
            } else if twice.iter().any(|draw| draw.index(steps.len()) == at) {
                sent.push(framed(part));
                again += 1;
            }
        }
        let mut rig = rig(&["PACKET_FRAGMENTS 1000"]);
        prop_assert_eq!(passed(&mut rig, sent), expected);
        prop_assert_eq!(rig.number("d", "fragment_repeated"), again);
        prop_assert_eq!(rig.number("d", "packets"), 0);
    }
}

/// A fragment of an IPv4 packet: offset and length in bytes.
fn fragment(id: u16, offset: usize, len: usize, more: bool) -> Vec<u8> {
    let payload: Vec<u8> = (0..len).map(|at| (offset + at) as u8).collect();
    let change = |header: &mut scalebricks_wire::ipv4::Ipv4Header| {
        (header.identification, header.more_fragments) = (id, more);
        header.fragment_units = (offset / 8) as u16;
    };
    framed(&ipv4_of(change, &payload))
}

#[test]
fn attacks_are_refused_and_others_go_on() {
    // Teardrop, newtear, nestea, bonk, boink, syndrop, other ends, no data: the list of the flow tracker's tests.
    let attacks: [&[(usize, usize, bool)]; 9] = [
        &[(0, 36, true), (24, 4, false)],
        &[(0, 32, true), (24, 4, false)],
        &[(0, 32, true), (24, 16, false)],
        &[(0, 16, true), (48, 224, false), (8, 24, true)],
        &[(32, 32, false), (0, 40, true)],
        &[(24, 24, true), (0, 32, true)],
        &[(0, 16, true), (24, 16, false), (24, 24, false)],
        &[(8, 24, false), (40, 8, true)],
        &[(0, 0, true)],
    ];
    let mut rig = rig(&[]);
    for (id, attack) in (1..).zip(attacks) {
        let good = packet4(1_000 + id, 300);
        let parts = fragments4(&good, 116);
        let sent = attack.iter().map(|&(offset, len, more)| fragment(id, offset, len, more));
        // Whatever else comes of the attacker's packet is refused.
        let rest = if attack.len() > 1 { vec![fragment(id, 0, 8, true)] } else { Vec::new() };
        let all = [framed(&parts[0])].into_iter().chain(sent).chain(rest);
        let got = passed(&mut rig, all.chain(parts[1..].iter().map(|part| framed(part))));
        assert_eq!(got, [framed(&good)], "{attack:?}");
    }
    assert!(rig.number("d", "fragment_refused") >= 9 + 8);
    let counts = rig.read("d", "counts");
    for name in ["fragment_overlap", "fragment_end", "fragment_empty", "fragment_of_refused_packet"] {
        assert!(counts.contains(name), "{counts}");
    }
    let mut wrong = fragment(99, 0, 8, true);
    wrong[2 + 10] ^= 1;
    assert!(passed(&mut rig, [wrong, b"xxx".to_vec(), fragment(99, 65_528, 100, false)]).is_empty());
    assert_eq!(["ip_checksum", "cut_or_malformed_ip"].map(|name| rig.number("d", name)), [1, 2]);
}

#[test]
fn limits_on_packets_sources_and_memory_hold() {
    let mut one = rig(&["PACKETS 3"]);
    passed(&mut one, (0..50).map(|id| fragment(id, 0, 64, true)));
    assert_eq!(one.number("d", "packets"), 3);
    assert!(one.read("d", "counts").contains("packets_evicted\t47"));
    let mut one = rig(&["SOURCE_PACKETS 2"]);
    passed(&mut one, (0..50).map(|id| fragment(id, 0, 64, true)));
    assert_eq!((one.number("d", "packets"), one.number("d", "fragment_refused")), (2, 48));
    let mut one = rig(&["MEMORY 2000"]);
    for id in 0..50 {
        passed(&mut one, [fragment(id, 0, 640, true)]);
        assert!(one.number("d", "bytes") <= 2_000);
    }
    let mut one = rig(&["PACKET_FRAGMENTS 2"]);
    passed(&mut one, [0, 16, 32].map(|offset| fragment(1, offset, 8, true)));
    assert!(one.read("d", "counts").contains("fragment_too_many\t1"));
    for wrong in ["PACKETS 0", "SOURCE_PACKETS 0", "PACKET_FRAGMENTS 0", "IPV4_TIMEOUT x"] {
        let built = Rig::with_buffers(5, 1, |builder| {
            builder.declare("d", "Defragment", &[wrong]).chain(&["in", "d", "out0"]);
        });
        assert!(built.is_err(), "{wrong}");
    }
}

#[test]
fn a_packet_that_fits_no_buffer_is_dropped_by_name() {
    let packet = packet4(7, 4_000);
    let parts = fragments4(&packet, 1_500);
    let mut rig = rig(&[]);
    assert!(passed(&mut rig, parts.iter().map(|part| framed(part))).is_empty());
    assert_eq!(["whole_packet_too_long", "fragments_held"].map(|name| rig.number("d", name)), [1, 2]);
}

#[test]
fn a_new_configuration_goes_on_with_what_waits_and_has_its_own_limits() {
    let fill = |args: &'static [&'static str]| {
        move |builder: &mut scalebricks_graph::Builder<scalebricks_io::Packet>| {
            builder.declare("d", "Defragment", args).chain(&["in", "d", "out0"]);
        }
    };
    let mut rig = Rig::new(1, fill(&["2"]));
    let packet = packet4(7, 300);
    let parts = fragments4(&packet, 116);
    passed(&mut rig, parts[1..].iter().map(|part| framed(part)));
    passed(&mut rig, [fragment(8, 0, 8, true)]);
    rig.replace(fill(&["2", "IPV4_TIMEOUT 10"]));
    assert_eq!(passed(&mut rig, [framed(&parts[0])]), [framed(&packet)]);
    assert_eq!(rig.number("d", "packets"), 1);
    rig.turn_after(Duration::from_secs(10));
    assert_eq!(rig.number("d", "packets"), 0);
}

#[test]
fn senders_of_packets_that_time_out_are_told_by_icmp() {
    let mut rig = Rig::new(2, |builder| {
        builder.declare("d", "Defragment", &["2", "IPV4_TIMEOUT 2", "IPV6_TIMEOUT 3"]);
        builder.declare("kind", "Classifier", &["0/40%f0", "0/60%f0"]);
        builder.declare("v4", "CheckIPHeader", &[]).declare("v6", "CheckIP6Header", &[]);
        let painted = "PAINTED 192.0.2.8 192.0.2.9";
        builder.declare("e4", "ICMPError", &["192.0.2.1", "timeexceeded", "reassembly", painted]);
        builder.declare("e6", "ICMP6Error", &["2001:db8::ff", "timeexceeded", "1"]);
        builder.chain(&["in", "d", "out0"]).connect("d", 1, "kind", 0);
        builder.connect("kind", 0, "v4", 0).connect("kind", 1, "v6", 0);
        builder.chain(&["v4", "e4", "out1"]).chain(&["v6", "e6", "out1"]);
    });
    let packet6 = packet6(5, 100);
    let first6 = fragments6(&packet6, 5, 48).remove(0);
    let mut painted = Meta::default();
    painted.paint = 1;
    rig.send_noted([
        (fragment(1, 16, 8, true), Meta::default()),
        (fragment(1, 0, 16, true), painted),
        // Without a first fragment, and refused: no error.
        (fragment(2, 16, 8, true), Meta::default()),
        (fragment(3, 0, 16, true), Meta::default()),
        (fragment(3, 8, 16, true), Meta::default()),
        (framed(&first6), Meta::default()),
    ]);
    rig.turn_after(Duration::from_secs(1));
    rig.turn_after(Duration::from_secs(1));
    assert!(rig.got(1).is_empty());
    rig.turn_after(Duration::from_secs(1));
    let errors = rig.got(1);
    assert_eq!(errors.len(), 1);
    let (error, quoted) = (&errors[0], &fragment(1, 0, 16, true)[2..]);
    assert!(ipv4_header_checksum_ok(error) && checksum::checksum(&error[20..]) == 0);
    assert_eq!((&error[12..16], &error[16..20]), (&[192, 0, 2, 9][..], &[10, 0, 0, 1][..]));
    assert_eq!((&error[20..22], &error[28..]), (&[11, 1][..], quoted));
    rig.turn_after(Duration::from_secs(1));
    let errors = rig.got(1);
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0][6], &errors[0][40..42], &errors[0][48..]), (58, &[3, 1][..], &first6[..]));
    assert_eq!((rig.number("d", "packets_expired"), rig.number("d", "packets")), (2, 0));
    assert!(rig.read("d", "counts").contains("packets_timed_out\t4"));
}

#[test]
fn the_header_of_a_whole_packet_is_found_by_its_metadata() {
    let packet = packet4(7, 300);
    let parts = fragments4(&packet, 116);
    let mut rig = rig(&[]);
    let mut meta = Meta::default();
    header::note(&mut meta, 2, 20, 116);
    rig.send_noted(parts.iter().map(|part| (framed(part), meta)));
    rig.turn();
    let (bytes, meta) = rig.noted(0).remove(0);
    assert_eq!((bytes, meta.l3, meta.l4, meta.length), (framed(&packet), 2, 22, 320));
}
