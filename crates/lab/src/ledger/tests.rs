//! The ledger detects every kind of error and counts it once.

use super::*;

const BASE_STATION: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);
const TEID: u32 = 0x0102_0304;
const HERE: NodeId = NodeId::new(2);

fn inner() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 100, 0, 1, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 9, 8, 7];
    packet.extend((0..80).map(|n: u8| n.wrapping_mul(3)));
    packet
}

fn expected(inner: &[u8], qfi: Option<u8>) -> Expected<'_> {
    Expected {
        node: HERE,
        output: OutputPort::BaseStation,
        teid: Teid::new(TEID),
        base_station: BASE_STATION,
        qfi: qfi.map(|q| Qfi::new(q).unwrap()),
        inner,
    }
}

fn ipv4(offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    let flags = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
    let [f0, f1] = flags.to_be_bytes();
    let [l0, l1] = (20 + payload.len() as u16).to_be_bytes();
    let mut header = vec![0x45, 0, l0, l1, 0, 7, f0, f1, 64, 17, 0, 0, 10, 255, 0, 1, 10, 1, 0, 9];
    let mut sum: u32 = header.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    frame.extend(header);
    frame.extend(payload);
    frame
}

fn tunnel(teid: u32, qfi: Option<u8>, inner: &[u8]) -> Vec<u8> {
    let mut gtpu = vec![if qfi.is_some() { 0x34 } else { 0x30 }, 255, 0, 0];
    gtpu.extend(teid.to_be_bytes());
    if let Some(qfi) = qfi {
        gtpu.extend([0, 0, 0, 0x85, 1, 0, qfi, 0]);
    }
    gtpu.extend(inner);
    let len = (gtpu.len() - 8) as u16;
    gtpu[2..4].copy_from_slice(&len.to_be_bytes());
    let mut udp = vec![0xc0, 0, 0x08, 0x68];
    udp.extend((gtpu.len() as u16 + 8).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(gtpu);
    udp
}

fn right() -> Vec<u8> {
    ipv4(0, false, &tunnel(TEID, None, &inner()))
}

fn tag(id: u64) -> Tag {
    Tag { id, hops: 1, piece: 0 }
}

/// A round of one packet, which leaves as these frames.
fn leaves(frames: &[Vec<u8>]) -> Totals {
    round(|ledger| {
        for frame in frames {
            ledger.left(HERE, OutputPort::BaseStation, tag(0), frame, &expected(&inner(), None));
        }
    })
}

fn round(events: impl FnOnce(&mut Ledger)) -> Totals {
    let mut ledger = Ledger::new();
    ledger.begin_round([0]);
    events(&mut ledger);
    ledger.end_round();
    let totals = ledger.totals().clone();
    assert_eq!(totals.packets_in, 1);
    assert_eq!(totals.packets_in, totals.packets_out + totals.dropped_total() + totals.lost);
    assert_eq!(totals.problems.is_empty(), totals.misdelivered + totals.lost == 0);
    totals
}

#[track_caller]
fn assert_wrong(totals: &Totals, out: u64, word: &str) {
    assert_eq!((totals.packets_out, totals.misdelivered), (out, 1), "{totals:?}");
    assert!(totals.problems.lines().iter().any(|line| line.contains(word)), "{:?}", totals.problems);
}

fn drop_of(id: u64, reason: DropReason) -> Dropped {
    Dropped { tag: tag(id), reason }
}

#[test]
fn a_correct_packet_counts_as_out_only() {
    let totals = leaves(&[right()]);
    let want = Totals { packets_in: 1, packets_out: 1, hops_total: 1, hops_max: 1, ..Totals::default() };
    assert_eq!(totals, want);
}

#[test]
fn missing_duplicate_and_misplaced_packets_are_found() {
    let totals = leaves(&[]);
    assert_eq!((totals.lost, totals.packets_out, totals.misdelivered), (1, 0, 0));
    assert_wrong(&leaves(&[right(), right()]), 1, "more than once");
    let inner = inner();
    let at =
        |node, output| round(|ledger| ledger.left(node, output, tag(0), &right(), &expected(&inner, None)));
    assert_wrong(&at(NodeId::new(1), OutputPort::BaseStation), 1, "left at node 1");
    assert_wrong(&at(HERE, OutputPort::Internet), 1, "Internet port");
}

#[test]
fn changed_tunnels_and_packets_are_found() {
    let frame = |teid, qfi| ipv4(0, false, &tunnel(teid, qfi, &inner()));
    assert_wrong(&leaves(&[frame(TEID + 1, None)]), 1, "TEID 0x01020305");
    assert_wrong(&leaves(&[frame(TEID, Some(5))]), 1, "QFI of Some(5)");
    let inner = inner();
    let with_qfi = |sent| {
        round(|ledger| {
            let frame = frame(TEID, sent);
            ledger.left(HERE, OutputPort::BaseStation, tag(0), &frame, &expected(&inner, Some(9)));
        })
    };
    assert_eq!(with_qfi(Some(9)).misdelivered, 0);
    assert_wrong(&with_qfi(Some(8)), 1, "QFI of Some(8)");
    assert_wrong(&with_qfi(None), 1, "QFI of None");
}

#[test]
fn every_relevant_octet_is_compared() {
    // Free: the MACs, TOS and identification and the checksum over them, the UDP source port.
    let free = |at: usize| at < 12 || matches!(at, 34 | 35);
    for at in 0..right().len() {
        let mut frame = right();
        frame[at] ^= 0x04;
        assert_eq!(leaves(&[frame]).misdelivered, u64::from(!free(at)), "octet {at}");
    }
    let cut = right().len() - 1;
    assert_eq!(leaves(&[right()[..cut].to_vec()]).misdelivered, 1);
    assert_eq!(leaves(&[[right(), vec![0]].concat()]).misdelivered, 1);
}

#[test]
fn a_udp_checksum_must_be_correct_or_absent() {
    let mut udp = tunnel(TEID, None, &inner());
    let pseudo: Vec<u8> = [[10, 255, 0, 1], [10, 1, 0, 9]].concat();
    let words = pseudo.iter().chain(&udp).copied().collect::<Vec<u8>>();
    let mut sum: u32 =
        words.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum();
    sum += 17 + udp.len() as u32;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    udp[6..8].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    assert_eq!(leaves(&[ipv4(0, false, &udp)]).misdelivered, 0);
    udp[7] ^= 1;
    assert_wrong(&leaves(&[ipv4(0, false, &udp)]), 1, "UDP checksum");
}

fn fragments() -> Vec<Vec<u8>> {
    let payload = tunnel(TEID, None, &inner());
    let last = payload.len() - 80;
    assert_eq!(last, 36);
    vec![ipv4(0, true, &payload[..40]), ipv4(40, true, &payload[40..80]), ipv4(80, false, &payload[80..])]
}

#[test]
fn fragments_in_any_order_are_one_packet() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let totals = leaves(&order.map(|n| fragments()[n].clone()));
        let want = (1, 0, 3, 1, 1);
        let seen =
            (totals.packets_out, totals.misdelivered, totals.fragments_made, totals.packets_fragmented);
        assert_eq!((seen.0, seen.1, seen.2, seen.3, totals.hops_total), want, "{order:?}");
    }
}

