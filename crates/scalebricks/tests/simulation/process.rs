//! One node's process: its control plane on a runtime of its own, whose clock the world turns, and its forwarding.

use crate::simulation::engine::SimEngine;
use crate::simulation::hub::{Hub, ms, seconds};
use crate::simulation::network::SimLink;
use scalebricks_apps::gateway::{FlowTables, Node, NodePorts};
use scalebricks_cluster::heartbeat::{BackupHeartbeat, LOOK_EVERY};
use scalebricks_cluster::inbox::Inbox;
use scalebricks_cluster::leasing::Leasing;
use scalebricks_cluster::plane::PeerLink;
use scalebricks_cluster::shared_tables::SharedTables;
use scalebricks_cluster::{ControlPlane, PlaneConfig};
use scalebricks_control::lease::LeaseTimes;
use scalebricks_control::membership::{Beat, Fitness, Unfitness};
use scalebricks_control::version::Version;
use scalebricks_elements::gateway::{
    Adjacencies, BaseStation, FabricHealth, Identifications, Lease, NodeConfig, OutsideMacs, Policy,
};
use scalebricks_graph::Mark;
use scalebricks_io::{MemoryPort, Packet, Pool, memory_port_pair};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{ClusterSize, HashSeed, KeyHasher, KeyProfile, NodeId, PartitionCount};
use scalebricks_wire::MacAddr;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub const SEED: HashSeed = HashSeed::from_u64(9);
pub const PARTITIONS: u32 = 4;
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
pub const STATION: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub const IN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub const RAN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
pub const STATION_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);

/// The longest time that a packet takes from one node to another, as nodes are told.
pub const GRACE: Duration = ms(50);

/// Time between two probes of the fabric, and between two looks at what they say.
const PROBE_EVERY: Duration = ms(100);
const REFRESH_EVERY: Duration = ms(20);

/// What a heartbeat is answered by, which proves that it is fresh, may be older than it by so much; one that is older itself is
/// refused.
const FRESH: Duration = seconds(2);

/// Between two tries to start.
const PATIENCE: Duration = ms(500);

pub fn partitions() -> PartitionCount {
    PartitionCount::new(PARTITIONS).unwrap()
}

pub fn id(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

/// What is the same at all nodes of a world.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub nodes: usize,
    pub params: Params,
    /// Keys that a FIB takes.
    pub max_keys: usize,
    /// Whether workers look at their lease.
    pub has_leases: bool,
}

impl Plan {
    /// Every other seed has the other structure of the GPT.
    pub fn new(seed: u64, nodes: usize) -> Self {
        let structure = Structure::ALL[(seed % 2) as usize];
        let params = Params::for_keys(structure, 2_000, 3, partitions()).unwrap();
        Self { nodes, params, max_keys: 1 << 20, has_leases: true }
    }
}

/// What a process has as soon as its control plane has started.
#[derive(Default)]
struct Begun {
    inbox: OnceLock<Inbox>,
    plane: OnceLock<ControlPlane>,
}

/// The link of a process, with heartbeats that go on while it is busy.
struct Beats {
    link: SimLink,
    heartbeat: Arc<BackupHeartbeat>,
    inbox: Inbox,
}

impl PeerLink for Beats {
    fn beat(&self, beat: Beat) {
        self.heartbeat.asked(beat, self.inbox.beats(), Instant::now());
        self.link.send_beat(&beat);
    }

    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        self.link.send(to, bytes);
    }
}

/// A process.
pub struct Process {
    /// Which of all processes it is.
    pub number: u64,
    hub: Hub,
    node: usize,
    runtime: Runtime,
    /// When it began, by its own clock.
    began: Instant,
    begun: Arc<Begun>,
    heartbeat: Arc<BackupHeartbeat>,
    messages: mpsc::UnboundedSender<(usize, Vec<u8>)>,
    pub tables: SharedTables,
    pub forwarding: Node<Packet>,
    mark: Mark,
    lease: Arc<Lease>,
    fabric_health: Arc<FabricHealth>,
    next_refresh: Duration,
    pub internet: MemoryPort<Packet>,
    pub base_station: MemoryPort<Packet>,
    pub fabric: MemoryPort<Packet>,
    next_look: Duration,
}

