//! `scalebricks flows`, as its users run it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod elements;
mod live;
mod tshark;

use crate::harness::{program, refused, repository, said, scalebricks, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Real traffic between two Linux network stacks, over a link that loses, repeats and reorders packets.
fn sample() -> String {
    repository("examples/flows/sample.pcap.gz").display().to_string()
}

/// The records of a log.
fn records(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The flows of the sample, by protocol, ports and IP version.
fn flows(folder: &Path, more: &[&str]) -> Vec<Value> {
    let sample = sample();
    records(&said(folder, &[&["flows", "--pcap", &sample, "--log", "-", "-q"], more].concat()))
}

#[test]
fn the_sample_shows_every_kind_of_flow() {
    let folder = tempfile::tempdir().unwrap();
    let flows = flows(folder.path(), &[]);
    let mut kinds = BTreeMap::new();
    for flow in &flows {
        *kinds.entry(flow["protocol"].as_str().unwrap()).or_insert(0) += 1;
    }
    assert!(["tcp", "udp", "icmp", "icmpv6"].iter().all(|kind| kinds[kind] > 0), "{kinds:?}");
    // A page of 58,890 bytes, over both IP versions, in spite of losses.
    let pages = flows.iter().filter(|flow| flow["tcp"]["stream_bytes"]["reverse"] == 58_890);
    assert_eq!(pages.clone().count(), 2);
    for page in pages {
        assert_eq!(page["tcp"]["missing_bytes"]["reverse"], 0);
        assert!(page["anomalies"]["gap"].as_u64().unwrap() > 0, "{page}");
    }
    // A port that nobody listens at, an address that nobody has, a server that resets.
    let to = |port: u16| flows.iter().filter(move |flow| flow["destination_port"] == port);
    assert!(to(81).all(|flow| flow["ended"] == "reset" && flow["tcp"]["reset_by"] == "reverse"));
    assert!(to(80).any(|flow| flow["state"] == "syn_sent" && flow["destination"] == "192.0.2.9"));
    assert!(to(80).any(|flow| flow["ended"] == "closed"));
}

#[test]
fn totals_balance() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let summary =
        said(folder.path(), &["flows", "--pcap", &sample(), "--log", log.to_str().unwrap(), "--top", "3"]);
    let flows = records(&fs::read_to_string(log).unwrap());
    let sum = |of: &str| -> u64 {
        let both =
            |flow: &Value| flow[of]["forward"].as_u64().unwrap() + flow[of]["reverse"].as_u64().unwrap();
        flows.iter().map(both).sum()
    };
    let first = summary.lines().next().unwrap();
    let numbers: Vec<u64> =
        first.split([' ', ':']).filter_map(|word| word.replace(',', "").parse().ok()).collect();
    let [frames, _, tracked, began] = numbers[..] else { panic!("{first}") };
    assert_eq!(began as usize, flows.len(), "{first}");
    // Every frame is in a flow, or has the name of why it is not.
    let line = |title: &str| -> u64 {
        let counters = summary.lines().find_map(|line| line.strip_prefix(title)).unwrap_or_default();
        counters.split([' ', ',']).filter_map(|word| word.parse::<u64>().ok()).sum()
    };
    assert_eq!(frames, tracked + line("in no flow:"), "{summary}");
    assert_eq!(tracked, sum("packets") + line("ICMP:"), "{summary}");
}

#[test]
fn streams_are_files() {
    let folder = tempfile::tempdir().unwrap();
    let flows = flows(folder.path(), &["--streams", "out"]);
    let page = flows.iter().find(|flow| flow["tcp"]["stream_bytes"]["reverse"] == 58_890).unwrap();
    let bytes =
        fs::read(folder.path().join(format!("out/{:06}-reverse", page["flow"].as_u64().unwrap()))).unwrap();
    let content = text(&bytes);
    let lines = || content.split_inclusive('\n');
    assert!(lines().enumerate().all(|(number, line)| line == format!("line {number} of a page\n")));
    assert_eq!(lines().count(), 3_000);
    // Streams of another run would be appended to these.
    let (status, error) = refused(folder.path(), &["flows", "--pcap", &sample(), "--streams", "out"]);
    assert_eq!(status, 2);
    assert!(error.contains("is not empty"), "{error}");
}

#[test]
fn options_reach_the_tracker() {
    let folder = tempfile::tempdir().unwrap();
    // With one young flow at a time, unanswered ones go.
    let evicted = flows(folder.path(), &["--young-flows", "1"]);
    assert!(evicted.iter().any(|flow| flow["ended"] == "evicted"));
    let quick = flows(folder.path(), &["--timeout", "udp=0", "--timeout", "udp-one-way=0"]);
    assert!(quick.iter().any(|flow| flow["protocol"] == "udp" && flow["ended"] == "timed_out"));
    for wrong in [["--timeout", "udp"], ["--timeout", "x=1"], ["--timeout", "udp=x"], ["--flows", "0"]] {
        let (status, _) = refused(folder.path(), &[&["flows", "--pcap", "x"], &wrong[..]].concat());
        assert_eq!(status, 2, "{wrong:?}");
    }
}

/// Several cores give what one core gives: log, streams, summary. Flows that end with the input come in another order.
#[test]
fn several_cores_give_the_output_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, cores: &[&str]| {
        let (log, streams) = (format!("{name}.jsonl"), format!("{name}.streams"));
        let sample = sample();
        let args = ["flows", "--pcap", &sample, "--log", &log, "--streams", &streams];
        let summary = said(folder.path(), &[&args[..], cores].concat());
        let log = fs::read_to_string(folder.path().join(log)).unwrap();
        let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        let files: BTreeMap<_, _> = fs::read_dir(folder.path().join(streams))
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_owned(), fs::read(&path).unwrap()))
            .collect();
        (lines, files, summary)
    };
    let alone = run("alone", &[]);
    assert!(alone.0.len() > 10 && alone.1.len() > 4);
    for cores in ["1", "2", "5"] {
        let several = run(cores, &["--cores", cores]);
        assert!(several == alone, "{cores} cores differ from one:\n{}\n{}", several.2, alone.2);
    }
    let (status, _) = refused(folder.path(), &["flows", "--pcap", "x", "--cores", "0"]);
    assert_eq!(status, 2);
}

