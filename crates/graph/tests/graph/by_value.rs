//! Packets passed by value: conversion to and from slots, joined elements, and control requests.

use crate::elements::{Feed, Sink, Tray, packet, registry, sequence};
use crate::rig::{packets, rig};
use scalebricks_graph::args::NoParams;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::graph::EdgeInfo;
use scalebricks_graph::spec::DropSpec;
use scalebricks_graph::tap::{Selection, Taps};
use scalebricks_graph::{
    Builder, Bursts, Control, Declared, Element, Frame, HandlerId, Ledger, Out, SlotList, Spec, Trace,
    Worker, element,
};
use scalebricks_io::{Packet, PacketBuf, Pool};
use std::time::Duration;

element! {
    /// Sends odd packets to one output and even ones to the other. Drops marked packets, and those that its timer
    /// finds.
    #[derive(Default)]
    pub struct Sort as "Sort" { part: u8, woken: u64, }
    inputs { burst "in" [Optional]: "Packets.", push "slots" [Optional]: "Packets in slots.", }
    outputs { burst "even": "Packets.", push "odd" [Optional]: "Packets.", }
    drops { MARKED = "marked": "The packet has a mark.", }
    counters { SEEN = "seen": "Packets seen.", }
    handlers { read WOKEN = "woken": "How often its timer ran out.", }
}

impl Control for Sort {
    fn read(&self, _: HandlerId) -> String {
        self.woken.to_string()
    }
}

impl Sort {
    fn sort(&self, bursts: &mut Bursts<Packet>, first: usize, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        bursts.each(|chunk| {
            let marks = chunk.marks;
            for (at, packet) in chunk.packets.drain(..).enumerate() {
                out.count_of(self.part, Self::SEEN, 1);
                if marks & 1 << at != 0 {
                    out.drop_packet_of(self.part, packet, Self::MARKED, frame);
                } else if sequence(packet.data()).is_multiple_of(2) {
                    frame.send(first, packet);
                } else if let Some(slot) = out.put(packet, frame) {
                    out.push(first + 1, slot);
                }
            }
        });
    }
}

impl Element<Packet> for Sort {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, _: &mut Out<'_>) {
        for slot in batch.drain() {
            let packet = frame.take(slot);
            frame.send(0, packet);
        }
    }

    fn burst(&mut self, _: usize, bursts: &mut Bursts<Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        self.sort(bursts, 0, frame, out);
    }

    fn timer(&mut self, token: u64, _: &mut Frame<Packet>, _: &mut Out<'_>) {
        self.woken += token;
    }
}

/// Two of them joined to one element: even packets go from the first to the second.
struct Two([Sort; 2]);

impl Declared for Two {
    const SPEC: &'static Spec = Sort::SPEC;
    type Params = NoParams;
}

impl Control for Two {}

impl Element<Packet> for Two {
    fn push(&mut self, input: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, _: &mut Out<'_>) {
        assert!(input == 1 || input == 3, "{input}");
        for slot in batch.drain() {
            let packet = frame.take(slot);
            frame.send(2, packet);
        }
    }

    fn burst(
        &mut self,
        input: usize,
        bursts: &mut Bursts<Packet>,
        frame: &mut Frame<Packet>,
        out: &mut Out<'_>,
    ) {
        if input == 0 {
            self.0[0].sort(bursts, 0, frame, out);
            let mut even = Bursts::default();
            std::mem::swap(frame.bursts(0), &mut even);
            self.0[1].sort(&mut even, 2, frame, out);
        } else {
            assert_eq!(input, 2);
            self.0[1].sort(bursts, 2, frame, out);
        }
    }

    fn parts(&self) -> usize {
        2
    }

    fn part(&mut self, at: usize) -> Option<&mut dyn Control> {
        self.0.get_mut(at).map(|sort| sort as &mut dyn Control)
    }
}

fn two() -> Two {
    Two([0, 1].map(|part| Sort { part, ..Sort::default() }))
}

/// The packets that passed each edge by value, and those dropped.
#[derive(Debug, Default)]
struct Notes(Vec<String>);

impl Trace<Packet> for Notes {
    fn carried(&mut self, edge: &EdgeInfo, packets: &[Packet]) {
        let all: Vec<u32> = packets.iter().map(|packet| sequence(packet.data())).collect();
        if !all.is_empty() {
            self.0.push(format!("{} {} {all:?}", edge.from, edge.output));
        }
    }

    fn dropped(&mut self, element: &str, reason: &DropSpec, packet: &Packet) {
        self.0.push(format!("{element} {} {}", reason.name, sequence(packet.data())));
    }
}

element! {
    /// Passes on what it gets.
    #[derive(Default)]
    pub struct Merge as "Merge" {}
    inputs { push "slots": "Packets in slots.", burst "bursts": "The same by value.", }
    outputs { burst "out": "Packets.", }
}

impl Control for Merge {}

