//! Lookups per packet in each table of a node, in every architecture: no key is looked up twice in one table.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::gateway::common::{SEED, downstream, flows, g_pdu, station, to_gateway, upstream_inner};
use scalebricks_apps::gateway::flow_tables::bulk;
use scalebricks_apps::gateway::node::{NodePorts, NodeTables};
use scalebricks_apps::gateway::{Architecture, FlowSpec, Layout, Node};
use scalebricks_elements::gateway::{
    Adjacencies, FabricMac, Identifications, NodeConfig, OutputPort, OutsideMacs, Policy,
};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_tables::compact::Structure;
use scalebricks_tables::hash_partition::HashPartition;
use scalebricks_tables::{Fib, FibError, FibValue, GptReader, KeyBatch};
use scalebricks_types::{ClusterSize, FlowKey, KeyHash, KeyHasher, NodeHint, NodeId};
use scalebricks_wire::MacAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const NODES: usize = 4;
const FLOWS: u32 = 64;
const HERE: NodeId = NodeId::new(0);
const MACS: OutsideMacs = OutsideMacs {
    internet: MacAddr([0x02, 0x5a, 0, 0, 0, 0]),
    base_station: MacAddr([0x02, 0x5a, 1, 0, 0, 0]),
    router: MacAddr([0x02, 0x5a, 2, 0, 0, 0]),
};

/// Keys looked up in a table.
type Asked = Arc<AtomicUsize>;

/// A table that records lookups.
#[derive(Debug)]
struct Counting<T>(T, Asked);

impl<T> Counting<T> {
    fn new(table: T) -> (Self, Asked) {
        let asked = Asked::default();
        (Self(table, Arc::clone(&asked)), asked)
    }

    fn count(&self, keys: KeyBatch<'_>) {
        self.1.fetch_add(keys.len(), Ordering::Relaxed);
    }
}

impl Fib for Counting<Arc<dyn Fib>> {
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]) {
        self.count(keys);
        self.0.lookup_batch(keys, values);
    }

    fn insert(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<(), FibError> {
        self.0.insert(key, hash, value)
    }

    fn update(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<FibValue, FibError> {
        self.0.update(key, hash, value)
    }

    fn remove(&self, key: &FlowKey, hash: KeyHash) -> Result<FibValue, FibError> {
        self.0.remove(key, hash)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }
}

impl GptReader for Counting<Box<dyn GptReader>> {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        self.count(keys);
        self.0.lookup_batch(keys, hints);
    }
}

struct Rig {
    node: Node<Packet>,
    /// The far ends: Internet, base stations, fabric.
    far: [MemoryPort<Packet>; 3],
    pool: Pool,
    asked: [Asked; 3],
}

impl Rig {
    fn new(architecture: Architecture, flows: &[FlowSpec]) -> Self {
        let size = ClusterSize::new(NODES).unwrap();
        let layout = Layout { size, architecture, gpt: Structure::default(), seed: SEED };
        let tables = bulk::fill(&layout, [HERE], 1, &flows.iter().copied()).unwrap()[0].node_tables(0);
        let (gpt, gpt_asked) = Counting::new(tables.gpt);
        let (fib, fib_asked) = Counting::new(tables.fib);
        let lookup_asked = Asked::default();
        let lookup = tables
            .lookup
            .map(|lookup| Box::new(Counting(lookup, Arc::clone(&lookup_asked))) as Box<dyn GptReader>);
        let tables = NodeTables { gpt: Box::new(gpt), lookup, fib: Arc::new(fib), ..tables };
        let pool = Pool::new(1_024, 2_000).unwrap();
        let [(internet, a), (base_station, b), (fabric, c)] =
            [(); 3].map(|()| memory_port_pair(4 * FLOWS as usize));
        let ports = NodePorts {
            internet: Box::new(internet),
            base_station: Box::new(base_station),
            fabric: Box::new(fabric),
        };
        let stations: Vec<_> = (0..4).map(station).collect();
        let config = NodeConfig {
            appliance: None,
            id: HERE,
            size,
            policy: Policy::default(),
            seed: SEED,
            macs: MACS,
            addresses: Arc::new([]),
            adjacencies: Arc::new(Adjacencies::fixed(MACS.router, &stations)),
            identifications: Arc::new(Identifications::new(HERE, size, 0)),
        };
        let node = Node::new(config, tables, ports, Box::new(pool.clone()));
        Self { node, far: [a, b, c], pool, asked: [gpt_asked, lookup_asked, fib_asked] }
    }