#[test]
fn incomplete_duplicate_and_changed_fragments_are_found() {
    for missing in 0..3 {
        let mut some = fragments();
        some.remove(missing);
        let totals = leaves(&some);
        assert_eq!((totals.lost, totals.packets_out, totals.misdelivered), (1, 0, 0));
        assert!(totals.problems.lines()[0].contains("only some"), "{:?}", totals.problems);
    }
    let [a, b, c] = fragments().try_into().unwrap();
    assert_wrong(&leaves(&[a.clone(), a.clone(), b.clone(), c.clone()]), 1, "overlap");
    assert_wrong(&leaves(&[a.clone(), b.clone(), c.clone(), a.clone()]), 1, "only some");
    assert_wrong(&leaves(&[a.clone(), b.clone(), c.clone(), right()]), 1, "more than once");
    let mut changed = b.clone();
    changed[34] ^= 1;
    assert_wrong(&leaves(&[a, changed, c]), 1, "not the one put in");
}

#[test]
fn a_drop_counts_once_by_its_reason() {
    let totals = round(|ledger| ledger.dropped(&drop_of(0, DropReason::NonIp), &[DropCause::NotIp]));
    assert_eq!((totals.dropped["non_ip"], totals.misdelivered, totals.lost), (1, 0, 0));
    let twice = round(|ledger| {
        ledger.dropped(&drop_of(0, DropReason::NonIp), &[DropCause::Unreadable]);
        ledger.dropped(&drop_of(0, DropReason::Truncated), &[DropCause::Unreadable]);
    });
    assert_wrong(&twice, 0, "dropped more than once, last as truncated");
    let both = round(|ledger| {
        ledger.dropped(&drop_of(0, DropReason::PortFull), &[DropCause::NoRoom]);
        ledger.left(HERE, OutputPort::BaseStation, tag(0), &right(), &expected(&inner(), None));
    });
    assert_wrong(&both, 1, "left and was dropped as port_full");
    assert_eq!(both.dropped_total(), 0);
    let needless = round(|ledger| ledger.dropped(&drop_of(0, DropReason::NonIp), &[DropCause::Checksum]));
    assert_wrong(&needless, 0, "dropped as non_ip, which nothing in it calls for");
    assert_eq!(needless.dropped["non_ip"], 1);
    let needed = round(|ledger| ledger.left_wrongly(tag(0), "non_ip"));
    assert_wrong(&needed, 1, "should have been dropped: non_ip");
}

