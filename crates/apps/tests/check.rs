//! Every error of a configuration, with its position.

use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::Devices;
use scalebricks_graph::args::NoParams;
use scalebricks_graph::{
    Class, Clock, Column, Control, Element, Frame, Ledger, Out, Registry, SlotList, element,
};
use scalebricks_io::{Packet, PacketBuf};

#[derive(Clone, Copy)]
struct Label;
impl Column for Label {
    const NAME: &'static str = "label";
    const POISON: Self = Self;
}

element! {
    /// Reads a column that nothing writes.
    struct Wants as "Wants" {}
    inputs { push "in": "Packets.", }
    reads { Label, }
}

element! {
    /// Has several optional outputs.
    struct Fork as "Fork" {}
    inputs { push "in": "Packets.", }
    outputs { push "first": "Some.", push "second" [Optional]: "Others.", push "third" [Optional]: "More.", }
}

macro_rules! inert {
    ($($class:ident)+) => { $(
        impl Class for $class {
            fn make(_: NoParams) -> Result<Self, String> { Ok(Self {}) }
        }
        impl Control for $class {}
        impl<P: PacketBuf> Element<P> for $class {
            fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, _: &mut Out<'_>) {
                batch.drain().for_each(|slot| drop(frame.take(slot)));
            }
        }
    )+ };
}

inert! { Wants Fork }

fn registry() -> Registry<Packet> {
    let mut registry = scalebricks_elements::registry();
    registry.add::<Wants>().add::<Fork>();
    registry
}

/// The errors of a text as a user sees them; empty if it can run.
fn wrong(text: &str) -> String {
    let registry = registry();
    let graph = Router::read("r.click", text.as_bytes(), &[], &registry)
        .and_then(|router| router.graph(&registry, &mut Ledger::new()));
    graph.map_or_else(|errors| errors.to_string(), |_| String::new())
}

#[track_caller]
fn is_told(text: &str, lines: &[&str]) {
    let told = wrong(text);
    for line in lines {
        assert!(told.contains(line), "{line}\nis not in:\n{told}");
    }
}

#[test]
fn syntax_classes_and_arguments_have_their_places() {
    is_told("Idle -> \n  ;; Discard", &["r.click:2:3: ", "\n      ;; Discard\n"]);
    is_told(
        "Idle\n-> Queu(5) -> Discard;\nNoSuch(3);",
        &[
            "r.click:2:4: unknown element class `Queu`; did you mean `Queue`?\n    -> Queu(5) -> Discard;\n       ^~~~",
            "r.click:3:1: unknown element class `NoSuch`",
        ],
    );
    is_told(
        "Idle -> q :: Queue(10,\n  BLOCKING perhaps) -> Unqueue(LIMIT 3, 7, 1, 0) -> Discard;",
        &[
            "r.click:2:3: `q`: BLOCKING: cannot read \"perhaps\" as true or false",
            "r.click:2:47: `Unqueue@3`: unexpected argument \"0\"",
        ],
    );
    is_told(
        "Idle -> Queue(CAPACITY 5, CAPACITY 6) -> Discard;",
        &["r.click:1:15: `Queue@2`: parameter CAPACITY was given twice"],
    );
    is_told("FromDump -> Discard", &["r.click:1:1: `FromDump@1`: parameter FILENAME is missing"]);
    is_told(
        "Idle -> Queue(300, true) -> Discard; Idle -> Queue(9, true) -> Discard",
        &["r.click:1:46: `Queue@5`: a queue that blocks"],
    );
    is_told(
        "elementclass F { $a | input -> Queue($a) -> output }\nIdle -> F(x) -> Discard",
        &["r.click:1:38: ", "cannot read \"x\""],
    );
}

