//! Nodes joined by links with capacities and FIFO queues, in virtual time: a packet-level simulation that runs the real
//! graphs. It is deterministic: the same packets at the same times give the same result.

use crate::router::paths::{MOST_PATHS, Paths, number, path};
use scalebricks_graph::{Clock, Environment, Graph, Inlet, Ledger, Outlet, Recording, Secret, Worker};
use scalebricks_io::{CaptureReader, MemoryPort, Packet, PacketBuf, Pool, PoolError, memory_port_pair};
use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Packets that wait in a ring between a node and a link within a step.
const RING: usize = 1 << 12;

/// Longest packet.
const PACKET_BYTES: usize = 2_048;

/// Most turns of a node per step: far more than the packets of a step need.
const TURNS: usize = 1 << 16;

/// Why a network could not be created or did not run.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A graph did not build.
    #[error("the graph of node {node}: {errors}")]
    Graph {
        /// The node.
        node: usize,
        /// The errors.
        errors: String,
    },
    /// Packet buffers could not be created.
    #[error("packet buffers: {0}")]
    Pool(#[from] PoolError),
    /// All buffers are in use.
    #[error("no packet buffer is free, or a packet of {0} bytes is too long for one")]
    NoBuffer(usize),
    /// A link got more packets in a step than its ring holds.
    #[error("a port of node {0} got more packets in a step than its ring holds")]
    RingFull(usize),
    /// Packets took more paths than a tag can number.
    #[error("packets took more than {MOST_PATHS} paths")]
    Paths,
    /// A node always has work.
    #[error("node {0} did not come to rest")]
    Restless(usize),
}

/// Where a link leads.
enum Target {
    /// To a node; its far end of the ring.
    Node(MemoryPort<Packet>),
    /// Out of the network, with this number.
    Outside(usize),
}

/// A link: what enters leaves in order, at the rate of the link.
struct Link {
    from: MemoryPort<Packet>,
    target: Target,
    /// The receiving node.
    to: usize,
    bytes_per_second: u64,
    /// Bytes that may pass, in billionths.
    credit: u128,
    queue: VecDeque<Packet>,
    stats: LinkStats,
    is_cut: bool,
}

/// What a link did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Bytes that entered.
    pub bytes_in: u64,
    /// Packets that passed.
    pub packets_out: u64,
    /// Packets that wait.
    pub waiting: usize,
    /// Most packets that waited at once since the statistics were last taken.
    pub most_waiting: usize,
}

/// A packet that left the network.
#[derive(Debug)]
pub struct Departure {
    /// The port, as numbered by [`Wiring::outlet`].
    pub port: usize,
    /// The packet. `hops` of its tag counts the links between nodes that it passed.
    pub packet: Packet,
}

/// A packet that was sent into a link that is cut.
#[derive(Debug)]
pub struct Loss {
    /// The number of the link.
    pub link: usize,
    /// The packet.
    pub packet: Packet,
}

impl Departure {
    /// The packet's number.
    pub fn id(&self) -> u64 {
        number(self.packet.tag().id)
    }

    /// The number of its path, 24 bits. Packets have the same one if they passed the same nodes in the same order.
    pub fn path(&self) -> u64 {
        path(self.packet.tag().id)
    }
}

/// Nodes and links. Build it with [`Wiring`].
pub struct Network {
    nodes: Vec<Worker<Packet>>,
    ledgers: Vec<Ledger>,
    links: Vec<Link>,
    sources: Vec<(usize, MemoryPort<Packet>)>,
    departed: Vec<Departure>,
    lost: Vec<Loss>,
    paths: Paths,
    pool: Pool,
    now: Duration,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("nodes", &self.nodes.len())
            .field("links", &self.links.len())
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The devices of a node by name, for its graph to open.
#[derive(Default)]
struct Devices {
    inlets: HashMap<String, MemoryPort<Packet>>,
    outlets: HashMap<String, MemoryPort<Packet>>,
}

fn absent<T>(what: &str) -> Result<T, String> {
    Err(format!("a simulated node has no {what}"))
}

impl Environment<Packet> for Devices {
    fn clock(&self) -> Clock {
        Clock::Wall
    }

    fn inlet(&mut self, device: &str) -> Result<Inlet<Packet>, String> {
        let port = self.inlets.remove(device).ok_or_else(|| format!("no link into device {device}"))?;
        Ok(Inlet::Port(Box::new(port)))
    }

