//! Two nodes with the same tables receive the same frames: one has joined elements, the other separate ones.

use super::frames::{self, Kind, Side};
use crate::gateway::common::{SEED, flows, station};
use scalebricks_apps::gateway::flow_tables::{FlowTables, bulk};
use scalebricks_apps::gateway::wiring::Form;
use scalebricks_apps::gateway::{Architecture, Layout, Node, NodePorts, NodeStats, NodeTables};
use scalebricks_elements::gateway::packet::oversize::ICMP_PIECE;
use scalebricks_elements::gateway::{
    Adjacencies, FlowCounters, Identifications, NodeConfig, OutsideMacs, Oversize, Policy,
};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, Tag, memory_port_pair};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, FlowIndex, KeyProfile, NodeId};
use scalebricks_wire::MacAddr;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub const NODES: usize = 4;
pub const FLOWS: u32 = 64;
pub const HERE: NodeId = NodeId::new(1);

/// Frames that a link holds: fewer than arrive, so that the fabric is congested.
const FABRIC: usize = 40;
const OUTSIDE: usize = 1_024;

const MACS: OutsideMacs = OutsideMacs {
    internet: MacAddr([0x02, 0x5a, 0, 0, 0, 1]),
    base_station: MacAddr([0x02, 0x5a, 1, 0, 0, 1]),
    router: MacAddr([0x02, 0x5a, 2, 0, 0, 1]),
};

pub fn tables(architecture: Architecture, profile: KeyProfile) -> FlowTables {
    let size = ClusterSize::new(NODES).unwrap();
    let layout = Layout { size, architecture, gpt: Structure::default(), seed: SEED };
    let flows = flows(FLOWS, NODES, profile);
    bulk::fill(&layout, [HERE], 1, &flows.into_iter()).unwrap().remove(0)
}

fn own(tables: &FlowTables) -> (NodeTables, Arc<FlowCounters>) {
    let counters = Arc::new(FlowCounters::new(FLOWS as usize));
    (NodeTables { counters: Arc::clone(&counters), ..tables.node_tables(0) }, counters)
}

/// The far ends of three links.
struct Far([MemoryPort<Packet>; 3]);

/// Frames that left, by port, and by flow and path: packet, fragment, bytes.
type Left = BTreeMap<(usize, (u32, u32)), Vec<(u64, u8, Vec<u8>)>>;

pub struct Pair {
    nodes: [Node<Packet>; 2],
    counters: [Arc<FlowCounters>; 2],
    far: [Far; 2],
    left: [Left; 2],
    pool: Pool,
    architecture: Architecture,
    config: NodeConfig,
    /// Per packet: its flow and path, and whether it is a fragment.
    sent: HashMap<u64, ((u32, u32), bool)>,
    /// Whether frames arrived at several ports together.
    is_mixed: bool,
}

impl Pair {
    pub fn new(tables: &FlowTables, architecture: Architecture, profile: KeyProfile, answers: bool) -> Self {
        let size = ClusterSize::new(NODES).unwrap();
        let stations: Vec<_> = (0..4).map(station).collect();
        let oversize = if answers { Oversize::Icmp } else { Oversize::FragmentOuter };
        let config = || NodeConfig {
            appliance: None,
            id: HERE,
            size,
            policy: Policy { key_profile: profile, oversize, ..Policy::default() },
            seed: SEED,
            macs: MACS,
            addresses: Arc::new([]),
            adjacencies: Arc::new(Adjacencies::fixed(MACS.router, &stations)),
            identifications: Arc::new(Identifications::new(HERE, size, 0)),
        };
        let pool = Pool::new(8_192, 4_000).unwrap();
        let made = [Form::Joined, Form::Apart].map(|form| {
            let [(internet, a), (base_station, b), (fabric, c)] =
                [OUTSIDE, OUTSIDE, FABRIC].map(memory_port_pair);
            let ports = NodePorts {
                internet: Box::new(internet),
                base_station: Box::new(base_station),
                fabric: Box::new(fabric),
            };
            let (own_tables, counters) = own(tables);
            let mut node = Node::in_form(config(), own_tables, ports, Box::new(pool.clone()), form);
            node.list_drops();
            (node, counters, Far([a, b, c]))
        });
        let [(joined, of_joined, far_joined), (apart, of_apart, far_apart)] = made;
        Self {
            nodes: [joined, apart],
            counters: [of_joined, of_apart],
            far: [far_joined, far_apart],
            left: [Left::new(), Left::new()],
            pool,
            architecture,
            config: config(),
            sent: HashMap::new(),
            is_mixed: false,
        }
    }

