//! The page `docs/reference/configuration.md`, made from the description of the keys.

use super::keys::{Key, Kind};
use crate::{node, router, switch};
use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "\
# Configuration

For operators: every key of a node, a switch and a router. Files are TOML. `scalebricks node check FILE`, `scalebricks
switch check --config FILE` and `scalebricks router check --config FILE` report every wrong, unknown and missing key at
once, each with its line, its value and what is allowed.

A test writes this page from the types that read the files: `UPDATE_DOCS=1 cargo test -p scalebricks-daemon reference`.
[node.md](../node.md), [switch.md](../switch.md) and [router-howto.md](../router-howto.md) explain the keys, with
complete examples.

Paths are relative to the file that contains them. A section in double brackets may occur several times. A key without a
default and not required has the effect that its meaning says, or none.
";

/// The page.
fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, check, key) in [
        ("A node", "node check FILE", Key::of::<node::config::sections::File>()),
        ("A switch", "switch check --config FILE", Key::of::<switch::config::sections::File>()),
        ("A router", "router check --config FILE", Key::of::<router::node::config::sections::File>()),
    ] {
        let _ = write!(page, "\n## {title}\n\n{} Check it with `scalebricks {check}`.\n", key.meaning);
        if let Kind::Table(sections) = &key.kind {
            for (name, section) in sections {
                add_section(&mut page, name, section);
            }
        }
    }
    page
}

/// Adds a section and those in it.
fn add_section(page: &mut String, path: &str, section: &Key) {
    let (keys, brackets) = match &section.kind {
        Kind::Table(keys) => (keys, ("[", "]")),
        Kind::Array(item) => match &item.kind {
            Kind::Table(keys) => (keys, ("[[", "]]")),
            _ => return,
        },
        _ => return,
    };
    let required = if section.is_required { " Required." } else { "" };
    let _ = write!(page, "\n### `{}{path}{}`\n\n{}{required}\n", brackets.0, brackets.1, section.meaning);
    let is_section = |key: &Key| match &key.kind {
        Kind::Table(_) => true,
        Kind::Array(item) => matches!(item.kind, Kind::Table(_)),
        _ => false,
    };
    page.push_str("\n| key | value | default | required | meaning |\n|---|---|---|---|---|\n");
    for (name, key) in keys.iter().filter(|(_, key)| !is_section(key)) {
        let default = key.default.as_ref().map(|value| format!("`{value}`")).unwrap_or_default();
        let required = if key.is_required { "yes" } else { "" };
        let value = value(&key.kind);
        let _ = writeln!(page, "| `{name}` | {value} | {default} | {required} | {} |", key.meaning);
    }
    for (name, key) in keys.iter().filter(|(_, key)| is_section(key)) {
        add_section(page, &format!("{path}.{name}"), key);
    }
}

/// The values of a key: names as code.
fn value(kind: &Kind) -> String {
    match kind {
        Kind::Name(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        Kind::Array(item) => format!("a list, each {}", value(&item.kind)),
        Kind::Secret => format!("`{kind}`"),
        _ => kind.to_string(),
    }
}

/// The page in the repository is this one. `UPDATE_DOCS=1` writes it.
#[test]
fn the_reference_lists_all_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = page();
    for expected in
        ["| `base_station_mtu` | an integer, 576 to 65535 | `1600` |  |", "### `[[control.peer]]`"]
    {
        assert!(page.contains(expected), "{expected} is not in\n{page}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "{} is not up to date: run this test with UPDATE_DOCS=1", path.display());
}

/// No key is without documentation.
#[test]
fn every_key_has_a_meaning() {
    fn check(path: &str, key: &Key) {
        match &key.kind {
            Kind::Table(keys) => {
                for (name, key) in keys {
                    let path = format!("{path}.{name}");
                    assert!(!key.meaning.is_empty(), "{path} has no documentation");
                    check(&path, key);
                }
            }
            Kind::Array(item) => check(path, item),
            _ => {}
        }
    }
    check("node", &Key::of::<node::config::sections::File>());
    check("switch", &Key::of::<switch::config::sections::File>());
    check("router", &Key::of::<router::node::config::sections::File>());
}
