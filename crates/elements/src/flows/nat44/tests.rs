use crate::rig::{Rig, ipv4_of};
use scalebricks_graph::Builder;
use scalebricks_io::Packet;
use scalebricks_wire::{checksum, ipv4_header_checksum_ok, parse_ip};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

const INSIDE: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 9);
const OTHER: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 10);
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const COMMON: [&str; 3] = ["100.64.0.0/24", "192.0.2.0/30", "FLOWS 1000"];

fn udp(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len() as u16).to_be_bytes();
    let mut datagram = [&src.1.to_be_bytes()[..], &dst.1.to_be_bytes(), &len, &[0, 0], payload].concat();
    let sum = checksum::upper_layer(src.0.into(), dst.0.into(), 17, &datagram).unwrap();
    datagram[6..8].copy_from_slice(&checksum::udp(sum).to_be_bytes());
    ipv4_of(|header| (header.src, header.dst) = (src.0, dst.0), &datagram)
}

/// The ends of a packet with right checksums.
fn ends(bytes: &[u8]) -> ((Ipv4Addr, u16), (Ipv4Addr, u16)) {
    let packet = parse_ip(bytes).unwrap();
    let ip = packet.summary;
    assert!(ipv4_header_checksum_ok(bytes));
    assert_eq!(checksum::upper_layer(ip.src, ip.dst, 17, packet.l4()), Some(0));
    let address = |octets: &[u8]| Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]);
    let (from, to) = ip.ports.unwrap();
    ((address(&bytes[12..16]), from), (address(&bytes[16..20]), to))
}

/// The NAT between two painted ways: packets with paint 0 come from inside, others from outside.
fn graph(builder: &mut Builder<Packet>, more: &[&str], has_side: bool) {
    let args = [&COMMON[..], more].concat();
    builder.declare("nat", "Nat44", &args).declare("way", "PaintSwitch", &[]);
    builder.chain(&["in", "way", "nat", "out0"]).connect("way", 1, "nat", 1).connect("nat", 1, "out1", 0);
    if has_side {
        builder.connect("nat", 2, "out2", 0);
    }
}

fn send(rig: &mut Rig, packets: impl IntoIterator<Item = (Vec<u8>, u8)>) {
    let noted = packets.into_iter().map(|(bytes, paint)| {
        let mut meta = scalebricks_graph::Meta::default();
        meta.paint = paint;
        (bytes, meta)
    });
    rig.send_noted(noted);
    rig.turn();
}

#[test]
fn packets_are_translated_both_ways_and_between_hosts() {
    let mut rig = Rig::new(3, |builder| graph(builder, &["DETERMINISTIC true", "KEY 7", "BLOCK 512"], true));
    send(
        &mut rig,
        [(udp((INSIDE, 5_000), (FAR, 53), b"hello"), 0), (udp((OTHER, 5_000), (FAR, 53), b"hello"), 0)],
    );
    let sent = rig.got(0);
    let [one, two] = [0, 1].map(|at| ends(&sent[at]).0);
    // Number 9 has the tenth block of the first address: 1,024 + 9 · 512.
    assert_eq!(one.0, Ipv4Addr::new(192, 0, 2, 0));
    assert!((5_632..6_144).contains(&one.1) && (6_144..6_656).contains(&two.1), "{one:?} {two:?}");
    send(
        &mut rig,
        [
            (udp((FAR, 53), one, b"answer"), 1),
            (udp((INSIDE, 5_000), two, b"hairpin"), 0),
            (udp((FAR, 53), (one.0, 1_100), b"nobody"), 1),
            (b"short".to_vec(), 0),
        ],
    );
    // Packets of the two inputs may pass each other.
    let got: BTreeSet<_> = rig.got(1).iter().map(|bytes| ends(bytes)).collect();
    assert_eq!(got, BTreeSet::from([((FAR, 53), (INSIDE, 5_000)), (one, (OTHER, 5_000))]));
    let refused: BTreeSet<_> = rig.got(2).into_iter().collect();
    assert_eq!(refused, BTreeSet::from([udp((FAR, 53), (one.0, 1_100), b"nobody"), b"short".to_vec()]));
    assert_eq!(
        ["mappings", "flows", "blocks", "subscribers"].map(|name| rig.number("nat", name)),
        [2, 4, 2, 2]
    );
    assert_eq!(["blocks_assigned", "hairpinned"].map(|name| rig.number("nat", name)), [2, 1]);
    assert!(rig.read("nat", "counts").contains("no_mapping\t1"));
    assert_eq!(rig.read("nat", "table").lines().count(), 2);
    assert!(rig.read("nat", "block_log").contains("assigned\t100.64.0.9\t192.0.2.0\t5632-6143"));
    assert_eq!(rig.read("nat", "refused_by_subscriber"), "");
    rig.turn_after(Duration::from_secs(301));
    rig.turn_after(Duration::from_secs(121));
    assert_eq!(["mappings", "blocks", "blocks_released"].map(|name| rig.number("nat", name)), [0, 0, 2]);
}