impl Process {
    /// Starts a process with empty tables.
    pub fn start(hub: &Hub, node: usize, number: u64, plan: &Plan, pool: &Pool) -> Self {
        let size = ClusterSize::new(plan.nodes).unwrap();
        let mut tables = FlowTables::for_log(id(node), plan.params, KeyHasher::new(SEED), 1, 0)
            .with_max_keys(plan.max_keys);
        let (near_internet, internet) = memory_port_pair(256);
        let (near_base_station, base_station) = memory_port_pair(256);
        let (near_fabric, fabric) = memory_port_pair(256);
        let config = NodeConfig {
            appliance: None,
            id: id(node),
            size,
            policy: Policy { key_profile: KeyProfile::Ue, gateway_address: GATEWAY, ..Policy::default() },
            seed: SEED,
            macs: OutsideMacs { internet: IN_MAC, base_station: RAN_MAC, router: ROUTER_MAC },
            addresses: Arc::new([]),
            adjacencies: Arc::new(Adjacencies::fixed(
                ROUTER_MAC,
                &[BaseStation { address: STATION, mac: STATION_MAC }],
            )),
            identifications: Arc::new(Identifications::new(id(node), size, 0)),
        };
        let ports = NodePorts {
            internet: Box::new(near_internet),
            base_station: Box::new(near_base_station),
            fabric: Box::new(near_fabric),
        };
        let mut forwarding = Node::new(config, tables.node_tables(0), ports, Box::new(pool.clone()));
        let lease = Arc::new(Lease::none().to_be_filled());
        let fabric_health = Arc::new(FabricHealth::new(id(node), size, SEED, Some(PROBE_EVERY)));
        if plan.has_leases {
            forwarding.set_lease(Arc::clone(&lease));
        }
        forwarding.set_fabric_health(Arc::clone(&fabric_health));
        let mark = tables.mark(0).unwrap();
        let tables = SharedTables::new(tables);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let began = runtime.block_on(async { Instant::now() });
        let (messages, came) = mpsc::unbounded_channel();
        let process = Self {
            number,
            hub: hub.clone(),
            node,
            runtime,
            began,
            begun: Arc::default(),
            heartbeat: Arc::default(),
            messages,
            tables,
            forwarding,
            mark,
            lease,
            fabric_health,
            next_refresh: Duration::ZERO,
            internet,
            base_station,
            fabric,
            next_look: LOOK_EVERY,
        };
        process.begin(plan, came);
        hub.lock().network.begin(node, Some(number));
        process
    }

    fn link(&self) -> SimLink {
        SimLink { hub: self.hub.clone(), node: self.node, process: self.number }
    }

    /// Starts the control plane, as soon as the log can be reached.
    fn begin(&self, plan: &Plan, mut came: mpsc::UnboundedReceiver<(usize, Vec<u8>)>) {
        let config = PlaneConfig {
            node: id(self.node),
            partitions: partitions(),
            params: plan.params,
            hasher: KeyHasher::new(SEED),
            grace: GRACE,
            version: Version::NEWEST,
        };
        let engine = Arc::new(SimEngine { hub: self.hub.clone(), node: self.node });
        let (begun, heartbeat, tables) =
            (Arc::clone(&self.begun), Arc::clone(&self.heartbeat), self.tables.clone());
        let (hub, node, process) = (self.hub.clone(), self.node, self.number);
        let leasing = Leasing {
            times: LeaseTimes::default(),
            lease: Arc::clone(&self.lease),
            fabric: Some(Arc::clone(&self.fabric_health)),
            start: self.began,
        };
        self.runtime.spawn(async move {
            let plane = loop {
                let engine = Arc::<SimEngine>::clone(&engine);
                let mut way_in = None;
                let link = |inbox: Inbox| -> Arc<dyn PeerLink> {
                    way_in = Some(inbox.clone());
                    let link = SimLink { hub: hub.clone(), node, process };
                    Arc::new(Beats { link, heartbeat: Arc::clone(&heartbeat), inbox })
                };
                let started = ControlPlane::start(config.clone(), engine, tables.clone(), link).await;
                if let (Ok(plane), Some(inbox)) = (started, way_in) {
                    let _once = begun.inbox.set(inbox);
                    break plane;
                }
                tokio::time::sleep(PATIENCE).await;
            };
            plane.carry_counters(tables).await;
            plane.keep_lease(leasing).await;
            let _once = begun.plane.set(plane);
            while let Some((from, bytes)) = came.recv().await {
                if let Some(inbox) = begun.inbox.get()
                    && !inbox.came(id(from), bytes).await
                {
                    return;
                }
            }
        });
    }

