//! One gateway node: its ports, its tables, and one turn of work.
//!
//! A node runs to completion: in a turn it takes a burst from each port, and every packet of it either leaves by a
//! port or is dropped by name before the turn ends. What a full fabric refuses waits in a bounded queue, and nothing
//! new is taken from outside meanwhile.
//!
//! ```text
//! Internet ────┐                      ┌─▶ handling ─▶ base stations (GTP-U)
//!              ├─▶ classify ─▶ GPT ─▶ │             ─▶ Internet (IP)
//! base station ┘                      └─▶ fabric ─▶ another node's handling
//! ```

use crate::adjacency::{Adjacencies, NextHop};
use crate::architecture::Architecture;
use crate::batch::{LANES, Stage};
use crate::classify::Classifier;
use crate::detour::Detours;
use crate::down_links::DownLinks;
use crate::fabric_mac::{FabricMac, OutputPort};
use crate::flow::FlowCounters;
use crate::identification::Identifications;
use crate::lease::Lease;
use crate::line::Line;
use crate::local::FrameKind;
use crate::own::OwnAddresses;
use crate::policy::Policy;
use crate::probing::Prober;
use crate::punt::{Punt, Why};
use crate::reason::DropReason;
use crate::role::PortRole;
use crate::stats::{DropLog, DropWatcher, Dropped, NodeStats};
use crate::tunnels::Tunnels;
use scalebricks_io::{BURST, Burst, PacketBuf, PacketSource, RxPort, TxPort};
use scalebricks_tables::{Fib, GptReader};
use scalebricks_types::{ClusterSize, HashSeed, NodeId};
use scalebricks_wire::MacAddr;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A port both ways.
pub trait Port<P: PacketBuf>: RxPort<P> + TxPort<P> {}
impl<P: PacketBuf, T: RxPort<P> + TxPort<P>> Port<P> for T {}

/// A node's three ports.
pub struct NodePorts<P> {
    /// Towards the Internet.
    pub internet: Box<dyn Port<P>>,
    /// Towards the base stations.
    pub base_station: Box<dyn Port<P>>,
    /// Towards the other nodes.
    pub fabric: Box<dyn Port<P>>,
}

/// A node's tables.
pub struct NodeTables {
    /// Names the node a packet goes to first: the handling node, or the lookup node of a hash partition. Where each
    /// node's FIB [holds all flows](Architecture::holds_all_flows), this is a view of it, and packets ask the FIB.
    pub gpt: Box<dyn GptReader>,
    /// Names the handling node of the keys this node looks up for others: hash partition only.
    pub lookup: Option<Box<dyn GptReader>>,
    /// The state of the flows handled here.
    pub fib: Arc<dyn Fib>,
    /// Their counters.
    pub counters: Arc<FlowCounters>,
}

/// The MAC addresses on a node's outside links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsideMacs {
    /// The node's own, on the Internet link.
    pub internet: MacAddr,
    /// The node's own, on the base-station link.
    pub base_station: MacAddr,
    /// The router towards the Internet.
    pub router: MacAddr,
}

/// What a node is told when it is made.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Its number.
    pub id: NodeId,
    /// How many nodes there are.
    pub size: ClusterSize,
    /// The way through the cluster.
    pub architecture: Architecture,
    /// The cluster's policy.
    pub policy: Policy,
    /// The cluster's secret.
    pub seed: HashSeed,
    /// Its MAC addresses.
    pub macs: OutsideMacs,
    /// Its own IP addresses on the Internet link, unless `adjacencies` know others: what is for them is for no flow.
    pub addresses: Arc<[IpAddr]>,
    /// Where frames go on the outside links, to begin with.
    pub adjacencies: Arc<Adjacencies>,
    /// What outer packets that are fragmented are identified by: the node's part, shared by all its workers.
    pub identifications: Arc<Identifications>,
}

impl NodeConfig {
    /// What is for the node itself on the Internet link, to begin with.
    pub(crate) fn own(&self) -> OwnAddresses {
        let own = self.adjacencies.own().cloned();
        own.unwrap_or_else(|| OwnAddresses::new(Arc::clone(&self.addresses)))
    }
}

/// Frames that may wait for a congested fabric before they are dropped.
pub const FABRIC_QUEUE: usize = 4_096;

/// Bursts taken from the fabric in a turn, so that what is under way goes before what is new.
const FABRIC_BURSTS: usize = 4;

/// Bursts taken from each outside port in a turn: a busy node asks its tables for more packets at once.
const OUTSIDE_BURSTS: usize = 2;

