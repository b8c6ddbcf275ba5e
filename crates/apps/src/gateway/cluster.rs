//! A whole cluster in one process: nodes on an in-memory switch, tables filled for one architecture. The caller holds
//! the far ends of the outside links.

use crate::gateway::architecture::Architecture;
use crate::gateway::flow_tables::{FlowSpec, FlowTables, FlowTablesError, Layout, bulk};
use crate::gateway::node::{Node, NodePorts, NodeTables};
use crate::gateway::worker;
use scalebricks_elements::gateway::fabric::mac::FabricMac;
use scalebricks_elements::gateway::flow::BaseStation;
use scalebricks_elements::gateway::outside::adjacency::Adjacencies;
use scalebricks_elements::gateway::packet::identification::Identifications;
use scalebricks_elements::gateway::packet::policy::{MIN_MTU, Policy};
use scalebricks_elements::gateway::{NodeConfig, OutsideMacs};
use scalebricks_io::switch::StatsReader;
use scalebricks_io::{MemoryPort, MemorySwitch, Packet, Pool, SwitchPort, SwitchStats, memory_port_pair};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed, NodeId};
use scalebricks_wire::MacAddr;
use std::sync::Arc;
use std::time::Duration;

/// Configuration of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// Number of nodes.
    pub size: ClusterSize,
    /// How the FIB is spread over them.
    pub architecture: Architecture,
    /// The structure of the GPT, where the architecture has one.
    pub gpt: Structure,
    /// The nodes' policy.
    pub policy: Policy,
    /// The secret of the key hash.
    pub seed: HashSeed,
    /// The base stations.
    pub base_stations: Vec<BaseStation>,
    /// Capacity of an outside link in packets, per direction.
    pub outside_capacity: usize,
    /// Capacity of the fabric in frames, per pair of nodes.
    pub fabric_capacity: usize,
    /// Buffers for fragments and answers.
    pub buffers: Pool,
    /// What handles packets instead of tunnels; see [`NodeConfig::appliance`]. The base stations are then the inside hosts.
    pub appliance: Option<Arc<str>>,
}

/// Why a cluster could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A flow names a node that does not exist.
    #[error("flow {flow} is pinned to {node}, but the cluster has {size} nodes")]
    NoSuchNode {
        /// The flow's index.
        flow: usize,
        /// The node it names.
        node: NodeId,
        /// The number of nodes.
        size: usize,
    },
    /// A flow names a base station that does not exist.
    #[error("flow {flow} is served by base station {base_station}, but there are {base_stations}")]
    NoSuchBaseStation {
        /// The flow's index.
        flow: usize,
        /// The base station it names.
        base_station: u16,
        /// The number of base stations.
        base_stations: usize,
    },
    /// The MTU of the base-station link is too small.
    #[error("a base-station MTU of {0} is below the minimum of {MIN_MTU}")]
    Mtu(u16),
    /// The tables could not be filled.
    #[error(transparent)]
    Tables(#[from] FlowTablesError),
}

/// The far ends of a node's outside links, and the addresses to use on them.
#[derive(Debug)]
pub struct OutsideLinks {
    /// The Internet's end: packets sent here reach the node as downstream traffic.
    pub internet: MemoryPort<Packet>,
    /// The base stations' end.
    pub base_station: MemoryPort<Packet>,
    /// The MAC addresses on both links.
    pub macs: OutsideMacs,
}

/// Nodes on a fabric, with any tables.
#[derive(Debug)]
pub struct WiredNodes {
    /// The nodes, in order.
    pub nodes: Vec<Node<Packet>>,
    /// The far ends of their outside links.
    pub links: Vec<OutsideLinks>,
    /// Statistics of what each node sent over the fabric.
    pub fabric: Vec<StatsReader>,
}

/// An in-memory cluster of gateway nodes.
#[derive(Debug)]
pub struct Cluster {
    wired: WiredNodes,
    tables: Vec<FlowTables>,
}

