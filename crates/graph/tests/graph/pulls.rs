//! Queues, back-pressure, and elements that pull.

use crate::elements::{Feed, Split, Tray, packet};
use crate::queues::{Hold, release};
use crate::rig::{packets, rig};
use scalebricks_graph::{Control, Element, Frame, HOP_LIMIT, Meta, Out, SlotList, Upstream, element};
use scalebricks_io::{Packet, Pool};

#[test]
fn queues_block_sources_and_let_them_go_on() {
    let mut rig = rig(10, |builder| {
        builder.add("hold", Hold::new(20, true)).add("release", release(3)).declare("pass", "Pass", &[]);
        builder.chain(&["feed", "pass", "hold", "release", "sink"]);
    });
    rig.feed(packets(0..200));
    for _ in 0..100 {
        rig.turn();
        assert!(rig.worker.graph().held() <= 20);
    }
    assert_eq!(rig.count("hold", "hold_full"), 0);
    assert_eq!(rig.sunk(), (0..200).collect::<Vec<u32>>());
}

#[test]
fn pressure_does_not_reach_over_a_queue() {
    let mut rig = rig(10, |builder| {
        builder.add("first", Hold::new(1_000, true)).add("release", release(5));
        builder.add("second", Hold::new(0, true)).add("never", release(0));
        builder.chain(&["feed", "first", "release", "second", "never", "sink"]);
    });
    rig.feed(packets(0..100));
    (0..20).for_each(|_| {
        rig.turn();
    });
    assert_eq!(rig.count("feed", "fed"), 100, "`first` has room");
}

#[test]
fn an_agnostic_element_is_pulled_through() {
    let mut rig = rig(10, |builder| {
        builder.add("hold", Hold::new(100, false)).declare("toss", "Toss", &["2"]).add("release", release(4));
        builder.chain(&["feed", "hold", "toss", "release", "sink"]);
    });
    rig.feed((0..10).map(|at| packet(at as u8, 0, at)));
    (0..5).for_each(|_| {
        rig.turn();
    });
    assert_eq!(rig.sunk(), [1, 3, 5, 7, 9]);
    assert_eq!(
        (rig.count("toss", "tossed"), rig.count("toss", "kept"), rig.count("toss", "packets")),
        (5, 5, 10)
    );
}

element! {
    /// Pulls packets and takes them out of its input itself.
    struct Taker as "Taker" { batch: SlotList, taken: usize, }
    inputs { pull "in" [OneOrMore]: "Packets.", }
    counters { TAKEN = "taken": "Packets.", }
    hooks { Begin, End, }
}

impl Control for Taker {}

impl Element<Packet> for Taker {
    fn begin(&mut self, upstream: &mut Upstream<'_, Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for input in 0..upstream.inputs() {
            upstream.pull(input, 1, &mut self.batch, frame, out);
        }
        assert_eq!(upstream.pull(99, 1, &mut self.batch, frame, out), 0);
        for slot in self.batch.drain() {
            assert_eq!(frame.meta(&slot).port, Meta::default().port);
            drop(frame.take(slot));
            self.taken += 1;
        }
    }

    fn end(&mut self, _: &mut Frame<Packet>, out: &mut Out<'_>) {
        out.count(Self::TAKEN, std::mem::take(&mut self.taken) as u64);
    }
}

element! {
    /// Passes on pushed packets and pulled packets.
    struct Both as "Both" { batch: SlotList, }
    inputs { push "pushed": "Packets.", pull "pulled": "Packets.", }
    outputs { push "out": "The same.", }
    hooks { Pulls, }
}

impl Control for Both {}

impl Element<Packet> for Both {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<Packet>, out: &mut Out<'_>) {
        out.all(0, batch);
    }

    fn begin(&mut self, upstream: &mut Upstream<'_, Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        upstream.pull(1, 10, &mut self.batch, frame, out);
        out.all(0, &mut self.batch);
    }
}

#[test]
fn a_cycle_through_a_queue_ends_too() {
    let mut rig = rig(1, |builder| {
        builder.add("both", Both { batch: SlotList::new() }).add("hold", Hold::new(10, false));
        builder.chain(&["feed", "both", "hold"]).connect("hold", 0, "both", 1);
        builder.add("idle", Feed { tray: Tray::default(), pool: Pool::new(1, 1).unwrap(), burst: 1 });
        builder.chain(&["idle", "sink"]);
    });
    rig.feed(packets(0..1));
    let turns = (0..1_000).take_while(|_| rig.turn() > 0).count();
    assert_eq!((turns, rig.count("hold", "graph_loop")), (usize::from(HOP_LIMIT) + 1, 1));
}

#[test]
fn who_pulls_from_several_queues_is_called_every_turn() {
    let mut rig = rig(100, |builder| {
        builder
            .add("split", Split { salt: 0 })
            .add("a", Hold::new(100, false))
            .add("b", Hold::new(100, false));
        builder
            .add("taker", Taker { batch: SlotList::new(), taken: 0 })
            .chain(&["feed", "split", "a", "taker"]);
        builder.connect("split", 1, "b", 0).connect("split", 2, "sink", 0);
        builder.declare("toss", "Toss", &["200"]).chain(&["b", "toss"]).connect("toss", 0, "taker", 1);
    });
    rig.feed((0..30).map(|at| packet(at as u8, 0, at)));
    let mut moved = Vec::new();
    (0..12).for_each(|_| moved.push(rig.turn() > 0));
    assert_eq!((rig.count("taker", "taken"), rig.count("toss", "tossed")), (20, 0));
    assert_eq!(
        (rig.count("toss", "packets"), rig.count("toss", "kept")),
        (10, 10),
        "it sees what it pulled, and no other"
    );
    assert_eq!(moved, [[true; 10].as_slice(), &[false; 2]].concat());
}