    fn outlet(&mut self, device: &str) -> Result<Outlet<Packet>, String> {
        let port = self.outlets.remove(device).ok_or_else(|| format!("no link out of device {device}"))?;
        Ok(Outlet::Port(Box::new(port)))
    }

    fn read(&mut self, _: &Path) -> Result<CaptureReader, String> {
        absent("captures")
    }

    fn write(&mut self, _: &Path) -> Result<Recording, String> {
        absent("captures")
    }

    fn print(&mut self, _: &Path) -> Result<Box<dyn Write + Send>, String> {
        absent("files")
    }

    fn secret(&mut self, _: &Path) -> Result<Secret, String> {
        absent("keys")
    }
}

/// A network under construction: nodes, and links between their devices.
pub struct Wiring {
    graphs: Vec<(Graph<Packet>, Ledger)>,
    devices: Vec<Devices>,
    links: Vec<Link>,
    sources: Vec<(usize, MemoryPort<Packet>)>,
    outside: usize,
}

impl std::fmt::Debug for Wiring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wiring").field("nodes", &self.graphs.len()).finish_non_exhaustive()
    }
}

impl Wiring {
    /// These nodes without links.
    pub fn new(graphs: Vec<(Graph<Packet>, Ledger)>) -> Self {
        let devices = graphs.iter().map(|_| Devices::default()).collect();
        Self { graphs, devices, links: Vec::new(), sources: Vec::new(), outside: 0 }
    }

    /// A link from a device of one node to a device of another. Returns its number.
    pub fn link(
        &mut self,
        (from, out): (usize, &str),
        (to, into): (usize, &str),
        bytes_per_second: u64,
    ) -> usize {
        let (near, far) = memory_port_pair(RING);
        self.devices[to].inlets.insert(into.to_owned(), near);
        self.add(from, out, Target::Node(far), to, bytes_per_second)
    }

    /// A line out of the network from a device of a node. Returns the number of its port, from 0 on; the number of the
    /// link is the same as that of a link added at this place.
    pub fn outlet(&mut self, (from, out): (usize, &str), bytes_per_second: u64) -> usize {
        let port = self.outside;
        self.outside += 1;
        self.add(from, out, Target::Outside(port), from, bytes_per_second);
        port
    }

    /// A line into the network to a device of a node. Returns the number of its port, from 0 on.
    pub fn inlet(&mut self, (to, into): (usize, &str)) -> usize {
        let (near, far) = memory_port_pair(RING);
        self.devices[to].inlets.insert(into.to_owned(), near);
        self.sources.push((to, far));
        self.sources.len() - 1
    }

    fn add(&mut self, from: usize, out: &str, target: Target, to: usize, bytes_per_second: u64) -> usize {
        let (near, far) = memory_port_pair(RING);
        self.devices[from].outlets.insert(out.to_owned(), near);
        let (queue, stats) = (VecDeque::new(), LinkStats::default());
        let is_cut = false;
        self.links.push(Link { from: far, target, to, bytes_per_second, credit: 0, queue, stats, is_cut });
        self.links.len() - 1
    }

    /// The network, with this many packet buffers.
    ///
    /// # Errors
    /// [`NetworkError`]: a graph names a device that has no link, or there is no memory.
    pub fn finish(self, buffers: usize) -> Result<Network, NetworkError> {
        let Self { graphs, devices, links, sources, .. } = self;
        let pool = Pool::new(buffers, PACKET_BYTES)?;
        let (mut nodes, mut ledgers) = (Vec::new(), Vec::new());
        for (node, ((mut graph, ledger), mut devices)) in graphs.into_iter().zip(devices).enumerate() {
            graph.open(&mut devices).map_err(|errors| {
                let lines = errors.iter().map(|(name, why): &(Arc<str>, String)| format!("{name}: {why}"));
                NetworkError::Graph { node, errors: lines.collect::<Vec<_>>().join("; ") }
            })?;
            nodes.push(Worker::new(graph, Box::new(pool.clone()), ()));
            ledgers.push(ledger);
        }
        let (departed, lost, paths, now) = (Vec::new(), Vec::new(), Paths::default(), Duration::ZERO);
        Ok(Network { nodes, ledgers, links, sources, departed, lost, paths, pool, now })
    }
}