impl Element<Packet> for Merge {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, _: &mut Out<'_>) {
        for slot in batch.drain() {
            let packet = frame.take(slot);
            frame.send(0, packet);
        }
    }

    fn burst(&mut self, _: usize, bursts: &mut Bursts<Packet>, frame: &mut Frame<Packet>, _: &mut Out<'_>) {
        frame.bursts(0).append(bursts);
    }
}

/// Whatever the order of the inputs.
#[test]
fn what_came_by_value_is_first() {
    let mut rig = rig(100, |builder| {
        builder.add("sort", Sort::default()).add("merge", Merge::default());
        builder.connect("feed", 0, "sort", 0).connect("sort", 1, "merge", 0).connect("sort", 0, "merge", 1);
        builder.connect("merge", 0, "sink", 0);
    });
    rig.feed(packets(0..6));
    while rig.turn() > 0 {}
    assert_eq!(rig.sunk(), [0, 2, 4, 1, 3, 5]);
}

#[test]
fn slots_and_bursts_meet_anywhere() {
    let mut rig = rig(100, |builder| {
        builder.add("sort", Sort::default()).add("other", Sink { tray: Tray::default() });
        builder.connect("feed", 0, "sort", 0).connect("sort", 0, "sink", 0).connect("sort", 1, "other", 0);
    });
    rig.feed(packets(0..90));
    while rig.turn() > 0 {}
    assert_eq!(rig.sunk(), (0..90).step_by(2).collect::<Vec<_>>());
    assert_eq!(
        (rig.count("other", "taken"), rig.count("sort", "seen"), rig.count("sort", "packets")),
        (45, 90, 90)
    );
}

#[test]
fn parts_of_one_element_have_names_ports_and_counters_of_their_own() {
    let mut rig = crate::rig::Rig::traced(Notes::default(), 100, |builder| {
        builder.add_joined(&["one", "two"], two());
        builder.add("odd", Sink { tray: Tray::default() });
        builder.connect("feed", 0, "one", 0).connect("one", 0, "two", 0).connect("one", 1, "odd", 0);
        builder.connect("two", 0, "sink", 0);
    });
    rig.feed(packets(0..10));
    while rig.turn() > 0 {}
    assert_eq!(rig.sunk(), [0, 2, 4, 6, 8]);
    assert_eq!((rig.count("one", "seen"), rig.count("two", "seen"), rig.count("odd", "taken")), (10, 5, 5));
    // The element itself moves packets between its parts.
    assert_eq!(rig.worker.trace_mut().0, ["two 0 [0, 2, 4, 6, 8]"]);
    let graph = rig.worker.graph_mut();
    assert_eq!(graph.read("two", "woken"), Ok("0".to_owned()));
    assert!(matches!(graph.read("two", "nothing"), Err(HandlerError::NoHandler { .. })));
    graph.get_mut::<Sort>("two").unwrap().woken = 7;
    assert_eq!(graph.read("two", "woken"), Ok("7".to_owned()));
    assert_eq!(graph.read("one", "woken"), Ok("0".to_owned()));
    assert!(graph.get_mut::<Sink>("two").is_none() && graph.get_mut::<Sort>("three").is_none());
}

fn lone(connect: impl FnOnce(&mut Builder<Packet>)) -> (Worker<Packet, Notes>, Tray, Pool, Ledger) {
    let (tray, pool, mut ledger) = (Tray::default(), Pool::new(600, 100).unwrap(), Ledger::new());
    let mut builder = Builder::new();
    builder.add("sort", Sort::default()).add("sink", Sink { tray: tray.clone() });
    connect(&mut builder);
    let graph = builder.build(&registry(), &mut ledger).unwrap();
    (Worker::new(graph, Box::new(pool.clone()), Notes::default()), tray, pool, ledger)
}

#[test]
fn control_gives_packets_to_an_element_and_drops_what_it_took_out() {
    let (mut worker, tray, mut pool, ledger) = lone(|builder| {
        builder.connect("sort", 0, "sink", 0).connect("sort", 1, "sink", 0);
    });
    let mut make = |at| pool.packet(&packet(1, 0, at)).unwrap();
    worker.inject("sort", 0, make(1), false).unwrap();
    worker.inject("sort", 0, make(2), true).unwrap();
    worker.inject("sort", 0, make(3), false).unwrap();
    assert_eq!(tray.lock().unwrap().len(), 2);
    assert!(worker.inject("missing", 0, make(4), false).is_err());
    assert!(worker.inject("sort", 1, make(4), false).is_err(), "that input takes slots");
    worker.drop_packet("sort", Sort::MARKED, &make(5));
    worker.drop_bytes("sort", Sort::MARKED, &packet(1, 0, 6));
    assert_eq!(worker.trace_mut().0, ["sort marked 2", "sort marked 5", "sort marked 6"]);
    assert_eq!(ledger.reading("sort", "marked").unwrap().get(), 3);
    assert!(ledger.reading("sort", "nothing").is_none() && ledger.reading("missing", "marked").is_none());
    assert_eq!(ledger.readings().filter(|(element, is_drop, ..)| *element == "sort" && *is_drop).count(), 7);
}