#[test]
fn without_a_side_output_packets_are_dropped_by_name() {
    let mut rig = Rig::new(2, |builder| graph(builder, &[], false));
    let mut wrong = udp((INSIDE, 1), (FAR, 1), b"x");
    wrong[28] ^= 1;
    let stranger = Ipv4Addr::new(10, 0, 0, 1);
    send(
        &mut rig,
        [
            (wrong, 0),
            (udp((stranger, 1), (FAR, 1), b""), 0),
            (udp((FAR, 1), (FAR, 1), b""), 1),
            (udp((INSIDE, 1), (Ipv4Addr::new(192, 0, 2, 1), 1), b""), 1),
        ],
    );
    let names = ["transport_checksum", "not_inside", "not_public", "forged_source"];
    assert_eq!(names.map(|name| rig.number("nat", name)), [1; 4]);
}

/// A datagram in three fragments, the last one first, leaves in three fragments.
#[test]
fn datagrams_in_fragments_leave_in_fragments() {
    let mut rig = Rig::new(2, |builder| graph(builder, &[], false));
    let payload: Vec<u8> = (0..2_500_u32).map(|at| at as u8).collect();
    let whole = udp((INSIDE, 5_000), (FAR, 53), &payload);
    let part = |from: usize, to: usize, more: bool| {
        let of = |header: &mut scalebricks_wire::ipv4::Ipv4Header| {
            (header.src, header.dst) = (INSIDE, FAR);
            (header.more_fragments, header.fragment_units) = (more, (from / 8) as u16);
        };
        ipv4_of(of, &whole[20 + from..20 + to])
    };
    let parts = [part(2_000, 2_508, false), part(0, 1_000, true), part(1_000, 2_000, true)];
    send(&mut rig, parts.map(|bytes| (bytes, 0)));
    let sent = rig.got(0);
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [1_020, 1_020, 528]);
    assert!(sent.iter().all(|bytes| ipv4_header_checksum_ok(bytes)));
    let mut again = sent[0].clone();
    sent[1..].iter().for_each(|bytes| again.extend_from_slice(&bytes[20..]));
    let len = again.len() as u16;
    again[2..4].copy_from_slice(&len.to_be_bytes());
    again[6..8].fill(0);
    crate::header::sum(&mut again[..20]);
    let (from, to) = ends(&again);
    assert_eq!((from.0.octets()[..3].to_vec(), to), (vec![192, 0, 2], (FAR, 53)));
    assert_eq!(again[28..], payload);
    assert_eq!(["fragments_held", "fragments"].map(|name| rig.number("nat", name)), [2, 2]);
}

#[test]
fn mappings_go_on_in_a_new_graph_unless_the_configuration_differs() {
    let mut rig = Rig::new(2, |builder| graph(builder, &[], false));
    send(&mut rig, [(udp((INSIDE, 5_000), (FAR, 53), b""), 0)]);
    let before = rig.got(0);
    rig.replace(|builder| graph(builder, &[], false));
    send(&mut rig, [(udp((INSIDE, 5_000), (FAR, 53), b""), 0)]);
    assert_eq!(rig.got(0), before);
    assert_eq!(["mappings", "blocks_assigned"].map(|name| rig.number("nat", name)), [1, 1]);
    rig.replace(|builder| graph(builder, &["SUBSCRIBER_BLOCKS 2"], false));
    assert_eq!(rig.number("nat", "mappings"), 0);
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    for wrong in [
        &["BLOCK 100"][..],
        &["UDP_TIMEOUT 119"],
        &["FILTER none"],
        &["FIRST_PORT 9", "LAST_PORT 8"],
        &["DETERMINISTIC true", "BLOCK 2048"],
        &["SUBSCRIBER_FLOWS 0"],
        &["KEY x"],
    ] {
        let built = Rig::with_buffers(5, 2, |builder| graph(builder, wrong, false));
        let text = built.err().map(|errors| errors.to_string()).unwrap_or_default();
        assert!(text.contains("nat"), "{wrong:?}: {text}");
    }
}
