//! Workers that hang or panic, and packets that are dropped off the fast path, are detected.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test helper fails by panicking")]

use crate::worker;

use proptest::prelude::*;
use scalebricks_apps::gateway::{NodePorts, NodeStats};
use scalebricks_control::membership::Unfitness;
use scalebricks_daemon::node::health::{Health, Observation};
use scalebricks_daemon::runtime::workers::{Control, guarded};
use scalebricks_elements::gateway::{DownLinks, DropReason, OutputPort, PortRole};
use scalebricks_graph::tap::{Capture, DropSelection, Selection, Taps};
use scalebricks_io::{Burst, MemoryPort, Packet, PacketBuf, Pool, RxPort, TxPort};
use scalebricks_wire::MacAddr;
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use worker::{
    IN_MAC, NODE_IN, NODE_RAN, RAN_MAC, ROUTER, ROUTER_MAC, STATION, STATION_MAC, Still, arp, downstream,
    flow, to_gateway, upstream,
};

/// Set in the child process of a test.
const CHILD: &str = "SCALEBRICKS_TEST_CHILD";

/// A port that panics on receive.
struct Panics;

impl RxPort<Packet> for Panics {
    fn rx_burst(&mut self, _: &mut Burst<Packet>) -> usize {
        panic!("ring {} is torn", 7)
    }
}

impl TxPort<Packet> for Panics {
    fn tx_burst(&mut self, _: &mut Burst<Packet>) -> usize {
        0
    }
}

#[test]
fn a_worker_that_panics_ends_its_process_with_a_failure_and_says_why() {
    if std::env::var_os(CHILD).is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
        let mut still =
            Still::with_ports(&[], 64, 64, |ports| NodePorts { internet: Box::new(Panics), ..ports });
        std::thread::spawn(move || guarded("worker-3", || still.worker.run(&Control::default())));
        // All other threads of the process continue.
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    // The full name of the test, which is also the thread's name.
    let this = std::thread::current();
    let name = this.name().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.code(), Some(1), "{said}");
    let line = said.lines().find(|line| line.contains("ERROR")).unwrap_or_default();
    assert!(line.contains("worker-3") && line.contains("ring 7 is torn"), "{said}");
}

/// A port whose call blocks until it is released.
struct Sticks(Mutex<Receiver<()>>);

impl RxPort<Packet> for Sticks {
    fn rx_burst(&mut self, _: &mut Burst<Packet>) -> usize {
        let _released = self.0.get_mut().unwrap().recv();
        0
    }
}

impl TxPort<Packet> for Sticks {
    fn tx_burst(&mut self, _: &mut Burst<Packet>) -> usize {
        0
    }
}

#[test]
fn a_stuck_worker_is_found_and_named_and_is_well_again_when_it_goes_on() {
    let (release, stuck) = mpsc::channel();
    let mut good = Still::new(&[], 64, 64);
    let mut bad = Still::with_ports(&[], 64, 64, |ports| NodePorts {
        internet: Box::new(Sticks(Mutex::new(stuck))),
        ..ports
    });
    let start = Instant::now();
    (good.worker.start, bad.worker.start) = (start, start);
    let stats = [Arc::clone(&good.worker.stats), Arc::clone(&bad.worker.stats)];
    let control = Arc::<Control>::default();
    let threads: Vec<_> = [good, bad]
        .into_iter()
        .map(|mut still| {
            let control = Arc::clone(&control);
            std::thread::spawn(move || still.worker.run(&control))
        })
        .collect();
    let mut health = Health::new();
    let mut look_until = |wanted: &dyn Fn(&Health) -> bool| {
        let until = Instant::now() + Duration::from_secs(60);
        while !wanted(&health) {
            assert!(Instant::now() < until, "{:?}", health.conditions());
            std::thread::sleep(Duration::from_millis(20));
            let workers = stats.iter().map(|stats| stats.turned()).collect();
            health.observe(&Observation { now: start.elapsed(), workers, ..Observation::default() });
        }
        health.conditions()
    };
    let conditions = look_until(&|health| health.fitness().has(Unfitness::Worker));
    // A loaded machine may sometimes delay the other one as well.
    look_until(&|health| {
        health.conditions().iter().any(|one| one.detail.starts_with("worker 1 made no turn for"))
    });
    assert_eq!(conditions.len(), 1);
    drop(release);
    look_until(&|health| health.fitness().is_fit());
    control.stop();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Whether a frame is not a user's packet: a message of the node, or a later fragment.
fn is_beside(frame: &[u8]) -> bool {
    let is_ipv4 = frame[12..14] == [8, 0];
    let is_later_fragment = is_ipv4 && (frame[20] & 0x1f, frame[21]) != (0, 0);
    let is_g_pdu = is_ipv4 && frame[23] == 17 && frame[43] == 255;
    // Frames to the Internet are users' packets, each with its own source port.
    let is_upstream = is_ipv4 && frame[23] == 17 && frame[34..36] == 4_000_u16.to_be_bytes();
    !((is_g_pdu && !is_later_fragment) || is_upstream)
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Packets of this size to users of this node, of the other node, or of none.
    Down(u32, u8, usize),
    /// From users.
    Up(u32, u8),
    /// Messages to the node itself.
    ForNode(u8),
    /// Time passes.
    Pass(u64),
    /// The far ends receive waiting frames, and answer requests or not.
    Take(bool),
    /// A link goes down or up.
    Link(bool, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u32, 0..20_u8, prop::sample::select(vec![10, 1_400, 1_600, 3_000])).prop_map(|(n, count, len)| Step::Down(n, count, len)),
        3 => (0..4_u32, 0..20_u8).prop_map(|(n, count)| Step::Up(n, count)),
        1 => (0..10_u8).prop_map(Step::ForNode),
        4 => prop_oneof![0..400_u64, 0..5_000_u64].prop_map(Step::Pass),
        4 => any::<bool>().prop_map(Step::Take),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(is_ran, is_down)| Step::Link(is_ran, is_down)),
    ]
}