#[test]
fn ports_and_processing_have_their_places() {
    is_told("Idle -> [1] Discard; Idle -> Discard", &["r.click:1:6: the class has no input 1 of Discard@2"]);
    is_told("Idle -> Null", &["r.click:1:9: output 0 of Null@2 (out) is not connected"]);
    is_told(
        "InfiniteSource -> Unqueue -> Discard",
        &[
            "r.click:1:16: output 0 of InfiniteSource@1 (out) and input 0 of Unqueue@2 (in) disagree on push and pull",
        ],
    );
    is_told(
        "q :: Queue; Idle -> q; q -> Discard;\nq -> Unqueue -> Discard",
        &["r.click:2:3: ", "r.click:1:26: note: connected here too"],
    );
    is_told(
        "i :: Null; Idle -> i; i -> Discard; i -> Discard",
        &["r.click:1:39: output 0 of i (out) is connected twice"],
    );
    // Optional ports may stay unconnected, also those before a connected one.
    assert_eq!(wrong("Idle -> f :: Fork -> Discard; f[2] -> Discard"), "");
    is_told("Idle -> f :: Fork; f[2] -> Discard", &["r.click:1:9: output 0 of f (first) is not connected"]);
}

#[test]
fn what_only_the_graph_knows_has_its_place_too() {
    is_told(
        "s :: InfiniteSource\n -> Null -> w :: Wants",
        &[
            "r.click:2:13: w reads column label, which packets from Null@2 do not have",
            "r.click:2:5: note: packets come from here",
        ],
    );
    is_told("Idle -> Tee(3) -> Discard", &["r.click:1:9: ", "3 outputs are required"]);
    is_told(
        "a :: Null -> b :: Null -> a; Idle -> Queue -> c :: CheckPaint(0); c[0] -> c; c[1] -> Discard",
        &["r.click:1:"],
    );
}

#[test]
fn checking_makes_and_empties_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let there = ["print", "ip_print", "script", "dump.pcap"];
    for name in there {
        std::fs::write(file(name), "kept").unwrap();
    }
    let text = |prefix: &str| {
        let [print, ip_print, script, dump] =
            there.map(|name| file(&format!("{prefix}{name}")).display().to_string());
        format!(
            "Idle -> Print(OUTFILE {print}) -> MarkIPHeader -> IPPrint(OUTFILE {ip_print}) -> ToDump({dump});
             Script(stop, OUTFILE {script});"
        )
    };
    for prefix in ["", "new_"] {
        assert_eq!(wrong(&text(prefix)), "");
    }
    assert!(there.iter().all(|name| std::fs::read(file(name)).unwrap() == b"kept"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), there.len());
}

#[test]
fn a_file_that_cannot_be_opened_has_its_place() {
    let registry = registry();
    for element in
        ["Print(OUTFILE /no/file)", "MarkIPHeader -> IPPrint(OUTFILE /no/file)", "ToDump(/no/file.pcap)"]
    {
        let text = format!("Idle\n -> {element} -> Discard;\nScript(OUTFILE /no/file)");
        let router = Router::read("r.click", text.as_bytes(), &[], &registry).unwrap();
        let mut graph = router.graph(&registry, &mut Ledger::new()).unwrap();
        let opened = router.open(&mut graph, &mut Devices::new(Clock::Captures));
        let told = opened.unwrap_err().to_string();
        assert!(told.contains("r.click:2:") && told.contains(": /no/file"), "{told}");
        assert!(told.contains("r.click:3:1: `Script@"), "{told}");
    }
}

#[test]
fn names_of_addresses_and_classes_beside_the_graph_are_accepted() {
    let text = "AddressInfo(e 10.0.0.1/8); ScheduleInfo(x 1); StaticThreadSched(x 0);\n\
                Script(wait 1, stop); ControlSocket(TCP, 7777); Idle -> x :: Discard";
    assert_eq!(wrong(text), "");
    let registry = registry();
    let router = Router::read("r", text.as_bytes(), &[], &registry).unwrap();
    let notes = router.notes();
    assert_eq!(notes[1], "r:1:47: StaticThreadSched has no effect here");
    assert_eq!((notes.len(), router.beside().count()), (2, 4));
    is_told("AddressInfo(e 1.2.3.x)", &["r.click:1:15: `AddressInfo@1`: `1.2.3.x` is no address"]);
    is_told(
        "Script(wait 1s, writ x.y 5)",
        &["r.click:1:17: ", "cannot read \"writ x.y 5\" as an instruction"],
    );
    is_told("Idle -> AddressInfo", &["r.click:1:6: AddressInfo@2 has no ports"]);
}

