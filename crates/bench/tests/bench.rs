//! Runs each benchmark as a user would, with small tables, and checks what it says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helpers fail the test")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

fn bench(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scalebricks-bench"))
        .args(args)
        .current_dir(directory)
        .output()
        .expect("the binary starts")
}

/// Runs benchmarks that must succeed; the rows of their JSON.
fn rows(args: &[&str]) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let args = [args, &["--json", "bench.json", "--svg", "pictures"]].concat();
    let output = bench(directory.path(), &args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {}\n{out}\n{err}", output.status);
    let json = std::fs::read_to_string(directory.path().join("bench.json")).unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    let fields: BTreeSet<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    for field in
        ["commit", "command", "cpu", "cpu_name", "machine", "rows", "sheets", "charts", "conclusions"]
    {
        assert!(fields.contains(field), "{field} is not in {fields:?}");
    }
    assert!(report["machine"].as_str().unwrap().contains("core"), "{report}");
    for (kind, extension) in [("sheets", ""), ("conclusions", ""), ("charts", ".svg")] {
        for shown in report[kind].as_array().unwrap() {
            has_place(&format!("{}{extension}", shown["name"].as_str().unwrap()));
        }
    }
    let rows = report["rows"].as_array().unwrap().clone();
    rows.iter().for_each(check);
    for row in &rows {
        let (structure, metric) = (row["structure"].as_str().unwrap(), row["metric"].as_str().unwrap());
        assert!(out.contains(structure) && out.contains(metric), "{row} is missing in\n{out}");
    }
    let mut pictures = std::fs::read_dir(directory.path().join("pictures")).unwrap();
    assert!(pictures.next().is_some(), "no picture");
    rows
}

/// What a benchmark keeps for a page has a place in one: what is measured for hours must not be refused at its end.
fn has_place(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages = docs.chain([root.join("README.md")]).filter(|path| path.is_file());
    let begins = [format!("<!-- begin {name} -->"), format!("/{name} -->")];
    let is_there = pages.any(|page| {
        let text = std::fs::read_to_string(page).unwrap_or_default();
        begins.iter().any(|begin| text.contains(begin))
    });
    assert!(is_there, "no page has lines <!-- begin {name} --> and <!-- end {name} -->");
}

/// What holds of every row.
fn check(row: &Value) {
    let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"));
    let (median, min, max) = (figure("median"), figure("min"), figure("max"));
    assert!(min <= median && median <= max, "{row}");
    assert!(row["runs"].as_u64().unwrap() >= 1 && row["keys"].as_u64().unwrap() > 0, "{row}");
    let unit = match row["metric"].as_str().unwrap() {
        "build_rate" | "lookup_rate" | "update_rate" | "insert_rate" | "delete_rate" | "packet_rate"
        | "fsync_rate" => "1/s",
        "bits_per_key" | "delta_entropy" => "bits",
        "loss" => "percent",
        "comparisons" => "slots",
        "listed_share" | "false_positives" | "falsely_matched" | "first_hit" | "alien_share"
        | "reseed_share" | "share_of_limit" | "packet_loss" | "huge_pages" => "share",
        "reseeded" => "ranges",
        "fallback_keys" | "max_group_load" | "ambiguous_names" => "keys",
        "cache_lines" => "lines",
        "packet_time" | "name_time" | "work_time" | "reseed_time" | "latency_mean" | "latency_p50"
        | "latency_p99" | "latency_max" | "detection_time" | "repin_time" | "recovery_time" | "join_time" => {
            "ns"
        }
        "delta_bytes" | "control_bytes" | "memory_bytes" => "bytes",
        "ratio" => "times",
        other => panic!("unknown metric {other}"),
    };
    assert_eq!(row["unit"], unit, "{row}");
    // Generator and sink are subtracted from the time of packets: where others have the cores, nothing may be left.
    assert!(unit != "1/s" || row["metric"] == "packet_rate" || min > 0.0, "{row}");
    assert_eq!(row.as_object().unwrap().len(), 19, "{row}");
}

