//! The cluster router: a node as a graph of elements, and a full mesh of nodes in memory.
//!
//! ```text
//! FromDevice(port p) ─▶ CheckIPHeader ─▶ DecIPTTL ─▶ RouterInput ─▶ steering ─┬▶ link to each node
//!                                                                             └▶ RestoreMac ─▶ port p
//! FromDevice(link n) ─▶ MacSwitch ─┬▶ link to each node                           ▲
//!                                  └──────────────────────────────────────────────┘
//! ```
//!
//! A queue precedes each device: a full link must not stop what goes to others, or two nodes could wait for each other.

use crate::router::network::{Network, NetworkError, Wiring};
use scalebricks_elements::fabric::mac::PORTS;
use scalebricks_elements::fabric::next_hops::NextHops;
use scalebricks_elements::{RestoreMac, RouterInput};
use scalebricks_graph::{Builder, Graph, Ledger, Registry};
use scalebricks_io::{Packet, PacketBuf};
use scalebricks_tables::lpm::{Lpm, Params};
use scalebricks_types::{ClusterSize, NodeId};
use scalebricks_wire::MacAddr;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// How a node chooses the way of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steering {
    /// Over a random node.
    Valiant,
    /// Up to R/N directly, the rest over random nodes.
    Direct,
    /// The same, but a flowlet keeps its way.
    Flowlets,
}

impl Steering {
    /// All, in the order of the paper.
    pub const ALL: [Self; 3] = [Self::Valiant, Self::Direct, Self::Flowlets];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valiant => "valiant",
            Self::Direct => "direct-vlb",
            Self::Flowlets => "flowlets",
        }
    }
}

/// A cluster: a full mesh of equal nodes.
#[derive(Debug, Clone)]
pub struct RouterConfig {
    /// Number of nodes.
    pub size: ClusterSize,
    /// External ports of each node, 1 to 64.
    pub ports: u8,
    /// Rate of an external port, bytes per second.
    pub port_rate: u64,
    /// Rate of a link between two nodes, bytes per second. [`Self::link_share`] gives multiples of R/N.
    pub link_rate: u64,
    /// How packets are spread.
    pub steering: Steering,
    /// Packets that a queue before a device holds.
    pub queue: usize,
    /// Bytes that may exceed the rates of the steering at once; `None` for the elements' defaults.
    pub burst: Option<u64>,
    /// Seed of random choices.
    pub seed: u64,
}

/// Why a cluster could not be created.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The number of ports is out of range.
    #[error("{0} external ports, of 1 to {PORTS}")]
    Ports(u8),
    /// The description of a node is wrong.
    #[error("{0}")]
    Node(String),
    /// A graph or the network could not be created.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

impl RouterConfig {
    /// R: the rate of all external ports of a node together.
    pub const fn node_rate(&self) -> u64 {
        self.port_rate * self.ports as u64
    }

    /// The rate of links of `times` R/N: 2 for classic VLB, 3 for Direct VLB.
    pub const fn link_share(&self, times: u64) -> u64 {
        (self.node_rate() * times).div_ceil(self.size.get() as u64)
    }

    /// The graph of a node. `table` has next hops of [`RouterMac::hop`](scalebricks_elements::fabric::mac::RouterMac::hop),
    /// `hops` the MAC addresses of the node's own next hops. Devices are named `port0`, `port1`, …, and `node0`, `node1`,
    /// … for the links; a packet program may bind them to any kind of port.
    ///
    /// # Errors
    /// [`RouterError`].
    pub fn node<P: PacketBuf + 'static>(
        &self,
        id: NodeId,
        table: &Arc<Lpm<Ipv4Addr>>,
        hops: &Arc<NextHops>,
        registry: &Registry<P>,
    ) -> Result<(Graph<P>, Ledger), RouterError> {
        let macs = (0..self.ports).map(|port| port_mac(id, port)).collect();
        let restore = RestoreMac::new(macs, Arc::clone(hops)).map_err(|_| RouterError::Ports(self.ports))?;
        let mut builder = Builder::new();
        builder.declare("check", "CheckIPHeader", &["14"]).declare("ttl", "DecIPTTL", &[]);
        let route = RouterInput::new(Arc::clone(table), Arc::new(Lpm::new(Params::SMALL)), None);
        builder.add("route", route).add("restore", restore);
        let switching = self.switching(id);
        switching.declare(&mut builder);
        builder.chain(&["check", "ttl", "route", "steer"]);
        for port in 0..self.ports {
            let (from, device) = (format!("from_port{port}"), format!("port{port}"));
            builder.declare(&from, "FromDevice", &[&device]).chain(&[&from, "check"]);
            let queue = switching.output(&mut builder, &device, &device);
            builder.connect("restore", usize::from(port), &queue, 0);
        }
        let own = id.index();
        builder.connect("steer", own, "restore", 0).connect("switch", own, "restore", 0);
        for other in self.size.nodes().filter(|&other| other != id) {
            let (from, device) = (format!("from_node{}", other.get()), format!("node{}", other.get()));
            builder.declare(&from, "FromDevice", &[&device]).connect(&from, 0, "switch", other.index());
            let queue = switching.output(&mut builder, &device, &device);
            builder.connect("steer", other.index(), &queue, 0).connect("switch", other.index(), &queue, 0);
        }
        let mut ledger = Ledger::new();
        let graph = builder
            .build(registry, &mut ledger)
            .map_err(|errors| NetworkError::Graph { node: id.index(), errors: errors.to_string() })?;
        Ok((graph, ledger))
    }

    const fn switching(&self, id: NodeId) -> Switching {
        let Self { size, link_rate, steering, queue, burst, seed, .. } = *self;
        Switching { id, size, rate: self.node_rate(), link_rate, steering, queue, burst, seed }
    }
}

