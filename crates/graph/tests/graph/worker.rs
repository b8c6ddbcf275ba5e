//! A worker's turn.

use crate::elements::{Feed, Fork, Split, Tray, lap, packet};
use crate::rig::{packets, rig};
use scalebricks_graph::worker::BACKS_A_TURN;
use scalebricks_graph::{Control, Element, Frame, HOP_LIMIT, INTAKE, Out, SlotList, element};
use scalebricks_io::{Packet, PacketBuf, Pool};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_turn_takes_half_a_frame_in_and_works_it_off() {
    let mut rig = rig(1_000, |builder| {
        builder.declare("pass", "Pass", &[]).chain(&["feed", "pass", "sink"]);
    });
    rig.feed(packets(0..300));
    for expected in [0..128, 128..256, 256..300, 300..300] {
        rig.turn();
        assert_eq!(rig.sunk(), expected.collect::<Vec<u32>>());
    }
    assert_eq!(rig.turn(), 0);
    assert_eq!((rig.count("pass", "packets"), rig.count("pass", "batches")), (300, 3));
}

#[test]
fn sources_share_what_a_frame_takes_in() {
    let second = Tray::default();
    second.lock().unwrap().extend(packets(0..1_000));
    let pool = Pool::new(1_000, 100).unwrap();
    let mut rig = rig(1_000, |builder| {
        builder.add("second", Feed { tray: second.clone(), pool, burst: 1_000 });
        builder.chain(&["feed", "sink"]).chain(&["second", "sink"]);
    });
    rig.feed(packets(0..1_000));
    rig.turn();
    assert_eq!(
        (rig.count("feed", "fed"), rig.count("second", "fed")),
        (INTAKE as u64 / 2, INTAKE as u64 / 2)
    );
    rig.feed.lock().unwrap().clear();
    second.lock().unwrap().extend(packets(0..1_000));
    rig.turn();
    let shares = [rig.count("feed", "fed"), rig.count("second", "fed")];
    assert_eq!(
        shares,
        [INTAKE as u64 / 2, INTAKE as u64 / 2 + INTAKE as u64],
        "the second has what the first leaves"
    );
}

#[test]
fn for_a_source_that_brought_nothing_a_burst_is_kept_in_one_turn_of_eight() {
    let second = Tray::default();
    let pool = Pool::new(1_000, 100).unwrap();
    let mut rig = rig(1_000, |builder| {
        builder.add("second", Feed { tray: second.clone(), pool, burst: 1_000 });
        builder.chain(&["feed", "sink"]).chain(&["second", "sink"]);
    });
    rig.feed(packets(0..1_400));
    let mut shares = [0, 0];
    let full = [INTAKE as u64, 0];
    for (turn, expected) in
        [[64, 0], full, full, full, full, full, full, full, [96, 32], [64, 64]].into_iter().enumerate()
    {
        if turn == 3 {
            second.lock().unwrap().extend(packets(0..1_000));
        }
        rig.turn();
        let now = [rig.count("feed", "fed"), rig.count("second", "fed")];
        assert_eq!([now[0] - shares[0], now[1] - shares[1]], expected, "turn {turn}");
        shares = now;
    }
}

#[test]
fn a_packet_that_goes_in_cycles_is_dropped_by_name() {
    let mut rig = rig(100, |builder| {
        builder.add("lap", lap()).chain(&["feed", "lap", "sink"]).connect("lap", 1, "lap", 0);
    });
    rig.feed([packet(1, HOP_LIMIT - 1, 0), packet(1, HOP_LIMIT, 1), packet(1, 255, 2), packet(1, 0, 3)]);
    rig.turn();
    assert_eq!(rig.sunk(), [3, 0]);
    assert_eq!(rig.count("lap", "graph_loop"), 2);
}

