//! The builder names each error of a configuration, and builds valid ones.

use crate::elements::{Feed, Fork, Sink, Split, Tray, pass, registry, toss};
use crate::labels::{Check, Label, Stamp};
use crate::queues::{Hold, release};
use scalebricks_graph::args::ArgError;
use scalebricks_graph::builder::{ELEMENTS, PORTS, PULL_DEPTH};
use scalebricks_graph::element::BindError;
use scalebricks_graph::{
    Binder, BuildError, Builder, Control, Draft, Element, Frame, Ledger, Out, Shortcut, SlotList, element,
};
use scalebricks_io::{Packet, Pool};

fn feed() -> Feed {
    Feed { tray: Tray::default(), pool: Pool::new(10, 100).unwrap(), burst: 1 }
}

fn sink() -> Sink {
    Sink { tray: Tray::default() }
}

fn faults(builder: Builder<Packet>) -> Vec<BuildError> {
    builder.build(&registry(), &mut Ledger::new()).map_or_else(|errors| errors.0, |_| Vec::new())
}

fn texts(builder: Builder<Packet>) -> Vec<String> {
    faults(builder).iter().map(ToString::to_string).collect()
}

/// A source, elements in a row, and a sink.
fn row(fill: impl FnOnce(&mut Builder<Packet>), names: &[&str]) -> Builder<Packet> {
    let mut builder = Builder::new();
    builder.add("feed", feed()).add("sink", sink());
    fill(&mut builder);
    let all: Vec<&str> = ["feed"].iter().chain(names).chain(&["sink"]).copied().collect();
    builder.chain(&all);
    builder
}

#[test]
fn names_and_arguments_are_checked_together() {
    let mut builder = Builder::new();
    builder.add("a", feed()).add("a", sink());
    builder.declare("b", "Nonsense", &[]).declare("c", "Toss", &["x"]).declare("d", "Toss", &["0"]);
    builder.declare("e", "Toss", &[]).declare("f", "Pass", &["1"]);
    builder.chain(&["a", "missing"]);
    let expected = [
        BuildError::Duplicate { element: "a".into() },
        BuildError::NoClass { element: "b".into(), class: "Nonsense".into() },
        BuildError::Arguments {
            element: "c".into(),
            error: ArgError::Value { param: "every".into(), text: "x".into(), kind: "a number below 256" },
        },
        BuildError::Arguments { element: "d".into(), error: ArgError::Refused("one of no flows".into()) },
        BuildError::Arguments { element: "e".into(), error: ArgError::Missing("every") },
        BuildError::Arguments { element: "f".into(), error: ArgError::Unknown("1".into()) },
        BuildError::NoElement { element: "missing".into() },
    ];
    assert_eq!(faults(builder), expected);
}

#[test]
fn ports_are_named() {
    let builder = row(
        |builder| {
            builder.add("toss", toss(2)).connect("toss", 2, "sink", 0);
        },
        &["toss"],
    );
    assert_eq!(texts(builder), ["the class has no output 2 of toss"]);
    let builder = row(
        |builder| {
            builder.add("split", Split { salt: 0 }).connect("split", 2, "sink", 0);
        },
        &["split"],
    );
    assert_eq!(texts(builder), ["output 1 of split (out) is not connected"]);
    let builder = row(
        |builder| {
            builder.add("split", Split { salt: 0 }).connect("split", PORTS, "sink", 0);
        },
        &["split"],
    );
    assert_eq!(texts(builder), [format!("the class has no output {PORTS} of split (out)")]);
    let builder = row(
        |builder| {
            builder.connect("feed", 0, "sink", 0);
        },
        &[],
    );
    assert_eq!(texts(builder), ["output 0 of feed (out) is connected twice"]);
    let mut builder = Builder::new();
    builder.add("split", Split { salt: 0 });
    assert_eq!(
        texts(builder),
        ["output 0 of split (out) is not connected", "input 0 of split (in) is not connected"]
    );
}

