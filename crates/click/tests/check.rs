//! Whole routers, and names that do not exist.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use scalebricks_click::values::AddressInfo;
use scalebricks_click::{Configuration, Options, check, parse};
use std::collections::BTreeSet;

fn read(text: &str) -> Configuration {
    parse("t.click", text.as_bytes(), &Options::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The first lines of the errors.
fn heads(text: &str) -> Vec<String> {
    let configuration = read(text);
    let classes = BTreeSet::from(["Idle", "Queue", "Discard", "Null", "ToHost"]);
    let errors = configuration.errors(check(&configuration, &classes)).unwrap().to_string();
    errors.lines().filter(|line| line.starts_with("t.click")).map(str::to_owned).collect()
}

/// Reads a router, and again from its printed form.
fn router(text: &str) -> Configuration {
    let configuration = read(text);
    assert_eq!(read(&configuration.to_string()), configuration);
    configuration
}

#[test]
fn an_ip_router_of_two_interfaces() {
    let router = router(include_str!("data/ip-router.click"));
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
    assert_eq!(errors, 1 + 8, "the input path and four ICMP errors per path");
    assert!(AddressInfo::of(&router).is_ok());
}

#[test]
fn an_address_translator() {
    let nat = router(include_str!("data/nat.click"));
    assert_eq!(nat.requirements[0].package, "extras");
    let lan = nat.find("lan/arpq").unwrap();
    let args: Vec<&str> = nat.elements[lan].args.iter().map(|argument| argument.text.as_str()).collect();
    assert_eq!(args, ["inside:ip", "inside:eth"]);
    let answers = nat.find("answers").unwrap();
    let rw = nat.find("rw").unwrap();
    assert!(nat.connections.iter().any(|c| (c.from.element, c.to.element, c.to.port) == (answers, rw, 1)));
}

#[test]
fn a_link_with_three_classes_of_service() {
    let qos = router(include_str!("data/qos.click"));
    assert_eq!(qos.elements[qos.find("b/red").unwrap()].args[1].text, "50");
}

#[test]
fn unknown_names_come_with_similar_ones() {
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
    assert_eq!(heads("require(extras)"), ["t.click:1:9: required package `extras` is not available"]);
}

#[test]
fn errors_are_bounded() {
    let text: Vec<String> = (0..5000).map(|n| format!("x{n} :: Nothing;")).collect();
    let configuration = read(&text.concat());
    let errors = configuration.errors(check(&configuration, &BTreeSet::new())).unwrap();
    assert_eq!((errors.list().len(), errors.more()), (100, 4900));
}