    /// The control plane, once it has started.
    pub fn plane(&self) -> Option<&ControlPlane> {
        self.begun.plane.get()
    }

    /// The time since the process began, by its clock.
    pub fn now(&self) -> Duration {
        let _context = self.runtime.enter();
        self.began.elapsed()
    }

    /// Takes in what has arrived. Heartbeats do not wait for the actor.
    fn receive(&self, with_messages: bool) {
        let mut shared = self.hub.lock();
        let now = shared.now;
        let beats = shared.network.take_beats(self.node, now);
        let messages = if with_messages { shared.network.take_messages(self.node, now) } else { Vec::new() };
        drop(shared);
        if let Some(inbox) = self.begun.inbox.get() {
            let _context = self.runtime.enter();
            for (from, beat, sent) in beats.into_iter().filter(|(.., sent)| now < *sent + FRESH) {
                let sent_after = Instant::now().checked_sub(now.checked_sub(sent).unwrap() * 11 / 10);
                inbox.beat_sent_after(id(from), beat, sent_after.unwrap_or(self.began));
            }
            for message in messages {
                drop(self.messages.send(message));
            }
        }
    }

    /// Runs until this time of its own clock.
    pub fn run_until(&mut self, time: Duration) {
        self.receive(true);
        let until = self.began + time;
        self.runtime.block_on(async move { tokio::time::sleep_until(until).await });
        self.beat_on(time);
    }

    /// Its clock goes on, and none of its tasks.
    pub fn stand_still_until(&mut self, time: Duration) {
        let skipped = time.saturating_sub(self.now());
        let _context = self.runtime.enter();
        let advance = pin!(tokio::time::advance(skipped));
        let _turned = advance.poll(&mut Context::from_waker(Waker::noop()));
    }

    /// The same, but that heartbeats come and go: its actor is busy.
    pub fn be_busy_until(&mut self, time: Duration) {
        self.receive(false);
        self.stand_still_until(time);
        self.beat_on(time);
    }

    /// Sends heartbeats for an actor that is busy, as the product does beside it.
    fn beat_on(&mut self, time: Duration) {
        if time < self.next_look {
            return;
        }
        self.next_look = time + LOOK_EVERY;
        let context = self.runtime.enter();
        let overdue = self.heartbeat.overdue(Instant::now());
        drop(context);
        if let Some(beat) = overdue {
            self.link().send_beat(&beat);
        }
    }

    /// What looks after the fabric, beside the worker and the control plane.
    pub fn look_after_fabric(&mut self) {
        let now = self.now();
        if now >= self.next_refresh {
            self.next_refresh = now + REFRESH_EVERY;
            let _routes = self.fabric_health.refresh(now);
        }
    }

    /// Whether the node's lease lets it forward.
    pub fn has_lease(&self) -> bool {
        self.lease.may_forward(self.now())
    }

    /// Says that the worker makes progress, or that it makes none.
    pub fn set_worker_progress(&self, makes_progress: bool) {
        if let Some(plane) = self.plane() {
            plane.set_fitness(if makes_progress {
                Fitness::FIT
            } else {
                Fitness::FIT.with(Unfitness::Worker)
            });
        }
    }

    /// A turn of its worker.
    pub fn forward(&mut self) -> usize {
        let now = self.now();
        self.mark.pass();
        self.forwarding.turn(now)
    }

    /// Runs a task of a caller in this process.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Whether the process takes itself for a member in this life, and has caught up.
    pub fn is_ready(&self, life: u64) -> bool {
        self.plane().is_some_and(|plane| {
            let view = plane.view();
            plane.has_caught_up()
                && view.member(id(self.node)).is_some_and(|member| member.is_alive && member.life == life)
        })
    }
}
