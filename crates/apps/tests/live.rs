//! Replacement of configurations while packets flow.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::click::live::{LiveRouter, ReplaceError};
use scalebricks_graph::{Clock, Worker};
use scalebricks_io::{
    Burst, CaptureReader, CaptureWriter, MemoryPort, Packet, PacketBuf, Pool, RxPort, memory_port_pair,
};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn start(text: &str, outside: Devices<Packet>) -> (Arc<LiveRouter<Packet>>, Worker<Packet>) {
    let registry = scalebricks_elements::registry::<Packet>();
    let router = Router::read("r.click", text.as_bytes(), &[], &registry).unwrap();
    let pool = Box::new(Pool::new(2_000, 200).unwrap());
    let (live, worker) = LiveRouter::start(&router, Vec::new(), registry, outside, pool).unwrap();
    (Arc::new(live), worker)
}

/// A running configuration between two ports; the test has their far ends.
struct Running {
    live: Arc<LiveRouter<Packet>>,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<Worker<Packet>>>,
    from: MemoryPort<Packet>,
    to: MemoryPort<Packet>,
    pool: Pool,
    sent: u32,
    received: Vec<u32>,
}

impl Running {
    fn new(text: &str) -> Self {
        let (near_in, from) = memory_port_pair(4_096);
        let (near_out, to) = memory_port_pair(4_096);
        let mut outside = Devices::new(Clock::Wall);
        outside.receive(Some("in"), ReceiveBinding::Port(Box::new(near_in)));
        outside.send("out", SendBinding::Port(Box::new(near_out)));
        let (live, mut worker) = start(text, outside);
        let stop = Arc::new(AtomicBool::new(false));
        let run = {
            let stop = Arc::clone(&stop);
            move || {
                worker.run(&stop);
                worker
            }
        };
        let worker = Some(std::thread::spawn(run));
        let pool = Pool::new(8_000, 100).unwrap();
        Self { live, stop, worker, from, to, pool, sent: 0, received: Vec::new() }
    }

    /// Sends packets with consecutive numbers, as many as the port accepts.
    fn send(&mut self, count: u32) {
        for _ in 0..count {
            let Some(mut packet) = self.pool.packet(&[0; 60]) else { return };
            packet.data_mut()[..4].copy_from_slice(&self.sent.to_be_bytes());
            if self.from.send(packet).is_err() {
                return;
            }
            self.sent += 1;
        }
    }

    fn receive(&mut self) {
        let mut burst = Burst::new();
        while self.to.rx_burst(&mut burst) > 0 {
            for packet in burst.drain(..) {
                self.received.push(u32::from_be_bytes(packet.data()[..4].try_into().unwrap()));
            }
        }
    }

    /// Drops of all elements, for one reason or all.
    fn dropped(&self, reason: Option<&str>) -> u64 {
        let counted = self.live.directory().counted(None).unwrap();
        counted
            .iter()
            .map(|one| reason.map_or_else(|| one.dropped(), |name| one.get(name).unwrap_or(0)))
            .sum()
    }

    /// Waits until every packet sent was received or dropped, or is held; returns the number held.
    fn settle(&mut self) -> u64 {
        let until = Instant::now() + PATIENCE;
        loop {
            self.receive();
            let held = self.live.remote().ask(|graph| graph.held()).unwrap().recv().unwrap() as u64;
            let gone = self.received.len() as u64 + self.dropped(None);
            if gone + held == u64::from(self.sent) {
                return held;
            }
            assert!(Instant::now() < until, "{gone} gone, {held} held, {} sent", self.sent);
        }
    }

    fn end(mut self) -> Worker<Packet> {
        self.stop.store(true, Ordering::Relaxed);
        let worker = self.worker.take().unwrap().join().unwrap();
        self.live.end();
        worker
    }
}

/// One of many configurations, with more or fewer elements before the queue. All keep their names. One of ten holds
/// packets.
fn variant(at: usize) -> String {
    let before =
        ["", "c :: Counter ->", "Null -> Paint(1) ->", "Null -> p :: Paint(2) -> c :: Counter ->"][at % 4];
    let (burst, is_active) = (3 + at % 5, at % 10 != 9);
    format!(
        "f :: FromDevice(in); t :: ToDevice(out); f -> {before} q :: Queue(5000)
         -> u :: Unqueue(BURST {burst}, ACTIVE {is_active}) -> t;"
    )
}

