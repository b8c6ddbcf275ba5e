//! The configurations in `examples` run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use etherparse::PacketBuilder;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::click::run::{End, run};
use scalebricks_graph::{Clock, Ledger, Worker};
use scalebricks_io::{CaptureReader, CaptureWriter, Packet, Pool};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[test]
fn every_example_becomes_a_graph() {
    let registry = scalebricks_elements::registry::<Packet>();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folders = [folder.clone(), folder.join("router"), folder.join("flows")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let examples: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "click")).collect();
    assert!(examples.len() >= 4);
    for path in examples {
        let text = std::fs::read(&path).unwrap();
        let router = Router::read(&path.display().to_string(), &text, &[], &registry);
        let router = router.unwrap_or_else(|errors| panic!("{errors}"));
        router.graph(&registry, &mut Ledger::new()).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

#[test]
fn kinds_of_packets_are_counted_and_names_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let frame = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = Vec::new();
        write(&mut frame);
        frame
    };
    let ip = || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([192, 0, 2, 1], [192, 0, 2, 2], 9);
    let udp = |port| frame(&|frame| ip().udp(4_000, port).write(frame, b"x").unwrap());
    let frames = [
        udp(53),
        udp(80),
        frame(&|frame| ip().tcp(1, 2, 3, 4).write(frame, b"x").unwrap()),
        frame(&|frame| ip().icmpv4_echo_request(1, 2).write(frame, b"x").unwrap()),
        udp(53),
        [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat(),
    ];
    let mut writer = CaptureWriter::create(path("in.pcap")).unwrap();
    for (frame, at) in frames.iter().zip(1..) {
        writer.write_frame(Duration::from_millis(at), frame).unwrap();
    }
    writer.finish().unwrap();
    let names = path("names.pcap").display().to_string();
    let text = include_str!("../../../examples/kinds.click").replace("names.pcap", &names);
    let registry = scalebricks_elements::registry();
    let router = Router::read("kinds.click", text.as_bytes(), &[], &registry).unwrap();
    let mut graph = router.graph(&registry, &mut Ledger::new()).unwrap();
    let mut outside = Devices::new(Clock::Captures);
    outside
        .receive(None, ReceiveBinding::Capture(path("in.pcap")))
        .send("eth1", SendBinding::Capture(path("out.pcap")));
    router.open(&mut graph, &mut outside).unwrap();
    let mut worker = Worker::new(graph, Box::new(Pool::new(500, 2_048).unwrap()), ());
    assert_eq!(run(&mut worker, Clock::Captures, None, &AtomicBool::new(false)), End::Done);
    outside.finish().unwrap();
    let count = |element: &str| worker.graph_mut().read(element, "count").unwrap();
    assert_eq!(["names", "tcp", "icmp", "other"].map(count), ["2", "1", "1", "1"]);
    let read =
        |name| CaptureReader::open(path(name)).unwrap().map(|frame| frame.unwrap().data).collect::<Vec<_>>();
    assert_eq!(read("out.pcap"), frames[..5]);
    assert_eq!(read("names.pcap"), [frames[0].clone(), frames[4].clone()]);
}
