//! A running node of a cluster of two. The test has the far ends of its links, and an admin server serves it.

use scalebricks_admin::client::{Client, Target};
use scalebricks_admin::graph::ServedGraph;
use scalebricks_admin::inspect::{CaptureError, CaptureStream, Inspect, TraceError};
use scalebricks_admin::model::{
    CaptureRequest, FabricPeerView, FlowsView, NeighbourView, NodeCounters, NodeState, PoolView,
    PortCounters, PortRole, PortView, ReasonView, Stats, Status, TableRole, TableView, Trace, TraceRequest,
    WorkerStats, WorkerView,
};
use scalebricks_admin::server::{AdminServer, Listen};
use scalebricks_admin::trace::answer;
use scalebricks_apps::directory::Directory;
use scalebricks_apps::gateway::flow_tables::{FlowTables, Layout, bulk};
use scalebricks_apps::gateway::{Architecture, FlowSpec, Node, NodePorts, NodeStats};
use scalebricks_elements::gateway::flow::BaseStationId;
use scalebricks_elements::gateway::{
    Adjacencies, BaseStation, Identifications, NodeConfig, OutsideMacs, Policy,
};
use scalebricks_graph::tap::{MAX_CAPTURES, Taps};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, FlowKey, HashSeed, NodeId, Qfi, Teid};
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub const MACS: OutsideMacs = OutsideMacs {
    internet: MacAddr([2, 0, 0, 0, 0, 1]),
    base_station: MacAddr([2, 0, 0, 0, 0, 2]),
    router: MacAddr([2, 0, 0, 0, 0, 3]),
};
const FLOWS: u32 = 100;
const PATIENCE: Duration = Duration::from_secs(60);

pub fn ue(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a2d_0000 + n)
}

/// Flow `n`: UDP from the server's port 53 to the UE's port 4000; even ones are pinned here.
fn flow(n: u32) -> FlowSpec {
    FlowSpec {
        key: FlowKey::five_tuple_v4(SERVER, ue(n), 17, 53, 4000),
        uplink_teid: Teid::new(0x10000 + n),
        downlink_teid: Teid::new(0x20000 + n),
        base_station: BaseStationId(0),
        qfi: Qfi::new(9).ok(),
        node: NodeId::new((n % 2) as u8),
    }
}

/// A downstream frame of flow `n`.
pub fn downstream(n: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([0x00, 0x16, 0x3e, 1, 2, 3], MACS.internet.octets())
        .ipv4(SERVER.octets(), ue(n).octets(), 60)
        .udp(53, 4000)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

/// The node as the server sees it.
pub struct Window {
    config: NodeConfig,
    tables: FlowTables,
    taps: Taps,
    turns: AtomicU64,
    state: Mutex<NodeState>,
    reasons: Mutex<Vec<ReasonView>>,
    stats: Mutex<NodeStats>,
    started: Instant,
    pub graphs: Arc<Directory>,
}

impl Window {
    pub fn set_state(&self, state: NodeState) {
        *self.state.lock().unwrap() = state;
    }

    /// Makes the node unfit for this reason.
    pub fn set_reasons(&self, reasons: Vec<ReasonView>) {
        *self.reasons.lock().unwrap() = reasons;
    }

    pub fn captures(&self) -> usize {
        self.taps.running()
    }

    /// Completed turns of the node.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    pub fn counted(&self) -> NodeStats {
        *self.stats.lock().unwrap()
    }

    fn worker(&self) -> WorkerView {
        WorkerView {
            worker: 0,
            core: Some(2),
            mode: "sleep".to_owned(),
            busy_share: 0.125,
            busy_s: self.started.elapsed().as_secs_f64() / 8.0,
            turns: 123_456,
            mean_batch_fill: 3.25,
        }
    }
}