#[test]
fn a_thousand_configurations_after_each_other_lose_double_and_reorder_nothing() {
    let mut running = Running::new(&variant(0));
    for at in 1..=1_000 {
        running.send(40);
        if at % 10 == 0 {
            running.wait_for_kept();
        }
        let replaced = running.live.replace("r.click", variant(at).as_bytes()).unwrap();
        assert_eq!(replaced.replacements, at as u64);
        running.receive();
    }
    assert_eq!(running.settle_all(), 0);
    assert!(running.sent > 10_000, "{} were sent", running.sent);
    assert_eq!(running.received, (0..running.sent).collect::<Vec<_>>());
    drop(running.end());
}

impl Running {
    /// Waits until an element holds a packet.
    fn wait_for_kept(&self) {
        let until = Instant::now() + PATIENCE;
        while self.live.remote().ask(|graph| graph.held()).unwrap().recv().unwrap() == 0 {
            assert!(Instant::now() < until, "nothing is kept");
        }
    }

    /// Waits until no packet is held.
    fn settle_all(&mut self) -> u64 {
        let until = Instant::now() + PATIENCE;
        while self.settle() > 0 {
            assert!(Instant::now() < until);
        }
        self.dropped(None)
    }
}

#[test]
fn what_has_no_successor_is_dropped_by_name_and_nothing_goes_uncounted() {
    let text = |at: u32| {
        let (queue, is_active) = (at / 3, at.is_multiple_of(4));
        format!(
            "f :: FromDevice(in); t :: ToDevice(out);
             f -> CheckLength(1000) -> q{queue} :: Queue(100) -> Unqueue(ACTIVE {is_active}) -> t;"
        )
    };
    let mut running = Running::new(&text(0));
    for at in 1..=200 {
        running.send(60);
        running.live.replace("r.click", text(at).as_bytes()).unwrap();
        running.receive();
    }
    running.settle();
    assert!(running.dropped(Some("graph_replaced")) > 100);
    let mut once = running.received.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), running.received.len(), "none came twice");
    // Counters of removed elements are still reported.
    assert!(running.live.directory().counted(None).unwrap().iter().any(|one| &*one.element == "q1"));
    drop(running.end());
}