/// How a node moves frames to others: the elements that every form of a node has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switching {
    pub(super) id: NodeId,
    pub(super) size: ClusterSize,
    /// R, bytes per second.
    pub(super) rate: u64,
    pub(super) link_rate: u64,
    pub(super) steering: Steering,
    pub(super) queue: usize,
    pub(super) burst: Option<u64>,
    pub(super) seed: u64,
}

impl Switching {
    /// The elements `steer` and `switch`.
    pub(super) fn declare<P: PacketBuf + 'static>(&self, builder: &mut Builder<P>) {
        let (node, nodes) = (self.id.get().to_string(), self.size.get().to_string());
        let seed = format!("SEED {}", self.seed);
        let rate = format!("RATE {}", self.rate);
        let link = format!("LINK {}", self.link_rate);
        let burst = self.burst.map_or_else(String::new, |bytes| format!("BURST {bytes}"));
        match self.steering {
            Steering::Valiant => builder.declare("steer", "ClassicVLB", &[&node, &nodes, &seed]),
            Steering::Direct => {
                builder.declare("steer", "DirectVLB", &[&node, &nodes, &rate, &link, &burst, &seed])
            }
            Steering::Flowlets => {
                builder.declare("steer", "Flowlets", &[&node, &nodes, &rate, &burst, &seed])
            }
        };
        builder.declare("switch", "MacSwitch", &[&node, &nodes, &seed]);
    }

    /// A queue and a device to send by; the name of the queue.
    pub(super) fn output<P: PacketBuf + 'static>(
        &self,
        builder: &mut Builder<P>,
        device: &str,
        name: &str,
    ) -> String {
        let (queue, to) = (format!("queue_{name}"), format!("to_{name}"));
        builder.declare(&queue, "Queue", &[&self.queue.to_string()]).declare(&to, "ToDevice", &[device]);
        builder.chain(&[&queue, &to]);
        queue
    }
}

/// The MAC address of an external port.
pub const fn port_mac(node: NodeId, port: u8) -> MacAddr {
    MacAddr([0x02, 0x5a, 0x10, port, 0, node.get()])
}

/// A cluster in memory, in virtual time. External port `p` of node `n` has number `n * ports + p` on both sides of the
/// [`Network`].
#[derive(Debug)]
pub struct RouterCluster {
    /// Nodes and links.
    pub network: Network,
    config: RouterConfig,
    /// By node and node: the number of the link.
    links: Vec<Vec<usize>>,
}

impl RouterCluster {
    /// A cluster whose nodes share these routes; `hops` are the next hops of each node.
    ///
    /// # Errors
    /// [`RouterError`].
    pub fn new(
        config: &RouterConfig,
        table: &Arc<Lpm<Ipv4Addr>>,
        hops: &[Arc<NextHops>],
        buffers: usize,
    ) -> Result<Self, RouterError> {
        if !(1..=PORTS).contains(&usize::from(config.ports)) {
            return Err(RouterError::Ports(config.ports));
        }
        let registry = scalebricks_elements::registry::<Packet>();
        let nodes = config.size.nodes().zip(hops);
        let graphs = nodes.map(|(id, hops)| config.node(id, table, hops, &registry));
        let mut wiring = Wiring::new(graphs.collect::<Result<_, _>>()?);
        let count = config.size.get();
        let mut links = vec![vec![usize::MAX; count]; count];
        for (from, links) in links.iter_mut().enumerate() {
            for port in 0..config.ports {
                let device = format!("port{port}");
                wiring.inlet((from, &device));
                wiring.outlet((from, &device), config.port_rate);
            }
            for (to, link) in links.iter_mut().enumerate().filter(|&(to, _)| to != from) {
                let (out, into) = (format!("node{to}"), format!("node{from}"));
                *link = wiring.link((from, &out), (to, &into), config.link_rate);
            }
        }
        Ok(Self { network: wiring.finish(buffers)?, config: config.clone(), links })
    }

    /// The number of the link from a node to another; `None` if there is none.
    pub fn link(&self, from: usize, to: usize) -> Option<usize> {
        self.links.get(from)?.get(to).copied().filter(|&link| link != usize::MAX)
    }

    /// The number of an external port.
    pub const fn port(&self, node: usize, port: usize) -> usize {
        node * self.config.ports as usize + port
    }

    /// Marks a link as down or up in both directions at all nodes, as control does.
    ///
    /// # Errors
    /// A text if the cluster has no such nodes.
    pub fn set_link(&mut self, a: usize, b: usize, is_up: bool) -> Result<(), String> {
        let handler = if is_up { "up" } else { "down" };
        for number in 0..self.network.len() {
            let Some(node) = self.network.node(number) else { continue };
            for element in ["steer", "switch"] {
                for link in [format!("{a} {b}"), format!("{b} {a}")] {
                    node.graph_mut().write(element, handler, &link).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(())
    }
}
