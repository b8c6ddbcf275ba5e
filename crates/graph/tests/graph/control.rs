//! Control requests to a worker: traces, captures, handlers, commands.

use crate::elements::{Split, packet, sequence};
use crate::rig::{Rig, rig};
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::graph::EdgeInfo;
use scalebricks_graph::spec::DropSpec;
use scalebricks_graph::tap::{Capture, CapturePoint, DropSelection, Selection, Taps};
use scalebricks_graph::{Builder, Frame, Slot, SlotList, Trace};
use scalebricks_io::{Packet, PacketBuf};
use std::time::Duration;

/// Records each packet that it sees.
#[derive(Default)]
struct Notes {
    passed: Vec<String>,
    dropped: Vec<String>,
}

impl Trace<Packet> for Notes {
    fn passed(&mut self, edge: &EdgeInfo, list: &SlotList, frame: &Frame<Packet>) {
        let sequences: Vec<u32> =
            list.iter().map(|slot: &Slot| sequence(frame.packet(slot).data())).collect();
        self.passed.push(format!("{}.{} {}.{} {sequences:?}", edge.from, edge.output, edge.to, edge.input));
    }

    fn dropped(&mut self, element: &str, reason: &DropSpec, packet: &Packet) {
        self.dropped.push(format!("{element} {} {}", reason.name, sequence(packet.data())));
    }
}

fn branches(builder: &mut Builder<Packet>) {
    builder.add("split", Split { salt: 0 }).declare("toss", "Toss", &["2"]).chain(&["feed", "split", "sink"]);
    builder.connect("split", 1, "toss", 0).connect("toss", 0, "sink", 0);
}

#[test]
fn a_trace_sees_every_edge_and_every_drop() {
    let mut rig = Rig::traced(Notes::default(), 100, branches);
    rig.feed([packet(1, 0, 10), packet(2, 0, 11), packet(3, 0, 12)]);
    rig.turn();
    let notes = rig.worker.trace_mut();
    // Flows 1 and 3 use output 1.
    let expected = [
        "feed.0 split.0 [10, 11, 12]",
        "split.0 sink.0 [11]",
        "split.1 toss.0 [10, 12]",
        "toss.0 sink.0 [10, 12]",
    ];
    assert_eq!((&notes.passed[..], notes.dropped.len()), (&expected.map(str::to_owned)[..], 0));
    rig.worker.graph_mut().write("toss", "every", "3").unwrap();
    rig.feed([packet(3, 0, 13)]);
    rig.turn();
    assert_eq!(rig.worker.trace_mut().dropped, ["toss tossed 13"]);
}

#[test]
fn captures_are_switched_while_packets_flow() {
    let mut rig = rig(100, branches);
    let taps = Taps::new(|| Duration::from_secs(7));
    rig.worker.set_taps(&taps);
    let see = |rig: &mut Rig, capture: &mut Capture| {
        rig.feed([packet(1, 0, 1), packet(2, 0, 2), packet(3, 0, 3)]);
        rig.turn();
        std::iter::from_fn(|| capture.take())
            .map(|caught| {
                assert_eq!((caught.at, caught.original_len), (Duration::from_secs(7), packet(1, 0, 1).len()));
                (caught.seen, sequence(&caught.data))
            })
            .collect::<Vec<_>>()
    };
    let edges = vec![("split".to_owned(), 1)];
    let mut on_edge = taps.start(Selection { edges, ..Selection::default() }).unwrap();
    let mut of_drops = taps.start(Selection { drops: DropSelection::All, ..Selection::default() }).unwrap();
    let edge = || CapturePoint::Edge { from: "split".into(), output: 1 };
    assert_eq!(see(&mut rig, &mut on_edge), [(edge(), 1), (edge(), 3)]);
    assert!(of_drops.take().is_none());
    rig.worker.graph_mut().write("toss", "every", "3").unwrap();
    assert_eq!(see(&mut rig, &mut of_drops), [(CapturePoint::Dropped("tossed"), 3)]);
    assert_eq!(on_edge.take().map(|caught| sequence(&caught.data)), Some(1));
    drop(of_drops);
    assert_eq!(taps.running(), 1);
}

#[test]
fn handlers_are_asked_by_name_also_in_a_fusion() {
    let mut rig = rig(100, |builder| {
        builder
            .declare("pass", "Pass", &[])
            .declare("toss", "Toss", &["2"])
            .chain(&["feed", "pass", "toss", "sink"]);
    });
    assert_eq!(rig.worker.graph().boxes(), 3);
    let remote = rig.worker.remote();
    let answers = [("toss", "every"), ("toss", "class"), ("toss", "kept"), ("pass", "packets")]
        .map(|(element, handler)| remote.read(element, handler).unwrap());
    let written = remote.write("toss", "every", "3").unwrap();
    let refused = remote.write("toss", "every", "0").unwrap();
    let missing = [("missing", "every"), ("toss", "tossed?")]
        .map(|(element, handler)| remote.read(element, handler).unwrap());
    rig.feed((0..9).map(|at| packet(at as u8, 0, at)));
    (0..3).for_each(|_| {
        rig.turn();
    });
    assert_eq!(answers.map(|answer| answer.recv().unwrap().unwrap()), ["2", "Toss", "4", "9"]);
    assert_eq!(written.recv().unwrap(), Ok(()));
    assert_eq!(refused.recv().unwrap(), Err(HandlerError::Value("no number".into())));
    let [element, handler] = missing.map(|answer| answer.recv().unwrap().unwrap_err().to_string());
    assert_eq!(element, "no element \"missing\"");
    assert_eq!(handler, "element \"toss\" has no handler \"tossed?\"");
    assert_eq!(
        (rig.count("pass", "packets"), rig.count("toss", "packets"), rig.count("toss", "tossed")),
        (9, 9, 5)
    );
}

#[test]
fn a_mailbox_is_bounded_and_a_turn_processes_some_commands() {
    let mut rig = rig(1, |builder| {
        builder.chain(&["feed", "sink"]);
    });
    let remote = rig.worker.remote();
    let answers: Vec<_> = std::iter::from_fn(|| remote.ask(|graph| graph.boxes()).ok()).collect();
    assert_eq!(answers.len(), 64);
    rig.turn();
    assert_eq!(answers.iter().filter(|answer| answer.try_recv().is_ok()).count(), 4);
    rig.turn();
    assert_eq!(answers.iter().filter(|answer| answer.try_recv().is_ok()).count(), 4);
}

#[test]
fn a_turn_is_a_quiescent_point_and_so_is_a_pause() {
    let mut rig = rig(1, |builder| {
        builder.chain(&["feed", "sink"]);
    });
    let quiescence = rig.worker.quiescence();
    assert!(quiescence.has_passed(quiescence.since()), "it has not begun");
    rig.turn();
    let since = quiescence.since();
    assert!(!quiescence.has_passed(since));
    rig.turn();
    assert!(quiescence.has_passed(since));
    let since = quiescence.since();
    rig.worker.leave();
    assert!(quiescence.has_passed(since));
}
