//! Nodes that probe each other over a fabric in memory, in simulated time, with directed cuts between pairs of them.

use crate::gateway::common::{SEED, downstream, flows, g_pdu, station, to_gateway, upstream_inner};
use scalebricks_apps::gateway::flow_tables::bulk;
use scalebricks_apps::gateway::node::{NodePorts, NodeTables};
use scalebricks_apps::gateway::{Architecture, FlowSpec, Layout, Node, NodeStats};
use scalebricks_elements::gateway::fabric::health::{HEARING, PROBE_EVERY, STEADY};
use scalebricks_elements::gateway::{
    Adjacencies, DropReason, FabricHealth, FabricMac, Identifications, NodeConfig, OutsideMacs, Phase, Policy,
};
use scalebricks_io::{
    Burst, MemoryPort, MemorySwitch, Packet, PacketBuf, Pool, Port, RxPort, SwitchPort, Tag, TxPort,
    memory_port_pair,
};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, NodeId, NodeSet};
use scalebricks_wire::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const TURN: Duration = Duration::from_millis(5);
/// Turns between two refreshes.
pub const REFRESH: u32 = 6;
pub const FLOWS: u32 = 120;
/// Time from a cut until every path avoids it: probes stay unanswered for [`HEARING`], the next refresh detects that,
/// the next probe reports it, and the refresh after that detects the report.
pub const DETECTED: Duration = HEARING.saturating_add(PROBE_EVERY).saturating_add(Duration::from_millis(100));
/// Time from the end of a cut until paths are direct again.
pub const HEALED: Duration = STEADY.saturating_add(Duration::from_millis(300));

/// Directed pairs of nodes between which frames are lost.
pub type Cuts = Arc<Mutex<BTreeSet<(usize, usize)>>>;

/// Frames that crossed the fabric, without probes: sender, receiver, MAC address.
pub type Crossings = Arc<Mutex<Vec<(usize, FabricMac)>>>;

struct CutPort {
    me: usize,
    port: SwitchPort<Packet>,
    pub cuts: Cuts,
    pub crossings: Crossings,
}

impl RxPort<Packet> for CutPort {
    fn rx_burst(&mut self, burst: &mut Burst<Packet>) -> usize {
        self.port.rx_burst(burst)
    }
}

impl TxPort<Packet> for CutPort {
    fn tx_burst(&mut self, burst: &mut Burst<Packet>) -> usize {
        let offered = burst.len();
        let cuts = self.cuts.lock().unwrap();
        let mut crossings = self.crossings.lock().unwrap();
        burst.retain(|packet| {
            let mac = FabricMac::decode(MacAddr(*packet.data().first_chunk().unwrap())).unwrap();
            if mac.phase != Phase::Probe {
                crossings.push((self.me, mac));
            }
            !cuts.contains(&(self.me, mac.node.index()))
        });
        self.port.tx_burst(burst);
        offered - burst.len()
    }
}

pub struct Rig {
    pub nodes: Vec<Node<Packet>>,
    pub healths: Vec<Arc<FabricHealth>>,
    pub links: Vec<[MemoryPort<Packet>; 2]>,
    pub cuts: Cuts,
    pub crossings: Crossings,
    pub pool: Pool,
    pub flows: Vec<FlowSpec>,
    pub architecture: Architecture,
    pub now: Duration,
    pub turns: u32,
    /// Its process is stopped.
    pub stopped: Option<usize>,
    /// It runs a turn only every 200 ms.
    pub slow: Option<usize>,
    pub next_id: u64,
}

pub fn macs(node: NodeId) -> OutsideMacs {
    let mac = |link| MacAddr([0x02, 0x5a, link, 0, 0, node.get()]);
    OutsideMacs { internet: mac(0), base_station: mac(1), router: mac(2) }
}