    /// Sends frames to these sides, and runs both nodes until they are idle.
    pub fn send(&mut self, together: &[(Side, Vec<Kind>)]) {
        self.is_mixed |= together.len() > 1;
        let frames: Vec<(Side, u64, Vec<u8>)> = together
            .iter()
            .flat_map(|(side, kinds)| kinds.iter().map(move |kind| (*side, kind)))
            .map(|(side, kind)| {
                let NodeConfig { policy, macs, .. } = &self.config;
                let (frame, is_fragment) = frames::frame(kind, side, self.architecture, policy, macs);
                let id = self.sent.len() as u64;
                // Relayed frames may overtake those that are looked up, and these may overtake those that are handled.
                let way = if side == Side::Fabric { kind.to.way() } else { 0 };
                let flow = (kind.flow, side as u32 * 4 + way);
                // A damaged frame may belong to any flow.
                let flow = if kind.damage.is_empty() { flow } else { (id as u32, u32::MAX) };
                self.sent.insert(id, (flow, is_fragment));
                (side, id, frame)
            })
            .collect();
        for which in 0..2 {
            for side in Side::ALL {
                self.send_in(which, side, frames.iter().filter(|frame| frame.0 == side));
            }
            while self.turn(which) + self.turn(which) + self.collect(which) > 0 {}
        }
    }

    /// Puts frames on a link that has no room for all of them.
    fn send_in<'a>(
        &mut self,
        which: usize,
        side: Side,
        frames: impl Iterator<Item = &'a (Side, u64, Vec<u8>)>,
    ) {
        for (_, id, frame) in frames {
            loop {
                let mut packet = self.pool.packet(frame).unwrap();
                packet.set_tag(Tag { id: *id, ..Tag::default() });
                if self.far[which].0[side as usize].send(packet).is_ok() {
                    break;
                }
                self.turn(which);
                self.collect(which);
            }
        }
    }

    fn turn(&mut self, which: usize) -> usize {
        self.nodes[which].turn(Duration::ZERO)
    }

    /// Collects the frames that left; returns their number.
    fn collect(&mut self, which: usize) -> usize {
        let mut came = 0;
        for (number, port) in self.far[which].0.iter_mut().enumerate() {
            while let Some(packet) = port.receive() {
                let Tag { id, piece, .. } = packet.tag();
                let (flow, is_fragment) = self.sent[&id];
                let mut bytes = packet.data().to_vec();
                // The nodes may process packets that arrived together in different orders, and they draw detours and
                // identifications of outer packets in order. The detours of fragments depend on a secret of the
                // process.
                if number == 2 && (is_fragment || self.is_mixed) && self.architecture == Architecture::Vlb {
                    bytes[2..4].fill(0);
                }
                if number != 2 && piece > 0 && piece != ICMP_PIECE && self.is_mixed {
                    bytes[18..20].fill(0);
                    bytes[24..26].fill(0);
                }
                // A reply belongs to no flow, so it may overtake.
                let flow = if piece == ICMP_PIECE { (id as u32, u32::MAX) } else { flow };
                self.left[which].entry((number, flow)).or_default().push((id, piece, bytes));
                came += 1;
            }
        }
        came
    }

    /// Compares the outcomes of all frames; returns the counters of a node.
    pub fn compare(&mut self) -> NodeStats {
        let [of_joined, of_apart] = &self.left;
        let only = |one: &Left, other: &Left| {
            one.iter()
                .filter(|(key, _)| !other.contains_key(key))
                .map(|(key, all)| (*key, all.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (only(of_joined, of_apart), only(of_apart, of_joined)),
            (vec![], vec![]),
            "ports and flows"
        );
        for (place, packets) in of_joined {
            assert_eq!(packets, &of_apart[place], "port and flow {place:?}");
        }
        let [joined, apart] = self.nodes.each_mut().map(|node| {
            let mut dropped: Vec<_> =
                node.take_drops().iter().map(|dropped| (dropped.tag.id, dropped.reason.name())).collect();
            dropped.sort_unstable();
            assert_eq!(node.worker().graph().held(), 0);
            (dropped, node.stats())
        });
        assert_eq!(joined, apart);
        for flow in 0..FLOWS {
            let [joined, apart] = self.counters.each_ref().map(|counters| counters.read(FlowIndex(flow)));
            assert_eq!(joined, apart, "flow {flow}");
        }
        joined.1
    }
}
