//! Counters of flows that move, with real nodes that forward, control planes over a real log, and links between these that lose,
//! duplicate and reorder: each packet of a flow is counted once, at one node.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use crate::harness::{PATIENCE, block_on};
use crate::worker;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scalebricks_apps::gateway::{FlowSpec, FlowTables, Node, NodePorts};
use scalebricks_cluster::inbox::Inbox;
use scalebricks_cluster::moved::MovedCounters;
use scalebricks_cluster::plane::PeerLink;
use scalebricks_cluster::shared_tables::SharedTables;
use scalebricks_cluster::wire::{Envelope, Message};
use scalebricks_cluster::{ControlPlane, PlaneConfig};
use scalebricks_control::codec::Encoded;
use scalebricks_control::membership::Beat;
use scalebricks_control::record::{Change, Session};
use scalebricks_elements::gateway::{
    Adjacencies, BaseStation, FabricMac, FlowCount, Identifications, NodeConfig, OutsideMacs, Policy,
};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_graph::Mark;
use scalebricks_io::{MemoryPort, MemorySwitch, Packet, Pool, memory_port_pair};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{
    ClusterSize, FlowKey, HashSeed, KeyHasher, KeyProfile, NodeId, PartitionCount, Teid,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use worker::{GATEWAY, IN_MAC, RAN_MAC, ROUTER_MAC, STATION, STATION_MAC, downstream, flow, upstream};

const SEED: HashSeed = HashSeed::from_u64(9);
const NODES: usize = 3;

fn partitions() -> PartitionCount {
    PartitionCount::new(4).unwrap()
}

fn params() -> Params {
    Params::for_keys(Structure::SetSep, 10_000, 2, partitions()).unwrap()
}

fn uplink(n: u32) -> Teid {
    flow(n, 0).uplink_teid
}

type Inboxes = Arc<Mutex<HashMap<NodeId, Inbox>>>;

/// The connection to the other nodes. A third of the couriers' messages is lost, and a fifth is delayed and duplicated.
struct BadLink {
    me: NodeId,
    inboxes: Inboxes,
    rng: Mutex<SmallRng>,
}

impl PeerLink for BadLink {
    fn beat(&self, beat: Beat) {
        let inboxes = self.inboxes.lock().unwrap();
        inboxes.iter().filter(|(node, _)| **node != self.me).for_each(|(_, inbox)| inbox.beat(self.me, beat));
    }

    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        let Some(inbox) = self.inboxes.lock().unwrap().get(&to).cloned() else { return };
        let mut rng = self.rng.lock().unwrap();
        let counts = matches!(Envelope::decode(&bytes), Ok(Envelope::Direct(Message::Counts(_))));
        let copies = match rng.random_range(0..15) {
            0..5 if counts => 0,
            5..8 if counts => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let (me, inbox, bytes) = (self.me, inbox.clone(), bytes.clone());
            let delay = Duration::from_millis(if counts { rng.random_range(0..30) } else { 0 });
            tokio::spawn(async move {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                inbox.came(me, bytes).await
            });
        }
    }
}

/// A node that forwards on the thread of the test, and its control plane.
struct Running {
    node: Node<Packet>,
    internet: MemoryPort<Packet>,
    base_station: MemoryPort<Packet>,
    mark: Mark,
    tables: SharedTables,
    plane: ControlPlane,
    left: usize,
}

struct Cluster {
    nodes: BTreeMap<usize, Running>,
    inboxes: Inboxes,
    pool: Pool,
    rng: SmallRng,
    /// What was sent, by flow.
    sent: BTreeMap<u32, FlowCount>,
    _directory: tempfile::TempDir,
}

fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