/// Structures and metrics of these rows.
fn pairs(rows: &[Value]) -> BTreeSet<(String, String)> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(row, "structure"), text(row, "metric"))).collect()
}

fn set(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    pairs.iter().map(|(structure, metric)| ((*structure).to_owned(), (*metric).to_owned())).collect()
}

/// The structures that `setsep-build` and `setsep-lookup` measure in this build.
fn structures() -> Vec<&'static str> {
    let mut structures = vec!["setsep", "othello", "full-copy", "cuckoo", "hashbrown"];
    if cfg!(feature = "peers") {
        structures.extend(["ptr_hash", "sux"]);
    }
    if cfg!(feature = "dpdk") {
        structures.extend(["efd", "rte_hash"]);
    }
    structures
}

#[test]
fn builds_and_lookups() {
    let rows = rows(&["setsep-build", "setsep-lookup", "--quick", "--keys", "20k", "--batch", "1,17"]);
    let mut want = set(&[("setsep", "fallback_keys"), ("setsep", "max_group_load")]);
    for structure in structures() {
        want.extend(set(&["build_rate", "lookup_rate", "huge_pages"].map(|metric| (structure, metric))));
    }
    // Structures of others do not tell what they read.
    let ours = ["setsep", "othello", "full-copy", "cuckoo"];
    want.extend(set(&ours.map(|structure| (structure, "share_of_limit"))));
    assert_eq!(pairs(&rows), want);
    for row in &rows {
        let bits = if row["structure"] == "efd" { 8 } else { 2 };
        assert_eq!((row["keys"].as_u64(), row["value_bits"].as_u64()), (Some(20_000), Some(bits)), "{row}");
        let has_forms = row["structure"] == "setsep" || row["structure"] == "othello";
        assert_eq!(row["format"].is_null(), !has_forms, "{row}");
        assert!(row["table_bytes"].as_u64().is_some_and(|bytes| bytes > 5_000), "{row}");
    }
    for structure in structures() {
        let asked = rows.iter().filter(|row| row["structure"] == structure && row["metric"] == "lookup_rate");
        let batches: BTreeSet<_> = asked.map(|row| row["batch"].as_u64()).collect();
        assert_eq!(batches, [Some(1), Some(17)].into(), "{structure} is asked as all others are");
    }
    for row in rows.iter().filter(|row| row["metric"] == "lookup_rate" && row["structure"] == "setsep") {
        let variant = row["variant"].as_str().unwrap();
        let is_searched = !["linear", "dense"].contains(&row["format"].as_str().unwrap());
        let tells = variant.contains("no vector lookup");
        assert!(tells || !is_searched || variant.starts_with("portable"), "{row}");
    }
}

#[test]
fn updates_turnovers_and_changes_of_shape() {
    let rows = rows(&["setsep-update", "--quick", "--keys", "20k", "--format", "linear,paper"]);
    let metrics = ["update_rate", "insert_rate", "delete_rate", "lookup_rate", "build_rate"];
    assert_eq!(pairs(&rows), set(&metrics.map(|metric| ("setsep", metric))));
    let of = |words: &str| -> Vec<&Value> {
        let is = |row: &&Value| row["variant"].as_str().is_some_and(|variant| variant.contains(words));
        rows.iter().filter(is).collect()
    };
    assert_eq!(of("turnover").len(), 2, "one a format");
    assert!(of("turnover").iter().all(|row| row["runs"] == 10));
    assert_eq!(of("reshaped").len(), 6, "three a format");
    assert_eq!(of("growing").len(), 2, "one a format");
    assert!(rows.iter().all(|row| row["median"].as_f64().unwrap() > 0.0));
}

