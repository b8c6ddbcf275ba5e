//! Three nodes in this process over ports in memory: a log, routes from a file at one node, packets from port to port, a
//! node that stops and goes on.

use crate::harness::until;
use scalebricks_admin::model::NodeState;
use scalebricks_admin::model::router::RoutesRequest;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_control::engine::Engine;
use scalebricks_daemon::node::config::Idle;
use scalebricks_daemon::router::node::control::ControlSide;
use scalebricks_daemon::router::node::load::Configuration;
use scalebricks_daemon::router::node::running::{Running, link_device, port_device};
use scalebricks_daemon::runtime::workers::{Control, turn};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_graph::{Clock, Worker};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_types::NodeId;
use scalebricks_wire::MacAddr;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

const NODES: u8 = 3;

/// The address of the only port of a node.
const fn port_mac(node: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, node])
}

/// The neighbour 192.0.N.9 of node N.
const fn neighbour_mac(node: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 2, node])
}

fn configuration(folder: &Path, node: u8, feeder: &str) -> Configuration {
    let links = (0..NODES)
        .filter(|other| *other != node)
        .map(|other| format!("[[link]]\nnode = {other}\ndevice = \"net_ring{other}\"\n"));
    let text = format!(
        "[router]\nnode = {node}\nnodes = {NODES}\nsecret = \"000102030405060708090a0b0c0d0e0f\"\nport_rate = \"1G\"\n\
         admin = \"router{node}.sock\"\n[control]\nengine = \"directory:log\"\nname = \"r\"\n[feeder]\n{feeder}\n\
         [[port]]\ndevice = \"net_tap0\"\nmac = \"{}\"\naddresses = [\"192.0.{node}.1/24\"]\n{}",
        port_mac(node),
        links.collect::<String>()
    );
    let path = folder.join(format!("node{node}.toml"));
    fs::write(&path, text).unwrap();
    Configuration::read(&path).unwrap()
}

type Ends = (MemoryPort<Packet>, MemoryPort<Packet>);

/// A way in one direction: what is sent at the first end is received at the second.
fn way() -> Ends {
    memory_port_pair(1 << 12)
}

/// A node, the thread of its worker, and the host at its port.
struct Node {
    running: Arc<Running>,
    worker: Option<Worker<Packet>>,
    thread: Option<(Arc<Control>, JoinHandle<Worker<Packet>>)>,
    /// To the port, and from it.
    host: Ends,
    pool: Pool,
    /// The start of its clock.
    start: Instant,
}

impl Node {
    fn go(&mut self) {
        let Some(mut worker) = self.worker.take() else { return };
        let control = Arc::<Control>::default();
        let (stopping, start) = (Arc::clone(&control), self.start);
        let thread = std::thread::spawn(move || {
            turn(&mut worker, Idle::Sleep { us: 200 }, start, &stopping);
            worker
        });
        self.thread = Some((control, thread));
    }

    fn stop(&mut self) {
        let Some((control, thread)) = self.thread.take() else { return };
        control.stop();
        self.worker = Some(thread.join().unwrap());
    }

    fn send(&mut self, frame: &[u8]) {
        let packet = self.pool.packet(frame).unwrap();
        self.host.0.send(packet).unwrap();
    }

