//! The log and the streams against tshark: for every conversation that tshark calls complete, the bytes of both directions
//! equal tshark's "follow stream", and the packets that made the state are those of tshark's `tcp.completeness`.
//!
//! `exceptions.csv` lists the conversations that differ, one by one, with a reason. Each reason has a rule that the
//! difference must obey. An exception that is not needed fails the test.

use super::records;
use crate::harness::{repository, said, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A conversation as tshark sees it.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Source, port, destination, port of the first packet.
    pub(super) ends: (String, String, String, String),
    /// Packets, and their times, nanoseconds.
    first_ns: u64,
    packets: u64,
    pub(super) completeness: u64,
    pub(super) streams: [Stream; 2],
}

/// What tshark shows of one direction.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) bytes: Vec<u8>,
    pub(super) missing: u64,
}

/// The bits of `tcp.completeness` that make a conversation complete: the whole handshake, and FIN or RST.
pub(super) const fn is_complete(completeness: u64) -> bool {
    completeness & 7 == 7 && completeness & (16 | 32) != 0
}

/// Whether tshark is there.
pub(super) fn has_tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert_ne!(
            std::env::var("REQUIRE_TSHARK").as_deref(),
            Ok("1"),
            "no tshark (on Debian: apt install tshark)"
        );
        // Past the runner, which keeps what tests print to itself.
        let _ = writeln!(std::io::stderr(), "skipped: no tshark (on Debian: apt install tshark)");
    }
    found
}