#[test]
fn packets_that_were_never_put_in_are_found() {
    let totals = round(|ledger| {
        ledger.dropped(&drop_of(0, DropReason::NonIp), &[DropCause::NotIp]);
        ledger.dropped(&drop_of(1, DropReason::NonIp), &[DropCause::NotIp]);
    });
    assert_wrong(&totals, 0, "packet 1 was never put in");
    let totals = round(|ledger| {
        ledger.dropped(&drop_of(0, DropReason::NonIp), &[DropCause::NotIp]);
        ledger.left(HERE, OutputPort::BaseStation, tag(7), &right(), &expected(&inner(), None));
    });
    assert_wrong(&totals, 0, "packet 7 was never put in");
}

#[test]
fn an_upstream_packet_is_the_users_packet_after_an_ethernet_header() {
    let inner = inner();
    let expected = Expected { output: OutputPort::Internet, ..expected(&inner, None) };
    let frame = [vec![2; 12], vec![8, 0], inner.clone()].concat();
    let send =
        |frame: &[u8]| round(|ledger| ledger.left(HERE, OutputPort::Internet, tag(0), frame, &expected));
    assert_eq!(send(&frame).misdelivered, 0);
    assert_wrong(&send(&[&frame[..], &[0]].concat()), 1, "not the one put in");
    let mut changed = frame.clone();
    changed[30] ^= 1;
    assert_wrong(&send(&changed), 1, "not the one put in");
    let mut changed = frame;
    changed[12] ^= 1;
    assert_wrong(&send(&changed), 1, "ethertype 0x0900");
}

fn answer() -> Vec<u8> {
    let quoted = &inner()[..28];
    let mut icmp = vec![3, 4, 0, 0, 0, 0, 5, 220];
    icmp.extend(quoted);
    let sum: u32 = icmp.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    icmp[2..4].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    let mut frame = ipv4(0, false, &icmp);
    frame[14 + 9] = 1;
    frame[14 + 16..14 + 20].copy_from_slice(&[192, 0, 2, 1]);
    frame[14 + 10..14 + 12].fill(0);
    let sum: u32 = frame[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

#[test]
fn an_icmp_error_requires_a_drop() {
    let inner = inner();
    let answered = |frames: &[Vec<u8>], port, reason| {
        round(|ledger| {
            for frame in frames {
                ledger.left(HERE, port, Tag { piece: 255, ..tag(0) }, frame, &expected(&inner, None));
            }
            ledger.dropped(&drop_of(0, reason), &[DropCause::TooBigForLink, DropCause::NotIp]);
        })
    };
    let needed = DropReason::FragmentationNeeded;
    let totals = answered(&[answer()], OutputPort::Internet, needed);
    assert_eq!((totals.icmp_sent, totals.misdelivered, totals.packets_out), (1, 0, 0), "{totals:?}");
    assert_eq!(totals.dropped["fragmentation_needed"], 1);
    assert_wrong(&answered(&[answer(), answer()], OutputPort::Internet, needed), 0, "more than once");
    assert_wrong(&answered(&[answer()], OutputPort::BaseStation, needed), 0, "port");
    assert_wrong(&answered(&[answer()], OutputPort::Internet, DropReason::NonIp), 0, "but not dropped as");
    for at in [14 + 9, 14 + 19, 34, 35, 36, 60] {
        let mut changed = answer();
        changed[at] ^= 1;
        assert_eq!(answered(&[changed], OutputPort::Internet, needed).misdelivered, 1, "octet {at}");
    }
}

#[test]
fn rounds_are_summed_and_problems_are_grouped() {
    let mut ledger = Ledger::new();
    for round in 0..3 {
        ledger.begin_round(round * 20 + 1..=round * 20 + 20);
        for id in 0..19 {
            ledger.dropped(&drop_of(id, DropReason::UnknownFlow), &[]);
        }
    }
    ledger.end_round();
    ledger.end_round();
    let totals = ledger.totals();
    assert_eq!((totals.packets_in, totals.lost, totals.misdelivered), (60, 3, 57));
    assert_eq!(totals.dropped["unknown_flow"], 57);
    let lines = [
        "packet 1 was dropped as unknown_flow, which nothing in it calls for; 56 more like it: packet 2, 3, 4, 5, …",
        "packet 20 was never seen again; 2 more like it: packet 40, 60",
    ];
    assert_eq!(totals.problems.lines(), lines);
}