impl Link {
    /// Takes what the node sent, and lets pass what the rate allows in `step`.
    fn advance(
        &mut self,
        step: Duration,
        departed: &mut Vec<Departure>,
        paths: &mut Paths,
    ) -> Result<(), NetworkError> {
        while let Some(packet) = self.from.receive() {
            self.stats.bytes_in += packet.data().len() as u64;
            self.queue.push_back(packet);
        }
        self.stats.most_waiting = self.stats.most_waiting.max(self.queue.len());
        self.credit += step.as_nanos() * u128::from(self.bytes_per_second);
        while let Some(packet) = self.queue.front() {
            let cost = packet.data().len() as u128 * 1_000_000_000;
            if cost > self.credit {
                break;
            }
            self.credit -= cost;
            self.stats.packets_out += 1;
            let Some(mut packet) = self.queue.pop_front() else { break };
            match &mut self.target {
                Target::Outside(port) => departed.push(Departure { port: *port, packet }),
                Target::Node(ring) => {
                    let mut tag = packet.tag();
                    tag.hops = tag.hops.saturating_add(1);
                    tag.id = paths.prolong(tag.id, self.to).ok_or(NetworkError::Paths)?;
                    packet.set_tag(tag);
                    ring.send(packet).map_err(|_| NetworkError::RingFull(self.to))?;
                }
            }
        }
        if self.queue.is_empty() {
            // A line that has nothing to send saves nothing up, but for a packet that a step does not divide.
            self.credit = self.credit.min(step.as_nanos() * u128::from(self.bytes_per_second));
        }
        self.stats.waiting = self.queue.len();
        Ok(())
    }
}

impl Network {
    /// A packet arrives from outside at a port of [`Wiring::inlet`], with this number, below 2^40.
    ///
    /// # Errors
    /// [`NetworkError::NoBuffer`], [`NetworkError::RingFull`].
    pub fn inject(&mut self, port: usize, id: u64, bytes: &[u8]) -> Result<(), NetworkError> {
        let mut packet = self.pool.packet(bytes).ok_or(NetworkError::NoBuffer(bytes.len()))?;
        packet.set_tag(scalebricks_io::Tag { id, hops: 0, piece: 0 });
        let Some((node, ring)) = self.sources.get_mut(port) else { return Ok(()) };
        ring.send(packet).map_err(|_| NetworkError::RingFull(*node))
    }

    /// Lets every node work until it rests, then every link for the time of a step. What passes a link reaches its node
    /// in the next step.
    ///
    /// # Errors
    /// [`NetworkError::Restless`], [`NetworkError::RingFull`], [`NetworkError::Paths`].
    pub fn step(&mut self, step: Duration) -> Result<(), NetworkError> {
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let mut turns = 0;
            while node.turn(self.now) > 0 {
                turns += 1;
                if turns > TURNS {
                    return Err(NetworkError::Restless(number));
                }
            }
        }
        for (number, link) in self.links.iter_mut().enumerate() {
            if link.is_cut {
                let waiting = link.queue.drain(..).chain(std::iter::from_fn(|| link.from.receive()));
                self.lost.extend(waiting.map(|packet| Loss { link: number, packet }));
                (link.credit, link.stats.waiting) = (0, 0);
            } else {
                link.advance(step, &mut self.departed, &mut self.paths)?;
            }
        }
        self.now += step;
        Ok(())
    }

    /// The time.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// What left since the last call, in order.
    pub fn take_departed(&mut self) -> Vec<Departure> {
        std::mem::take(&mut self.departed)
    }

    /// Cuts a link, so that everything that enters is lost, or mends it.
    pub fn cut(&mut self, link: usize, is_cut: bool) {
        if let Some(link) = self.links.get_mut(link) {
            link.is_cut = is_cut;
        }
    }

    /// What was lost on cut links since the last call, in order.
    pub fn take_lost(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.lost)
    }

    /// Statistics of each link, by number. Begins a new maximum of waiting packets.
    pub fn take_link_stats(&mut self) -> Vec<LinkStats> {
        let take = |link: &mut Link| {
            let stats = link.stats;
            link.stats.most_waiting = link.queue.len();
            stats
        };
        self.links.iter_mut().map(take).collect()
    }

    /// Packets that all elements dropped.
    pub fn dropped(&self) -> u64 {
        self.ledgers.iter().flat_map(Ledger::snapshot).map(|counted| counted.dropped()).sum()
    }

    /// The sum of a counter over all elements of all nodes.
    pub fn counter(&self, name: &str) -> u64 {
        self.ledgers.iter().flat_map(Ledger::snapshot).filter_map(|counted| counted.get(name)).sum()
    }

    /// A node's worker, to write handlers.
    pub fn node(&mut self, node: usize) -> Option<&mut Worker<Packet>> {
        self.nodes.get_mut(node)
    }

    /// Number of nodes.
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