#[test]
fn a_fusion_has_the_outputs_of_all_its_elements() {
    for fuses in [true, false] {
        let mut rig = rig(100, |builder| {
            builder.fuses(fuses);
            for (name, bit) in [("a", "0"), ("b", "1"), ("c", "2")] {
                builder.declare(name, "Bit", &[bit]);
            }
            builder.declare("side", "Pass", &[]).declare("other", "Pass", &[]);
            builder
                .chain(&["feed", "a", "b", "c", "sink"])
                .chain(&["side", "sink"])
                .chain(&["other", "sink"]);
            builder.connect("a", 1, "side", 0).connect("b", 1, "other", 0).connect("c", 2, "side", 0);
        });
        assert_eq!(rig.worker.graph().boxes(), if fuses { 5 } else { 7 });
        rig.feed((0..16).map(|at| packet(at as u8, 0, at)));
        rig.turn();
        // `a` decides by bit 0, `b` by bit 1 of the rest, and `c` by bit 2; its output 1 is unconnected.
        assert_eq!((rig.count("side", "packets"), rig.count("other", "packets")), (8, 4));
        assert_eq!(["a", "b", "c"].map(|name| rig.count(name, "packets")), [16, 8, 4]);
        assert_eq!(["a", "b", "c"].map(|name| rig.count(name, "unconnected")), [0, 0, 2]);
        assert_eq!(rig.sunk().len(), 14);
    }
}

#[test]
fn an_element_runs_when_all_before_it_are_done() {
    let mut rig = rig(100, |builder| {
        builder.add("split", Split { salt: 0 }).declare("a", "Pass", &[]).add("lap", lap());
        builder.declare("join", "Pass", &[]).chain(&["feed", "split", "a", "join", "sink"]);
        builder.connect("split", 1, "join", 0).connect("split", 2, "lap", 0);
        builder.connect("lap", 1, "lap", 0).connect("lap", 0, "join", 0);
    });
    rig.feed((0..50).map(|at| packet(at as u8, at as u8, at)));
    rig.turn();
    assert_eq!((rig.count("sink", "packets"), rig.count("sink", "batches")), (50, 1));
    assert_eq!((rig.count("join", "packets"), rig.count("join", "batches")), (50, 1));
    assert_eq!(rig.count("lap", "batches"), 50, "one a lap; flow 49 has most");
}

#[test]
fn over_64_elements_run_in_order_too() {
    let names: Vec<String> = (0..200).map(|at| format!("e{at}")).collect();
    let mut rig = rig(100, |builder| {
        for (at, name) in names.iter().enumerate() {
            if at % 70 == 65 {
                builder.add(name, lap())
            } else {
                builder.declare(name, "Pass", &[])
            };
        }
        for at in (65..200).step_by(70) {
            builder.connect(&names[at], 1, &names[at - 40], 0);
        }
        let all: Vec<&str> =
            ["feed"].into_iter().chain(names.iter().map(String::as_str)).chain(["sink"]).collect();
        builder.chain(&all);
    });
    rig.feed([packet(1, 0, 0), packet(2, 5, 1), packet(3, 9, 2)]);
    rig.turn();
    assert_eq!(rig.sunk(), [0, 1, 2]);
    assert_eq!(
        (rig.count("sink", "batches"), rig.count("e65", "packets"), rig.count("e199", "batches")),
        (1, 3 + 5 + 9, 1)
    );
}

element! {
    /// Replaces each packet by a new one, and sends it back.
    struct Respawn as "Respawn" { inherits: bool, }
    inputs { push "in": "Packets.", }
    outputs { push "out": "New ones.", }
    counters { MADE = "made": "Packets made.", }
}

impl Control for Respawn {}

impl Element<Packet> for Respawn {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            let new = frame.alloc().unwrap();
            let new = if self.inherits { frame.put_because(new, &slot) } else { frame.put(new) };
            drop(frame.take(slot));
            out.count(Self::MADE, 1);
            out.push(0, new.unwrap());
        }
    }
}

#[test]
fn packets_that_cause_each_other_in_a_cycle_end() {
    for (inherits, made) in [(true, 64), (false, BACKS_A_TURN as u64 + 1)] {
        let mut rig = rig(1, |builder| {
            builder.add("respawn", Respawn { inherits }).chain(&["feed", "respawn", "respawn"]);
            builder
                .add("idle", Feed { tray: Tray::default(), pool: Pool::new(1, 1).unwrap(), burst: 1 })
                .chain(&["idle", "sink"]);
        });
        rig.feed(packets(0..1));
        rig.turn();
        assert_eq!((rig.count("respawn", "made"), rig.count("respawn", "graph_loop")), (made, 1));
        assert_eq!(rig.turn(), 0);
    }
}