    /// Sends these frames to a port. Returns the keys looked up in the GPT, in the lookup table and in the FIB, and the
    /// frames that left by each port.
    fn send(&mut self, port: usize, frames: &[Vec<u8>], mac: MacAddr) -> ([usize; 3], [usize; 3]) {
        for frame in frames {
            let mut packet = self.pool.packet(frame).unwrap();
            packet.data_mut()[..6].copy_from_slice(&mac.octets());
            self.far[port].send(packet).unwrap();
        }
        while self.node.turn(Duration::ZERO) > 0 {}
        let asked = [0, 1, 2].map(|table: usize| self.asked[table].swap(0, Ordering::Relaxed));
        let left = [0, 1, 2].map(|port: usize| std::iter::from_fn(|| self.far[port].receive()).count());
        (asked, left)
    }
}

#[test]
fn each_table_is_asked_once_a_packet_and_only_if_it_is_needed() {
    let flows = flows(FLOWS, NODES, Policy::default().key_profile);
    let hasher = KeyHasher::new(SEED);
    let partition = HashPartition::new(ClusterSize::new(NODES).unwrap());
    for architecture in Architecture::ALL {
        let mut rig = Rig::new(architecture, &flows);
        for is_up in [false, true] {
            let frame = |n: u32, flow: &FlowSpec| {
                if !is_up {
                    return downstream(n, b"down");
                }
                let message = g_pdu(flow.uplink_teid.get(), &upstream_inner(n, b"up"), false);
                to_gateway(Policy::default().gateway_address, 2152, &message)
            };
            let (entry, exit, output, own) = if is_up {
                (1, 0, OutputPort::Internet, MACS.base_station)
            } else {
                (0, 1, OutputPort::BaseStation, MACS.internet)
            };
            // A full batch of each kind, as under load, and single packets.
            for at_once in [FLOWS as usize, 1] {
                for is_own in [true, false] {
                    let chosen: Vec<(Vec<u8>, KeyHash)> = (0..)
                        .zip(&flows)
                        .filter(|(_, flow)| (flow.node == HERE) == is_own)
                        .map(|(n, flow)| {
                            let key = if is_up { FlowKey::teid(flow.uplink_teid) } else { flow.key };
                            (frame(n, flow), hasher.hash(&key))
                        })
                        .collect();
                    assert!(chosen.len() > 10);
                    for some in chosen.chunks(at_once) {
                        let frames: Vec<Vec<u8>> = some.iter().map(|(frame, _)| frame.clone()).collect();
                        let sent = frames.len();
                        let own_sent = if is_own { sent } else { 0 };
                        let looked_up = some.iter().filter(|(_, hash)| partition.node(*hash) == HERE).count();
                        let (wanted, handled) = match architecture {
                            Architecture::FullDuplication | Architecture::Vlb => ([0, 0, sent], own_sent),
                            Architecture::ScaleBricks => ([sent, 0, own_sent], own_sent),
                            Architecture::HashPartition => {
                                let handled = looked_up.min(own_sent);
                                ([sent, looked_up, handled], handled)
                            }
                        };
                        let (asked, left) = rig.send(entry, &frames, own);
                        assert_eq!(asked, wanted, "{architecture}, upstream {is_up}, own {is_own}");
                        assert_eq!((left[exit], left[2]), (handled, sent - handled), "{architecture}");
                    }
                }
            }
            // The ingress node has steered packets that arrive over the fabric: only the FIB is asked.
            let frames: Vec<Vec<u8>> = (0..)
                .zip(&flows)
                .filter(|(_, flow)| flow.node == HERE)
                .map(|(n, flow)| frame(n, flow))
                .collect();
            let (asked, left) = rig.send(2, &frames, FabricMac::handling(HERE, output).encode());
            assert_eq!(asked, [0, 0, frames.len()], "{architecture}, from the fabric");
            assert_eq!(left[exit], frames.len());
        }
        assert_eq!(rig.node.stats().dropped.iter().map(|(_, count)| count).sum::<u64>(), 0);
    }
}