#[test]
fn updates_of_othello() {
    let rows = rows(&["othello-update", "--quick", "--keys", "20k"]);
    let metrics = ["update_rate", "insert_rate", "delete_rate", "bits_per_key"];
    assert_eq!(pairs(&rows), set(&metrics.map(|metric| ("othello", metric))));
    let bits = |row: &&Value| row["metric"] == "bits_per_key";
    assert!(rows.iter().filter(bits).all(|row| row["median"].as_f64().unwrap() > 4.6), "{rows:?}");
}

#[test]
fn space_and_fib() {
    let rows = rows(&["setsep-space", "fib", "--quick", "--keys", "20k"]);
    let metrics = ["bits_per_key", "fallback_keys", "max_group_load"];
    let mut want = set(&metrics.map(|metric| ("setsep", metric)));
    want.extend(set(&[("cuckoo", "share_of_limit")]));
    let others = if cfg!(feature = "dpdk") { &["rte_hash"][..] } else { &[] };
    for structure in ["cuckoo", "hashbrown"].iter().chain(others) {
        want.extend(set(&["lookup_rate", "insert_rate", "delete_rate"].map(|metric| (*structure, metric))));
    }
    assert_eq!(pairs(&rows), want);
    let bits = |row: &&Value| row["metric"] == "bits_per_key" && row["value_bits"] == 4;
    assert!(rows.iter().filter(bits).all(|row| row["median"].as_f64().unwrap() > 4.0));
}

#[test]
fn the_memory_tables_of_the_concise_paper() {
    let rows = rows(&["concise", "--part", "table-2", "--quick", "--keys", "5k", "--value-bits", "1,4"]);
    let mut want = set(&[("othello", "ratio")]);
    // How many lines a query of these reads follows from their layout.
    want.extend(set(&["setsep", "othello", "cuckoo"].map(|structure| (structure, "bits_per_key"))));
    for structure in ["binary-search", "tuple-space", "buffalo", "buffalo, apart", "orthogonal"] {
        want.extend(set(&["bits_per_key", "cache_lines"].map(|metric| (structure, metric))));
    }
    let filters = ["buffalo", "buffalo, apart", "orthogonal"];
    want.extend(set(&filters.map(|structure| (structure, "ambiguous_names"))));
    assert_eq!(pairs(&rows), want);
}

#[test]
fn every_part_of_the_concise_paper() {
    let rows = rows(&["concise", "--quick", "--runs", "1", "--keys", "6k"]);
    let there = pairs(&rows);
    let metrics = [
        "bits_per_key",
        "delta_bytes",
        "delta_entropy",
        "lookup_rate",
        "share_of_limit",
        "loss",
        "latency_p50",
        "build_rate",
        "insert_rate",
        "update_rate",
        "delete_rate",
        "reseeded",
        "reseed_share",
        "latency_max",
        "packet_rate",
        "alien_share",
    ];
    for metric in metrics {
        assert!(there.contains(&("othello".to_owned(), metric.to_owned())), "{metric}");
    }
    for whole in ["flat switch, forwarding", "flat switch, routing"] {
        assert!(there.contains(&(whole.to_owned(), "packet_rate".to_owned())), "{whole}");
    }
    assert!(there.contains(&("names alone".to_owned(), "name_time".to_owned())));
    assert!(there.contains(&("tuple-space".to_owned(), "bits_per_key".to_owned())));
}