#[test]
fn without_a_buffer_a_drop_is_counted_all_the_same() {
    let (mut worker, _, pool, ledger) = lone(|builder| {
        builder.connect("sort", 0, "sink", 0);
    });
    let mut pool = pool;
    let held: Vec<Packet> = std::iter::from_fn(|| pool.packet(&[0])).collect();
    worker.drop_bytes("sort", Sort::MARKED, &packet(1, 0, 6));
    assert_eq!((ledger.reading("sort", "marked").unwrap().get(), worker.trace_mut().0.len()), (1, 0));
    drop(held);
}

#[test]
fn control_sets_a_timer() {
    let (mut worker, ..) = lone(|builder| {
        builder.connect("sort", 0, "sink", 0);
    });
    assert!(worker.wake_at("sort", Duration::from_millis(5), 3).is_some());
    assert!(worker.wake_at("missing", Duration::ZERO, 3).is_none());
    worker.turn(Duration::from_millis(4));
    assert_eq!(worker.graph_mut().read("sort", "woken"), Ok("0".to_owned()));
    worker.turn(Duration::from_millis(8));
    assert_eq!(worker.graph_mut().read("sort", "woken"), Ok("3".to_owned()));
}

#[test]
fn a_cycle_by_value_ends() {
    // All packets are even and return for ever. They carry no hop count, so the turn as a whole is bounded.
    let (mut worker, _, mut pool, ledger) = lone(|builder| {
        builder.add("more", Sort::default());
        builder.connect("sort", 0, "more", 0).connect("more", 0, "sort", 0).connect("sort", 1, "sink", 0);
    });
    worker.turn(Duration::ZERO);
    for _ in 0..40 {
        worker.inject("sort", 0, pool.packet(&packet(1, 0, 2)).unwrap(), false).unwrap();
    }
    let looped: u64 = ledger.snapshot().iter().filter_map(|counted| counted.get("graph_loop")).sum();
    assert_eq!(looped, 40);
}

#[test]
fn what_finds_no_slot_is_dropped_by_name() {
    let (mut worker, _, mut pool, ledger) = lone(|builder| {
        builder.add("flood", Flood { pool: Pool::new(600, 100).unwrap() });
        builder.connect("flood", 0, "sink", 0).connect("sort", 0, "sink", 0);
    });
    drop(pool.packet(&[]));
    worker.turn(Duration::ZERO);
    assert_eq!(ledger.reading("flood", "no_slot").unwrap().get(), 300 - 256);
    assert_eq!(ledger.reading("sink", "taken").unwrap().get(), 256);
}

element! {
    /// Sends more packets than a frame has slots.
    pub struct Flood as "Flood" { pool: Pool, }
    outputs { burst "out": "Packets.", }
    hooks { Begin, }
}

impl Control for Flood {}

impl Element<Packet> for Flood {
    fn begin(
        &mut self,
        _: &mut scalebricks_graph::Upstream<'_, Packet>,
        frame: &mut Frame<Packet>,
        _: &mut Out<'_>,
    ) {
        (0..300u16).for_each(|at| frame.send(0, self.pool.packet(&packet(1, 0, at)).unwrap()));
    }
}

#[test]
fn a_capture_sees_packets_by_value() {
    let (mut worker, _, mut pool, _) = lone(|builder| {
        builder.add("more", Sort::default());
        builder.connect("sort", 0, "more", 0).connect("more", 0, "sink", 0);
    });
    let taps = Taps::default();
    worker.set_taps(&taps);
    let edges = vec![("sort".to_owned(), 0)];
    let mut capture = taps.start(Selection { edges, ..Selection::default() }).unwrap();
    worker.turn(Duration::ZERO);
    worker.inject("sort", 0, pool.packet(&packet(1, 0, 4)).unwrap(), false).unwrap();
    assert_eq!(*capture.take().unwrap().data, packet(1, 0, 4));
    assert!(capture.take().is_none());
}

#[test]
fn a_source_by_slots_feeds_it() {
    let (tray, pool, mut ledger) = (Tray::default(), Pool::new(600, 100).unwrap(), Ledger::new());
    tray.lock().unwrap().extend(packets(0..200));
    let mut builder = Builder::new();
    builder.add("feed", Feed { tray, pool: pool.clone(), burst: 128 }).add("sort", Sort::default());
    builder.connect("feed", 0, "sort", 1).connect("sort", 0, "sort", 0);
    let graph = builder.build(&registry(), &mut ledger).unwrap();
    let mut worker: Worker<Packet> = Worker::new(graph, Box::new(pool), ());
    worker.turn(Duration::ZERO);
    let counted = ledger.snapshot();
    let sort = counted.iter().find(|counted| &*counted.element == "sort").unwrap();
    // Even packets circle until the turn reaches its limit; odd ones go to an unconnected output.
    assert_eq!(sort.get("unconnected"), Some(64));
    assert_eq!(sort.get("graph_loop"), Some(64));
}