impl Inspect for Window {
    fn status(&self) -> Status {
        let id = self.config.id;
        let table = |table, bytes: usize| TableView { table, table_bytes: bytes as u64, keys: Some(200) };
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: u16::from(id.get()),
            nodes: self.config.size.get() as u16,
            architecture: Architecture::ScaleBricks.name().to_owned(),
            key: self.config.policy.key_profile.to_string(),
            state: *self.state.lock().unwrap(),
            reasons: self.reasons(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            flows: FlowsView {
                in_cluster: u64::from(FLOWS),
                here: u64::from(FLOWS / 2),
                file: "/etc/scalebricks/flows.csv".to_owned(),
                loaded_unix_s: Some(1_700_000_000.0),
                generation: 1,
            },
            tables: vec![
                table(TableRole::Gpt, self.tables.sizes().gpt_bytes),
                table(TableRole::Fib, self.tables.sizes().fib_bytes),
            ],
            ports: vec![PortView {
                role: PortRole::Internet,
                device: "net_af_packet0,iface=eth1".to_owned(),
                driver: "net_af_packet".to_owned(),
                mac: MACS.internet.to_string(),
                addresses: vec!["192.0.2.2/24".to_owned()],
                is_link_up: true,
                speed_mbps: Some(10_000),
            }],
            neighbours: vec![NeighbourView {
                port: PortRole::Internet,
                address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
                mac: Some(MACS.router.to_string()),
                state: "reachable".to_owned(),
                age_s: Some(2.5),
            }],
            fabric: vec![FabricPeerView {
                node: 0,
                is_heard: true,
                is_reached: false,
                round_trip_us: Some(250.0),
                via: Some(2),
            }],
            workers: vec![self.worker()],
        }
    }

    fn stats(&self) -> Stats {
        let counters = NodeCounters::from(&self.counted());
        let port = PortCounters {
            role: PortRole::Internet,
            rx_packets: counters.get("internet_in"),
            rx_bytes: 64 * counters.get("internet_in"),
            rx_missed: 0,
            rx_errors: 0,
            rx_no_buffer: 0,
            rx_shared: 0,
            rx_unusable: 0,
            tx_packets: counters.get("internet_out"),
            tx_bytes: 64 * counters.get("internet_out"),
            tx_errors: 0,
        };
        Stats {
            uptime_s: self.started.elapsed().as_secs_f64(),
            total: counters.clone(),
            workers: vec![WorkerStats { worker: self.worker(), counters }],
            ports: vec![port],
            slow_path: [("arp_requests_answered".to_owned(), 3)].into(),
            pool: PoolView { free: 8_000, in_use: 192 },
            moved_counters: None,
            control: None,
        }
    }

    fn trace(&self, request: &TraceRequest) -> Result<Trace, TraceError> {
        if *self.state.lock().unwrap() == NodeState::Loading {
            return Err(TraceError::NotReady);
        }
        answer(self.config.clone(), self.tables.node_tables(0), request)
    }

    fn capture(&self, request: &CaptureRequest) -> Result<CaptureStream, CaptureError> {
        let selection = request.selection()?;
        self.taps.start(selection).map_err(|_| CaptureError::TooMany(MAX_CAPTURES))
    }

    fn graph(&self) -> ServedGraph {
        ServedGraph::new(Arc::clone(&self.graphs), "/etc/scalebricks/node.toml", self.started)
    }

    fn is_ready(&self) -> bool {
        *self.state.lock().unwrap() == NodeState::Ready && self.reasons().is_empty()
    }

    fn reasons(&self) -> Vec<ReasonView> {
        self.reasons.lock().unwrap().clone()
    }
}

/// The far ends of the node's links.
pub struct Far {
    pub internet: MemoryPort<Packet>,
    pub base_station: MemoryPort<Packet>,
    pool: Pool,
}

impl Far {
    pub fn downstream(&mut self, n: u32, payload: &[u8]) {
        let packet = self.pool.packet(&downstream(n, payload)).unwrap();
        self.internet.send(packet).unwrap();
    }