impl WiredNodes {
    /// Creates the nodes, with tables from `tables`.
    pub fn new(config: &ClusterConfig, mut tables: impl FnMut(NodeId) -> NodeTables) -> Self {
        let size = config.size;
        let mut switch = MemorySwitch::new(size.get() as u16);
        for node in size.nodes() {
            for mac in FabricMac::announced_by(node, size) {
                switch.announce(mac.octets(), u16::from(node.get()));
            }
        }
        let fabric_ports: Vec<SwitchPort<Packet>> = switch.power_on(config.fabric_capacity);
        let mut wired = Self { nodes: Vec::new(), links: Vec::new(), fabric: Vec::new() };
        for (id, fabric) in size.nodes().zip(fabric_ports) {
            wired.fabric.push(fabric.stats());
            let macs = outside_macs(id);
            let (internet, far_internet) = memory_port_pair(config.outside_capacity);
            let (base_station, far_base_station) = memory_port_pair(config.outside_capacity);
            let ports = NodePorts {
                internet: Box::new(internet),
                base_station: Box::new(base_station),
                fabric: Box::new(fabric),
            };
            let node_config = NodeConfig {
                appliance: config.appliance.clone(),
                id,
                size,
                policy: config.policy,
                seed: config.seed,
                macs,
                addresses: Arc::new([]),
                adjacencies: Arc::new(Adjacencies::fixed(macs.router, &config.base_stations)),
                identifications: Arc::new(Identifications::new(id, size, 0)),
            };
            wired.nodes.push(Node::new(node_config, tables(id), ports, Box::new(config.buffers.clone())));
            wired.links.push(OutsideLinks { internet: far_internet, base_station: far_base_station, macs });
        }
        wired
    }
}

impl Cluster {
    /// A cluster whose tables hold these flows. The tables are built in parallel.
    ///
    /// # Errors
    /// [`ClusterError`]: an invalid flow, or tables that cannot hold the flows.
    pub fn new(config: &ClusterConfig, flows: &[FlowSpec]) -> Result<Self, ClusterError> {
        check(config, flows)?;
        let size = config.size;
        let (architecture, gpt, seed) = (config.architecture, config.gpt, config.seed);
        let layout = Layout { size, architecture, gpt, seed };
        let tables = bulk::fill(&layout, size.nodes(), 1, &flows.iter().copied())?;
        Ok(Self { wired: WiredNodes::new(config, |id| tables[id.index()].node_tables(0)), tables })
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> &[Node<Packet>] {
        &self.wired.nodes
    }

    /// The nodes, mutable, to list their drops.
    pub fn nodes_mut(&mut self) -> &mut [Node<Packet>] {
        &mut self.wired.nodes
    }

    /// The far ends of all outside links, by node.
    pub fn links_mut(&mut self) -> &mut [OutsideLinks] {
        &mut self.wired.links
    }

    /// Processes everything that waits at the outside ports, on up to `threads` threads; returns the time it took.
    pub fn run_until_idle(&mut self, threads: usize) -> Duration {
        worker::run_until_idle(&mut self.wired.nodes, threads)
    }

    /// The fabric's statistics, summed over all nodes.
    pub fn fabric_stats(&self) -> SwitchStats {
        self.wired.fabric.iter().map(StatsReader::read).fold(SwitchStats::default(), |a, b| SwitchStats {
            frames: a.frames + b.frames,
            bytes: a.bytes + b.bytes,
            unknown_address: a.unknown_address + b.unknown_address,
        })
    }

    /// The tables of all nodes, in order.
    pub fn tables(&self) -> &[FlowTables] {
        &self.tables
    }

    /// The tables of all nodes, mutable.
    pub fn tables_mut(&mut self) -> &mut [FlowTables] {
        &mut self.tables
    }
}

fn check(config: &ClusterConfig, flows: &[FlowSpec]) -> Result<(), ClusterError> {
    if config.policy.base_station_mtu < MIN_MTU {
        return Err(ClusterError::Mtu(config.policy.base_station_mtu));
    }
    let base_stations = config.base_stations.len();
    for (flow, spec) in flows.iter().enumerate() {
        if spec.node.index() >= config.size.get() {
            return Err(ClusterError::NoSuchNode { flow, node: spec.node, size: config.size.get() });
        }
        let base_station = spec.base_station.0;
        if config.appliance.is_none() && usize::from(base_station) >= base_stations {
            return Err(ClusterError::NoSuchBaseStation { flow, base_station, base_stations });
        }
    }
    Ok(())
}

/// The MAC addresses on a node's outside links: locally administered, and different from fabric addresses.
fn outside_macs(node: NodeId) -> OutsideMacs {
    let mac = |link| MacAddr([0x02, 0x5a, link, 0, 0, node.get()]);
    OutsideMacs { internet: mac(0), base_station: mac(1), router: mac(2) }
}
