//! The elements that reassemble, run by the example of a Click configuration, against tshark.

use super::records;
use super::tshark::{
    Stream, conversations, exceptions, follow, has_tshark, is_complete, is_of, ours, tshark,
};
use crate::harness::{repository, said};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use scalebricks_io::CaptureReader;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

/// Source and destination of a direction of a connection.
type Way = (String, String, String, String);

/// A stream as its segments follow each other in a file.
#[derive(Debug, Default)]
struct Dumped {
    bytes: Vec<u8>,
    missing: u64,
    next: Option<u32>,
}

/// The payloads of all segments, in the order of the file: nothing is put in order here.
fn streams(file: &Path) -> BTreeMap<Way, Dumped> {
    let mut all: BTreeMap<Way, Dumped> = BTreeMap::new();
    for frame in CaptureReader::open(file).unwrap() {
        let frame = frame.unwrap().data;
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let (src, dst): (IpAddr, IpAddr) = match packet.net.unwrap() {
            NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Arp(_) => panic!("ARP"),
        };
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
        let port = |port: u16| port.to_string();
        let way = (src.to_string(), port(tcp.source_port()), dst.to_string(), port(tcp.destination_port()));
        let stream = all.entry(way).or_default();
        let data = tcp.sequence_number().wrapping_add(u32::from(tcp.syn()));
        // Neither back nor over what has come.
        let gap = stream.next.map_or(0, |next| data.wrapping_sub(next));
        assert!(gap < 1 << 30, "{gap}");
        stream.missing += u64::from(gap);
        stream.bytes.extend_from_slice(tcp.payload());
        stream.next = Some(data.wrapping_add(tcp.payload().len() as u32));
    }
    all
}

/// The example, with buffers for segments that a sender's card would have cut.
fn run(capture: &Path, folder: &Path) {
    let file = repository("examples/flows/streams.click").display().to_string();
    let input = format!("in={}", capture.display());
    said(folder, &["graph", "run", &file, "--pcap", &input, "--packet-bytes", "65535", "--quiet"]);
}

/// The dumped segments, one behind the other, are the streams of `scalebricks flows`, and what tshark's "follow stream" shows
/// of the original capture but for the listed exceptions.
#[test]
fn dumped_streams_of_the_sample_equal_tshark_s() {
    if !has_tshark() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sample = repository("examples/flows/sample.pcap.gz");
    run(&sample, folder);
    let dumped = streams(&folder.join("streams.pcap"));
    let path = sample.display().to_string();
    said(folder, &["flows", "--pcap", &path, "--log", "log", "--streams", "streams", "-q"]);
    let log = records(&std::fs::read_to_string(folder.join("log")).unwrap());
    let mut theirs = conversations(&sample);
    follow(&sample, &mut theirs);
    let (exceptions, mut ends, mut equal) = (exceptions("sample"), BTreeSet::new(), 0);
    for (number, conversation) in theirs.iter().filter(|(_, one)| is_complete(one.completeness)) {
        let (source, source_port, destination, destination_port) = conversation.ends.clone();
        assert!(ends.insert(conversation.ends.clone()), "two connections of the same ends");
        let back = (destination, destination_port, source, source_port);
        let logged = ours(folder, log.iter().find(|record| is_of(record, conversation)).unwrap());
        for (at, way) in [&conversation.ends, &back].into_iter().enumerate() {
            let dumped = Stream { bytes: dumped[way].bytes.clone(), missing: dumped[way].missing };
            assert!(dumped == logged[at], "{way:?}: {} bytes", dumped.bytes.len());
            if !exceptions.contains_key(number) {
                assert!(dumped == conversation.streams[at], "{way:?}: {} bytes", dumped.bytes.len());
            }
        }
        equal += usize::from(!exceptions.contains_key(number));
    }
    assert!(ends.len() >= 12 && equal >= 8, "{equal} of {} complete conversations", ends.len());
}