impl Cluster {
    async fn new(seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Arc::new(EmbeddedLog::open(directory.path(), Options::default()).unwrap());
        let inboxes = Inboxes::default();
        let pool = Pool::new(4_096, 4_000).unwrap();
        let size = ClusterSize::new(NODES).unwrap();
        let mut switch = MemorySwitch::new(NODES as u16);
        for id in size.nodes() {
            for mac in FabricMac::announced_by(id, size) {
                switch.announce(mac.octets(), u16::from(id.get()));
            }
        }
        let mut nodes = BTreeMap::new();
        for (id, fabric) in size.nodes().zip(switch.power_on(1_024)) {
            let mut tables = FlowTables::for_log(id, params(), KeyHasher::new(SEED), 1, 0);
            let (internet, far_internet) = memory_port_pair(1_024);
            let (base_station, far_base_station) = memory_port_pair(1_024);
            let config = NodeConfig {
                appliance: None,
                id,
                size,
                policy: Policy { key_profile: KeyProfile::Ue, gateway_address: GATEWAY, ..Policy::default() },
                seed: SEED,
                macs: OutsideMacs { internet: IN_MAC, base_station: RAN_MAC, router: ROUTER_MAC },
                addresses: Arc::new([]),
                adjacencies: Arc::new(Adjacencies::fixed(
                    ROUTER_MAC,
                    &[BaseStation { address: STATION, mac: STATION_MAC }],
                )),
                identifications: Arc::new(Identifications::new(id, size, 0)),
            };
            let ports = NodePorts {
                internet: Box::new(internet),
                base_station: Box::new(base_station),
                fabric: Box::new(fabric),
            };
            let node = Node::new(config, tables.node_tables(0), ports, Box::new(pool.clone()));
            let mark = tables.mark(0).unwrap();
            let tables = SharedTables::new(tables);
            let config = PlaneConfig {
                node: id,
                partitions: partitions(),
                params: params(),
                hasher: KeyHasher::new(SEED),
                grace: Duration::from_millis(5),
                version: scalebricks_control::version::Version::NEWEST,
            };
            let engine = Arc::<EmbeddedLog>::clone(&engine);
            let rng = Mutex::new(SmallRng::seed_from_u64(seed + u64::from(id.get())));
            let plane = ControlPlane::start(config, engine, tables.clone(), |inbox| {
                inboxes.lock().unwrap().insert(id, inbox);
                Arc::new(BadLink { me: id, inboxes: Arc::clone(&inboxes), rng })
            });
            let plane = plane.await.unwrap();
            plane.carry_counters(tables.clone()).await;
            let (internet, base_station) = (far_internet, far_base_station);
            let running = Running { node, internet, base_station, mark, tables, plane, left: 0 };
            nodes.insert(id.index(), running);
        }
        let rng = SmallRng::seed_from_u64(seed);
        let mut cluster = Self { nodes, inboxes, pool, rng, sent: BTreeMap::new(), _directory: directory };
        cluster
            .until("all are up", |cluster| {
                let is_up = |running: &Running| {
                    running.plane.has_caught_up() && running.plane.view().alive().count() == NODES
                };
                cluster.nodes.values().all(is_up)
            })
            .await;
        cluster
    }

