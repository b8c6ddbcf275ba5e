use super::*;
use crate::rig::{Rig, ipv4_of};
use scalebricks_graph::Builder;
use scalebricks_io::Packet;
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{ETHERTYPE_ARP, header};
use std::time::Duration;

const OWN: &str = "2:0:0:0:0:1";
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const SECOND: Duration = Duration::from_secs(1);

/// Packets whose first byte has the high bit are for input 0, others are ARP. Frames leave by `out0`, questions by `out1`.
fn fill(args: Vec<&'static str>) -> impl Fn(&mut Builder<Packet>) {
    move |builder| {
        let args: Vec<&str> = ["10.0.0.1/24", OWN].into_iter().chain(args.iter().copied()).collect();
        builder.declare("split", "Classifier", &["12/0806", "-"]).declare("get", "GetIPAddress", &["16"]);
        builder.declare("a", "ARPQuerier", &args).chain(&["in", "split"]).connect("split", 0, "a", 1);
        builder.connect("split", 1, "get", 0).chain(&["get", "a", "out0"]).connect("a", 1, "out1", 0);
    }
}

fn rig(args: Vec<&'static str>) -> Rig {
    Rig::new(2, fill(args))
}

fn to(dst: [u8; 4], payload: &[u8]) -> Vec<u8> {
    ipv4_of(|header| header.dst = dst.into(), payload)
}

fn answer_from(ip: [u8; 4], change: impl FnOnce(&mut Arp)) -> Vec<u8> {
    let mut arp = Arp {
        operation: Operation::Reply,
        sender_mac: HOST,
        sender_ip: ip.into(),
        target_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        target_ip: [10, 0, 0, 1].into(),
    };
    change(&mut arp);
    [&header(MacAddr([2, 0, 0, 0, 0, 1]), HOST, ETHERTYPE_ARP)[..], &arp.to_bytes()].concat()
}

/// The last bytes of frames, and whom they go to.
fn frames(rig: &Rig) -> Vec<(MacAddr, u8)> {
    let frame =
        |bytes: Vec<u8>| (scalebricks_wire::ethernet::destination(&bytes).unwrap(), *bytes.last().unwrap());
    rig.got(0).into_iter().map(frame).collect()
}

#[test]
fn packets_wait_for_the_answer_and_leave_in_order() {
    let mut rig = rig(vec![]);
    rig.send([to([10, 0, 0, 9], b"1"), to([10, 0, 0, 9], b"2")]);
    rig.turn();
    let questions = rig.got(1);
    let asked = Arp::parse(&questions[0][14..]).unwrap();
    assert_eq!(
        (questions.len(), asked.operation, asked.target_ip),
        (1, Operation::Request, [10, 0, 0, 9].into())
    );
    assert_eq!((asked.sender_ip, &questions[0][..6]), ([10, 0, 0, 1].into(), &[0xff; 6][..]));
    assert_eq!((rig.got(0).len(), rig.number("a", "length"), rig.worker.graph().held()), (0, 2, 2));
    assert_eq!(rig.read("a", "table"), "10.0.0.9\t?\t2");
    rig.send([answer_from([10, 0, 0, 9], |_| {}), to([10, 0, 0, 9], b"3")]);
    rig.turn();
    rig.send([to([10, 0, 0, 9], b"4")]);
    rig.turn();
    assert_eq!(frames(&rig), [b'1', b'2', b'3', b'4'].map(|n| (HOST, n)));
    let counted = ["queries", "responses", "sent", "count", "length", "drops"];
    assert_eq!(counted.map(|name| rig.number("a", name)), [1, 1, 3, 1, 0, 0]);
    assert_eq!((rig.got(1).len(), rig.worker.timers()), (0, 0));
}

#[test]
fn questions_are_repeated_until_nobody_answers() {
    let mut rig = rig(vec!["TRIES 3", "RETRY 1"]);
    rig.send([to([10, 0, 0, 9], b"1")]);
    rig.turn();
    assert_eq!(rig.got(1).len(), 1);
    let asked: Vec<usize> = (0..40)
        .map(|_| {
            rig.turn_after(SECOND / 10);
            rig.got(1).len()
        })
        .collect();
    assert_eq!(asked.iter().sum::<usize>(), 2);
    assert_eq!(["no_answer", "drops", "count", "length"].map(|name| rig.number("a", name)), [1, 1, 0, 0]);
    assert_eq!(rig.worker.timers(), 0);
}