/// Receives up to so many bursts, as long as they are full; the packets taken.
#[inline(always)]
fn bursts(most: usize, mut receive: impl FnMut() -> usize) -> usize {
    let mut all = 0;
    for _ in 0..most {
        let taken = receive();
        all += taken;
        if taken < BURST {
            break;
        }
    }
    all
}

/// One gateway node.
pub struct Node<P: PacketBuf> {
    pub(crate) config: NodeConfig,
    pub(crate) tables: NodeTables,
    pub(crate) ports: NodePorts<P>,
    pub(crate) buffers: Box<dyn PacketSource<P> + Send>,
    pub(crate) classifier: Classifier,
    /// Its own addresses on the fabric, by [`OutputPort`].
    pub(crate) own_fabric: [MacAddr; 2],
    pub(crate) stats: NodeStats,
    pub(crate) drops: DropLog,
    pub(crate) tunnels: Tunnels,
    /// Until when it may forward; without one, for ever.
    lease: Option<Arc<Lease>>,
    /// Whether it may forward in this turn.
    pub(crate) may_forward: bool,
    /// Whether its tables were ever filled: before, it takes no packets of flows from outside.
    pub(crate) is_filled: bool,
    /// Wait for the slow path, if there is one.
    pub(crate) punts: Option<Vec<Punt<P>>>,
    /// Wait for the GPT.
    pub(crate) steering: Stage<P>,
    /// Wait for the lookup table of a hash partition.
    pub(crate) looking_up: Stage<P>,
    /// Wait for the FIB.
    pub(crate) handling: Stage<P>,
    internet_out: Line<P>,
    base_station_out: Line<P>,
    /// The ports that are known to be down.
    down: Arc<DownLinks>,
    fabric_out: Burst<P>,
    fabric_queue: VecDeque<P>,
    /// VLB's.
    pub(crate) detours: Detours,
    /// If it takes part in probing the fabric.
    pub(crate) prober: Option<Box<Prober>>,
    /// When it has to look after that again.
    pub(crate) probing_due: Duration,
    /// Whether some node is not sent to directly.
    pub(crate) goes_round: bool,
}

impl<P: PacketBuf> std::fmt::Debug for Node<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("config", &self.config)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<P: PacketBuf> Node<P> {
    /// A node at rest.
    pub fn new(
        config: NodeConfig,
        tables: NodeTables,
        ports: NodePorts<P>,
        buffers: Box<dyn PacketSource<P> + Send>,
    ) -> Self {
        let is_strict = config.adjacencies.is_strict();
        let classifier = Classifier::new(&config.policy, config.seed, config.own(), is_strict);
        let tunnels = Tunnels::new(&config, Arc::clone(&tables.counters));
        let detours = Detours::new(config.id, config.size);
        let own_fabric = OutputPort::ALL.map(|port| FabricMac::handling(config.id, port).encode());
        Self {
            config,
            tables,
            ports,
            buffers,
            classifier,
            own_fabric,
            stats: NodeStats::default(),
            drops: DropLog::default(),
            tunnels,
            lease: None,
            may_forward: true,
            is_filled: true,
            punts: None,
            steering: Stage::default(),
            looking_up: Stage::default(),
            handling: Stage::default(),
            internet_out: Line::default(),
            base_station_out: Line::default(),
            down: Arc::default(),
            fabric_out: Burst::new(),
            fabric_queue: VecDeque::new(),
            detours,
            prober: None,
            probing_due: Duration::MAX,
            goes_round: false,
        }
    }

    /// One turn; returns the packets it took from ports or sent out of its queue. `now` is the time since any fixed
    /// moment, the same for all calls.
    ///
    /// Without a [lease](Self::set_lease) at `now`, packets of flows are dropped as [`DropReason::NoLease`]. What the slow path is to
    /// see goes there as always.
    pub fn turn(&mut self, now: Duration) -> usize {
        self.may_forward = self.lease.as_ref().is_none_or(|lease| lease.may_forward(now));
        self.is_filled = self.lease.as_ref().is_none_or(|lease| lease.is_filled());
        if !self.may_forward {
            self.drop_waiting();
        }
        if now >= self.probing_due {
            // First, while the fabric has room: a congested one is not a broken one.
            self.look_after_fabric(now);
        }
        let mut moved = self.flush_fabric();
        moved += bursts(FABRIC_BURSTS, || self.receive_fabric(now));
        if self.fabric_queue.is_empty() {
            for output in [OutputPort::BaseStation, OutputPort::Internet] {
                moved += bursts(OUTSIDE_BURSTS, || self.receive_outside(output, now));
            }
        }
        // In this order: each stage feeds the next, and nothing may be left when the turn ends.
        self.steer();
        self.look_up();
        self.handle();
        self.flush_fabric();
        self.flush_outside(OutputPort::Internet);
        self.flush_outside(OutputPort::BaseStation);
        moved
    }