/// A node, and the far ends of its outside links: Internet, base stations.
pub fn node(
    layout: &Layout,
    id: NodeId,
    tables: NodeTables,
    fabric: Box<dyn Port<Packet>>,
    buffers: &Pool,
) -> (Node<Packet>, [MemoryPort<Packet>; 2]) {
    let (internet, far_internet) = memory_port_pair(1_024);
    let (base_station, far_base_station) = memory_port_pair(1_024);
    let ports = NodePorts { internet: Box::new(internet), base_station: Box::new(base_station), fabric };
    let stations: Vec<_> = (0..4).map(station).collect();
    let config = NodeConfig {
        appliance: None,
        id,
        size: layout.size,
        policy: Policy::default(),
        seed: SEED,
        macs: macs(id),
        addresses: Arc::new([]),
        adjacencies: Arc::new(Adjacencies::fixed(macs(id).router, &stations)),
        identifications: Arc::new(Identifications::new(id, layout.size, 0)),
    };
    let mut node = Node::new(config, tables, ports, Box::new(buffers.clone()));
    node.list_drops();
    (node, [far_internet, far_base_station])
}

pub fn rig(architecture: Architecture, nodes: usize) -> Rig {
    let policy = Policy::default();
    let (size, flows) = (ClusterSize::new(nodes).unwrap(), flows(FLOWS, nodes, policy.key_profile));
    let layout = Layout { size, architecture, gpt: Structure::default(), seed: SEED };
    let tables = bulk::fill(&layout, size.nodes(), 1, &flows.iter().copied()).unwrap();
    let pool = Pool::new(8_192, 2_000).unwrap();
    let (cuts, crossings) = (Cuts::default(), Crossings::default());
    let mut switch = MemorySwitch::new(nodes as u16);
    for node in size.nodes() {
        for mac in FabricMac::announced_by(node, size) {
            switch.announce(mac.octets(), u16::from(node.get()));
        }
    }
    let mut rig = Rig {
        nodes: Vec::new(),
        healths: Vec::new(),
        links: Vec::new(),
        cuts,
        crossings,
        pool,
        flows,
        architecture,
        now: Duration::from_secs(3),
        turns: 0,
        stopped: None,
        slow: None,
        next_id: 0,
    };
    for (id, port) in size.nodes().zip(switch.power_on(1_024)) {
        let fabric =
            CutPort { me: id.index(), port, cuts: rig.cuts.clone(), crossings: rig.crossings.clone() };
        let (mut node, links) =
            node(&layout, id, tables[id.index()].node_tables(0), Box::new(fabric), &rig.pool);
        let health = Arc::new(FabricHealth::new(id, size, SEED, Some(PROBE_EVERY)));
        node.set_fabric_health(Arc::clone(&health));
        rig.nodes.push(node);
        rig.healths.push(health);
        rig.links.push(links);
    }
    rig
}

/// Outcome of packets: how often each left at its node, and how many were dropped.
#[derive(Default)]
pub struct Outcome {
    pub left: BTreeMap<u64, (usize, u8)>,
    pub dropped: Vec<DropReason>,
    pub sent: BTreeMap<u64, usize>,
}

impl Rig {
    pub fn size(&self) -> ClusterSize {
        ClusterSize::new(self.nodes.len()).unwrap()
    }

    /// Cuts the paths between these nodes, in both directions.
    pub fn cut(&self, pairs: &[(usize, usize)]) {
        self.cuts.lock().unwrap().extend(pairs);
    }

    pub fn heal(&self) {
        self.cuts.lock().unwrap().clear();
    }

    pub fn turn(&mut self, outcome: &mut Outcome) {
        self.now += TURN;
        self.turns += 1;
        for (at, (node, health)) in self.nodes.iter_mut().zip(&self.healths).enumerate() {
            if self.stopped == Some(at) {
                continue;
            }
            if (self.turns + at as u32).is_multiple_of(REFRESH) {
                health.refresh(self.now);
            }
            if self.slow == Some(at) && !self.turns.is_multiple_of(40) {
                continue;
            }
            node.turn(self.now);
            outcome.dropped.extend(node.take_drops().iter().map(|drop| drop.reason));
            for link in &mut self.links[at] {
                while let Some(packet) = link.receive() {
                    let Tag { id, hops, .. } = packet.tag();
                    assert!(outcome.left.insert(id, (at, hops)).is_none(), "packet {id} left twice");
                }
            }
        }
    }

