//! Tests of all elements.

mod hostile;
mod router;
mod schedulers;

use scalebricks_graph::Spec;
use scalebricks_graph::class_docs::Page;
use scalebricks_graph::spec::{ParamSpec, RUN_DROPS};
use scalebricks_io::Packet;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// All classes that configurations can name, sorted by name.
fn classes() -> Vec<&'static Spec> {
    let mut specs: Vec<_> = crate::registry::<Packet>().specs().collect();
    specs.sort_by_key(|spec| spec.class);
    specs
}

/// `UPDATE_DOCS=1 cargo test -p scalebricks-elements` regenerates the page.
#[test]
fn the_page_about_elements_is_that_of_their_specs() {
    let page = Page { classes: &classes(), program_only: &crate::program_only::<Packet>() };
    let page =
        format!("<!-- Generated from the elements' specs by a test of scalebricks-elements. -->\n{page}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/elements.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "docs/elements.md is not up to date: run this test with UPDATE_DOCS=1");
}

/// Reasons that mean one thing to a router and another to a bridge. The gateway and the switch for flat names never
/// run in one graph, and their metrics have these names.
const SEVERAL: [&str; 2] = ["link_local", "truncated"];

#[test]
fn a_drop_reason_means_the_same_in_every_element() {
    let mut meanings = BTreeMap::<_, BTreeSet<_>>::new();
    let specs = classes().into_iter().chain(crate::program_only::<Packet>());
    let all = specs.flat_map(|spec| spec.drops);
    all.chain(RUN_DROPS).for_each(|drop| {
        meanings.entry(drop.name).or_default().insert(drop.doc);
    });
    let several: Vec<_> = meanings.iter().filter(|(_, docs)| docs.len() > 1).map(|(name, _)| *name).collect();
    assert_eq!(several, SEVERAL, "{meanings:#?}");
}

#[test]
fn every_class_is_documented_throughout() {
    let mut specs = classes();
    specs.extend(crate::program_only::<Packet>());
    let names: HashSet<&str> = specs.iter().map(|spec| spec.class).collect();
    assert_eq!((specs.len(), classes().len()), (names.len(), crate::CLASSES), "two classes of one name");
    for spec in specs {
        assert!(!spec.doc.is_empty(), "{}", spec.class);
        let opens = |name: &str| name.contains("file") || name == "devname";
        let is_missing = |param: &ParamSpec| param.default.is_none() && !opens(param.name);
        assert!(
            !spec.example.is_empty() || !spec.params.iter().any(is_missing),
            "{}: no example",
            spec.class
        );
        let ports = spec.inputs.iter().chain(spec.outputs).map(|port| port.doc);
        let counted =
            spec.drops.iter().map(|drop| drop.doc).chain(spec.counters.iter().map(|counter| counter.doc));
        let params = spec.params.iter().map(|param| param.doc.last().copied().unwrap_or_default());
        for doc in ports.chain(counted).chain(spec.handlers.iter().map(|handler| handler.doc)).chain(params) {
            assert!(doc.trim().ends_with('.'), "{}: {doc:?}", spec.class);
        }
    }
}