/// The ends of packets of TCP right behind an Ethernet header, which the example sees: without tags and tunnels.
fn plain_ends(capture: &Path) -> BTreeSet<Way> {
    let frames = CaptureReader::open(capture).unwrap().map(|frame| frame.unwrap().data);
    let of = |frame: Vec<u8>| {
        let packet = SlicedPacket::from_ethernet(&frame).ok().filter(|packet| packet.link_exts.is_empty())?;
        let (src, dst): (IpAddr, IpAddr) = match packet.net? {
            NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Arp(_) => return None,
        };
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
        let (src_port, dst_port) = (tcp.source_port().to_string(), tcp.destination_port().to_string());
        Some((src.to_string(), src_port, dst.to_string(), dst_port))
    };
    frames.filter_map(of).collect()
}

/// The dumped streams of real traffic are those of the log, which `tshark.rs` compares with tshark. A dump of segments cannot
/// show a gap before its first byte.
#[test]
fn dumped_streams_of_real_traffic_equal_the_log_s() {
    // Beside the repository; tests run in the folder of their package.
    let capture = Path::new("../../../shared/data/traffic.pcap.gz");
    if !capture.exists() {
        let says = format!("skipped: no captures of real traffic: no {}\n", capture.display());
        std::io::Write::write_all(&mut std::io::stderr(), says.as_bytes()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, capture) = (folder.path(), capture.canonicalize().unwrap());
    run(&capture, folder);
    let dumped = streams(&folder.join("streams.pcap"));
    let path = capture.display().to_string();
    said(folder, &["flows", "--pcap", &path, "--log", "log", "--streams", "streams", "-q"]);
    let mut by_ends: BTreeMap<Way, Vec<[Stream; 2]>> = BTreeMap::new();
    for record in records(&std::fs::read_to_string(folder.join("log")).unwrap()) {
        if record["protocol"] != "tcp" {
            continue;
        }
        let end = |name: &str| match &record[name] {
            serde_json::Value::String(text) => text.clone(),
            number => number.to_string(),
        };
        let ends = (end("source"), end("source_port"), end("destination"), end("destination_port"));
        by_ends.entry(ends).or_default().push(ours(folder, &record));
    }
    let plain = plain_ends(&capture);
    let (mut compared, mut apart, mut wrong) = (0, 0, Vec::new());
    for (ends, logged) in &by_ends {
        let back = (ends.2.clone(), ends.3.clone(), ends.0.clone(), ends.1.clone());
        let is_plain = plain.contains(ends) || plain.contains(&back);
        // A dump of two connections of the same ends cannot be told apart.
        let [logged] = &logged[..] else {
            apart += 1;
            continue;
        };
        if !is_plain || by_ends.contains_key(&back) {
            apart += 1;
            continue;
        }
        compared += 1;
        for (way, logged) in [ends, &back].into_iter().zip(logged) {
            let none = Dumped::default();
            let dumped = dumped.get(way).unwrap_or(&none);
            if dumped.bytes != logged.bytes || dumped.missing > logged.missing {
                let (there, here) = (dumped.bytes.len(), logged.bytes.len());
                wrong.push(format!("{way:?}: {there}, {} and {here}, {}", dumped.missing, logged.missing));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    println!("{compared} connections compared; {apart} are in tunnels, have tags, or share their ends");
    assert!(compared >= 2_900 && apart <= 60, "{compared} compared, {apart} not");
}

/// The dumped datagrams are those that tshark reassembles, and no fragment is left.
#[test]
fn dumped_datagrams_of_the_sample_equal_tshark_s() {
    if !has_tshark() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sample = repository("examples/flows/sample.pcap.gz");
    run(&sample, folder.path());
    let fields = |capture: &Path, fields: &[&str]| {
        let mut args = vec!["-T", "fields"];
        for field in fields {
            args.extend(["-e", field]);
        }
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let lines = tshark(capture, &args);
        lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let theirs = fields(&sample, &["ip.reassembled.data", "ipv6.reassembled.data"]);
    assert!(theirs.len() >= 4, "{} datagrams in fragments", theirs.len());
    let datagrams = folder.path().join("datagrams.pcap");
    assert!(fields(&datagrams, &["ip.reassembled.data", "ipv6.reassembled.data"]).is_empty());
    let long = CaptureReader::open(&datagrams).unwrap().filter_map(|frame| {
        let frame = frame.unwrap().data;
        let header_len = if frame[12] == 8 { 20 } else { 40 };
        (frame.len() > 1_514).then(|| hex(&frame[14 + header_len..]))
    });
    assert_eq!(long.collect::<Vec<_>>(), theirs);
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
    }
    text
}
