//! The rooms of the workspace depend on each other one way only, and `unsafe` lives where it may. The rules and their
//! reasons are in `docs/adr/0001-workspace-and-layering.md`.

#![forbid(unsafe_code)]

use serde_json::Value;
use std::error::Error;
use std::fs;
use std::process::Command;

/// A crate of the workspace.
struct Room {
    name: &'static str,
    /// A crate depends on crates of lower storeys only; those of one storey do not know each other.
    storey: u8,
    may_hold_unsafe: bool,
}

const ROOMS: [Room; 15] = [
    Room { name: "scalebricks-console", storey: 0, may_hold_unsafe: false },
    Room { name: "scalebricks-types", storey: 0, may_hold_unsafe: false },
    Room { name: "scalebricks-click", storey: 0, may_hold_unsafe: false },
    Room { name: "scalebricks-dpdk-sys", storey: 0, may_hold_unsafe: true },
    Room { name: "scalebricks-tables", storey: 1, may_hold_unsafe: true },
    Room { name: "scalebricks-wire", storey: 1, may_hold_unsafe: false },
    Room { name: "scalebricks-io", storey: 1, may_hold_unsafe: false },
    Room { name: "scalebricks-dpdk", storey: 2, may_hold_unsafe: true },
    Room { name: "scalebricks-graph", storey: 2, may_hold_unsafe: false },
    Room { name: "scalebricks-control", storey: 2, may_hold_unsafe: false },
    Room { name: "scalebricks-engine", storey: 3, may_hold_unsafe: false },
    Room { name: "scalebricks-elements", storey: 3, may_hold_unsafe: false },
    Room { name: "scalebricks-apps", storey: 4, may_hold_unsafe: false },
    Room { name: "scalebricks-bench", storey: 5, may_hold_unsafe: true },
    Room { name: "scalebricks", storey: 6, may_hold_unsafe: false },
];

fn room(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

fn packages() -> Result<Vec<Value>, Box<dyn Error>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let mut metadata: Value = serde_json::from_slice(&output.stdout)?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        other => Err(format!("no packages in the metadata but {other}").into()),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The edges that break the rule, dependencies of tests and build scripts included.
fn broken_edges(packages: &[Value]) -> Vec<String> {
    let mut broken = Vec::new();
    for package in packages {
        let Some(from) = room(text(package, "name")) else {
            broken.push(format!("{} has no storey in this test", text(package, "name")));
            continue;
        };
        for dependency in list(package, "dependencies") {
            if let Some(to) = room(text(dependency, "name"))
                && to.storey >= from.storey
            {
                broken.push(format!("{} depends on {}", from.name, to.name));
            }
        }
    }
    broken
}

#[test]
fn dependencies_between_rooms_point_down() {
    let packages = packages().unwrap();
    assert_eq!(packages.len(), ROOMS.len(), "rooms in the workspace and in this test");
    assert_eq!(broken_edges(&packages), Vec::<String>::new());
}

#[test]
fn an_edge_that_points_up_or_sideways_is_found() {
    let planted = serde_json::json!([
        { "name": "scalebricks-types", "dependencies": [{ "name": "scalebricks-tables", "kind": "dev" }] },
        { "name": "scalebricks-io", "dependencies": [{ "name": "scalebricks-wire" }, { "name": "scalebricks-types" }] },
        { "name": "scalebricks-attic", "dependencies": [] },
    ]);
    assert_eq!(
        broken_edges(planted.as_array().unwrap()),
        [
            "scalebricks-types depends on scalebricks-tables",
            "scalebricks-io depends on scalebricks-wire",
            "scalebricks-attic has no storey in this test",
        ]
    );
}

/// The attribute itself, not a mention of it in a comment.
fn forbids_unsafe(source: &str) -> bool {
    source.lines().any(|line| line == "#![forbid(unsafe_code)]")
}

#[test]
fn unsafe_code_is_forbidden_where_it_does_not_belong() {
    for package in packages().unwrap() {
        let name = text(&package, "name");
        if room(name).is_none_or(|room| room.may_hold_unsafe) {
            continue;
        }
        for target in list(&package, "targets") {
            let kinds = list(target, "kind");
            if kinds.iter().any(|kind| kind == "lib" || kind == "bin") {
                let source = fs::read_to_string(text(target, "src_path")).unwrap();
                assert!(
                    forbids_unsafe(&source),
                    "{name}: {} lacks #![forbid(unsafe_code)]",
                    text(target, "src_path")
                );
            }
        }
    }
}

#[test]
fn a_comment_does_not_forbid_anything() {
    assert!(forbids_unsafe("//! Docs.\n#![forbid(unsafe_code)]\n"));
    assert!(!forbids_unsafe("// #![forbid(unsafe_code)]\n#![deny(unsafe_code)]\n"));
}