#[test]
fn sessions_of_the_dhash_paper() {
    let rows = rows(&["dhash", "--quick", "--keys", "4096"]);
    let mut want = set(&[
        ("dhash", "listed_share"),
        ("dhash", "false_positives"),
        ("dhash", "falsely_matched"),
        ("dhash", "first_hit"),
        ("dhash", "comparisons"),
        ("dhash", "memory_bytes"),
        ("packets alone", "lookup_rate"),
        ("stack", "packet_rate"),
        ("stage", "packet_time"),
        ("stage loop", "packet_time"),
    ]);
    let mut tables = vec!["dhash", "chained hash", "cuckoo", "hashbrown"];
    if cfg!(feature = "dpdk") {
        tables.push("rte_hash");
    }
    for table in tables {
        want.extend(set(&[(table, "lookup_rate"), (table, "packet_rate")]));
    }
    assert_eq!(pairs(&rows), want);
    // 1.0 M and 1,048,576 sessions in proportion.
    let listed = rows.iter().filter(|row| row["metric"] == "listed_share");
    assert_eq!(listed.map(|row| row["keys"].as_u64().unwrap()).collect::<Vec<_>>(), [3906, 4096]);
    // The keyed signature has no false positive among so few sessions, and the literal reading of signature 3 has some.
    let positives = |name: &str| -> f64 {
        let of = rows.iter().filter(|row| row["metric"] == "false_positives" && row["format"] == name);
        of.map(|row| row["median"].as_f64().unwrap()).sum()
    };
    assert!(positives("keyed") == 0.0 && positives("two-halves") == 0.0 && positives("mirrored-crc") > 0.0);
}

#[test]
fn what_there_is_to_choose_from() {
    let rows = rows(&["choice", "--quick", "--runs", "1", "--keys", "1k,20k", "--nodes", "4,256"]);
    let mut want = set(&[("setsep", "delta_bytes"), ("othello", "delta_bytes")]);
    for structure in ["setsep", "othello", "full-copy"] {
        let metrics =
            ["build_rate", "bits_per_key", "control_bytes", "lookup_rate", "share_of_limit", "update_rate"];
        want.extend(set(&metrics.map(|metric| (structure, metric))));
    }
    assert_eq!(pairs(&rows), want);
    let copies = rows.iter().filter(|row| row["structure"] == "full-copy" && row["metric"] == "build_rate");
    assert_eq!(copies.count(), 2, "once for each number of keys");
}

#[test]
fn the_gateway() {
    let rows = rows(&["gateway", "--quick", "--keys", "20k", "--threads", "1"]);
    let architectures = ["full-duplication", "hash-partition", "vlb", "scalebricks"];
    let mut want = set(&architectures.map(|name| (name, "packet_rate")));
    want.extend(set(&["generator and sink", "plain forwarding"].map(|name| (name, "packet_time"))));
    want.extend(set(&[("plain forwarding", "packet_rate")]));
    let latencies =
        ["packet_rate", "latency_mean", "latency_p50", "latency_p99", "latency_max", "packet_loss"];
    let other = if cfg!(feature = "dpdk") { "rte_hash" } else { "chained-hash" };
    let approaches = ["full-duplication", "hash-partition", "scalebricks"];
    let six = approaches.iter().flat_map(|way| [format!("{way} cuckoo"), format!("{way} {other}")]);
    for approach in six.chain(["vlb cuckoo".to_owned()]) {
        want.extend(set(&latencies.map(|metric| (approach.as_str(), metric))));
        let of_approach = |row: &&Value| row["structure"] == approach.as_str() && !row["nodes"].is_null();
        let searched = rows.iter().filter(of_approach).find(|row| row["variant"] == "throughput").unwrap();
        assert!(searched["runs"].as_u64() >= Some(3), "several searches: {searched}");
    }
    let mut makes = vec!["cuckoo", "chained-hash"];
    if cfg!(feature = "dpdk") {
        makes.push("rte_hash");
        want.extend(set(&["packet_time", "work_time", "packet_rate"].map(|metric| ("efd rte_hash", metric))));
    }
    for make in makes {
        let (full, ours) = (format!("full-duplication {make}"), format!("scalebricks {make}"));
        for metric in ["packet_time", "work_time", "packet_rate"] {
            want.extend(set(&[(full.as_str(), metric), (ours.as_str(), metric)]));
        }
        want.extend(set(&[(ours.as_str(), "ratio")]));
    }
    assert_eq!(pairs(&rows), want);
}

