//! Tests of `Firewall`: handshakes, rules, hostile input, and a slow twin.

use crate::rig::{Rig, ipv4_of, ipv6_of};
use proptest::prelude::*;
use scalebricks_graph::{Builder, Meta};
use scalebricks_io::Packet;
use std::collections::HashMap;
use std::time::Duration;

const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const SECOND: Duration = Duration::from_secs(1);

fn fill<'a>(args: &'a [&'a str]) -> impl FnOnce(&mut Builder<Packet>) + 'a {
    move |builder| {
        builder.declare("p", "PaintSwitch", &[]).declare("f", "Firewall", args).chain(&["in", "p"]);
        builder.connect("p", 0, "f", 0).connect("p", 1, "f", 1);
        builder.connect("f", 0, "out0", 0).connect("f", 1, "out1", 0);
    }
}

/// A firewall whose other outputs are not connected.
fn rig(args: &[&str]) -> Rig {
    Rig::new(2, fill(&[&["CHECKSUMS false", "FLOWS 1000"], args].concat()))
}

/// Sends packets from a side (0 is inside); returns those that passed to the other.
fn pass(rig: &mut Rig, side: u8, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut meta = Meta::default();
    meta.paint = side;
    rig.send_noted(packets.iter().map(|packet| (packet.clone(), meta)));
    rig.turn();
    assert!(rig.got(usize::from(1 - side)).is_empty(), "packets go to the other side");
    rig.got(usize::from(side))
}

/// Whether a packet passes.
fn passes(rig: &mut Rig, side: u8, packet: &[u8]) -> bool {
    let passed = pass(rig, side, &[packet.to_vec()]);
    assert!(passed.iter().all(|passed| passed == packet), "packets are not changed");
    passed.len() == 1
}

/// From 10.0.0.1 inside to 192.0.2.`host` outside, or back.
fn ipv4(side: u8, host: u8, protocol: u8, l4: &[u8]) -> Vec<u8> {
    ipv4_of(
        |header| {
            (header.protocol, header.src, header.dst) =
                (protocol, [10, 0, 0, 1].into(), [192, 0, 2, host].into());
            if side == 1 {
                std::mem::swap(&mut header.src, &mut header.dst);
            }
        },
        l4,
    )
}

/// A segment from port 1000 inside to port 80 outside, or back.
fn segment(side: u8, sequence: u32, ack: u32, flags: u8) -> Vec<u8> {
    let mut tcp = if side == 0 { [3, 232, 0, 80] } else { [0, 80, 3, 232] }.to_vec();
    tcp.extend_from_slice(&sequence.to_be_bytes());
    tcp.extend_from_slice(&ack.to_be_bytes());
    tcp.extend_from_slice(&[0x50, flags, 9, 0, 0, 0, 0, 0]);
    ipv4(side, 1, 6, &tcp)
}

fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    bytes.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn connections_from_inside_pass_in_both_directions_and_others_do_not() {
    let mut rig = rig(&[]);
    assert!(!passes(&mut rig, 1, &segment(1, 1, 0, SYN)), "from outside");
    assert!(!passes(&mut rig, 0, &segment(0, 2, 6, ACK)), "midway");
    assert!(passes(&mut rig, 0, &segment(0, 1, 0, SYN)));
    assert!(passes(&mut rig, 1, &segment(1, 5, 2, SYN | ACK)));
    assert!(passes(&mut rig, 0, &segment(0, 2, 6, ACK)));
    assert!(passes(&mut rig, 1, &segment(1, 6, 2, ACK)));
    assert!(!passes(&mut rig, 1, &segment(1, 99, 2, RST)), "a blind reset");
    assert!(!passes(&mut rig, 1, &segment(0, 2, 6, ACK)), "spoofed from outside");
    let names = ["rule_denied", "segment_refused", "wrong_side", "flows", "young", "flows_began"];
    assert_eq!(names.map(|name| rig.number("f", name)), [1, 2, 1, 1, 0, 1]);
    let bytes = 40;
    assert_eq!(
        rig.read("f", "rule_counts"),
        format!(
            "0\t4\t{}\t1\tinside allow (default)\n1\t1\t{bytes}\t0\toutside deny (default)\n2\t0\t0\t0\tkept (denied by later rules)",
            4 * bytes
        )
    );
}

#[test]
fn the_first_rule_that_matches_decides_per_side_and_version() {
    let mut rig = rig(&[
        "RULE outside allow udp dst port 7 and not src host 192.0.2.9",
        "RULE inside deny dst net 2001:db8::/32 and udp dst port 53",
        "RULE outside allow icmp6[0] == 128 and src net 2001:db8:0:9::/64",
        "RULE deny ip ttl < 5",
    ]);
    assert!(passes(&mut rig, 1, &ipv4(1, 1, 17, &udp([9, 7], b""))));
    assert!(!passes(&mut rig, 1, &ipv4(1, 9, 17, &udp([9, 7], b""))));
    assert!(!passes(&mut rig, 1, &ipv4(1, 1, 17, &udp([9, 8], b""))));
    let six = |dst: [u16; 8], l4: &[u8]| ipv6_of(|header| header.dst = dst.into(), l4);
    assert!(!passes(&mut rig, 0, &six([0x2001, 0xdb8, 1, 0, 0, 0, 0, 1], &udp([9, 53], b""))));
    assert!(passes(&mut rig, 0, &six([0x2001, 0xdb8, 1, 0, 0, 0, 0, 1], &udp([9, 54], b""))));
    assert!(passes(&mut rig, 0, &six([0x2001, 0xdb9, 1, 0, 0, 0, 0, 1], &udp([9, 53], b""))));
    let echo = |net: u16, id: u8| {
        ipv6_of(
            |header| (header.next_header, header.src) = (58, [0x2001, 0xdb8, 0, net, 0, 0, 0, 1].into()),
            &[128, 0, 0, 0, 0, id, 0, 0],
        )
    };
    assert!(passes(&mut rig, 1, &echo(9, 1)));
    assert!(!passes(&mut rig, 1, &echo(8, 2)));
    assert!(!passes(&mut rig, 0, &ipv6_of(|header| header.hop_limit = 4, &udp([1, 2], b""))));
    assert!(!passes(&mut rig, 0, &ipv4_of(|header| header.ttl = 4, &udp([1, 2], b""))));
}

#[test]
fn errors_about_flows_pass_and_others_do_not() {
    let mut rig = rig(&[]);
    let query = ipv4(0, 1, 17, &udp([9, 7], b"why"));
    assert!(passes(&mut rig, 0, &query));
    let about = |quoted: &[u8]| ipv4(1, 77, 1, &[&[3, 3, 0, 0, 0, 0, 0, 0], quoted].concat());
    assert!(passes(&mut rig, 1, &about(&query)));
    assert!(!passes(&mut rig, 1, &about(&ipv4(0, 1, 17, &udp([9, 8], b"")))));
    assert_eq!(rig.number("f", "unrelated_icmp_error"), 1);
}

#[test]
fn fragments_pass_as_they_came_once_their_packet_is_complete() {
    let mut rig = rig(&["FRAGMENTS 2"]);
    let whole = udp([9, 7], &[5; 40]);
    let fragment = |side: u8, units: u16, id: u16| {
        let at = usize::from(units) * 8;
        let end = whole.len().min(at + 16);
        let mut packet = ipv4(side, 1, 17, &whole[at..end]);
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[6..8].copy_from_slice(&(units | if end < whole.len() { 0x2000 } else { 0 }).to_be_bytes());
        packet
    };
    let all = [4, 0, 2].map(|units| fragment(0, units, 1));
    assert!(pass(&mut rig, 0, &all[..2]).is_empty());
    assert_eq!(rig.worker.graph().held(), 2);
    assert_eq!(pass(&mut rig, 0, &all[2..]), all);
    // From outside no rule allows it: the fragments go together.
    let other = [0, 2, 4].map(|units| fragment(1, units, 1));
    rig.turn_after(400 * SECOND);
    assert!(pass(&mut rig, 1, &other).is_empty());
    assert_eq!((rig.number("f", "rule_denied"), rig.worker.graph().held()), (3, 0));
    // Never complete: bounded, and forgotten in time.
    for id in 2..9 {
        assert!(pass(&mut rig, 0, &[fragment(0, 0, id)]).is_empty());
    }
    assert_eq!((rig.number("f", "fragments_waiting"), rig.worker.graph().held()), (5, 2));
    rig.turn_after(61 * SECOND);
    assert!(passes(&mut rig, 0, &ipv4(0, 1, 17, &udp([1, 1], b""))));
    assert_eq!((rig.number("f", "fragments_waiting"), rig.worker.graph().held()), (7, 0));
    // A repeated fragment does not stop its packet.
    let repeated = [0, 0, 2, 4].map(|units| fragment(0, units, 19));
    assert_eq!(pass(&mut rig, 0, &repeated[..2]).len(), 0);
    assert_eq!(rig.number("f", "fragment_refused"), 1);
    assert_eq!(pass(&mut rig, 0, &repeated[2..]), [0, 2, 4].map(|units| fragment(0, units, 19)));
    // A fragment of an earlier packet with the same identification does not pass with a later one.
    let mut other = self::rig(&["FRAGMENTS 9"]);
    assert!(pass(&mut other, 0, &[fragment(0, 0, 18)]).is_empty());
    other.turn_after(35 * SECOND);
    let later = [0, 2, 4].map(|units| fragment(0, units, 18));
    assert!(pass(&mut other, 0, &later[..2]).is_empty());
    assert_eq!(other.worker.graph().held(), 3);
    assert!(pass(&mut other, 0, &later[2..]).is_empty());
    assert_eq!((other.number("f", "fragment_refused"), other.worker.graph().held()), (4, 0));
    // Overlapping fragments.
    let mut overlap = fragment(0, 2, 20);
    overlap[6..8].copy_from_slice(&0x2001_u16.to_be_bytes());
    assert!(pass(&mut rig, 0, &[fragment(0, 0, 20), overlap, fragment(0, 4, 20)]).is_empty());
    assert_eq!((rig.number("f", "fragment_refused"), rig.worker.graph().held()), (3, 0));
}

#[test]
fn new_rules_end_flows_or_keep_them() {
    for (keep, expected) in [(false, [0, 1, 0]), (true, [1, 0, 1])] {
        let mut rig = rig(&[if keep { "KEEP true" } else { "KEEP false" }]);
        let query = ipv4(0, 1, 17, &udp([9, 7], b""));
        let other = ipv4(0, 1, 17, &udp([9, 8], b""));
        assert!(passes(&mut rig, 0, &query) && passes(&mut rig, 0, &other));
        let error = rig.write("f", "rules", "deny tcp\nallow udp port port").unwrap_err();
        assert!(error.contains("2:16: "), "{error}");
        assert_eq!(rig.read("f", "rules"), "");
        rig.write("f", "rules", "inside deny udp dst port 7; allow udp").unwrap();
        let answer = ipv4(1, 1, 17, &udp([7, 9], b""));
        assert_eq!(passes(&mut rig, 1, &answer), keep);
        assert!(passes(&mut rig, 0, &other), "the new rules allow it");
        assert_eq!(passes(&mut rig, 0, &query), keep);
        let flows = rig.number("f", "flows") - 1;
        let dismissed = rig.number("f", "flows_dismissed");
        let kept = rig.read("f", "rule_counts").lines().last().unwrap().contains("\t56\t1\t");
        assert_eq!([flows, dismissed, u64::from(kept)], expected);
        assert_eq!(rig.read("f", "rules"), "inside deny udp dst port 7\nallow udp");
    }
}

#[test]
fn a_new_graph_goes_on_with_flows_and_counters_of_equal_rules() {
    let first = ["CHECKSUMS false", "RULE outside allow udp dst port 7", "RULE outside allow udp dst port 8"];
    let mut rig = Rig::new(2, fill(&first));
    let [seven, eight] = [7, 8].map(|port| ipv4(1, 1, 17, &udp([9, port], b"")));
    assert_eq!(pass(&mut rig, 1, &[seven.clone(), eight.clone()]).len(), 2);
    rig.replace(fill(&["CHECKSUMS false", "RULE outside allow udp dst port 8"]));
    assert_eq!(pass(&mut rig, 1, &[seven, eight.clone()]), [eight]);
    assert!(passes(&mut rig, 0, &ipv4(0, 1, 17, &udp([8, 9], b""))), "an answer");
    let counts = rig.read("f", "rule_counts");
    assert!(counts.starts_with("0\t3\t84\t2\toutside allow udp dst port 8\n"), "{counts}");
    assert_eq!(rig.number("f", "flows"), 1);
}

#[test]
fn midway_segments_pass_only_with_pickup_and_if_either_end_may_begin() {
    let reply = segment(1, 6, 2, ACK);
    assert!(!passes(&mut rig(&[]), 1, &reply));
    let mut picks = rig(&["PICKUP true"]);
    assert!(passes(&mut picks, 1, &reply));
    assert!(passes(&mut picks, 0, &segment(0, 2, 6, ACK)));
    assert!(!passes(&mut picks, 1, &segment(1, 600, 0, RST)), "not exact");
    let other = ipv4(1, 9, 6, &segment(1, 5, 0, SYN)[20..]);
    assert!(!passes(&mut picks, 1, &other), "a SYN is no pick-up");
    let mut neither = rig(&["PICKUP true", "RULE inside deny tcp"]);
    assert!(!passes(&mut neither, 1, &reply));
    assert_eq!(neither.number("f", "flows"), 0);
}

#[test]
fn sources_and_floods_are_limited_and_established_flows_stay() {
    let mut rig = rig(&["SOURCE_FLOWS 100", "YOUNG 50", "RULE outside allow tcp dst port 1000"]);
    for (side, packet) in
        [(0, segment(0, 1, 0, SYN)), (1, segment(1, 5, 2, SYN | ACK)), (0, segment(0, 2, 6, ACK))]
    {
        assert!(passes(&mut rig, side, &packet));
    }
    // A flood of SYNs from many addresses.
    let flood = |at: u32| {
        let mut packet = segment(1, 1, 0, SYN);
        packet[12..16].copy_from_slice(&(0x0808_0000 + at).to_be_bytes());
        packet
    };
    for batch in 0..100 {
        let packets: Vec<_> = (0..30).map(|at| flood(batch * 30 + at)).collect();
        assert_eq!(pass(&mut rig, 1, &packets).len(), 30);
        assert!(rig.number("f", "flows") <= 51 && rig.number("f", "young") <= 50);
    }
    assert!(rig.read("f", "counts").contains("evicted\t2950"));
    assert!(passes(&mut rig, 1, &segment(1, 6, 2, ACK)), "the established flow stays");
    assert!(rig.read("f", "sources").starts_with("51 "));
    // One source, whose flows are answered.
    let mut passed = 0;
    for port in 1..=200 {
        let query = ipv4(0, 2, 17, &udp([2_000 + port, 7], b""));
        passed += usize::from(passes(&mut rig, 0, &query));
        passes(&mut rig, 1, &ipv4(1, 2, 17, &udp([7, 2_000 + port], b"")));
    }
    assert_eq!(passed, 99, "beside the connection");
    assert_eq!(rig.number("f", "source_flows_limit"), 101);
    // Flows end, and the source may begin others.
    rig.turn_after(301 * SECOND);
    for _ in 0..200 {
        rig.turn();
        passes(&mut rig, 1, &ipv4(1, 3, 17, &udp([1, 1], b"")));
    }
    assert!(passes(&mut rig, 0, &ipv4(0, 2, 17, &udp([1, 1], b""))));
}

#[test]
fn rejected_and_denied_packets_have_outputs() {
    let mut rig = Rig::new(4, |builder| {
        builder.declare("f", "Firewall", &["CHECKSUMS false", "RULE reject udp", "RULE deny icmp"]);
        builder.declare("i", "Idle", &[]).chain(&["in", "f"]).connect("i", 0, "f", 1);
        for at in 0..4 {
            builder.connect("f", at, ["out0", "out1", "out2", "out3"][at], 0);
        }
    });
    rig.send([ipv4(0, 1, 17, &udp([1, 2], b"")), ipv4(0, 1, 1, &[8, 0, 0, 0, 0, 1, 0, 1]), b"x".to_vec()]);
    rig.turn();
    assert_eq!([0, 1, 2, 3].map(|end| rig.got(end).len()), [0, 0, 2, 1]);
}

#[test]
fn rules_of_a_file_come_behind_those_of_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let name = format!("FILE {}", path.display());
    let args = ["CHECKSUMS false", &name, "RULE outside deny udp dst port 8"];
    let mut world = crate::test_environment::TestEnvironment::default();
    std::fs::write(&path, "# ours\noutside allow udp\n").unwrap();
    let mut rig = Rig::new(2, fill(&args));
    rig.open(&mut world).unwrap();
    assert_eq!(rig.read("f", "rules"), "outside deny udp dst port 8\noutside allow udp");
    assert!(passes(&mut rig, 1, &ipv4(1, 1, 17, &udp([9, 7], b""))));
    assert!(!passes(&mut rig, 1, &ipv4(1, 1, 17, &udp([9, 8], b""))));
    std::fs::write(&path, "allow udp\n allow tcp port").unwrap();
    let error = Rig::new(2, fill(&args)).open(&mut world).unwrap_err().remove(0).1;
    assert!(error.ends_with("rules:2:16: expected a port number behind `port`"), "{error}");
    for wrong in [&["RULE permit"][..], &["FLOWS 0"], &["YOUNG 0"]] {
        assert!(Rig::with_buffers(5, 2, fill(wrong)).is_err(), "{wrong:?}");
    }
}