#[test]
fn answers_count_for_a_time_and_are_asked_for_again() {
    let mut rig = rig(vec!["TIMEOUT 300", "POLL_TIMEOUT 60"]);
    let mut after = |milliseconds: u32, packets: Vec<Vec<u8>>| {
        rig.send(packets);
        rig.turn_after(SECOND / 1000 * milliseconds);
        (rig.got(0).len(), rig.got(1).len())
    };
    let packet = || to([10, 0, 0, 9], b"1");
    assert_eq!(after(1_000, vec![packet()]), (0, 1));
    assert_eq!(after(900, vec![answer_from([10, 0, 0, 9], |_| {})]), (1, 0));
    assert_eq!(after(59_000, vec![packet()]), (1, 0));
    // It asks for what is old, once a second, and goes on sending.
    assert_eq!(after(1_000, vec![packet(), packet()]), (2, 1));
    assert_eq!(after(1_000, vec![packet()]), (1, 1));
    assert_eq!(after(1_000, vec![answer_from([10, 0, 0, 9], |_| {})]), (0, 0));
    assert_eq!(after(1_000, vec![packet()]), (1, 0));
    assert_eq!(after(300_000, vec![packet()]), (0, 1));
}

#[test]
fn only_answers_of_hosts_that_were_asked_count() {
    let mut rig = rig(vec![]);
    rig.send([
        answer_from([10, 0, 0, 9], |_| {}),
        answer_from([10, 0, 0, 9], |arp| arp.operation = Operation::Request),
        answer_from([10, 0, 0, 9], |arp| arp.sender_mac = MacAddr::BROADCAST),
        answer_from([10, 0, 0, 9], |_| {})[..41].to_vec(),
    ]);
    rig.turn();
    assert_eq!(["responses", "unasked", "no_reply", "count"].map(|name| rig.number("a", name)), [1, 1, 3, 0]);
}

#[test]
fn some_addresses_need_no_question() {
    let mut rig = rig(vec![]);
    rig.send([[255; 4], [10, 0, 0, 255], [224, 129, 2, 3], [0; 4]].map(|dst| to(dst, b"1")));
    rig.turn();
    let to: Vec<MacAddr> = frames(&rig).into_iter().map(|(to, _)| to).collect();
    assert_eq!(to, [MacAddr::BROADCAST, MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 1, 2, 3])]);
    assert_eq!((rig.number("a", "no_destination"), rig.number("a", "queries")), (1, 0));
}

#[test]
fn what_waits_is_bounded() {
    let mut rig = rig(vec!["CAPACITY 5", "ENTRY_PACKET_CAPACITY 3", "ENTRY_CAPACITY 2"]);
    rig.send((0..5).map(|n| to([10, 0, 0, 9], &[n])));
    rig.turn();
    assert_eq!(["length", "queue_full"].map(|name| rig.number("a", name)), [3, 2]);
    rig.send((5..9).map(|n| to([10, 0, 0, 8], &[n])));
    rig.turn();
    assert_eq!(["length", "queue_full"].map(|name| rig.number("a", name)), [5, 4]);
    // A third host takes the place of the first.
    rig.send([to([10, 0, 0, 7], &[9])]);
    rig.turn();
    assert_eq!(["length", "evicted", "count", "drops"].map(|name| rig.number("a", name)), [3, 3, 2, 7]);
    rig.send([
        answer_from([10, 0, 0, 9], |_| {}),
        answer_from([10, 0, 0, 8], |_| {}),
        answer_from([10, 0, 0, 7], |_| {}),
    ]);
    rig.turn();
    assert_eq!(frames(&rig), [5, 6, 9].map(|n| (HOST, n)));
    // Known hosts are not evicted.
    rig.send([to([10, 0, 0, 6], &[10])]);
    rig.turn();
    assert_eq!((rig.number("a", "table_full"), rig.number("a", "unasked")), (1, 1));
    rig.send([to([10, 0, 0, 6], &[10])]);
    rig.turn_after(SECOND * 300);
    assert_eq!(
        (rig.number("a", "table_full"), rig.number("a", "count"), rig.number("a", "length")),
        (1, 2, 1)
    );
}