    /// Runs the nodes until a condition holds.
    async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}; {:#?}", self.moved());
            self.turn();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn turn(&mut self) {
        loop {
            let mut moved = 0;
            for running in self.nodes.values_mut() {
                running.mark.pass();
                moved += running.node.turn(Duration::ZERO);
                for port in [&mut running.internet, &mut running.base_station] {
                    running.left += std::iter::from_fn(|| port.receive()).count();
                }
            }
            if moved == 0 {
                return;
            }
        }
    }

    fn send(&mut self, to: usize, is_up: bool, frame: &[u8]) {
        let running = self.nodes.get_mut(&to).unwrap();
        let port = if is_up { &mut running.base_station } else { &mut running.internet };
        port.send(self.pool.packet(frame).unwrap()).unwrap();
    }

    /// A packet in each direction, with any ingress node.
    fn traffic(&mut self, n: u32) {
        let nodes: Vec<usize> = self.nodes.keys().copied().collect();
        let payload = vec![7; self.rng.random_range(0..300)];
        let (down, up) = (downstream(n, &payload), upstream(n, uplink(n).get(), &payload));
        for (frame, is_up) in [(&down, false), (&up, true)] {
            let at = nodes[self.rng.random_range(0..nodes.len())];
            self.send(at, is_up, frame);
        }
        *self.sent.entry(n).or_default() += FlowCount {
            downstream_packets: 1,
            downstream_bytes: down.len() as u64 - 14,
            upstream_packets: 1,
            upstream_bytes: up.len() as u64 - 14 - 20 - 8 - 8,
        };
    }

    fn plane(&mut self) -> ControlPlane {
        let nodes: Vec<usize> = self.nodes.keys().copied().collect();
        self.nodes[&nodes[self.rng.random_range(0..nodes.len())]].plane.clone()
    }

    /// Sends changes to a node's control plane while the nodes run.
    async fn accept(&mut self, changes: Vec<Change>, wait: bool) {
        let plane = self.plane();
        let task = tokio::spawn(async move {
            let accepted = plane.accept(changes).await.unwrap();
            assert!(!wait || plane.applied(&accepted).await);
        });
        self.finish(task).await;
    }

    async fn finish(&mut self, task: tokio::task::JoinHandle<()>) {
        let began = Instant::now();
        while !task.is_finished() {
            assert!(began.elapsed() < PATIENCE, "not after {PATIENCE:?}");
            self.turn();
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        task.await.unwrap();
    }

    fn moved(&self) -> Vec<(usize, MovedCounters)> {
        self.nodes.iter().map(|(number, running)| (*number, running.plane.moved_counters())).collect()
    }

    /// The final counts of flows that ended.
    fn ended(&self) -> FlowCount {
        self.moved().into_iter().map(|(_, moved)| moved.ended.count()).sum()
    }

    /// The counts of a flow at all nodes that have counts of it.
    fn counts(&self, n: u32) -> Vec<(usize, FlowCount)> {
        let count = |running: &Running| running.tables.lock().count(uplink(n));
        self.nodes.iter().filter_map(|(number, running)| Some((*number, count(running)?))).collect()
    }

    /// The counts of a flow as reported by a node, which asks the handling node.
    async fn asked(&mut self, n: u32, at: usize) -> Option<FlowCount> {
        let plane = self.plane();
        plane.flow_count(node(at), uplink(n)).await
    }

    /// All packets left, and all counts of each flow are at its handling node.
    async fn all_at(&mut self, at: &BTreeMap<u32, usize>) {
        let are_there =
            |cluster: &Self| at.iter().all(|(n, at)| cluster.counts(*n) == [(*at, cluster.sent[n])]);
        let began = Instant::now();
        while !are_there(self) {
            let wrong = at.iter().find(|(n, at)| self.counts(**n) != [(**at, self.sent[n])]);
            if began.elapsed() > PATIENCE {
                let (n, at) = wrong.unwrap();
                let (sent, counts) = (self.sent[n], self.counts(*n));
                panic!("flow {n} at {at}: sent {sent:?}, counted {counts:?}, {:#?}", self.moved());
            }
            self.turn();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn left(&self) -> usize {
        self.nodes.values().map(|running| running.left).sum()
    }
}

fn pin(spec: &FlowSpec) -> Vec<Change> {
    let session = |value| Session::new(spec.node, value);
    spec.entries().map(|(key, value)| Change::Upsert(key, session(value))).to_vec()
}

fn remove(n: u32) -> Vec<Change> {
    [flow(n, 0).key, FlowKey::teid(uplink(n))].map(Change::Delete).to_vec()
}

#[test]
fn a_flow_that_moves_a_thousand_times_under_traffic_has_its_totals() {
    block_on(async {
        let mut cluster = Cluster::new(1).await;
        let mut at: BTreeMap<u32, usize> = (0..20).map(|n| (n, 0)).collect();
        let pins = at.keys().flat_map(|n| pin(&flow(*n, 0))).collect();
        cluster.accept(pins, true).await;
        for round in 0..1_000 {
            // The first flow always, and some other sometimes.
            let others = (round % 5 == 0).then(|| cluster.rng.random_range(1..20));
            let mut changes = Vec::new();
            for n in std::iter::once(0).chain(others) {
                let to = (at[&n] + cluster.rng.random_range(1..NODES)) % NODES;
                at.insert(n, to);
                changes.extend(pin(&flow(n, to as u8)));
            }
            cluster.traffic(0);
            cluster.traffic(round % 20);
            cluster.accept(changes, round % 4 == 0).await;
        }
        let last: Vec<u32> = at.keys().copied().collect();
        for n in last {
            cluster.traffic(n);
        }
        cluster.all_at(&at).await;
        let packets: u64 =
            cluster.sent.values().map(|sent| sent.downstream_packets + sent.upstream_packets).sum();
        assert_eq!(cluster.left() as u64, packets, "no packet is lost");
        cluster
            .until("nothing waits", |cluster| {
                cluster.moved().iter().all(|(_, moved)| moved.waiting_flows + moved.under_way_flows == 0)
            })
            .await;
        for (number, moved) in cluster.moved() {
            assert_eq!((moved.ended.flows, moved.lost.flows, moved.refused_parcels), (0, 0, 0), "{number}");
            assert!(moved.sent_flows > 10 && moved.received_flows > 10, "{number}: {moved:?}");
            assert!(moved.resent_parcels > 0 && moved.duplicate_parcels > 0, "{number}: {moved:?}");
        }
    });
}

#[test]
fn flows_that_end_and_nodes_that_leave_keep_the_grand_total() {
    block_on(async {
        let mut cluster = Cluster::new(2).await;
        let mut at: BTreeMap<u32, usize> = (0..60).map(|n| (n, n as usize % NODES)).collect();
        let pins = at.iter().flat_map(|(n, at)| pin(&flow(*n, *at as u8))).collect();
        cluster.accept(pins, true).await;
        for _ in 0..5 {
            (0..60).for_each(|n| cluster.traffic(n));
            cluster.turn();
        }
        // Some flows end just after they moved.
        let moves = (0..20).flat_map(|n| pin(&flow(n, (at[&n] as u8 + 1) % NODES as u8))).collect();
        cluster.accept(moves, false).await;
        (0..20).for_each(|n| cluster.traffic(n));
        cluster.turn();
        cluster.accept((0..20).flat_map(remove).collect(), true).await;
        let gone: FlowCount = (0..20).map(|n| cluster.sent[&n]).sum();
        cluster.until("they have ended", |cluster| cluster.ended() == gone).await;
        assert!((0..20).all(|n| cluster.counts(n).is_empty()));
        at.retain(|n, _| *n >= 20);
        cluster.all_at(&at).await;
        for (n, at) in &at {
            assert_eq!(cluster.asked(*n, *at).await, Some(cluster.sent[n]));
            assert_eq!(cluster.asked(*n, (at + 1) % NODES).await, None, "not there");
        }

        // A node is drained and leaves: other nodes have its flows' counts by then.
        let plane = cluster.plane();
        let task = tokio::spawn(async move {
            plane.place(|placement| placement.set_drained(node(2), true)).await.unwrap();
        });
        cluster.finish(task).await;
        let grand = |cluster: &Cluster| -> FlowCount {
            (0..60).flat_map(|n| cluster.counts(n)).map(|(_, count)| count).chain([cluster.ended()]).sum()
        };
        let sent: FlowCount = cluster.sent.values().copied().sum();
        let has_nothing = |cluster: &Cluster| (0..60).flat_map(|n| cluster.counts(n)).all(|(at, _)| at != 2);
        cluster.until("it has nothing", |cluster| grand(cluster) == sent && has_nothing(cluster)).await;
        // Both directions of a flow are at one other node, which has all counts of it.
        for (n, at) in &mut at {
            let counts = cluster.counts(*n);
            assert_eq!(counts.len(), 1, "flow {n}: {counts:?}");
            *at = counts[0].0;
            assert_eq!(cluster.asked(*n, *at).await, Some(cluster.sent[n]));
        }
        cluster.all_at(&at).await;
        // The final counts of ended flows may have been at that node.
        let took = cluster.moved()[2].1.ended.count();
        cluster.inboxes.lock().unwrap().remove(&node(2));
        cluster.nodes.remove(&2);
        cluster
            .until("the others know", |cluster| {
                cluster.nodes.values().all(|running| running.plane.view().alive().count() == 2)
            })
            .await;
        assert_eq!([grand(&cluster), took].into_iter().sum::<FlowCount>(), sent);

        // Flows continue to move between the remaining nodes.
        let moves: Vec<Change> = (20..60).flat_map(|n| pin(&flow(n, (n % 2) as u8))).collect();
        cluster.accept(moves, true).await;
        (20..60).for_each(|n| cluster.traffic(n));
        let at = (20..60).map(|n| (n, n as usize % 2)).collect();
        cluster.all_at(&at).await;
    });
}