#[test]
fn pushing_and_pulling_do_not_meet() {
    // Agnostic elements take push or pull from their neighbours.
    let fill = |builder: &mut Builder<Packet>| {
        builder.add("a", pass()).add("b", pass()).add("hold", Hold::new(1, false));
    };
    let builder = row(fill, &["a", "hold", "b"]);
    let fault = "output 0 of b (out) and input 0 of sink (in) disagree on push and pull: \
                 connect them by a Queue or an Unqueue";
    assert_eq!(texts(builder), [fault]);
    let builder = row(
        |builder| {
            builder.add("release", release(1));
        },
        &["release"],
    );
    assert_eq!(faults(builder)[0].element(), Some("feed"));
    let fill = |builder: &mut Builder<Packet>| {
        builder.add("hold", Hold::new(1, false)).add("r", release(1)).add("s", release(1));
        builder.chain(&["hold", "s", "sink"]);
    };
    let fault = "output 0 of hold (out) is pulled from by both s and r";
    assert_eq!(texts(row(fill, &["hold", "r"])), [fault]);
    let fill = |builder: &mut Builder<Packet>| {
        builder
            .add("hold", Hold::new(1, false))
            .add("other", Hold::new(1, false))
            .add("fork", Fork {})
            .add("r", release(1));
        builder.chain(&["other", "r"]).connect("fork", 1, "other", 0);
    };
    let fault = "input 0 of r (in) is connected twice";
    assert_eq!(texts(row(fill, &["fork", "hold", "r"])), [fault]);
}

#[test]
fn cycles_and_long_rows_of_pulls_are_refused() {
    let mut builder = Builder::new();
    builder.add("a", pass()).add("b", pass()).add("r", release(1)).add("sink", sink());
    builder.chain(&["a", "b", "a"]).chain(&["b", "r", "sink"]);
    let faults = faults(builder);
    assert!(faults.contains(&BuildError::PullLoop { element: "a".into() }), "{faults:?}");
    for (length, is_right) in [(PULL_DEPTH - 1, true), (PULL_DEPTH, false)] {
        let names: Vec<String> = (0..length).map(|at| format!("p{at}")).collect();
        let fill = |builder: &mut Builder<Packet>| {
            builder.add("hold", Hold::new(1, false)).add("r", release(1));
            for name in &names {
                builder.add(name, pass());
            }
        };
        let all: Vec<&str> =
            ["hold"].into_iter().chain(names.iter().map(String::as_str)).chain(["r"]).collect();
        let texts = texts(row(fill, &all));
        let fault = format!("the pull chain to r has more than {PULL_DEPTH} elements");
        assert_eq!(texts, if is_right { vec![] } else { vec![fault] });
    }
}

#[test]
fn columns_are_traced_through_every_element() {
    let label = |element: &str, from: &str| BuildError::Column {
        element: element.into(),
        column: "label",
        from: from.into(),
    };
    let fill = |builder: &mut Builder<Packet>| {
        builder.add("stamp", Stamp::default()).add("check", Check::default()).add("pass", pass());
        builder.add("hold", Hold::new(1, false)).add("r", release(1)).add("again", Check::default());
    };
    assert_eq!(faults(row(fill, &["stamp", "pass", "check", "hold", "r", "again"])), [label("again", "r")]);
    assert_eq!(
        faults(row(fill, &["check", "stamp", "again", "hold", "r", "pass"])),
        [label("check", "feed")]
    );
    // Packets from the stamp's other output have no label.
    let fill = |builder: &mut Builder<Packet>| {
        builder.add("stamp", Stamp::default()).add("check", Check::default()).connect("stamp", 1, "check", 0);
    };
    assert_eq!(faults(row(fill, &["stamp", "check"])), [label("check", "stamp")]);
}

element! {
    /// Reads the label of packets from one of its inputs.
    struct Half as "Half" {}
    inputs { push "bare": "Packets.", push "labelled" [Optional]: "Packets with a label.", }
    outputs { push "out": "The same.", }
    reads { Label on "labelled", }
}

impl Control for Half {}

impl Element<Packet> for Half {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<Packet>, out: &mut Out<'_>) {
        out.all(0, batch);
    }
}

#[test]
fn a_column_may_be_needed_at_one_input_only() {
    let by = |through: &[&str]| {
        let fill = |builder: &mut Builder<Packet>| {
            builder
                .add("split", Split { salt: 0 })
                .add("half", Half {})
                .add("stamp", Stamp::default())
                .add("p", pass());
            builder.connect("split", 1, through[0], 0).chain(through);
            builder.connect(through[through.len() - 1], 0, "half", 1);
            let unused = if through[0] == "p" { "stamp" } else { "p" };
            builder.connect("split", 2, unused, 0).connect(unused, 0, "sink", 0);
        };
        faults(row(fill, &["split", "half"]))
    };
    assert_eq!(by(&["stamp"]), []);
    let fault = BuildError::Column { element: "half".into(), column: "label", from: "p".into() };
    assert_eq!(by(&["p"]), [fault]);
}

element! {
    /// Binds a column that it does not declare.
    struct Greedy as "Greedy" {}
    inputs { push "in": "Packets.", }
    outputs { push "out": "The same.", }
}