#[test]
fn more_than_a_frame_may_wait() {
    let mut rig = rig(vec!["ENTRY_PACKET_CAPACITY 1000"]);
    for part in 0..5u8 {
        rig.send((0..100).map(|n| to([10, 0, 0, 9], &[part, n])));
        rig.turn();
    }
    rig.send([answer_from([10, 0, 0, 9], |_| {})]);
    let mut numbers = Vec::new();
    for n in 0..20u8 {
        if n < 3 {
            rig.send([to([10, 0, 0, 9], &[100 + n])]);
        }
        rig.turn();
        numbers.extend(frames(&rig).into_iter().map(|(_, n)| n));
    }
    let expected: Vec<u8> = (0..5).flat_map(|_| 0..100).chain(100..103).collect();
    assert_eq!((numbers, rig.number("a", "length"), rig.worker.timers()), (expected, 0, 0));
}

#[test]
fn hosts_and_packets_stay_in_a_new_graph() {
    let mut rig = rig(vec![]);
    rig.send([to([10, 0, 0, 9], b"1")]);
    rig.turn();
    rig.replace(fill(vec!["CAPACITY 10"]));
    rig.turn_after(SECOND * 2);
    assert_eq!((rig.got(1).len(), rig.number("a", "length")), (2, 1));
    rig.send([answer_from([10, 0, 0, 9], |_| {})]);
    rig.turn();
    rig.replace(fill(vec![]));
    rig.send([to([10, 0, 0, 9], b"2")]);
    rig.turn();
    assert_eq!(frames(&rig), [b'1', b'2'].map(|n| (HOST, n)));
}

#[test]
fn addresses_are_set_and_forgotten_by_hand() {
    let mut rig = rig(vec!["ENTRY_CAPACITY 2"]);
    rig.write("a", "insert", "10.0.0.9 2:0:0:0:0:9").unwrap();
    rig.send([to([10, 0, 0, 9], b"1"), to([10, 0, 0, 8], b"2")]);
    rig.turn_after(SECOND * 10_000);
    assert_eq!(frames(&rig), [(HOST, b'1')]);
    assert!(rig.write("a", "insert", "10.0.0.7 2:0:0:0:0:9").unwrap_err().contains("the table is full"));
    rig.write("a", "insert", " 10.0.0.8  2:0:0:0:0:9 ").unwrap();
    rig.turn_after(SECOND);
    rig.turn_after(SECOND);
    assert_eq!(frames(&rig), [(HOST, b'2')], "what waited leaves");
    assert_eq!(rig.read("a", "table"), "10.0.0.8\t02:00:00:00:00:09\t0\n10.0.0.9\t02:00:00:00:00:09\t0");
    rig.write("a", "delete", "10.0.0.9").unwrap();
    assert_eq!(rig.number("a", "count"), 1);
    rig.write("a", "clear", "").unwrap();
    assert_eq!(rig.read("a", "stats"), "0 packets wait for some of 0 hosts\n0 packets dropped\n");
    for wrong in
        [("insert", "10.0.0.9"), ("insert", "x 2:0:0:0:0:9"), ("insert", "10.0.0.9 2"), ("delete", "x")]
    {
        assert!(rig.write("a", wrong.0, wrong.1).is_err(), "{wrong:?}");
    }
}

#[test]
fn without_buffers_it_asks_later() {
    let mut rig = Rig::with_buffers(1, 2, fill(vec![])).unwrap();
    rig.send([to([10, 0, 0, 9], b"1")]);
    rig.turn();
    assert_eq!((rig.number("a", "queries_not_sent"), rig.number("a", "length")), (1, 1));
    assert!(Rig::with_buffers(1, 2, fill(vec!["TRIES 0"])).is_err());
}

#[test]
fn who_sends_to_many_addresses_makes_no_storm() {
    let mut rig = rig(vec!["QUERY_RATE 50", "ENTRY_CAPACITY 20", "TRIES 2"]);
    for net in 0..10 {
        rig.send((1..101).map(|host| to([10, 1, net, host], b"1")));
        rig.turn();
    }
    assert_eq!(rig.worker.timers(), 20, "as many as hosts");
    assert_eq!(["queries", "count", "evicted", "length"].map(|name| rig.number("a", name)), [5, 20, 980, 20]);
    (0..5).for_each(|_| {
        rig.turn_after(SECOND);
    });
    assert_eq!((rig.number("a", "count"), rig.worker.timers(), rig.number("a", "no_answer")), (0, 0, 20));
    assert_eq!(rig.number("a", "queries") + rig.number("a", "queries_not_sent"), 1_020);
}
