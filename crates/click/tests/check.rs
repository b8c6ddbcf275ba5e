//! Configurations checked against the catalog of the tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use crate::catalog;

use catalog::TestCatalog;
use scalebricks_click::values::AddressInfo;
use scalebricks_click::{Catalog, Configuration, Options, Processing, check, parse};

fn read(text: &str) -> Configuration {
    parse("t.click", text.as_bytes(), &Options::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn wrong(text: &str) -> String {
    match check(&read(text), &TestCatalog) {
        Ok(_) => panic!("accepted {text}"),
        Err(errors) => errors.to_string(),
    }
}

/// The first lines of the errors.
fn heads(text: &str) -> Vec<String> {
    wrong(text).lines().filter(|line| line.starts_with("t.click")).map(str::to_owned).collect()
}

fn corpus(text: &str) -> Configuration {
    let configuration = read(text);
    check(&configuration, &TestCatalog).unwrap_or_else(|errors| panic!("{errors}"));
    let again = read(&configuration.to_string());
    assert_eq!(again, configuration);
    check(&again, &TestCatalog).unwrap();
    configuration
}

#[test]
fn the_ip_router_of_two_interfaces_is_right() {
    let router = corpus(include_str!("data/ip-router.click"));
    assert_eq!(router.elements.len(), 19 + 2 * 3 + 2 * 10);
    let find = |name: &str| router.find(name).unwrap_or_else(|| panic!("no {name} in\n{router}"));
    let fragmenter = find("path1/fr");
    assert_eq!(router.elements[fragmenter].args[0].text, "1500");
    let from_fragmenter = |port| {
        let connection =
            router.connections.iter().find(|c| c.from.element == fragmenter && c.from.port == port).unwrap();
        (router.elements[connection.to.element].name.as_str(), connection.to.port)
    };
    assert_eq!(from_fragmenter(0), ("arpq0", 0));
    assert!(from_fragmenter(1).0.starts_with("path1/ICMPError@"));
    let errors = router.connections.iter().filter(|c| c.to.element == find("rt")).count();
    assert_eq!(errors, 1 + 8, "the input path and four ICMP errors a path");
    assert!(AddressInfo::of(&router).is_ok());
}

#[test]
fn the_translator_is_right() {
    let nat = corpus(include_str!("data/nat.click"));
    assert_eq!(nat.requirements[0].package, "extras");
    let lan = nat.find("lan/arpq").unwrap();
    let args: Vec<&str> = nat.elements[lan].args.iter().map(|argument| argument.text.as_str()).collect();
    assert_eq!(args, ["inside:ip", "inside:eth"]);
    let answers = nat.find("answers").unwrap();
    let rw = nat.find("rw").unwrap();
    assert!(nat.connections.iter().any(|c| (c.from.element, c.to.element, c.to.port) == (answers, rw, 1)));
}

#[test]
fn the_link_with_three_classes_is_right() {
    let qos = corpus(include_str!("data/qos.click"));
    let wiring = check(&qos, &TestCatalog).unwrap();
    let ports = |name: &str| {
        let element = qos.find(name).unwrap();
        (wiring.inputs[element].clone(), wiring.outputs[element].clone())
    };
    assert_eq!(
        ports("count"),
        (vec![Processing::Pull], vec![Processing::Pull]),
        "agnostic behind a scheduler"
    );
    assert_eq!(ports("gold"), (vec![Processing::Push], vec![Processing::Push]), "agnostic before a queue");
    assert_eq!(ports("g/red").0, [Processing::Push]);
    assert_eq!(qos.elements[qos.find("b/red").unwrap()].args[1].text, "50");
}

#[test]
fn unknown_names_are_told_with_what_was_meant() {
    assert_eq!(
        heads("a :: Quue; a -> Discrad(1) -> tohsot; tohost :: ToHost; b -> c; b :: Null"),
        [
            "t.click:1:1: unknown element class `Quue`; did you mean `Queue`?",
            "t.click:1:17: unknown element class `Discrad`; did you mean `Discard`?",
            "t.click:1:31: undeclared element `tohsot`; did you mean `tohost`?",
            "t.click:1:57: undeclared element `b`",
            "t.click:1:65: note: declared here, after its use",
            "t.click:1:62: undeclared element `c`",
        ]
    );
    assert_eq!(
        heads("Idle -> Queue :: Null -> Discard"),
        ["t.click:1:9: class `Queue` used as element name"]
    );
    assert_eq!(heads("Wrong"), ["t.click:1:1: the catalog's port count `1//1` of Wrong is none"]);
    assert_eq!(
        heads("require(extras, others)"),
        ["t.click:1:17: required package `others` is not available"]
    );
}

#[test]
fn wrong_ports_are_told() {
    assert_eq!(
        heads("a :: Idle -> [1] b :: Null [2] -> Discard; x :: Idle -> b"),
        [
            "t.click:1:11: `b` has no input 1 (Null has ports 1/1)",
            "t.click:1:18: `b` output 0 unused",
            "t.click:1:32: `b` has no output 2 (Null has ports 1/1)"
        ]
    );
    assert_eq!(heads("c :: Classifier(-, -); Idle -> c[1] -> Discard"), ["t.click:1:1: `c` output 0 unused"]);
    assert_eq!(heads("Idle -> Null"), ["t.click:1:9: `Null@2` output 0 unused"]);
    assert_eq!(
        heads("Idle -> p :: Pairs -> Discard; Idle -> [2]p"),
        [
            "t.click:1:9: `p` input 1 unused",
            "t.click:1:9: `p` output 1 unused",
            "t.click:1:9: `p` output 2 unused"
        ]
    );
}

#[test]
fn push_and_pull_do_not_meet() {
    assert_eq!(
        heads("FromDevice(e) -> t :: ToDevice(f)"),
        ["t.click:1:15: `FromDevice@1` push output 0 connected to `t` pull input 0"]
    );
    assert_eq!(
        heads("FromDevice(e) -> n :: Null -> ToDevice(f)"),
        ["t.click:1:18: agnostic `n` in mixed context: push input 0, pull output 0"]
    );
    assert_eq!(
        heads("FromDevice(e) -> Counter -> n :: Null -> Counter -> ToDevice(f)").len(),
        1,
        "one place is told, wherever both meet"
    );
    assert_eq!(
        heads("i :: Idle; q :: Queue; i -> q -> RED(1, 2, 0.1)[1] -> ToDevice(f); q[1] -> ToDevice(g)").len(),
        3,
        "a queue's second output pushes, RED's too, and its first is unused"
    );
    assert!(check(&read("Idle -> Queue -> RED(1, 2, 0.1) -> ToDevice(f)"), &TestCatalog).is_ok());
    let across = "f :: FromDevice(e) -> p :: Pairs -> Discard; Idle -> Queue -> [1]p[1] -> ToDevice(g)";
    assert!(check(&read(across), &TestCatalog).is_ok(), "a flow code keeps the ports apart");
}

#[test]
fn active_ports_have_one_connection() {
    assert_eq!(
        heads("f :: FromDevice(e); f -> Discard; f -> Discard"),
        ["t.click:1:37: illegal reuse of `f` push output 0", "t.click:1:23: note: connected here too"]
    );
    assert_eq!(
        heads("q, r :: Queue; Idle -> q; Idle -> r; t :: ToDevice(e); q, r -> t"),
        ["t.click:1:61: illegal reuse of `t` pull input 0", "t.click:1:61: note: connected here too"]
    );
    assert!(
        check(
            &read("f, g :: FromDevice(e); f, g -> q :: Queue; q -> a :: ToDevice(x); q -> b :: ToDevice(y)"),
            &TestCatalog
        )
        .is_ok()
    );
}

#[test]
fn arguments_are_checked_at_the_character() {
    assert_eq!(
        wrong("Idle -> Queue(2x0) -> BandwidthShaper(10Mxps) -> Discard;\nEtherEncap(0x800, 1:2:3:4:5:6)"),
        "t.click:1:16: `Queue@2`: CAPACITY: expected an integer, not `2x0`\n    \
         Idle -> Queue(2x0) -> BandwidthShaper(10Mxps) -> Discard;\n                   ^~\n\
         t.click:1:41: `BandwidthShaper@3`: RATE: expected a bandwidth such as 10Mbps: no unit `Mxps`\n    \
         Idle -> Queue(2x0) -> BandwidthShaper(10Mxps) -> Discard;\n                                            ^~~~\n\
         t.click:2:1: `EtherEncap@5`: missing mandatory DST argument\n    \
         EtherEncap(0x800, 1:2:3:4:5:6)\n    ^~~~~~~~~~\n\
         t.click:2:1: `EtherEncap@5` input 0 unused\n    \
         EtherEncap(0x800, 1:2:3:4:5:6)\n    ^~~~~~~~~~\n\
         t.click:2:1: `EtherEncap@5` output 0 unused\n    \
         EtherEncap(0x800, 1:2:3:4:5:6)\n    ^~~~~~~~~~"
    );
    assert_eq!(heads("Idle -> Queue(1, 2) -> Discard"), ["t.click:1:18: `Queue@2`: too many arguments: `2`"]);
    assert_eq!(
        heads("Idle -> Queue(CAPACITY yes) -> Discard"),
        ["t.click:1:24: `Queue@2`: CAPACITY: expected an integer, not `yes`"]
    );
    assert_eq!(
        heads("Idle -> Classifier"),
        ["t.click:1:9: `Classifier@2`: needs at least 1 arguments, has 0"]
    );
    assert!(heads("AddressInfo(a 1.2.3)")[0].contains("`1.2.3` is no address"));
    let info = "AddressInfo(a 1.2.3.4); Idle -> FixIPSrc(a) -> Discard";
    assert!(check(&read(info), &TestCatalog).is_ok());
    assert_eq!(
        heads("define($x foo) Idle -> FixIPSrc($x) -> Discard"),
        ["t.click:1:33: `FixIPSrc@2`: IP: expected an IP address such as 192.0.2.1, not `foo`"]
    );
}

#[test]
fn errors_are_bounded() {
    let text: Vec<String> = (0..5000).map(|n| format!("x{n} :: Nothing;")).collect();
    let text = text.concat();
    let errors = check(&read(&text), &TestCatalog).unwrap_err();
    assert_eq!((errors.list().len(), errors.more()), (100, 4900));
}

#[test]
fn the_catalog_knows_all_classes_of_the_design() {
    for name in "FromDevice PollDevice ToDevice FromDump ToDump InfiniteSource RatedSource Idle Discard Queue Unqueue \
        RatedUnqueue Tee Switch RoundRobinSwitch HashSwitch Null Counter Print Paint PaintTee PaintSwitch CheckPaint \
        Classifier EtherEncap HostEtherFilter DropBroadcasts ARPQuerier ARPResponder Strip Unstrip CheckIPHeader \
        MarkIPHeader GetIPAddress IPClassifier IPFilter StaticIPLookup LinearIPLookup RadixIPLookup DirectIPLookup \
        DecIPTTL IPGWOptions FixIPSrc IPFragmenter ICMPError ICMPPingResponder IPEncap SetIPChecksum SetIPDSCP \
        IPInputCombo IPOutputCombo IPPrint IPsecESPEncap IPsecESPUnencap IPsecAES IPsecAuthHMACSHA1 RED Shaper \
        BandwidthShaper Meter PrioSched RoundRobinSched DRRSched AddressInfo StaticThreadSched ScheduleInfo \
        ControlSocket Script"
        .split_whitespace()
    {
        assert!(TestCatalog.class(name).is_some(), "{name}");
    }
}
