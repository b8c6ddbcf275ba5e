//! A node on a thread, between two links in memory. The test plays the router and the base station at their far ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "a test helper fails by panicking"
)]

use etherparse::PacketBuilder;
use scalebricks_apps::directory::Directory;
use scalebricks_apps::gateway::{Architecture, FlowList, FlowSpec, Layout, Node, NodePorts, NodeStats};
use scalebricks_daemon::node::config::Idle;
use scalebricks_daemon::node::errors::Errors;
use scalebricks_daemon::node::slow_path::SlowPath;
use scalebricks_daemon::node::worker::{SharedStats, Worker};
use scalebricks_daemon::runtime::workers::Control;
use scalebricks_elements::gateway::local::{Interface, LocalConfig, LocalLimits, LocalStack, Route};
use scalebricks_elements::gateway::{
    BaseStationId, Identifications, Lease, NodeConfig, OutputPort, OutsideMacs, Policy,
};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, FlowKey, HashSeed, KeyProfile, NodeId, Teid};
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const NODE_IN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const NODE_RAN: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 10);
pub const STATION: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub const IN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub const RAN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
pub const STATION_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
const SEED: HashSeed = HashSeed::new(3, 4);

/// Longest wait for an expected packet.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn ue(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a2d_0000 + n)
}

pub fn flow(n: u32, node: u8) -> FlowSpec {
    FlowSpec {
        key: FlowKey::ue(IpAddr::V4(ue(n))),
        uplink_teid: Teid::new(0x1_0000 + n),
        downlink_teid: Teid::new(0x2_0000 + n),
        base_station: BaseStationId(0),
        qfi: None,
        node: NodeId::new(node),
    }
}

/// A node that does not run yet, and the far ends of its links.
pub struct Still {
    pub internet: MemoryPort<Packet>,
    pub ran: MemoryPort<Packet>,
    pub fabric: MemoryPort<Packet>,
    pub node_pool: Pool,
    pub tables: FlowList,
    pub worker: Worker<Packet>,
}

/// The node, and the far ends of its links.
pub struct Rig {
    pub internet: MemoryPort<Packet>,
    pub ran: MemoryPort<Packet>,
    pub fabric: MemoryPort<Packet>,
    pub pool: Pool,
    pub node_pool: Pool,
    pub tables: Arc<Mutex<FlowList>>,
    pub slow_path: Arc<SlowPath>,
    pub stats: Arc<SharedStats>,
    pub graphs: Arc<Directory>,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

impl Still {
    /// A node with these flows and this capacity of the base-station link, frames.
    pub fn new(flows: &[FlowSpec], buffers: usize, ran_capacity: usize) -> Self {
        Self::with_ports(flows, buffers, ran_capacity, |ports| ports)
    }

    /// The same, with changed ports.
    pub fn with_ports(
        flows: &[FlowSpec],
        buffers: usize,
        ran_capacity: usize,
        change: impl FnOnce(NodePorts<Packet>) -> NodePorts<Packet>,
    ) -> Self {
        Self::with_errors(flows, buffers, ran_capacity, change, Rig::complete())
    }