#[test]
fn the_control_plane() {
    let rows = rows(&[
        "control",
        "--quick",
        "--flows",
        "2k",
        "--nodes",
        "3",
        "--seconds",
        "1",
        "--runs",
        "1",
        "--batch",
        "1,64",
    ]);
    let mut want = set(&[("disk", "fsync_rate")]);
    for structure in ["partition", "owner"] {
        want.extend(set(&["update_rate", "delta_bytes"].map(|metric| (structure, metric))));
    }
    let calls = ["update_rate", "latency_p50", "latency_p99"];
    let times = ["detection_time", "repin_time", "recovery_time", "join_time"];
    want.extend(set(&calls.map(|metric| ("cluster", metric))));
    want.extend(set(&times.map(|metric| ("cluster", metric))));
    assert_eq!(pairs(&rows), want);
    let of = |metric: &'static str| rows.iter().filter(move |row| row["metric"] == metric);
    let callers: BTreeSet<_> = of("latency_p99").map(|row| row["callers"].as_u64().unwrap()).collect();
    assert_eq!(callers, [1, 8, 64, 1024, 8192].into());
    let made_of: BTreeSet<_> = of("delta_bytes").map(|row| row["format"].as_str().unwrap()).collect();
    assert_eq!(made_of, ["othello", "setsep"].into());
    // A node is removed at the earliest one second after its last heartbeat.
    assert!(of("detection_time").all(|row| row["min"].as_f64().unwrap() > 0.7e9));
}

#[test]
fn wishes_that_cannot_be_are_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    for (args, reason) in [
        (&[][..], "NAME"),
        (&["setsep-bild"], "setsep-build"),
        (&["fib", "--keys", "many"], "not a number"),
        (&["fib", "--keys", "0"], "must be 1 to"),
        (&["fib", "--value-bits", "9"], "9 is not in 1..=8"),
        (&["concise", "fib", "--value-bits", "9"], "9 is not in 1..=8"),
        (&["concise", "--value-bits", "17"], "17 is not in 1..=16"),
        (&["concise", "--part", "figure-99"], "choose table-"),
        (&["concise", "--part", "figure-6", "--keys", "1k", "--capture", "missing.pcap"], "missing.pcap"),
        (&["fib", "--format", "cubic"], "choose linear"),
        (&["fib", "--structure", "btree"], "choose setsep"),
        (&["fib", "--isa", "mmx"], "choose portable"),
        (&["gateway", "--keys", "100M"], "are not in"),
        (&["control", "--nodes", "257"], "must be 1 to"),
        (&["control", "--runs", "0"], "must be 1 to"),
        (&["setsep-space", "--keys", "1G"], "of memory"),
    ] {
        let output = bench(directory.path(), args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(reason), "{args:?}: {said}");
    }
    if !cfg!(feature = "peers") {
        let output = bench(directory.path(), &["setsep-lookup", "--structure", "sux"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("--features peers"));
    } else if cfg!(target_arch = "x86_64") && !cfg!(target_feature = "avx") {
        let output = bench(directory.path(), &["setsep-lookup", "--page", "tables"]);
        assert_eq!(output.status.code(), Some(2), "no page from a binary that handicaps other structures");
        assert!(String::from_utf8_lossy(&output.stderr).contains("scripts/bench.sh"));
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let args = ["setsep-space", "--keys", "1k", "--quick", "--format", "linear", "--json", "file/bench.json"];
    let output = bench(directory.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("file/bench.json"));
}

/// Ctrl-C in the middle of a long run.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_its_status() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_scalebricks-bench"))
        .args(["setsep-space", "--keys", "300k", "--value-bits", "1,2,3,4,5,6,7,8"])
        .current_dir(directory.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let status = child.wait().unwrap();
    assert!(matches!(status.code(), Some(130 | 0)), "{status}: interrupted, or done before");
}