/// A capture that is cut at any place: what is before the cut is logged, and the status says that it is cut.
#[test]
fn cut_captures_are_logged_up_to_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = {
        use std::io::Read;
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(fs::File::open(sample()).unwrap()).read_to_end(&mut bytes).unwrap();
        bytes
    };
    let cut = folder.path().join("cut.pcap");
    let mut flows = 0;
    for len in [30, 40, 24 + 16 + 60, 10_000, 10_001, 100_000, bytes.len() - 1] {
        fs::write(&cut, &bytes[..len]).unwrap();
        let output = scalebricks(folder.path(), &["flows", "--pcap", "cut.pcap", "--log", "-", "-q"]);
        let error = text(&output.stderr);
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(1), "{error}");
            assert!(error.contains("cut.pcap: record") && error.contains("in the middle"), "{error}");
        }
        let now = records(&text(&output.stdout)).len();
        assert!(now >= flows, "{now} flows of {len} bytes, {flows} of fewer");
        flows = now;
    }
    assert!(flows > 20);
    for (name, content) in [("empty", ""), ("text", "no capture")] {
        fs::write(folder.path().join(name), content).unwrap();
        let (status, error) = refused(folder.path(), &["flows", "--pcap", name]);
        assert_eq!(status, 1);
        assert!(error.contains("neither a pcap nor a pcapng file"), "{error}");
    }
    let (status, error) = refused(folder.path(), &["flows", "--pcap", "missing"]);
    assert_eq!((status, error.matches("missing").count()), (1, 1), "{error}");
}

#[test]
fn ctrl_c_ends_a_run_with_what_it_has() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::Write;
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    // A pipe that stays open: the run waits for more frames.
    let pipe = folder.path().join("pipe.pcap");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let child = program()
        .args(["flows", "--pcap", "pipe.pcap", "--log", "log"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let mut header = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    header.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]);
    input.write_all(&header).unwrap();
    // One frame of UDP, many times, until the signal is noticed.
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2, 0, 5, 0, 53, 0, 8, 0, 0]);
    let mut record = vec![0; 8];
    record.extend_from_slice(&(frame.len() as u32).to_le_bytes().repeat(2));
    record.extend_from_slice(&frame);
    let burst = record.repeat(1_024);
    input.write_all(&burst).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // The run closes the pipe when it ends.
    while input.write_all(&burst).is_ok() {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let flows = records(&fs::read_to_string(folder.path().join("log")).unwrap());
    assert_eq!(flows.len(), 1);
    assert!(text(&output.stdout).contains("input_ended 1"));
}
