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

fn run(capture: &Path, folder: &Path) {
    let file = repository("examples/flows/streams.click").display().to_string();
    let input = format!("in={}", capture.display());
    said(folder, &["graph", "run", &file, "--pcap", &input, "--quiet"]);
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
