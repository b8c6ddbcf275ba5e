//! The crates of the workspace depend on each other one way only, and `unsafe` lives where it may. The rules and their
//! reasons are in `docs/adr/0001-workspace-and-layering.md`.

#![forbid(unsafe_code)]

use serde_json::Value;
use std::error::Error;
use std::fs;
use std::process::Command;

/// A crate of the workspace.
struct Rule {
    name: &'static str,
    /// A crate depends on crates of lower layers only; those of one layer do not know each other.
    layer: u8,
    may_hold_unsafe: bool,
}

const CRATES: [Rule; 25] = [
    Rule { name: "scalebricks-console", layer: 0, may_hold_unsafe: false },
    Rule { name: "scalebricks-types", layer: 0, may_hold_unsafe: false },
    Rule { name: "scalebricks-click", layer: 0, may_hold_unsafe: false },
    Rule { name: "scalebricks-dpdk-sys", layer: 0, may_hold_unsafe: true },
    Rule { name: "scalebricks-tables", layer: 1, may_hold_unsafe: true },
    Rule { name: "scalebricks-wire", layer: 1, may_hold_unsafe: false },
    Rule { name: "scalebricks-io", layer: 1, may_hold_unsafe: false },
    Rule { name: "scalebricks-report", layer: 1, may_hold_unsafe: false },
    Rule { name: "scalebricks-plan", layer: 1, may_hold_unsafe: false },
    Rule { name: "scalebricks-allocator", layer: 2, may_hold_unsafe: true },
    Rule { name: "scalebricks-capi", layer: 2, may_hold_unsafe: true },
    Rule { name: "scalebricks-python", layer: 2, may_hold_unsafe: true },
    Rule { name: "scalebricks-dpdk", layer: 2, may_hold_unsafe: true },
    Rule { name: "scalebricks-graph", layer: 2, may_hold_unsafe: false },
    Rule { name: "scalebricks-flows", layer: 2, may_hold_unsafe: false },
    Rule { name: "scalebricks-control", layer: 2, may_hold_unsafe: false },
    Rule { name: "scalebricks-engine", layer: 3, may_hold_unsafe: false },
    Rule { name: "scalebricks-elements", layer: 3, may_hold_unsafe: false },
    Rule { name: "scalebricks-apps", layer: 4, may_hold_unsafe: false },
    Rule { name: "scalebricks-cluster", layer: 5, may_hold_unsafe: false },
    Rule { name: "scalebricks-admin", layer: 6, may_hold_unsafe: false },
    Rule { name: "scalebricks-daemon", layer: 7, may_hold_unsafe: false },
    Rule { name: "scalebricks-lab", layer: 8, may_hold_unsafe: false },
    // The two programs. One layer, so that what is shipped never depends on the benchmarks.
    Rule { name: "scalebricks-bench", layer: 9, may_hold_unsafe: true },
    Rule { name: "scalebricks", layer: 9, may_hold_unsafe: false },
];

fn rule(name: &str) -> Option<&'static Rule> {
    CRATES.iter().find(|rule| rule.name == name)
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
        let Some(from) = rule(text(package, "name")) else {
            broken.push(format!("{} has no layer in this test", text(package, "name")));
            continue;
        };
        for dependency in list(package, "dependencies") {
            if let Some(to) = rule(text(dependency, "name"))
                && to.layer >= from.layer
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
    assert_eq!(packages.len(), CRATES.len(), "crates in the workspace and in this test");
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
            "scalebricks-attic has no layer in this test",
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
        if rule(name).is_none_or(|rule| rule.may_hold_unsafe) {
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