    /// Looks at this lease in each turn from now on: while it does not let the node forward, the node drops packets of flows.
    pub fn set_lease(&mut self, lease: Arc<Lease>) {
        self.lease = Some(lease);
    }

    /// Whether packets that wait for a lookup may be forwarded: the worker may have been stopped since its turn began, and packets
    /// that wait may be old.
    pub(crate) fn has_lease(&mut self) -> bool {
        self.may_forward &= self.lease.as_ref().is_none_or(|lease| lease.still_lets_forward());
        self.may_forward
    }

    /// Drops what waits for the fabric.
    #[cold]
    fn drop_waiting(&mut self) {
        for packet in self.fabric_queue.drain(..) {
            self.drops.drop(&packet, DropReason::NoLease);
        }
    }

    /// Drops packets that wait for a lookup, as the node has no lease.
    #[cold]
    pub(crate) fn drop_batch(&mut self, which: impl Fn(&mut Self) -> &mut Stage<P>) {
        let mut batch = which(self).take();
        batch.drain_with(&[(); LANES], |work, ()| self.drop_packet(work.packet, DropReason::NoLease));
        which(self).give_back(batch);
    }

    /// Whether frames wait for the fabric.
    pub fn has_waiting(&self) -> bool {
        !self.fabric_queue.is_empty()
    }

    /// The node's number.
    pub const fn id(&self) -> NodeId {
        self.config.id
    }

    /// What it was told.
    pub const fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// What the node has counted.
    pub fn stats(&self) -> NodeStats {
        NodeStats { dropped: self.drops.counts, ..self.stats }
    }

    /// Its flows' counters.
    pub fn counters(&self) -> &FlowCounters {
        &self.tables.counters
    }

    /// Lists every dropped packet from now on, until [`Node::take_drops`] takes the list.
    pub fn list_drops(&mut self) {
        self.drops.keep_list();
    }

    /// The packets dropped since the last call, if they are listed.
    pub fn take_drops(&mut self) -> Vec<Dropped> {
        self.drops.take()
    }

    /// Shows every packet dropped from now on to `watcher`.
    pub fn watch_drops(&mut self, watcher: Box<dyn DropWatcher>) {
        self.drops.watch(watcher);
    }

    /// Drops a packet, by name.
    pub(crate) fn drop_packet(&mut self, packet: P, reason: DropReason) {
        self.drops.drop(&packet, reason);
        drop(packet);
    }

    /// Takes other next hops from now on, and the own addresses that stand beside them.
    pub fn set_adjacencies(&mut self, adjacencies: Arc<Adjacencies>) {
        if let Some(own) = adjacencies.own() {
            self.classifier.set_own(own);
        }
        self.classifier.set_strict(adjacencies.is_strict());
        self.tunnels.adjacencies = adjacencies;
    }

    /// Drops frames for ports that are down from now on, as [`DropReason::LinkDown`]. Workers of one node share the flags.
    pub fn set_down_links(&mut self, down: Arc<DownLinks>) {
        self.down = down;
    }

    /// Sends a finished frame that the slow path held or made. A [packet](FrameKind::Packet) counts as sent. Messages of the node
    /// itself do not leave by a port that is down, and are no packets dropped: `false`.
    pub fn send_frame(&mut self, port: OutputPort, packet: P, kind: FrameKind) -> bool {
        match kind {
            // It was held when there was a lease.
            FrameKind::Packet if !self.may_forward => self.drop_packet(packet, DropReason::NoLease),
            FrameKind::Packet => {
                *self.stats.sent_by(port) += 1;
                self.send_outside(port, packet);
            }
            FrameKind::Other if self.down.is_down(port.into()) => return false,
            FrameKind::Other => self.send_other(port, packet),
        }
        self.flush_outside(port);
        true
    }

    /// Counts a packet that the slow path held, and lost, as dropped.
    pub fn drop_frame(&mut self, frame: &[u8], reason: DropReason) {
        self.drops.drop_bytes(frame, reason);
    }

