//! `scalebricks graph` and `scalebricks elements` as users run them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod admin;
mod devices;

use crate::harness::{program, refused, said};
use scalebricks_io::{CaptureReader, CaptureWriter};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

/// Frames with times in nanoseconds.
type Frames = Vec<(u64, Vec<u8>)>;

fn write(path: &Path, frames: &Frames) {
    let mut writer = CaptureWriter::create(path).unwrap();
    for (at, frame) in frames {
        writer.write_frame(Duration::from_nanos(*at), frame).unwrap();
    }
    writer.finish().unwrap();
}

fn read(path: &Path) -> Frames {
    let frame = |frame: Result<scalebricks_io::CapturedFrame, _>| {
        let frame = frame.unwrap();
        (frame.timestamp.as_nanos() as u64, frame.data)
    };
    CaptureReader::open(path).unwrap().map(frame).collect()
}

/// UDP from many sources to one destination, a millisecond apart.
fn sample(count: u8) -> Frames {
    let frame = |n: u8| {
        let mut frame = Vec::new();
        etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([192, 0, 2, n], [198, 51, 100, 7], 64)
            .udp(1_000, 2_000)
            .write(&mut frame, &[n; 20])
            .unwrap();
        (1_700_000_000_000_000_001 + u64::from(n) * 1_000_000, frame)
    };
    (0..count).map(frame).collect()
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.to_str().unwrap().to_owned()
}

fn element<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["elements"].as_array().unwrap();
    all.iter().find(|element| element["name"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    names.sort();
    names
}

#[test]
fn a_capture_passes_an_example_unchanged_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let frames = sample(200);
    write(&folder.join("in.pcap"), &frames);
    let file = example("count.click");
    let args = ["graph", "run", &file, "--pcap", "in=in.pcap", "--pcap", "out=out.pcapng.gz"];
    let json = said(folder, &[&args[..], &["--json", "--read", "all.byte_count", "--quiet"]].concat());
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&report["clock"], &report["ended"], &report["held"]),
        (&"captures".into(), &"done".into(), &0.into())
    );
    assert_eq!(report["read"]["all.byte_count"], (200 * 62).to_string());
    let count = |name| element(&report, name)["counters"]["packets"].as_u64().unwrap();
    assert_eq!((count("all"), count("one") + count("other")), (200, 200));
    assert!(count("one") > 50 && count("other") > 50, "{report}");
    assert_eq!(read(&folder.join("out.pcapng.gz")), frames);
    assert_eq!(read(&folder.join("seen.pcap")), frames);
    assert_eq!(names(folder), ["in.pcap", "out.pcapng.gz", "seen.pcap"].map(PathBuf::from));
    let table = said(folder, &args);
    assert!(table.contains("HashSwitch") && table.contains("written: out.pcapng.gz"), "{table}");
}

/// 1,010 packets of the kinds that `examples/kinds.click` distinguishes, a millisecond apart.
fn kinds() -> Frames {
    let ip = || etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([192, 0, 2, 1], [192, 0, 2, 2], 9);
    let frame = |n: u64| {
        let mut frame = Vec::new();
        match n % 101 {
            0 => frame = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat(),
            1..=6 => ip().udp(4_000, 53).write(&mut frame, b"name").unwrap(),
            7..=10 => ip().icmpv4_echo_request(1, 2).write(&mut frame, b"echo").unwrap(),
            11..=60 => ip().tcp(1, 2, 3, 4).write(&mut frame, b"some").unwrap(),
            _ => ip().udp(4_000, 4_789).write(&mut frame, b"more").unwrap(),
        }
        (n * 1_000_000, frame)
    };
    (0..1_010).map(frame).collect()
}