#[test]
fn a_faulty_configuration_is_refused_by_place_and_the_old_one_goes_on() {
    let mut running = Running::new(&variant(0));
    let elements = running.live.directory().counted(None).unwrap().len();
    let cases = [
        ("f :: FromDevice(in) -> Qeue -> ToDevice(out);", "new.click:1:24: "),
        (
            "FromDevice(in)\n -> Discard; FromDevice(in) -> Discard;",
            "new.click:2:14: `FromDevice@3`: another element",
        ),
        ("f :: FromDevice(in) -> t :: ToDevice(eth7);", "new.click:1:24: `t`: nothing is bound"),
        ("f :: FromDevice(in) -> ToDump(/nowhere/x.pcap);", "/nowhere/x.pcap"),
        ("a :: Queue -> b :: Queue -> a", "new.click:1:"),
    ];
    for (text, expected) in cases {
        let error = running.live.replace("new.click", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(matches!(running.live.replace("x", &[b'a', 0xff]), Err(ReplaceError::Wrong(_))));
    assert_eq!(
        running.live.directory().counted(None).unwrap().len(),
        elements,
        "nothing is counted that never ran"
    );
    running.send(100);
    assert_eq!(running.settle_all(), 0);
    assert_eq!((running.live.replacements(), running.received.len()), (0, 100));
    // A device may pass to an element with another name.
    running.live.replace("r", b"g :: FromDevice(in) -> Counter -> d :: ToDevice(out);").unwrap();
    running.send(100);
    assert_eq!(running.settle_all(), 0);
    assert_eq!(running.received.len(), 200);
    drop(running.end());
}

fn line(client: &mut BufReader<TcpStream>, command: &str) -> String {
    client.get_mut().write_all(command.as_bytes()).unwrap();
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_control_socket_stays_connected_where_it_stays() {
    let text = |more: &str| format!("{} ControlSocket(TCP, 0); {more}", variant(0));
    let running = Running::new(&text(""));
    let places = running.live.control_sockets();
    let connect = || {
        let mut client = BufReader::new(TcpStream::connect(places[0].to_string()).unwrap());
        assert_eq!(line(&mut client, ""), "Click::ControlSocket/1.3\r\n");
        client
    };
    let mut client = connect();
    assert!(line(&mut client, "READ new.count\n").starts_with("510 "));
    running.live.replace("r", text("Idle -> new :: Counter -> Discard").as_bytes()).unwrap();
    assert_eq!(running.live.control_sockets(), places);
    assert!(line(&mut client, "READ new.count\n").starts_with("200 "));
    running.live.replace("r", variant(0).as_bytes()).unwrap();
    assert_eq!(running.live.control_sockets(), []);
    let mut rest = String::new();
    while client.read_line(&mut rest).unwrap() > 0 {}
    assert!(TcpStream::connect(places[0].to_string()).is_err(), "the socket is closed");
    drop(running.end());
}

#[test]
fn a_worker_that_does_not_turn_is_not_waited_for_and_may_still_follow() {
    let (live, mut worker) = start("Idle -> c :: Counter -> Discard", Devices::new(Clock::Wall));
    let error = live.directory().read("c", "count", "", None).unwrap_err();
    assert_eq!(error.to_string(), "worker 0 does not answer");
    assert!(matches!(live.replace("r", b"Idle -> d :: Counter -> Discard"), Err(ReplaceError::NoAnswer)));
    assert_eq!(live.replacements(), 0);
    worker.turn(Duration::ZERO);
    live.end();
    assert_eq!((live.replacements(), live.directory().known().elements[1].name.as_str()), (1, "d"));
    assert!(matches!(live.replace("r", b"Idle -> Discard"), Err(ReplaceError::Ended)));
}

fn capture(path: &Path, count: u64) {
    let mut writer = CaptureWriter::create(path).unwrap();
    for at in 0..count {
        writer.write_frame(Duration::from_millis(at), &[at as u8; 60]).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn lines_go_on_in_the_file_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let text = |name: &str, waits: &str| {
        format!(
            "Idle -> Discard; s :: Script(print $(s.class) {name}, {waits}, OUTFILE {})",
            file(name).display()
        )
    };
    let (live, mut worker) = start("Idle -> Discard", Devices::new(Clock::Wall));
    for (name, waits) in [("a", "wait 1"), ("a", "wait 2"), ("b", "wait 3")] {
        let (live, text) = (Arc::clone(&live), text(name, waits));
        let replaces = std::thread::spawn(move || live.replace("r", text.as_bytes()));
        while !replaces.is_finished() {
            worker.turn(Duration::ZERO);
        }
        replaces.join().unwrap().unwrap();
        worker.turn(Duration::ZERO);
    }
    live.end();
    let lines = |name: &str| std::fs::read_to_string(file(name)).unwrap().lines().count();
    assert_eq!((lines("a"), lines("b")), (2, 1), "another script of the same file goes on in it");
}

#[test]
fn captures_go_on_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    capture(&path("in.pcap"), 200);
    let text = |name: &str, file: &str| {
        format!("{name} :: FromDevice(eth0) -> Counter -> d :: ToDump({})", path(file).display())
    };
    let mut outside = Devices::new(Clock::Captures);
    outside.receive(None, ReceiveBinding::Capture(path("in.pcap")));
    let (live, mut worker) = start(&text("f", "a.pcap"), outside);
    (0..100).for_each(|at| {
        worker.turn(Duration::from_millis(at));
    });
    // The worker keeps running during the replacement.
    let replace = |worker: &mut Worker<Packet>, text: String| {
        let other = Arc::clone(&live);
        let waits = std::thread::spawn(move || other.replace("r", text.as_bytes()));
        while !waits.is_finished() {
            worker.turn(Duration::from_millis(99));
        }
        waits.join().unwrap()
    };
    let error = replace(&mut worker, text("g", "c.pcap")).unwrap_err().to_string();
    assert!(error.contains("has begun to read the capture for eth0"), "{error}");
    replace(&mut worker, text("f", "a.pcap")).unwrap();
    (100..150).for_each(|at| {
        worker.turn(Duration::from_millis(at));
    });
    replace(&mut worker, text("f", "b.pcapng")).unwrap();
    (150..200).for_each(|at| {
        worker.turn(Duration::from_millis(at));
    });
    live.end();
    assert_eq!(live.finish().unwrap(), [path("a.pcap"), path("b.pcapng")]);
    let heads = |name: &str| -> Vec<u8> {
        CaptureReader::open(path(name)).unwrap().map(|frame| frame.unwrap().data[0]).collect()
    };
    assert_eq!((heads("a.pcap"), heads("b.pcapng")), ((0..150).collect(), (150..200).collect()));
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.pcap", "b.pcapng", "in.pcap"], "nothing is left of what was refused");
}