    pub fn pass(&mut self, time: Duration) -> Outcome {
        let (until, mut outcome) = (self.now + time, Outcome::default());
        while self.now < until {
            self.turn(&mut outcome);
        }
        outcome
    }

    /// Sends one packet of each flow in each direction from each node, and runs turns until all must have left.
    pub fn all_flows(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        let flows = self.flows.clone();
        let nodes = self.nodes.len();
        for (n, flow) in (0..).zip(&flows) {
            for ingress in 0..nodes {
                let inner = upstream_inner(n, b"up");
                let gateway = self.nodes[0].config().policy.gateway_address;
                let up = to_gateway(gateway, 2152, &g_pdu(flow.uplink_teid.get(), &inner, false));
                for (link, frame) in [(0, downstream(n, b"down")), (1, up)] {
                    let mut packet = self.pool.packet(&frame).unwrap();
                    let own = [
                        macs(NodeId::new(ingress as u8)).internet,
                        macs(NodeId::new(ingress as u8)).base_station,
                    ];
                    packet.data_mut()[..6].copy_from_slice(&own[link].octets());
                    packet.set_tag(Tag { id: self.next_id, ..Tag::default() });
                    outcome.sent.insert(self.next_id, flow.node.index());
                    self.next_id += 1;
                    self.links[ingress][link].send(packet).unwrap();
                }
            }
            if n % 20 == 19 {
                (0..8).for_each(|_| self.turn(&mut outcome));
            }
        }
        (0..8).for_each(|_| self.turn(&mut outcome));
        outcome
    }

    /// Sends all flows: every packet leaves once, at its node.
    pub fn all_arrive(&mut self) -> Outcome {
        self.crossings.lock().unwrap().clear();
        let outcome = self.all_flows();
        assert_eq!(outcome.dropped, [], "dropped");
        let lost = outcome.sent.keys().filter(|id| !outcome.left.contains_key(id)).count();
        assert_eq!(lost, 0, "packets were lost");
        for (id, (node, hops)) in &outcome.left {
            assert_eq!(outcome.sent[id], *node);
            let most = 2 * self.architecture.max_hops();
            assert!(*hops <= most, "{hops} hops");
        }
        // A relay sends the frame directly to its destination.
        for (_, mac) in self.crossings.lock().unwrap().iter().filter(|(_, mac)| mac.phase.is_indirect()) {
            assert_ne!(mac.node, mac.output_node);
        }
        outcome
    }

    pub fn stats(&self) -> NodeStats {
        let mut all = NodeStats::default();
        self.nodes.iter().for_each(|node| all += &node.stats());
        all
    }

    pub fn relayed(&self) -> u64 {
        self.stats().relayed
    }

    /// All detours: sender, receiver, relay.
    pub fn detours(&self) -> Vec<(usize, usize, usize)> {
        let nodes = self.healths.iter().enumerate();
        nodes
            .flat_map(|(at, health)| {
                let routes = health.routes();
                routes.detours().map(|(to, via)| (at, to.index(), via.index())).collect::<Vec<_>>()
            })
            .collect()
    }

    pub fn reaches(&self, node: usize) -> NodeSet {
        self.healths[node].reaches(self.now)
    }
}

pub fn both(a: usize, b: usize) -> [(usize, usize); 2] {
    [(a, b), (b, a)]
}

pub fn settled(architecture: Architecture, nodes: usize) -> Rig {
    let mut rig = rig(architecture, nodes);
    rig.pass(Duration::from_secs(2));
    let all: NodeSet = rig.size().nodes().collect();
    for node in 0..nodes {
        let mut others = all;
        others.remove(NodeId::new(node as u8));
        assert_eq!((rig.reaches(node), rig.healths[node].hears(rig.now)), (others, others));
    }
    assert_eq!(rig.detours(), []);
    rig.all_arrive();
    assert_eq!(rig.relayed(), 0);
    rig
}