    /// Packets to the neighbour that came out; answers its questions about MAC addresses.
    fn received(&mut self, node: u8) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(packet) = self.host.1.receive() {
            let frame = packet.data().to_vec();
            if frame[12..14] == [8, 6] && frame[20..22] == [0, 1] && frame[38..42] == [192, 0, node, 9] {
                self.send(&arp_answer(node, &frame));
            } else if frame[12..14] == [8, 0] {
                frames.push(frame);
            }
        }
        frames
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

fn arp_answer(node: u8, question: &[u8]) -> Vec<u8> {
    let (mac, asker) = (neighbour_mac(node).octets(), &question[6..12]);
    [asker, &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &mac, &[192, 0, node, 9], &question[22..32], &[0; 18]]
        .concat()
}

/// A UDP packet from the host of node 0.
fn packet(to: Ipv4Addr, number: u16) -> Vec<u8> {
    let mut header =
        [&[0x45, 0, 0, 32][..], &number.to_be_bytes(), &[0x40, 0, 64, 17, 0, 0, 192, 0, 0, 77], &to.octets()]
            .concat();
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = [&number.to_be_bytes()[..], &[0, 53, 0, 12, 0, 0, 1, 2, 3, 4]].concat();
    [&port_mac(0).octets()[..], &[2, 0, 0, 0, 3, 0], &[8, 0], &header, &udp, &[0; 14]].concat()
}

/// Nodes with links between them, and one log.
fn start(folder: &Path, feeder: &str) -> Vec<Node> {
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.join("log"), Options::default()).unwrap());
    // By sender and receiver.
    let mut ways: Vec<Vec<Option<Ends>>> =
        (0..NODES).map(|_| (0..NODES).map(|_| Some(way())).collect()).collect();
    let mut sends: Vec<Vec<Option<MemoryPort<Packet>>>> = Vec::new();
    let mut receives: Vec<Vec<Option<MemoryPort<Packet>>>> =
        (0..NODES).map(|_| (0..NODES).map(|_| None).collect()).collect();
    for (from, row) in ways.iter_mut().enumerate() {
        let row = row.iter_mut().enumerate().map(|(to, ends)| {
            let (send, receive) = ends.take().unwrap();
            receives[to][from] = Some(receive);
            Some(send)
        });
        sends.push(row.collect());
    }
    let mut nodes = Vec::new();
    for node in 0..NODES {
        let configuration = configuration(folder, node, if node == 0 { feeder } else { "" });
        let running = Arc::new(Running::new(configuration, Instant::now()).unwrap());
        let mut devices = Devices::new(Clock::Wall);
        let ((host_sends, port_receives), (port_sends, host_receives)) = (way(), way());
        let port = port_device(0);
        devices.receive(Some(&port), ReceiveBinding::Port(Box::new(port_receives)));
        devices.send(&port, SendBinding::Port(Box::new(port_sends)));
        for other in (0..NODES).filter(|other| *other != node) {
            let name = link_device(NodeId::new(other));
            let (me, other) = (usize::from(node), usize::from(other));
            devices.receive(Some(&name), ReceiveBinding::Port(Box::new(receives[me][other].take().unwrap())));
            devices.send(&name, SendBinding::Port(Box::new(sends[me][other].take().unwrap())));
        }
        let pool = || Pool::new(4_096, 2_048).unwrap();
        let worker = running.worker::<Packet>(devices, &[port_mac(node)], Box::new(pool())).unwrap();
        let (engine, beside) = (Arc::clone(&engine), |path: &Path| running.configuration.beside(path));
        let file = &running.configuration.file;
        let control =
            ControlSide::start(async move { engine }, file, beside, running.routes.clone(), running.alive());
        running.control.set(control.unwrap()).unwrap();
        running.set_state(NodeState::Ready);
        let host = (host_sends, host_receives);
        nodes.push(Node {
            running,
            worker: Some(worker),
            thread: None,
            host,
            pool: pool(),
            start: Instant::now(),
        });
    }
    nodes
}

/// Sends packets to an address from the host of node 0 until one comes out at a node; the frame, and where.
fn pass(nodes: &mut [Node], to: Ipv4Addr, wanted: u8) -> Vec<u8> {
    let (mut number, mut found) = (0, None);
    until(&format!("a packet to {to} leaves at node {wanted}"), || {
        number += 1;
        nodes[0].send(&packet(to, number));
        std::thread::sleep(std::time::Duration::from_millis(10));
        for node in 0..NODES {
            let frames = nodes[usize::from(node)].received(node);
            if node == wanted {
                found = frames.into_iter().find(|frame| frame[30..34] == to.octets());
            }
        }
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn packets_cross_the_cluster_and_go_round_a_dead_node() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("routes"),
        "203.0.113.0/24 via 192.0.1.9\n203.0.113.0/24 via 192.0.2.9 preference 10\n198.18.0.0/15 via 192.0.1.9\n",
    )
    .unwrap();
    let mut nodes = start(folder.path(), "routes = \"routes\"");
    nodes.iter_mut().for_each(Node::go);
    let view = |nodes: &[Node], node: usize| nodes[node].running.view();
    until("all nodes are ready and see each other", || {
        (0..3).all(|node| {
            let view = view(&nodes, node);
            view.is_ready && view.alive == [0, 1, 2] && view.routes_ipv4 == 5
        })
    });
    let to = Ipv4Addr::new(203, 0, 113, 7);
    let frame = pass(&mut nodes, to, 1);
    assert_eq!((&frame[..6], &frame[6..12]), (&neighbour_mac(1).octets()[..], &port_mac(1).octets()[..]));
    assert_eq!(frame[22], 63, "one router on the way");
    // A host in the network of a port needs no next hop.
    pass(&mut nodes, Ipv4Addr::new(192, 0, 2, 9), 2);
    let hops = nodes[1].running.next_hops();
    assert_eq!((hops.len(), hops[0].address.as_str()), (1, "192.0.1.9"));
    assert_eq!(hops[0].mac.as_deref(), Some("02:00:00:00:02:01"));
    let asked = RoutesRequest { address: Some(to.to_string()), ..RoutesRequest::default() };
    let found = nodes[2].running.routes(&asked).unwrap().routes.remove(0);
    let selected: Vec<bool> = found.paths.iter().map(|path| path.is_selected).collect();
    assert_eq!((found.prefix.as_str(), selected), ("203.0.113.0/24", vec![true, false]));

    nodes[1].stop();
    until("the routes of node 1 are withdrawn", || {
        [0, 2].iter().all(|node| {
            let view = view(&nodes, *node);
            view.alive == [0, 2] && view.routes_ipv4 == 3 && view.walks > 0
        })
    });
    let frame = pass(&mut nodes, to, 2);
    assert_eq!(&frame[..6], &neighbour_mac(2).octets());
    assert!(nodes[0].running.links().iter().all(|link| link.is_up == (link.node == 2)));

    nodes[1].go();
    until("they are back", || {
        (0..3).all(|node| view(&nodes, node).alive == [0, 1, 2] && view(&nodes, node).routes_ipv4 == 5)
    });
    pass(&mut nodes, to, 1);
}