/// The twin's flow.
#[derive(Debug, Clone, Copy)]
struct Flow {
    side: u8,
    rule: usize,
    first_source: (u8, u16),
    last: Duration,
    is_answered: bool,
}

const PORTS: [u16; 3] = [53, 80, 1_000];
const RULES: [&str; 4] = [
    "RULE outside allow udp dst port 80",
    "RULE inside deny udp dst port 53 and dst host 192.0.2.2",
    "RULE outside deny src host 192.0.2.1",
    "RULE allow src port 1000",
];

/// The rule of a first packet, from the rules' meaning, not their text; and whether it allows.
fn linear(side: u8, source: (u8, u16), target: (u8, u16)) -> (usize, bool) {
    let rules: [(bool, bool); 4] = [
        (side == 1 && target.1 == 80, true),
        (side == 0 && target == (102, 53), false),
        (side == 1 && source.0 == 101, false),
        (source.1 == 1_000, true),
    ];
    let first = rules.iter().position(|(matches, _)| *matches);
    first.map_or((4 + usize::from(side), side == 0), |at| (at, rules[at].1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn equals_linear_rules_and_a_map_of_flows(
        turns in proptest::collection::vec(
            (0..2_u8, 0..150_u64, proptest::collection::vec((any::<bool>(), 0..2_u8, 0..2_u8, 0..3_u8, 0..3_u8), 1..12)),
            1..40,
        ),
    ) {
        let mut rig = rig(&RULES);
        let mut flows: HashMap<[(u8, u16); 2], Flow> = HashMap::new();
        let mut counts = [[0_u64; 2]; 6];
        let mut now = Duration::from_millis(1);
        for (side, seconds, packets) in turns {
            rig.turn_after(SECOND * seconds as u32);
            now += SECOND * seconds as u32 + Duration::from_millis(1);
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for (is_inside, a, b, from, to) in packets {
                // Hosts from 1 inside, from 101 outside.
                let (mut source, mut target) = ((1 + a, PORTS[usize::from(from)]), (101 + b, PORTS[usize::from(to)]));
                if !is_inside {
                    std::mem::swap(&mut source, &mut target);
                }
                let address = |host: u8| if host > 100 { [192, 0, 2, host - 100] } else { [10, 0, 0, host] };
                let packet = ipv4_of(
                    |header| (header.src, header.dst) = (address(source.0).into(), address(target.0).into()),
                    &udp([source.1, target.1], b""),
                );
                let mut ends = [source, target];
                ends.sort_unstable();
                let lives = |flow: &Flow| now - flow.last <= SECOND * if flow.is_answered { 300 } else { 120 };
                flows.retain(|_, flow| lives(flow));
                let passes = if let Some(flow) = flows.get_mut(&ends) {
                    flow.last = now;
                    let is_first = flow.first_source == source;
                    flow.is_answered |= !is_first;
                    let is_right = is_first == (flow.side == side);
                    counts[flow.rule][0] += u64::from(is_right);
                    is_right
                } else {
                    let (rule, is_allowed) = linear(side, source, target);
                    counts[rule][0] += 1;
                    if is_allowed {
                        counts[rule][1] += 1;
                        flows.insert(ends, Flow { side, rule, first_source: source, last: now, is_answered: false });
                    }
                    is_allowed
                };
                if passes {
                    expected.push(packet.clone());
                }
                bytes.push(packet);
            }
            prop_assert_eq!(pass(&mut rig, side, &bytes), expected);
        }
        let lines = rig.read("f", "rule_counts");
        for (line, [packets, flows]) in lines.lines().zip(counts) {
            let fields: Vec<u64> = line.split('\t').take(4).map(|field| field.parse().unwrap()).collect();
            prop_assert_eq!(&fields[1..], &[packets, packets * 28, flows], "{}", line);
        }
    }

    /// Bytes of any kind from both sides: nothing is lost, and nothing from outside begins a flow.
    #[test]
    fn hostile_packets_end_in_counters(
        packets in proptest::collection::vec((0..2_u8, proptest::collection::vec(any::<u8>(), 0..90), any::<bool>()), 1..60),
    ) {
        let mut rig = rig(&["FRAGMENTS 4", "YOUNG 5"]);
        for (side, mut bytes, is_ip) in packets {
            if is_ip && bytes.len() >= 28 {
                bytes[0] = 0x45;
                let len = bytes.len() as u16;
                bytes[2..4].copy_from_slice(&len.to_be_bytes());
                bytes[6] &= 0x3F;
                bytes[9] = [1, 6, 17, 47][usize::from(bytes[9] % 4)];
            }
            pass(&mut rig, side, &[bytes]);
            prop_assert!(rig.number("f", "young") <= 10);
            prop_assert!(rig.worker.graph().held() <= 4);
        }
        let outside = rig.read("f", "rule_counts");
        prop_assert!(outside.lines().nth(1).unwrap().contains("\t0\toutside deny (default)"));
    }
}