/// A node, and the packets that were put in.
struct Books {
    still: Still,
    down: Arc<DownLinks>,
    /// Frames that ports refused.
    refused: Capture,
    /// Of these, frames that are not users' packets.
    beside: u64,
    pool: Pool,
    now: Duration,
    for_node: u64,
}

impl Books {
    fn new() -> Self {
        // Flows 0 and 1 are at this node, 2 at the other, 3 at none.
        let mut still = Still::new(&[flow(0, 0), flow(1, 0), flow(2, 1)], 2_048, 48);
        let (down, taps) = (Arc::<DownLinks>::default(), Taps::default());
        let drops = DropSelection::Of(vec![DropReason::PortFull.name(), DropReason::LinkDown.name()]);
        let refused = taps.start(Selection { drops, ..Selection::default() }).unwrap();
        still.worker.node.keep_punts();
        still.worker.node.set_down_links(Arc::clone(&down));
        still.worker.node.set_taps(&taps);
        Self {
            still,
            down,
            refused,
            beside: 0,
            pool: Pool::new(8_192, 4_000).unwrap(),
            now: Duration::from_secs(1),
            for_node: 0,
        }
    }

    fn send(&mut self, link: OutputPort, frame: &[u8]) -> bool {
        let packet = self.pool.packet(frame).unwrap();
        let port = match link {
            OutputPort::Internet => &mut self.still.internet,
            OutputPort::BaseStation => &mut self.still.ran,
        };
        port.send(packet).is_ok()
    }

    /// One round of the worker.
    fn turn(&mut self) {
        let worker = &mut self.still.worker;
        worker.node.set_adjacencies(worker.slow_path.adjacencies());
        worker.node.turn(self.now);
        let mut punts = Vec::new();
        worker.node.take_punts(&mut punts);
        let due = self.now >= worker.slow_path.deadline();
        worker.slow_path.work(&mut worker.node, &mut punts, &mut *worker.buffers, due, self.now);
        let refused = std::iter::from_fn(|| self.refused.take());
        self.beside += refused.filter(|frame| is_beside(&frame.data)).count() as u64;
    }

