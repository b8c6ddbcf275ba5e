//! Runs the demo as a user would, with small numbers, and checks its output.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helpers fail the test")]

use crate::harness::program;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn demo(directory: &Path, args: &[&str]) -> Output {
    program().arg("demo").args(args).current_dir(directory).output().expect("the binary starts")
}

/// Runs a small demo, which must succeed; its JSON.
fn report(args: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let output = demo(directory.path(), args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {}\n{out}\n{err}", output.status);
    let json = std::fs::read_to_string(directory.path().join("out/demo.json")).unwrap();
    let picture = std::fs::read_to_string(directory.path().join("out/demo.svg")).unwrap();
    assert!(picture.starts_with("<svg"));
    assert!(out.contains("misdelivered"), "{out}");
    let report: Value = serde_json::from_str(&json).unwrap();
    report["architectures"].as_array().unwrap().iter().for_each(check_accounts);
    report
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// No packet is lost, every packet counts once, and hops are within the architecture's bound.
fn check_accounts(result: &Value) {
    let dropped: u64 = result["dropped"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let (lost, out) = (number(result, "lost"), number(result, "packets_out"));
    assert_eq!(number(result, "packets_in"), out + dropped + lost, "{result}");
    assert_eq!((lost, number(result, "misdelivered")), (0, 0), "{result}");
    assert!(result["problems"].as_array().unwrap().is_empty(), "{result}");
    let bound = if matches!(name(result), "hash-partition" | "vlb") { 2 } else { 1 };
    assert!(number(result, "hops_max") <= bound, "{result}");
    assert!(number(result, "capacity_flows") > 0, "{result}");
    assert!(number(result, "fib_bytes_per_node") > 0, "{result}");
    assert!(result["mpps"].as_f64().unwrap() >= 0.0, "0 if the run was too short to be timed: {result}");
}

fn name(result: &Value) -> &str {
    result["name"].as_str().unwrap()
}

fn assert_near(result: &Value, figure: &str, want: f64, tolerance: f64) {
    let got = result[figure].as_f64().unwrap();
    assert!((got - want).abs() < tolerance, "{}: {figure} {got}, expected about {want}", name(result));
}

#[test]
fn three_nodes_and_all_architectures() {
    let report = report(&["--nodes", "3", "--flows", "20k", "--packets", "100k", "--seed", "9"]);
    assert_eq!(number(&report, "nodes"), 3);
    assert_eq!(number(&report, "flows"), 20_000);
    assert_eq!(number(&report, "seed"), 9);
    let results = report["architectures"].as_array().unwrap();
    let names: Vec<_> = results.iter().map(name).collect();
    assert_eq!(names, ["full-duplication", "hash-partition", "vlb", "scalebricks"]);
    for result in results {
        assert_eq!(number(result, "packets_in"), 100_000);
        assert_eq!(number(result, "packets_out"), 100_000, "nothing may be dropped: {result}");
    }
    // Uniform ingress: 2/3 enter at another node. A lookup node doubles that; a detour adds a third of them.
    for (result, hops) in results.iter().zip([0.667, 1.333, 0.667 * 4.0 / 3.0, 0.667]) {
        assert_near(result, "hops_mean", hops, 0.04);
    }
    let tables =
        |at: usize| number(&results[at], "gpt_bytes_per_node") + number(&results[at], "fib_bytes_per_node");
    assert!(tables(3) < tables(0) / 2, "a node of ScaleBricks holds a third of the flows");
    assert!(number(&results[3], "capacity_flows") > 2 * number(&results[0], "capacity_flows"));
    let pinned: u64 = report["flows_per_node"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(pinned, 20_000);
}

#[test]
fn four_nodes_keyed_by_ue() {
    let args =
        ["--flows", "10k", "--packets", "60k", "--arch", "scalebricks", "--key", "ue", "--threads", "1"];
    let report = report(&args);
    assert_eq!(report["key"], "ue");
    let results = report["architectures"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    assert_near(&results[0], "hops_mean", 0.75, 0.03);
}

#[test]
fn sixty_four_nodes_and_a_skewed_assignment() {
    let args = [
        "--nodes",
        "64",
        "--flows",
        "5k",
        "--packets",
        "20k",
        "--skew",
        "--arch",
        "scalebricks",
        "--arch",
        "vlb",
    ];
    let report = report(&args);
    let pinned: Vec<u64> =
        report["flows_per_node"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(pinned.len(), 64);
    assert!(pinned[0] > 5 * pinned[32], "{pinned:?}");
    assert!(pinned.iter().all(|&flows| flows > 0), "{pinned:?}");
}

#[test]
fn what_does_not_fit_is_fragmented_or_refused() {
    let small = ["--flows", "1k", "--packets", "20k", "--arch", "scalebricks", "--base-station-mtu", "1500"];
    let fragmented = report(&small);
    let result = &fragmented["architectures"][0];
    assert!(number(result, "packets_fragmented") > 500);
    assert_eq!(number(result, "fragments_made"), 2 * number(result, "packets_fragmented"));
    let refused = report(&[&small[..], &["--oversize", "icmp"]].concat());
    let result = &refused["architectures"][0];
    assert_eq!(number(result, "icmp_sent"), result["dropped"]["fragmentation_needed"].as_u64().unwrap());
    assert!(number(result, "icmp_sent") > 500);
}

#[test]
fn a_seed_repeats_a_run() {
    let args = ["--flows", "2k", "--packets", "10k", "--arch", "hash-partition"];
    let [one, two] = [report(&args), report(&args)];
    for figure in ["hops_mean", "fabric_bytes", "packets_out"] {
        assert_eq!(one["architectures"][0][figure], two["architectures"][0][figure], "{figure}");
    }
}

/// A UDP packet over IPv4 in an Ethernet frame, without checksums, as with checksum offload.
fn udp_frame(src: [u8; 4], dst: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([src, dst].concat());
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.extend([0, 12, 0, 0, b'p', b'i', b'n', b'g']);
    frame
}

#[test]
fn a_capture_is_replayed_and_what_nodes_sent_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("in.pcap");
    let mut writer = scalebricks_io::capture::CaptureWriter::create(&capture).unwrap();
    let (mobile, server) = ([10, 0, 0, 1], [192, 0, 2, 1]);
    for (n, port) in (0..40u64).zip(40_000..) {
        let sent = udp_frame(mobile, server, [port, 53]);
        let answer = udp_frame(server, mobile, [53, port]);
        writer.write_frame(std::time::Duration::from_millis(2 * n), &sent).unwrap();
        writer.write_frame(std::time::Duration::from_millis(2 * n + 1), &answer).unwrap();
    }
    writer.finish().unwrap();
    let args =
        ["--pcap", "in.pcap", "--ignore-checksums", "--out", "nodes", "--json", "r.json", "--nodes", "3"];
    let output = demo(directory.path(), &args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = std::fs::read_to_string(directory.path().join("r.json")).unwrap();
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(number(&report, "flows"), 40);
    let results = report["architectures"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        check_accounts(result);
        assert_eq!((number(result, "packets_in"), number(result, "packets_out")), (80, 80));
    }
    assert_eq!(std::fs::read_dir(directory.path().join("nodes")).unwrap().count(), 3);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the old spelling of --json-file r.json"));
    // Without the option their checksums are wrong.
    let args = ["--pcap", "in.pcap", "--json", "--json-file", "s.json", "--arch", "scalebricks"];
    let output = demo(directory.path(), &args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("80 packets have a wrong IPv4 checksum") && said.contains("--ignore-checksums"),
        "{said}"
    );
    let json = std::fs::read_to_string(directory.path().join("s.json")).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), json, "--json prints what the file holds");
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["architectures"][0]["dropped"]["bad_ipv4_checksum"], 80);
}

#[test]
fn a_capture_that_is_none_is_status_1_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let output = demo(directory.path(), &["--pcap", "missing.pcap"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing.pcap"));
}

#[test]
fn wrong_usage_is_status_2() {
    let directory = tempfile::tempdir().unwrap();
    for args in [
        &["--nodes", "65"][..],
        &["--flows", "many"],
        &["--arch", "clos"],
        &["--out", "x"],
        &["--ignore-checksums"],
        &["--app", "router", "--skew"],
    ] {
        let output = demo(directory.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn a_place_that_cannot_be_written_is_status_1_and_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let args = ["--flows", "100", "--packets", "100", "--arch", "scalebricks", "--json", "file/x.json"];
    let output = demo(directory.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("file/x.json"));
}

/// A run does not fail if its reader closes the pipe: `scalebricks demo | head -1`.
#[test]
fn a_closed_pipe_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = program()
        .args(["demo", "--flows", "100", "--packets", "100", "--arch", "scalebricks", "--quiet"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_with_status_130_and_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let child = program()
        .args(["demo", "--flows", "1k", "--packets", "100G", "--arch", "scalebricks"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