#[test]
fn a_worker_that_finds_nothing_to_do_sleeps_and_wakes() {
    let mut rig = rig(10, |builder| {
        builder.chain(&["feed", "sink"]);
    });
    let (stop, feed, sink) = (AtomicBool::new(false), rig.feed.clone(), rig.sink.clone());
    let quiescence = rig.worker.quiescence();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| rig.worker.run(&stop));
        for at in 0..5 {
            feed.lock().unwrap().push_back(packet(1, 0, at));
            let since = quiescence.since();
            while sink.lock().unwrap().len() <= usize::from(at) || !quiescence.has_passed(since) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap();
    });
    assert_eq!(rig.sunk(), [0, 1, 2, 3, 4]);
    assert!(quiescence.has_passed(quiescence.since()), "a worker that has stopped holds nothing");
}

#[test]
fn copies_that_double_in_a_cycle_end() {
    let mut rig = rig(1, |builder| {
        builder.add("lap", lap()).add("fork", Fork {}).chain(&["feed", "fork", "lap", "sink"]);
        builder.connect("fork", 1, "lap", 0).connect("lap", 1, "fork", 0);
    });
    rig.feed([packet(1, 200, 0)]);
    rig.turn();
    let (copies, failed) = (rig.count("fork", "copies"), rig.count("fork", "failed"));
    assert!(failed > 0, "a frame has 256 slots");
    assert_eq!(rig.count("lap", "graph_loop"), copies + 1);
}

element! {
    /// Holds each packet for some time, with one timer per packet.
    struct Delay as "Delay" { waiting: Vec<Packet>, time: Duration, }
    inputs { push "in": "Packets.", }
    outputs { push "out": "The same, later.", }
}

impl Control for Delay {}

impl Element<Packet> for Delay {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            out.wake_in(self.time, self.waiting.len() as u64).unwrap();
            self.waiting.push(frame.take(slot));
        }
    }

    fn timer(&mut self, token: u64, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        let bytes = self.waiting[token as usize].data().to_vec();
        let mut copy = frame.alloc().unwrap();
        copy.append(&bytes).unwrap();
        let slot = frame.put(copy).unwrap();
        out.push(0, slot);
    }
}

#[test]
fn timers_run_out_in_order_and_so_many_a_turn() {
    let mut rig = rig(100, |builder| {
        builder.add("delay", Delay { waiting: Vec::new(), time: Duration::from_millis(5) });
        builder.chain(&["feed", "delay", "sink"]);
    });
    rig.feed(packets(0..100));
    for _ in 0..5 {
        rig.turn();
        assert_eq!(rig.sunk(), Vec::<u32>::new());
    }
    assert_eq!(rig.worker.timers(), 100);
    rig.now += Duration::from_secs(1);
    rig.turn();
    assert_eq!(rig.sunk(), (0..64).collect::<Vec<u32>>());
    rig.turn();
    assert_eq!(rig.sunk(), (64..100).collect::<Vec<u32>>());
    assert_eq!(rig.worker.timers(), 0);
}

element! {
    /// Leaves every second packet in its input.
    struct Lazy as "Lazy" {}
    inputs { push "in": "Packets.", }
    outputs { push "out": "Packets.", push "odd" [Optional]: "Nothing.", }
}

impl Control for Lazy {}

impl Element<Packet> for Lazy {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<Packet>, out: &mut Out<'_>) {
        let half = batch.len() / 2;
        batch.drain().take(half).enumerate().for_each(|(at, slot)| out.push(at % 3, slot));
    }
}

#[test]
fn what_an_element_does_not_work_off_is_dropped_by_name() {
    let mut rig = rig(100, |builder| {
        builder.add("lazy", Lazy {}).chain(&["feed", "lazy", "sink"]);
    });
    rig.feed(packets(0..12));
    rig.turn();
    assert_eq!(rig.sunk(), [0, 3]);
    // Output 1 is unconnected, and output 2 does not exist.
    assert_eq!((rig.count("lazy", "unworked"), rig.count("lazy", "unconnected")), (6, 4));
}