    /// The same, with these rules for error messages.
    fn with_errors(
        flows: &[FlowSpec],
        buffers: usize,
        ran_capacity: usize,
        change: impl FnOnce(NodePorts<Packet>) -> NodePorts<Packet>,
        errors: Arc<Errors>,
    ) -> Self {
        let size = ClusterSize::new(2).unwrap();
        let id = NodeId::new(0);
        let layout =
            Layout { size, architecture: Architecture::ScaleBricks, gpt: Structure::Othello, seed: SEED };
        let mut tables = FlowList::new(&layout, id, 1, flows.len()).unwrap();
        tables.change_to(flows, |_| {}).unwrap();
        let start = Instant::now();
        let config = LocalConfig {
            internet: Interface {
                mac: IN_MAC,
                addresses: vec![(NODE_IN.into(), 24), ("2001:db8::10".parse().unwrap(), 64)],
                mtu: 1_500,
            },
            base_station: Interface { mac: RAN_MAC, addresses: vec![(NODE_RAN.into(), 24)], mtu: 1_600 },
            routes: vec![Route {
                port: OutputPort::Internet,
                to: (Ipv4Addr::UNSPECIFIED.into(), 0),
                via: vec![ROUTER.into()],
            }],
            base_stations: vec![STATION],
            gateway: GATEWAY,
            gateway_v6: Ipv6Addr::new(0xfd00, 0x5b, 0, 0, 0, 0, 0, 1),
            limits: LocalLimits::default(),
        };
        config.check().unwrap();
        let local = LocalStack::new(config, start.elapsed());
        let slow_path = Arc::new(SlowPath::with_errors(local, errors));
        let node_config = NodeConfig {
            appliance: None,
            id,
            size,
            policy: Policy { key_profile: KeyProfile::Ue, gateway_address: GATEWAY, ..Policy::default() },
            seed: SEED,
            macs: OutsideMacs { internet: IN_MAC, base_station: RAN_MAC, router: MacAddr::default() },
            addresses: Arc::new([NODE_IN.into(), "2001:db8::10".parse().unwrap()]),
            adjacencies: slow_path.adjacencies(),
            identifications: Arc::new(Identifications::new(id, size, 0)),
        };
        let (near_internet, internet) = memory_port_pair(4_096);
        let (near_ran, ran) = memory_port_pair(ran_capacity);
        let (near_fabric, fabric) = memory_port_pair(4_096);
        let ports = change(NodePorts {
            internet: Box::new(near_internet),
            base_station: Box::new(near_ran),
            fabric: Box::new(near_fabric),
        });
        let node_pool = Pool::new(buffers, 4_000).unwrap();
        let mut node =
            Node::new(node_config, tables.tables().node_tables(0), ports, Box::new(node_pool.clone()));
        node.set_lease(Arc::clone(slow_path.lease()));
        let worker = Worker {
            node,
            buffers: Box::new(node_pool.clone()),
            slow_path,
            stats: Arc::default(),
            idle: Idle::Sleep { us: 50 },
            keeps_time: true,
            start,
            mark: tables.mark(0),
        };
        Self { internet, ran, fabric, node_pool, tables, worker }
    }
}

impl Rig {
    /// A running node with these flows.
    pub fn new(flows: &[FlowSpec], buffers: usize) -> Self {
        Self::with_errors(flows, buffers, Self::complete())
    }

    /// For a node whose tables have all flows.
    fn complete() -> Arc<Errors> {
        Errors::new(Arc::new(Lease::unlimited()), None)
    }

    /// A running node with these rules for error messages.
    pub fn with_errors(flows: &[FlowSpec], buffers: usize, errors: Arc<Errors>) -> Self {
        // The base-station link has room for all packets in flight, so it refuses none.
        let Still { internet, ran, fabric, node_pool, tables, mut worker } =
            Still::with_errors(flows, buffers, 16_384, |ports| ports, errors);
        let (stats, slow_path) = (Arc::clone(&worker.stats), Arc::clone(&worker.slow_path));
        let (control, graphs) = (Arc::<Control>::default(), Arc::<Directory>::default());
        let ledger = Arc::new(Mutex::new(worker.node.ledger().clone()));
        graphs.add(worker.node.worker(), ledger);
        let running = Arc::clone(&control);
        let thread = Some(std::thread::spawn(move || worker.run(&running)));
        let pool = Pool::new(8_192, 4_000).unwrap();
        let tables = Arc::new(Mutex::new(tables));
        Self { internet, ran, fabric, pool, node_pool, tables, slow_path, stats, graphs, control, thread }
    }

    pub fn port(&mut self, link: OutputPort) -> &mut MemoryPort<Packet> {
        match link {
            OutputPort::Internet => &mut self.internet,
            OutputPort::BaseStation => &mut self.ran,
        }
    }

    /// Puts a frame on a link, waiting for room.
    pub fn send(&mut self, link: OutputPort, frame: &[u8]) {
        let mut packet = self.pool.packet(frame).unwrap();
        let until = Instant::now() + PATIENCE;
        while let Err(back) = self.port(link).send(packet) {
            packet = back;
            assert!(Instant::now() < until, "the node takes nothing");
            std::thread::yield_now();
        }
    }