impl Control for Greedy {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        assert_eq!((binder.inputs(), binder.outputs()), (1, 1));
        binder.column::<Label>().map(drop)
    }
}

impl Element<Packet> for Greedy {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<Packet>, out: &mut Out<'_>) {
        out.all(0, batch);
    }
}

#[test]
fn a_column_must_be_declared_even_if_the_graph_has_it() {
    let fill = |builder: &mut Builder<Packet>| {
        builder.add("stamp", Stamp::default()).add("greedy", Greedy {});
    };
    let fault = BuildError::Bind { element: "greedy".into(), error: BindError::Undeclared("label") };
    assert_eq!(faults(row(fill, &["stamp", "greedy"])), [fault]);
}

#[test]
fn a_graph_has_a_limit() {
    let mut builder = Builder::<Packet>::new();
    for at in 0..=ELEMENTS {
        builder.add(&at.to_string(), pass());
    }
    assert_eq!(faults(builder), [BuildError::TooMany(ELEMENTS + 1)]);
}

#[test]
fn known_rows_are_fused_the_longest_first_and_keep_their_names() {
    let build = |fuses: bool, names: &[&str]| {
        let fill = |builder: &mut Builder<Packet>| {
            for name in names {
                match name.as_bytes()[0] {
                    b'p' => builder.declare(name, "Pass", &[]),
                    _ => builder.declare(name, "Toss", &["EVERY 3"]),
                };
            }
            builder.fuses(fuses);
        };
        let graph = row(fill, names).build(&registry(), &mut Ledger::new()).unwrap();
        let elements: Vec<String> = graph.elements().map(|(name, _)| name.to_owned()).collect();
        (graph.boxes(), elements, graph.edges().len())
    };
    let names = ["p0", "t1", "p2", "t3", "t4"];
    let all: Vec<String> =
        ["feed"].iter().chain(&names).chain(&["sink"]).map(|&name| name.to_owned()).collect();
    // p0, t1 and p2 are fused; t3 and t4 are not, since p2 is already part of a fusion.
    assert_eq!(build(true, &names), (5, all.clone(), 4));
    assert_eq!(build(false, &names), (7, all, 6));
    assert_eq!(build(true, &["p0", "t1", "p2", "t3"]).0, 4);
    assert_eq!(build(true, &["p0", "p1", "t2", "t3"]).0, 5);
}

/// A fork behind `feed` that leads past the next element.
fn forks(draft: &Draft<'_, Packet>) -> Vec<Shortcut<Packet>> {
    let Some(behind) = (0..draft.len()).find(|&at| draft.get::<Feed>(at).is_some()) else { return vec![] };
    let next = draft.to(behind, 0).unwrap().0;
    let to = vec![draft.to(next, 0).unwrap()];
    assert_eq!((draft.name(behind), draft.outputs(behind), draft.outputs(to[0].0)), ("feed", 1, 0));
    assert_eq!((draft.to(to[0].0, 0), draft.name(draft.len())), (None, ""));
    vec![Shortcut { behind, name: "fork".to_owned(), element: Box::new(Fork {}), to }]
}

#[test]
fn shortcuts_lead_past_elements_unless_they_are_refused_or_their_name_is_taken() {
    let edges = |fuses: bool, names: &[&str]| {
        let fill = |builder: &mut Builder<Packet>| {
            for name in names {
                builder.declare(name, "Pass", &[]);
            }
            builder.fuses(fuses);
        };
        let mut registry = registry();
        let graph = row(fill, names).build(registry.shortcut(forks), &mut Ledger::new()).unwrap();
        let edges = graph.edges().iter();
        let texts = edges.map(|edge| format!("{}[{}] {}", edge.from, edge.output, edge.to));
        texts.collect::<std::collections::BTreeSet<_>>()
    };
    let all = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    assert_eq!(edges(true, &["p"]), all(&["feed[0] fork", "fork[0] p", "fork[1] sink", "p[0] sink"]));
    assert_eq!(edges(false, &["p"]), all(&["feed[0] p", "p[0] sink"]));
    assert_eq!(edges(true, &["fork"]), all(&["feed[0] fork", "fork[0] sink"]));
}

#[test]
fn what_others_lead_into_is_not_fused_away() {
    let fill = |builder: &mut Builder<Packet>| {
        builder
            .declare("p", "Pass", &[])
            .declare("t", "Toss", &["3"])
            .add("fork", Fork {})
            .connect("fork", 1, "t", 0);
    };
    let graph = row(fill, &["fork", "p", "t"]).build(&registry(), &mut Ledger::new()).unwrap();
    assert_eq!(graph.boxes(), 5);
}