#[test]
fn the_page_on_click_shows_the_output_of_its_example() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&folder.join("capture.pcap"), &kinds());
    let file = example("kinds.click");
    let told = said(folder, &["graph", "run", &file, "--pcap", "in=capture.pcap", "--pcap", "out=out.pcap"]);
    let page = example("../docs/click.md");
    let mut shown_page = std::fs::read_to_string(&page).unwrap();
    let start =
        "```text\n$ scalebricks graph run examples/kinds.click --pcap in=capture.pcap --pcap out=out.pcap\n";
    let (before, behind) = shown_page.split_once(start).unwrap();
    let (shown, behind) = behind.split_once("```\n").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() && shown != told {
        let text = format!("{before}{start}{told}```\n{behind}");
        std::fs::write(&page, &text).unwrap();
        shown_page = text;
    }
    assert!(
        shown_page.contains(&format!("{start}{told}```")),
        "run with UPDATE_DOCS=1; docs/click.md does not show\n{told}"
    );
}

#[test]
fn a_check_opens_nothing_and_says_what_is_wrong_where() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let told = said(folder, &["graph", "check", &example("count.click")]);
    assert!(told.ends_with(": 10 elements, 10 connections, 2 of them pull\n"), "{told}");
    assert_eq!(names(folder), Vec::<PathBuf>::new());
    std::fs::write(
        folder.join("bad.click"),
        "FromDevice(eth0)\n  -> Qeue(10) -> Discard;\nX :: Queue($N);\n",
    )
    .unwrap();
    let (status, error) = refused(folder, &["graph", "check", "bad.click"]);
    assert_eq!(status, 1);
    let expected = "bad.click:2:6: unknown element class `Qeue`; did you mean `Queue`?\n      -> Qeue(10) -> Discard;\n         ^~~~";
    assert!(error.contains(expected), "{error}");
    std::fs::write(folder.join("var.click"), "Idle -> Queue($N) -> Discard").unwrap();
    assert_eq!(refused(folder, &["graph", "check", "var.click"]).0, 1);
    said(folder, &["graph", "check", "var.click", "--set", "N=5"]);
    std::fs::write(folder.join("kept"), "kept").unwrap();
    let prints = "Idle -> Print(OUTFILE made) -> Discard; Script(stop, OUTFILE kept)";
    std::fs::write(folder.join("prints.click"), prints).unwrap();
    said(folder, &["graph", "check", "prints.click"]);
    assert!(!folder.join("made").exists() && std::fs::read(folder.join("kept")).unwrap() == b"kept");
    let (status, error) = refused(folder, &["graph", "check", "missing.click"]);
    assert!(status == 1 && error.contains("missing.click"), "{error}");
}

#[test]
fn what_is_bound_to_no_device_or_twice_is_refused_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&folder.join("in.pcap"), &sample(3));
    std::fs::write(folder.join("r.click"), "FromDevice(eth0) -> Queue -> ToDevice(eth1);").unwrap();
    let refused = |pcaps: &[&str]| {
        let pcaps = pcaps.iter().flat_map(|pcap| ["--pcap", pcap]);
        let args: Vec<&str> = ["graph", "run", "r.click"].into_iter().chain(pcaps).collect();
        let refused = refused(folder, &args);
        assert_eq!(names(folder), ["in.pcap", "r.click"].map(PathBuf::from), "{args:?}");
        refused
    };
    let (status, error) = refused(&["in=in.pcap"]);
    assert!(
        status == 1 && error.contains("r.click:1:30: ") && error.contains("--pcap out:eth1=FILE"),
        "{error}"
    );
    let (_, error) = refused(&["in=absent.pcap", "out=x.pcap"]);
    assert!(error.contains("r.click:1:1: ") && error.contains("absent.pcap"), "{error}");
    let (_, error) = refused(&["in=in.pcap", "out=x.txt"]);
    assert!(error.contains("x.txt: a capture file's name ends in .pcap"), "{error}");
    let cases: [&[&str]; 5] = [
        &["in=in.pcap", "in=in.pcap", "out=x.pcap"],
        &["in=in.pcap", "in:eth7=in.pcap", "out=x.pcap"],
        &["in:eth0=in.pcap", "in=in.pcap", "out=x.pcap"],
        &["in=in.pcap", "out=-"],
        &["eth0=in.pcap"],
    ];
    for pcaps in cases {
        assert_eq!(refused(pcaps).0, 2, "{pcaps:?}");
    }
    said(folder, &["graph", "run", "r.click", "--pcap", "in=in.pcap", "--pcap", "out:eth1=-"]);
    let (status, error) = crate::harness::refused(
        folder,
        &["graph", "run", "r.click", "--pcap", "in=r.click", "--pcap", "out:eth1=-"],
    );
    assert!(status == 1 && error.contains("neither a pcap nor a pcapng file"), "{error}");
}