pub(super) fn tshark(capture: &Path, args: &[String]) -> String {
    let output = Command::new("tshark").arg("-r").arg(capture).args(args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// All conversations by number. Completeness is final only after two passes.
pub(super) fn conversations(capture: &Path) -> BTreeMap<u64, Conversation> {
    let fields = [
        "tcp.stream",
        "ip.src",
        "ipv6.src",
        "tcp.srcport",
        "ip.dst",
        "ipv6.dst",
        "tcp.dstport",
        "tcp.completeness",
        "frame.time_epoch",
    ];
    let mut args: Vec<String> = ["-2", "-Y", "tcp", "-T", "fields"].map(str::to_owned).to_vec();
    for field in fields {
        args.extend(["-e".to_owned(), field.to_owned()]);
    }
    let mut all: BTreeMap<u64, Conversation> = BTreeMap::new();
    for line in tshark(capture, &args).lines() {
        let [stream, src4, src6, sport, dst4, dst6, dport, completeness, time] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        // A quoted segment inside ICMP has no stream.
        let Ok(stream) = stream.parse() else { continue };
        let conversation = all.entry(stream).or_default();
        if conversation.packets == 0 {
            let end = |v4: &str, v6: &str| if v4.is_empty() { v6.to_owned() } else { v4.to_owned() };
            conversation.ends = (end(src4, src6), sport.to_owned(), end(dst4, dst6), dport.to_owned());
            let (seconds, fraction) = time.split_once('.').unwrap();
            conversation.first_ns = format!("{seconds}{fraction:0<9}").parse().unwrap();
        }
        conversation.packets += 1;
        conversation.completeness = completeness.parse().unwrap_or(0);
    }
    all
}

/// Reads "follow stream" for all complete conversations.
pub(super) fn follow(capture: &Path, all: &mut BTreeMap<u64, Conversation>) {
    let complete = all.iter().filter(|(_, one)| is_complete(one.completeness));
    let mut args = vec!["-q".to_owned()];
    for (number, _) in complete {
        args.extend(["-z".to_owned(), format!("follow,tcp,raw,{number}")]);
    }
    let (mut number, mut is_swapped) = (0, false);
    let shown = tshark(capture, &args);
    for line in shown.lines() {
        if let Some(filter) = line.strip_prefix("Filter: tcp.stream eq ") {
            number = filter.parse().unwrap();
        } else if let Some(node) = line.strip_prefix("Node 0: ") {
            let (source, port, ..) = &all[&number].ends;
            is_swapped =
                ![format!("{source}:{port}"), format!("[{source}]:{port}")].contains(&node.to_owned());
        } else if let Some(bytes) = hex(line.trim_start_matches('\t')) {
            let node = usize::from(line.starts_with('\t'));
            let stream = &mut all.get_mut(&number).unwrap().streams[node ^ usize::from(is_swapped)];
            match placeholder(&bytes) {
                Some(missing) => stream.missing += missing,
                None => stream.bytes.extend(bytes),
            }
        }
    }
}

/// The bytes of a line of hexadecimal digits.
fn hex(line: &str) -> Option<Vec<u8>> {
    if line.is_empty() || !line.len().is_multiple_of(2) {
        return None;
    }
    (0..line.len()).step_by(2).map(|at| u8::from_str_radix(line.get(at..at + 2)?, 16).ok()).collect()
}

/// The number of missing bytes, if the bytes are tshark's text about them.
fn placeholder(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?.strip_prefix('[')?;
    text.split_once(" bytes missing in capture file]")?.0.parse().ok()
}

/// Exceptions of a capture: reasons by conversation.
pub(super) fn exceptions(capture: &str) -> BTreeMap<u64, String> {
    let path = repository("crates/scalebricks/tests/flows/exceptions.csv");
    let table = std::fs::read_to_string(path).unwrap();
    let rows = table.lines().skip(1).map(|line| line.splitn(4, ',').collect::<Vec<_>>());
    let rows = rows.filter(|row| row[0] == capture);
    rows.map(|row| (row[1].parse().unwrap(), row[2].to_owned())).collect()
}

/// The same bits as tshark's, from the log.
fn completeness(record: &Value) -> u64 {
    let tcp = &record["tcp"];
    let is = |value: &Value| u64::from(value.as_bool().unwrap());
    let streams = &tcp["stream_bytes"];
    let has_data = streams["forward"] != 0 || streams["reverse"] != 0;
    is(&tcp["syn"]["forward"])
        | is(&tcp["syn"]["reverse"]) << 1
        | is(&tcp["syn_acknowledged"]["reverse"]) << 2
        | u64::from(has_data) << 3
        | (is(&tcp["fin"]["forward"]) | is(&tcp["fin"]["reverse"])) << 4
        | u64::from(!tcp["reset_by"].is_null()) << 5
}

/// The bytes of our streams as tshark shows them.
pub(super) fn ours(folder: &Path, record: &Value) -> [Stream; 2] {
    ["forward", "reverse"].map(|direction| {
        let path = folder.join(format!("streams/{:06}-{direction}", record["flow"].as_u64().unwrap()));
        let missing = record["tcp"]["missing_bytes"][direction].as_u64().unwrap();
        Stream { bytes: std::fs::read(path).unwrap_or_default(), missing }
    })
}

/// Whether the difference of a conversation is what its reason says.
fn obeys(reason: &str, record: Option<&Value>, ours: &[Stream; 2], theirs: &[Stream; 2]) -> bool {
    let both = |rule: fn(&Stream, &Stream) -> bool| ours.iter().zip(theirs).all(|(a, b)| rule(a, b));
    let anomaly =
        |name: &str| record.is_some_and(|record| record["anomalies"][name].as_u64().unwrap_or(0) > 0);
    match reason {
        // It is inside a tunnel, whose packets are one flow here.
        "tunnel" => record.is_none(),
        // tshark goes on after a reset. What the resetting end was sent then was never read.
        "after_reset" => anomaly("after_reset") && both(|a, b| b.bytes.starts_with(&a.bytes)),
        // tshark leaves out what waits behind a gap when the conversation ends.
        "waits_at_end" => both(|a, b| a.bytes.starts_with(&b.bytes) && a.missing >= b.missing),
        // tshark takes the octets behind a reset's header as data of the stream.
        "data_in_reset" => both(|a, b| b.bytes.starts_with(&a.bytes) && b.bytes.len() - a.bytes.len() < 8),
        _ => false,
    }
}

/// Compares a capture; returns how many conversations are complete, and how many are equal.
fn compare(capture: &Path, name: &str) -> [usize; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = capture.display().to_string();
    let args = ["flows", "--pcap", &path, "--log", "log", "--streams", "streams", "-q"];
    said(folder.path(), &args);
    let log = records(&std::fs::read_to_string(folder.path().join("log")).unwrap());
    let mut theirs = conversations(capture);
    follow(capture, &mut theirs);
    let mut exceptions = exceptions(name);
    let (mut complete, mut equal, mut wrong) = (0, 0, Vec::new());
    for (number, conversation) in theirs.iter().filter(|(_, one)| is_complete(one.completeness)) {
        complete += 1;
        let record = log.iter().find(|record| is_of(record, conversation));
        let streams = record.map(|record| ours(folder.path(), record)).unwrap_or_default();
        let states = record.map_or(0, completeness);
        let is_equal = streams == conversation.streams && states == conversation.completeness;
        let reason = exceptions.remove(number);
        match reason {
            None if is_equal => equal += 1,
            Some(reason) if !is_equal && obeys(&reason, record, &streams, &conversation.streams) => {}
            reason => wrong.push(format!(
                "{name},{number}: {reason:?}, equal {is_equal}, states {states} and {}, bytes {:?} and {:?}, {record:?}",
                conversation.completeness,
                streams.each_ref().map(|stream| (stream.bytes.len(), stream.missing)),
                conversation.streams.each_ref().map(|stream| (stream.bytes.len(), stream.missing)),
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(exceptions.is_empty(), "exceptions of no complete conversation: {exceptions:?}");
    [complete, equal]
}

/// Whether a record is of a conversation: the same first packet.
pub(super) fn is_of(record: &Value, conversation: &Conversation) -> bool {
    let (source, source_port, destination, destination_port) = &conversation.ends;
    record["protocol"] == "tcp"
        && record["source"] == source.as_str()
        && record["destination"] == destination.as_str()
        && record["source_port"].as_u64() == source_port.parse().ok()
        && record["destination_port"].as_u64() == destination_port.parse().ok()
        && record["first_ns"] == conversation.first_ns
}

#[test]
fn complete_conversations_of_the_sample_equal_tshark_s() {
    if has_tshark() {
        let [complete, equal] = compare(&repository("examples/flows/sample.pcap.gz"), "sample");
        assert!(complete >= 12, "{complete} complete conversations");
        assert!(equal >= 8, "{equal} of {complete} are equal");
    }
}

/// tshark, an independent collector, reads the IPFIX file: the same flows, packets and bytes as in the log.
#[test]
fn tshark_reads_the_ipfix_file() {
    if !has_tshark() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sample = repository("examples/flows/sample.pcap.gz").display().to_string();
    said(folder.path(), &["flows", "--pcap", &sample, "--log", "log", "--ipfix", "flows.ipfix", "-q"]);
    let log = records(&std::fs::read_to_string(folder.path().join("log")).unwrap());
    let fields =
        ["flow_id", "srcport", "dstport", "permanent_octets", "permanent_packets", "flow_end_reason"];
    let mut args = ["-T", "fields"].map(str::to_owned).to_vec();
    for field in fields {
        args.extend(["-e".to_owned(), format!("cflow.{field}")]);
    }
    // A message is a line, in which a field has its values in all records.
    let mut columns = vec![Vec::new(); fields.len()];
    for line in tshark(&folder.path().join("flows.ipfix"), &args).lines() {
        for (column, values) in columns.iter_mut().zip(line.split('\t')) {
            column.extend(values.split(',').map(|value| value.parse::<u64>().unwrap()));
        }
    }
    let of = |field: &str| -> Vec<u64> { log.iter().map(|record| record[field].as_u64().unwrap()).collect() };
    let both = |field: &str| -> Vec<u64> {
        let values = log.iter().flat_map(|record| ["forward", "reverse"].map(|from| &record[field][from]));
        values.map(|value| value.as_u64().unwrap()).collect()
    };
    let reasons = log.iter().map(|record| match record["ended"].as_str().unwrap() {
        "timed_out" => 1,
        "input_ended" => 4,
        _ => 3,
    });
    assert_eq!(columns[0], of("flow"));
    assert_eq!(columns[1], of("source_port"));
    assert_eq!(columns[2], of("destination_port"));
    assert_eq!(columns[3], both("bytes"));
    assert_eq!(columns[4], both("packets"));
    assert_eq!(columns[5], reasons.collect::<Vec<_>>());
}

/// Real traffic of many networks, which is no part of the repository.
#[test]
fn complete_conversations_of_real_traffic_equal_tshark_s() {
    // Beside the repository; tests run in the folder of their package.
    let capture = Path::new("../../../shared/data/traffic.pcap.gz");
    if !capture.exists() {
        let _ = writeln!(std::io::stderr(), "skipped: no captures of real traffic: no {}", capture.display());
        return;
    }
    if has_tshark() {
        let [complete, equal] = compare(&capture.canonicalize().unwrap(), "traffic");
        println!("{equal} of {complete} complete conversations are equal");
        assert!(equal * 100 >= complete * 90, "{equal} of {complete} are equal");
    }
}