    /// The next packet to a base station.
    pub fn at_base_station(&mut self) -> Vec<u8> {
        let start = Instant::now();
        loop {
            if let Some(packet) = self.base_station.receive() {
                return packet.data().to_vec();
            }
            assert!(start.elapsed() < PATIENCE, "no packet came");
            std::thread::yield_now();
        }
    }
}

/// The node with its server. Stops when dropped.
pub struct Running {
    pub window: Arc<Window>,
    pub far: Mutex<Far>,
    pub server: AdminServer,
    pub folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start() -> Self {
        Self::listening(|_| {})
    }

    /// With a server that listens as given.
    pub fn listening(change: impl FnOnce(&mut Listen)) -> Self {
        let size = ClusterSize::new(2).unwrap();
        let flows: Vec<FlowSpec> = (0..FLOWS).map(flow).collect();
        let (seed, id) = (HashSeed::new(3, 4), NodeId::new(0));
        let layout = Layout { size, architecture: Architecture::ScaleBricks, gpt: Structure::SetSep, seed };
        let tables = bulk::fill(&layout, [id], 1, &flows.into_iter()).unwrap().remove(0);
        let config = NodeConfig {
            appliance: None,
            id,
            size,
            policy: Policy::default(),
            seed,
            macs: MACS,
            addresses: Arc::new([]),
            adjacencies: Arc::new(Adjacencies::fixed(
                MACS.router,
                &[BaseStation { address: Ipv4Addr::new(10, 9, 0, 1), mac: MacAddr([2, 0, 0, 0, 0, 9]) }],
            )),
            identifications: Arc::new(Identifications::new(id, size, 0)),
        };
        let taps = Taps::default();
        let (internet, far_internet) = memory_port_pair(1_024);
        let (base_station, far_base_station) = memory_port_pair(1_024);
        let (fabric, _) = memory_port_pair(1_024);
        let ports = NodePorts {
            internet: Box::new(internet),
            base_station: Box::new(base_station),
            fabric: Box::new(fabric),
        };
        let pool = Pool::new(8_192, 2_000).unwrap();
        let mut node = Node::new(config.clone(), tables.node_tables(0), ports, Box::new(pool.clone()));
        node.set_taps(&taps);
        let window = Arc::new(Window {
            config,
            tables,
            taps,
            turns: AtomicU64::new(0),
            reasons: Mutex::default(),
            state: Mutex::new(NodeState::Ready),
            stats: Mutex::default(),
            started: Instant::now(),
            graphs: Arc::default(),
        });
        let ledger = Arc::new(Mutex::new(node.ledger().clone()));
        window.graphs.add(node.worker(), ledger);
        let stop = Arc::new(AtomicBool::new(false));
        let (its_window, its_stop) = (Arc::clone(&window), Arc::clone(&stop));
        let worker = std::thread::spawn(move || {
            while !its_stop.load(Ordering::Relaxed) {
                let moved = node.turn(its_window.started.elapsed());
                *its_window.stats.lock().unwrap() = node.stats();
                its_window.turns.fetch_add(1, Ordering::Relaxed);
                if moved == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let mut listen = Listen::on(folder.path().join("admin.sock"));
        change(&mut listen);
        let server = AdminServer::start(&listen, Arc::clone(&window) as Arc<dyn Inspect>).unwrap();
        let far = Mutex::new(Far { internet: far_internet, base_station: far_base_station, pool });
        Self { window, far, server, folder, stop, worker: Some(worker) }
    }

    pub fn socket(&self) -> PathBuf {
        self.server.socket().to_owned()
    }

    pub fn client(&self) -> Client {
        Client::new(Target::Unix(self.socket()), PATIENCE).unwrap()
    }

    /// Waits until a condition holds.
    pub fn until(&self, what: &str, holds: impl Fn(&Window) -> bool) {
        let start = Instant::now();
        while !holds(&self.window) {
            assert!(start.elapsed() < PATIENCE, "{what} does not come");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            worker.join().unwrap();
        }
    }
}