#[test]
fn a_capture_that_breaks_off_is_told_of_and_what_came_before_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&folder.join("in.pcap"), &sample(5));
    let bytes = std::fs::read(folder.join("in.pcap")).unwrap();
    std::fs::write(folder.join("in.pcap"), &bytes[..bytes.len() - 1]).unwrap();
    std::fs::write(folder.join("r.click"), "FromDump(in.pcap) -> ToDump(out.pcap);").unwrap();
    let (status, error) = refused(folder, &["graph", "run", "r.click"]);
    assert!(status == 1 && error.contains("FromDump@1: in.pcap: record 5: "), "{error}");
    assert_eq!(read(&folder.join("out.pcap")).len(), 4);
}

#[test]
fn ctrl_c_and_a_duration_end_a_run_that_would_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("r.click"), "RatedSource(RATE 1000) -> c :: Counter -> ToDump(out.pcap);")
        .unwrap();
    let json = said(folder, &["graph", "run", "r.click", "--duration", "0.2", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["ended"], &report["clock"]), (&"elapsed".into(), &"wall".into()));
    let child = program()
        .args(["graph", "run", "r.click", "--json"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !names(folder).iter().any(|name| name.to_string_lossy().starts_with('.')) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ended"], "interrupted");
    let count = element(&report, "c")["counters"]["packets"].as_u64().unwrap();
    assert_eq!(read(&folder.join("out.pcap")).len() as u64, count);
    assert_eq!(names(folder), ["out.pcap", "r.click"].map(PathBuf::from));
}

#[test]
fn elements_are_documented_and_a_wrong_name_is_told_a_right_one() {
    let folder = tempfile::tempdir().unwrap();
    let all = said(folder.path(), &["elements"]);
    assert!(all.lines().any(|line| line.starts_with("Queue ")) && all.contains("AddressInfo"), "{all}");
    let queue = said(folder.path(), &["elements", "Queue"]);
    assert!(queue.starts_with("## Queue\n") && queue.contains("`CAPACITY`"), "{queue}");
    let json: Value = serde_json::from_str(&said(folder.path(), &["elements", "Queue", "--json"])).unwrap();
    assert_eq!(json[0]["parameters"][0]["name"], "CAPACITY");
    let json: Value = serde_json::from_str(&said(folder.path(), &["elements", "--json"])).unwrap();
    // A heading between empty lines precedes those that programs wire.
    assert_eq!(json.as_array().unwrap().len(), all.lines().count() - 3);
    let steer = said(folder.path(), &["elements", "Steer"]);
    assert!(steer.contains("configurations cannot name them") && steer.contains("`other_mac`"), "{steer}");
    let (status, error) = refused(folder.path(), &["elements", "Quue"]);
    assert_eq!((status, error.trim()), (1, "error: there is no element Quue; did you mean Queue?"));
    assert!(refused(folder.path(), &["elements", "Zebra"]).1.contains("lists all"));
}

#[test]
fn help_has_examples() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["graph", "--help"][..], &["graph", "run", "--help"], &["elements", "--help"]] {
        let help = said(folder.path(), args);
        assert!(help.contains("Examples:") && help.lines().count() > 8, "{help}");
    }
}