    fn take(&mut self, answers: bool) {
        let mut questions = Vec::new();
        let mut drain = |link: OutputPort, port: &mut MemoryPort<Packet>| {
            while let Some(packet) = port.receive() {
                let frame = packet.data();
                if frame[12..14] == [8, 6] && frame[20..22] == [0, 1] {
                    questions.push((link, <[u8; 4]>::try_from(&frame[38..42]).unwrap()));
                }
            }
        };
        drain(OutputPort::Internet, &mut self.still.internet);
        drain(OutputPort::BaseStation, &mut self.still.ran);
        while self.still.fabric.receive().is_some() {}
        for (link, target) in questions.into_iter().filter(|_| answers).take(20) {
            let (mac, address, own_mac, own) = match link {
                OutputPort::Internet => (ROUTER_MAC, ROUTER, IN_MAC, NODE_IN),
                OutputPort::BaseStation => (STATION_MAC, STATION, RAN_MAC, NODE_RAN),
            };
            if target == address.octets() && self.send(link, &arp(2, mac, address, own_mac, own)) {
                self.for_node += 1;
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Down(n, count, len) => {
                for _ in 0..count {
                    self.send(OutputPort::Internet, &downstream(n, &vec![7; len]));
                }
            }
            Step::Up(n, count) => {
                for _ in 0..count {
                    self.send(OutputPort::BaseStation, &upstream(n, 0x1_0000 + n, b"up"));
                }
            }
            Step::ForNode(count) => {
                let echo = to_gateway(&[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 7, 0, 0]);
                for _ in 0..count {
                    self.for_node += u64::from(self.send(OutputPort::BaseStation, &echo));
                    let question = arp(1, ROUTER_MAC, ROUTER, MacAddr::default(), NODE_IN);
                    self.for_node += u64::from(self.send(OutputPort::Internet, &question));
                }
            }
            Step::Pass(millis) => self.now += Duration::from_millis(millis),
            Step::Take(answers) => self.take(answers),
            Step::Link(is_ran, is_down) => {
                let port = if is_ran { PortRole::BaseStation } else { PortRole::Internet };
                self.down.set(port, is_down);
            }
        }
        self.turn();
    }

    /// The packets that were received, and those that the node accounts for: `in` and `out + dropped + taken`.
    fn totals(&self) -> (u64, u64) {
        let stats: NodeStats = self.still.worker.node.stats();
        let came = stats.internet_in + stats.base_station_in + stats.fabric_in;
        let left = stats.internet_out + stats.base_station_out + stats.fabric_out;
        let dropped = stats.dropped.total() - self.beside;
        assert_eq!(stats.dropped.get(DropReason::SlowPathFull), 0, "all that is for the node is taken");
        (came, left + dropped + self.for_node)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Links fill, fail and recover, next hops answer or not, packets are too large, without flow, or for the node itself: each
    /// received packet is sent, dropped with a reason, taken, or held, once.
    #[test]
    fn every_packet_is_accounted_for_with_a_slow_path(steps in prop::collection::vec(step(), 1..60)) {
        let mut books = Books::new();
        for step in steps {
            books.step(step);
            let (came, known) = books.totals();
            let held = books.still.worker.slow_path.held_frames() as u64;
            prop_assert!(known <= came && came <= known + held, "{came} {known} {held} {:?}", books.still.worker.node.stats());
        }
        // At rest no packet is held: unanswered requests time out and their packets are dropped.
        for _ in 0..100 {
            books.step(Step::Take(false));
            books.step(Step::Pass(100));
        }
        let (came, known) = books.totals();
        prop_assert_eq!(books.still.worker.slow_path.held_frames(), 0);
        prop_assert_eq!(came, known, "{:?}", books.still.worker.node.stats());
    }
}

#[test]
fn packets_for_a_next_hop_that_never_answers_are_dropped_as_unresolved() {
    let mut books = Books::new();
    books.turn();
    for _ in 0..30 {
        assert!(books.send(OutputPort::Internet, &downstream(0, b"to a dead base station")));
    }
    for _ in 0..100 {
        books.step(Step::Take(false));
        books.step(Step::Pass(100));
    }
    let stats = books.still.worker.node.stats();
    assert_eq!((stats.internet_in, stats.base_station_out), (30, 0));
    assert_eq!((stats.dropped.get(DropReason::Unresolved), stats.dropped.total()), (30, 30));
}

#[test]
fn packets_for_a_link_that_is_down_are_dropped_as_link_down_and_not_counted_as_sent() {
    let mut books = Books::new();
    for _ in 0..20 {
        books.step(Step::Take(true));
        books.step(Step::Pass(50));
    }
    books.down.set(PortRole::BaseStation, true);
    let before = books.still.worker.node.stats();
    for _ in 0..30 {
        assert!(books.send(OutputPort::Internet, &downstream(0, b"to a dead link")));
    }
    books.turn();
    let stats = books.still.worker.node.stats();
    assert_eq!(stats.base_station_out, before.base_station_out);
    assert_eq!(stats.dropped.get(DropReason::LinkDown), 30);
    // The node's own messages also wait for the link.
    let unsent = books.still.worker.slow_path.stats()["link_down"];
    books.step(Step::Pass(400));
    assert!(books.still.worker.slow_path.stats()["link_down"] > unsent);
    books.down.set(PortRole::BaseStation, false);
    assert!(books.send(OutputPort::Internet, &downstream(0, b"once more")));
    books.turn();
    assert_eq!(books.still.worker.node.stats().base_station_out, before.base_station_out + 1);
}