    /// The next frame of a link that `wanted` accepts; others are answered (ARP) or ignored.
    pub fn expect<T>(&mut self, link: OutputPort, mut wanted: impl FnMut(&[u8]) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            for on in OutputPort::ALL {
                while let Some(packet) = self.port(on).receive() {
                    let frame = packet.data().to_vec();
                    drop(packet);
                    if on == link
                        && let Some(found) = wanted(&frame)
                    {
                        return found;
                    }
                    self.answer_arp(on, &frame);
                }
            }
            assert!(Instant::now() < until, "nothing came: {:?}", self.slow_path.stats());
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Answers for the router and the base station.
    pub fn answer_arp(&mut self, link: OutputPort, frame: &[u8]) {
        let (mac, address) = match link {
            OutputPort::Internet => (ROUTER_MAC, ROUTER),
            OutputPort::BaseStation => (STATION_MAC, STATION),
        };
        let is_request = frame.len() >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, 1];
        if is_request && frame[38..42] == address.octets() {
            let sender = MacAddr(frame[22..28].try_into().unwrap());
            let asker = Ipv4Addr::from(<[u8; 4]>::try_from(&frame[28..32]).unwrap());
            self.send(link, &arp(2, mac, address, sender, asker));
        }
    }

    /// The node's counters once `done` returns true.
    pub fn counted(&self, done: impl Fn(&NodeStats) -> bool) -> NodeStats {
        let until = Instant::now() + PATIENCE;
        loop {
            let stats = self.stats.counters();
            if done(&stats) {
                return stats;
            }
            assert!(Instant::now() < until, "{stats:?} {:?}", self.slow_path.stats());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the node; its final report.
    pub fn stop(&mut self) -> NodeStats {
        self.control.stop();
        self.thread.take().unwrap().join().expect("the worker ends well");
        self.stats.counters()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An ARP message as bytes, in a frame of minimum length.
pub fn arp(
    operation: u8,
    sender_mac: MacAddr,
    sender: Ipv4Addr,
    target_mac: MacAddr,
    target: Ipv4Addr,
) -> Vec<u8> {
    let to = if operation == 1 { [0xff; 6] } else { target_mac.octets() };
    let mut frame = [&to[..], &sender_mac.octets(), &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
    frame.extend(sender_mac.octets());
    frame.extend(sender.octets());
    frame.extend(target_mac.octets());
    frame.extend(target.octets());
    frame.resize(60, 0);
    frame
}

/// A UDP packet from the server to a UE, at the node's Internet port.
pub fn downstream(n: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(ROUTER_MAC.octets(), IN_MAC.octets())
        .ipv4(SERVER.octets(), ue(n).octets(), 60)
        .udp(53, 4_000)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

/// A UDP packet from a UE to the server, in its tunnel, at the node's base-station port.
pub fn upstream(n: u32, teid: u32, payload: &[u8]) -> Vec<u8> {
    let mut inner = Vec::new();
    PacketBuilder::ipv4(ue(n).octets(), SERVER.octets(), 60)
        .udp(4_000, 53)
        .write(&mut inner, payload)
        .unwrap();
    let mut message = vec![0x30, 255];
    message.extend((inner.len() as u16).to_be_bytes());
    message.extend(teid.to_be_bytes());
    message.extend(inner);
    to_gateway(&message)
}

/// A GTP-U message from the base station.
pub fn to_gateway(message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(STATION_MAC.octets(), RAN_MAC.octets())
        .ipv4(STATION.octets(), GATEWAY.octets(), 60)
        .udp(2_152, 2_152)
        .write(&mut frame, message)
        .unwrap();
    frame
}

/// GTP-U in a frame to the base station: message type, TEID, the rest.
pub fn gtpu(frame: &[u8]) -> Option<(u8, u32, Vec<u8>)> {
    let is_gtpu = frame.len() >= 50 && frame[12..14] == [8, 0] && frame[23] == 17;
    (is_gtpu && frame[36..38] == 2_152_u16.to_be_bytes()).then(|| {
        assert_eq!(frame[..6], STATION_MAC.octets(), "to its next hop");
        (frame[43], u32::from_be_bytes(frame[46..50].try_into().unwrap()), frame[50..].to_vec())
    })
}