    /// Sends a frame to its next hop, whose [`NextHop::mac`] is in its Ethernet header. A packet counts as sent if it is.
    pub(crate) fn send_via(&mut self, port: OutputPort, packet: P, next_hop: NextHop, kind: FrameKind) {
        match (next_hop, kind) {
            (NextHop::Via(_), FrameKind::Packet) => {
                *self.stats.sent_by(port) += 1;
                self.send_outside(port, packet);
            }
            (NextHop::Via(_), FrameKind::Other) => self.send_other(port, packet),
            (NextHop::Ask(next_hop), kind) => self.punt(packet, port, Why::Unresolved { next_hop, kind }),
            (NextHop::NoRoute, _) => self.drop_packet(packet, DropReason::NoRoute),
        }
    }

    /// Puts a packet, counted as sent, whose Ethernet header is written in line for an outside port.
    #[inline(always)]
    pub(crate) fn send_outside(&mut self, port: OutputPort, packet: P) {
        let burst = &mut self.line(port).burst;
        burst.push(packet);
        if burst.is_full() {
            self.flush_outside(port);
        }
    }

    /// The same for a frame that was not counted as a packet sent.
    fn send_other(&mut self, port: OutputPort, packet: P) {
        self.line(port).note_other();
        self.send_outside(port, packet);
    }

    #[inline(always)]
    const fn line(&mut self, port: OutputPort) -> &mut Line<P> {
        match port {
            OutputPort::Internet => &mut self.internet_out,
            OutputPort::BaseStation => &mut self.base_station_out,
        }
    }

    /// Sends what is in line. What the port refuses, or the link does not carry, was not sent after all.
    fn flush_outside(&mut self, port: OutputPort) {
        let (line, link) = match port {
            OutputPort::Internet => (&mut self.internet_out, &mut self.ports.internet),
            OutputPort::BaseStation => (&mut self.base_station_out, &mut self.ports.base_station),
        };
        if line.burst.is_empty() {
            return;
        }
        let (link, reason) = if self.down.is_down(port.into()) {
            (None, DropReason::LinkDown)
        } else {
            (Some(link.as_mut()), DropReason::PortFull)
        };
        let counted = match port {
            OutputPort::Internet => &mut self.stats.internet_out,
            OutputPort::BaseStation => &mut self.stats.base_station_out,
        };
        line.flush(link, |refused, is_packet| {
            *counted -= u64::from(is_packet);
            self.drops.drop(&refused, reason);
        });
    }

    /// Sends a frame over the fabric to where `mac` says, over a third node if the way there is broken.
    #[inline(always)]
    pub(crate) fn send_fabric(&mut self, packet: P, mac: FabricMac) {
        let mac = if self.goes_round { self.go_round(mac) } else { mac };
        self.send_directly(packet, mac);
    }

    /// Sends a frame over the fabric to the node that `mac` names, whatever is known of the way there.
    #[inline(always)]
    pub(crate) fn send_directly(&mut self, mut packet: P, mac: FabricMac) {
        let own = self.own_fabric[mac.port as usize];
        if !scalebricks_wire::ethernet::set_addresses(packet.data_mut(), mac.encode(), own) {
            return self.drop_packet(packet, DropReason::Truncated);
        }
        self.fabric_out.push(packet);
        if self.fabric_out.is_full() {
            self.flush_fabric();
        }
    }

    /// Sends what waits for the fabric, oldest first; what it refuses goes on waiting, up to [`FABRIC_QUEUE`].
    fn flush_fabric(&mut self) -> usize {
        if self.down.is_down(PortRole::Fabric) {
            // They would wait for a link that carries nothing, and keep the node from its own flows meanwhile.
            for packet in self.fabric_queue.drain(..).chain(self.fabric_out.drain(..)) {
                self.drops.drop(&packet, DropReason::LinkDown);
            }
            return 0;
        }
        let mut from_queue = 0;
        while let Some(packet) = self.fabric_queue.pop_front() {
            let mut one: Burst<P> = std::iter::once(packet).collect();
            let sent = self.ports.fabric.tx_burst(&mut one);
            self.stats.fabric_out += sent as u64;
            from_queue += sent;
            if let Some(refused) = one.pop() {
                self.fabric_queue.push_front(refused);
                break;
            }
        }
        if self.fabric_queue.is_empty() && !self.fabric_out.is_empty() {
            self.stats.fabric_out += self.ports.fabric.tx_burst(&mut self.fabric_out) as u64;
        }
        for refused in self.fabric_out.drain(..) {
            if self.fabric_queue.len() < FABRIC_QUEUE {
                self.fabric_queue.push_back(refused);
            } else {
                self.drops.drop(&refused, DropReason::FabricFull);
            }
        }
        from_queue
    }
}
