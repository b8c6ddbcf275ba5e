//! Public names: metrics with their types and labels, and the JSON fields of the counters.

use crate::admin::running::Running;
use serde_json::Value;
use std::collections::BTreeSet;

/// A text of metrics without the values.
fn metrics(text: &str) -> BTreeSet<String> {
    let line = |line: &str| {
        if line.starts_with('#') { line.to_owned() } else { line.rsplit_once(' ').unwrap().0.to_owned() }
    };
    // Values that depend on the machine or the time.
    text.lines().map(line).filter(|line| !line.starts_with("scalebricks_node_info")).collect()
}

/// The fields of an object, in their order, and of the objects in it.
fn fields(name: &str, value: &Value, into: &mut Vec<String>) {
    let Value::Object(all) = value else { return };
    for (field, value) in all {
        let name = format!("{name}.{field}");
        into.push(name.clone());
        fields(&name, value, into);
    }
}

#[test]
fn public_names_stay() {
    let running = Running::start();
    let client = running.client();
    let mut lines: Vec<String> = metrics(&client.text("/metrics").unwrap()).into_iter().collect();
    let text = client.text("/v1/stats").unwrap();
    let stats: Value = serde_json::from_str(&text).unwrap();
    fields("stats", &stats, &mut lines);
    fields("worker", &stats["workers"][0], &mut lines);
    // As text, because a map is sorted, but fields must have the order of the schema.
    let order: Vec<&str> = text.split("\"total\":{").nth(1).unwrap().split(['{', ',']).collect();
    let order = order.iter().take(14).map(|field| field.split(':').next().unwrap());
    lines.push(format!("total in order: {}", order.collect::<Vec<_>>().join(" ")));
    let written = lines.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/admin/golden.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &written).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let gone: Vec<&str> =
        committed.lines().filter(|line| !written.lines().any(|other| other == *line)).collect();
    assert!(gone.is_empty(), "gone: {gone:#?}");
    assert!(committed == written, "golden.txt is not current: run with UPDATE_GOLDEN=1\n{written}");
}