#[test]
fn names_of_addresses_stand_for_what_a_parameter_takes() {
    let info = "AddressInfo(e 10.0.0.1/8 2:0:0:0:0:1, gw 10.0.0.9, n 10.1.0.0/16);\n";
    let right = "Idle -> ARPResponder(e) -> ARPResponder(n gw e) -> HostEtherFilter(e) -> Discard;
        Idle -> MarkIPHeader -> f :: IPFilter(allow src host gw and dst net n) -> GetIPAddress(16)
        -> r :: StaticIPLookup(e 0, n gw 1) -> q :: ARPQuerier(e) -> EtherEncap(0x800, SRC e, DST e) -> Discard;
        r[1] -> ARPQuerier(e, ETH 2:0:0:0:0:7, BROADCAST gw) -> IPEncap(ipip, e, gw) -> Discard;
        Idle -> CheckIPHeader(gw) -> CheckIPHeader(INTERFACES e n) -> ICMPError(e, redirect) -> Discard";
    assert_eq!(wrong(&format!("{info}{right}")), "");
    let unknown = |text: &str, place: &str, name: &str| {
        let expected = format!("r.click:2:{place}: ");
        is_told(
            &format!("{info}{text}"),
            &[&expected, &format!("`{name}` is no address, and no AddressInfo")],
        );
        assert!(!wrong(text).is_empty());
    };
    unknown("Idle -> ARPQuerier(ee) -> Discard", "20", "ee");
    unknown("Idle -> ARPResponder(e you:eth) -> Discard", "24", "you:eth");
    unknown("Idle -> ARPResponder(gw) -> Discard", "22", "gw");
    unknown("Idle -> HostEtherFilter(ETHER e2) -> Discard", "31", "e2");
    unknown("Idle -> CheckIPHeader(INTERFACES e net7) -> Discard", "36", "net7");
    unknown("Idle -> StaticIPLookup(n gw7 0) -> Discard", "26", "gw7");
    unknown("Idle -> IPClassifier(src host me) -> Discard", "31", "me");
    // A wrong definition is the only error reported.
    let told = wrong("AddressInfo(e 10.0.0);\nIdle -> HostEtherFilter(e) -> Discard");
    assert!(told.contains("r.click:1:15: ") && !told.contains("no AddressInfo"), "{told}");
}

#[test]
fn variables_are_those_of_the_caller_before_those_of_the_text() {
    let registry = registry();
    let text = b"define($n x); Idle -> q :: Queue($n) -> Discard";
    assert!(Router::read("r", text, &[], &registry).is_err());
    let router = Router::read("r", text, &[("n".to_owned(), "77".to_owned())], &registry).unwrap();
    assert_eq!(router.configuration().elements[1].args[0].text, "77");
}

#[test]
fn large_configurations_are_refused_in_time() {
    let many = "Idle -> Null -> Discard;".repeat(3_000);
    is_told(&many, &["too large: more than 8192 elements"]);
    let some = "Idle -> Null -> Discard;".repeat(2_000);
    is_told(&some, &["6000 elements exceed the limit of 4096"]);
    assert_eq!(wrong(&"Idle -> Null -> Discard;".repeat(1_300)), "");
    // Each of many outputs is connected twice.
    let twice = |n| format!("t[{n}] -> Discard; t[{n}] -> Discard;");
    let reused: Vec<String> = (0..1_000).map(twice).collect();
    is_told(&format!("t :: Tee; {}", reused.concat()), &["is connected twice", "more errors"]);
    is_told("Idle -> [4000000] Discard", &["r.click:1:10: port number must be an integer from 0 to 1023"]);
}
