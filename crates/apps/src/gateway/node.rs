//! One gateway node: a graph of [elements](scalebricks_elements::gateway) on one worker, with three ports, run in
//! turns.
//!
//! A node runs to completion: in a turn it takes bursts from each port, and every packet either leaves by a port or is
//! dropped with a reason before the turn ends. Frames that a full fabric refuses wait in a bounded queue; meanwhile the
//! node takes no new packets from outside.

use crate::gateway::appliance::Appliance;
use crate::gateway::architecture::Architecture;
use crate::gateway::counters::NodeStats;
use crate::gateway::drop_log::{DropLog, Dropped};
use crate::gateway::readings::Readings;
use crate::gateway::wiring::{Form, name, wiring};
use scalebricks_elements::gateway::fabric::health::FabricHealth;
use scalebricks_elements::gateway::fabric::lease::Lease;
use scalebricks_elements::gateway::fabric::mac::OutputPort;
use scalebricks_elements::gateway::flow::FlowCounters;
use scalebricks_elements::gateway::local::FrameKind;
use scalebricks_elements::gateway::outside::adjacency::Adjacencies;
use scalebricks_elements::gateway::outside::down_links::DownLinks;
use scalebricks_elements::gateway::punt::Punt;
use scalebricks_elements::gateway::reason::DropReason;
use scalebricks_elements::gateway::settings::{
    set_adjacencies, set_down_links, set_fabric_health, set_lease,
};
use scalebricks_elements::gateway::{NodeConfig, SlowPath, ToPort};
use scalebricks_graph::tap::Taps;
use scalebricks_graph::{Ledger, Registry, Worker};
use scalebricks_io::{PacketBuf, PacketSource, Port};
use scalebricks_tables::{Fib, GptReader};
use scalebricks_types::NodeId;
use std::sync::Arc;
use std::time::Duration;

/// A node's three ports.
pub struct NodePorts<P> {
    /// Towards the Internet.
    pub internet: Box<dyn Port<P>>,
    /// Towards the base stations.
    pub base_station: Box<dyn Port<P>>,
    /// Towards the other nodes.
    pub fabric: Box<dyn Port<P>>,
}

/// A node's tables, laid out for an architecture. The node's graph must be wired for the same one.
pub struct NodeTables {
    /// The architecture.
    pub architecture: Architecture,
    /// Names the node to which a packet goes first: the handling node, or the lookup node of a hash partition. Where
    /// each node's FIB [holds all flows](Architecture::holds_all_flows), this is a view of it, and packets use the FIB.
    pub gpt: Box<dyn GptReader>,
    /// Names the handling node for the keys that this node looks up for others (hash partition only).
    pub lookup: Option<Box<dyn GptReader>>,
    /// The state of the flows handled here.
    pub fib: Arc<dyn Fib>,
    /// Their counters.
    pub counters: Arc<FlowCounters>,
}

/// One gateway node.
pub struct Node<P: PacketBuf> {
    config: NodeConfig,
    counters: Arc<FlowCounters>,
    worker: Worker<P, DropLog>,
    ledger: Ledger,
    readings: Readings,
    /// Its lease; without one it may always forward.
    lease: Option<Arc<Lease>>,
    /// Whether it may forward in this turn.
    may_forward: bool,
    down: Arc<DownLinks>,
}

impl<P: PacketBuf> std::fmt::Debug for Node<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("config", &self.config)
            .field("stats", &self.readings.stats())
            .finish_non_exhaustive()
    }
}

impl<P: PacketBuf + 'static> Node<P> {
    /// Creates an idle node.
    ///
    /// # Panics
    /// If the configuration's appliance is not one that [`Appliance::check`] accepts.
    pub fn new(
        config: NodeConfig,
        tables: NodeTables,
        ports: NodePorts<P>,
        buffers: Box<dyn PacketSource<P> + Send>,
    ) -> Self {
        Self::in_form(config, tables, ports, buffers, Form::Joined)
    }

    /// The same, with its elements joined or separate.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn in_form(
        config: NodeConfig,
        tables: NodeTables,
        ports: NodePorts<P>,
        buffers: Box<dyn PacketSource<P> + Send>,
        form: Form,
    ) -> Self {
        let counters = Arc::clone(&tables.counters);
        let mut ledger = Ledger::new();
        let appliance = config.appliance.as_deref().map(Appliance::read::<P>);
        let (appliance, registry) = match appliance {
            Some(Ok(appliance)) => (Some(appliance), scalebricks_elements::registry()),
            Some(Err(error)) => unreachable!("the appliance was checked: {error}"),
            None => (None, Registry::new()),
        };
        let graph = match wiring(&config, tables, form, appliance.as_ref()).build(&registry, &mut ledger) {
            Ok(graph) => graph,
            Err(errors) => unreachable!("the wirings of the architectures are complete: {errors}"),
        };
        let readings = Readings::of(&ledger);
        let NodePorts { internet, base_station, fabric } = ports;
        let worker =
            Worker::new(graph, buffers, DropLog::default()).with_ports(vec![internet, base_station, fabric]);
        let (lease, down) = (None, Arc::default());
        Self { config, counters, worker, ledger, readings, lease, may_forward: true, down }
    }

    /// Runs one turn and returns the number of packets that it took from ports or made. `now` is the time since a fixed
    /// moment, the same for all calls.
    ///
    /// Without a valid [lease](Self::set_lease), packets of flows are dropped as [`DropReason::NoLease`]. Packets for
    /// the slow path still go there.
    pub fn turn(&mut self, now: Duration) -> usize {
        self.may_forward = self.lease.as_ref().is_none_or(|lease| lease.may_forward(now));
        self.worker.turn(now);
        self.worker.brought()
    }

    /// Checks this lease in each turn from now on: while it does not allow forwarding, the node drops packets of flows.
    pub fn set_lease(&mut self, lease: Arc<Lease>) {
        set_lease(self.worker.graph_mut(), &lease);
        self.lease = Some(lease);
    }

    /// Whether frames wait for the fabric.
    pub fn has_waiting(&self) -> bool {
        self.readings.waiting() > 0
    }

    /// The node's number.
    pub const fn id(&self) -> NodeId {
        self.config.id
    }

    /// Its configuration.
    pub const fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// The node's counters.
    pub fn stats(&self) -> NodeStats {
        self.readings.stats()
    }

    /// The counters of its elements.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The worker that runs its graph; only between turns.
    pub const fn worker(&mut self) -> &mut Worker<P, DropLog> {
        &mut self.worker
    }

    /// Its flows' counters.
    pub fn counters(&self) -> &FlowCounters {
        &self.counters
    }

    /// Lists every dropped packet from now on, until [`Node::take_drops`] takes the list.
    pub fn list_drops(&mut self) {
        self.worker.trace_mut().keep_list();
    }

    /// The packets dropped since the last call, if they are listed.
    pub fn take_drops(&mut self) -> Vec<Dropped> {
        self.worker.trace_mut().take()
    }

    /// Lets captures of `taps` see what the node receives, sends and drops. Ports have the numbers of their
    /// [roles](scalebricks_elements::gateway::PortRole). Workers of one node share the taps.
    pub fn set_taps(&mut self, taps: &Taps) {
        self.worker.set_taps(taps);
    }

    /// Replaces the next hops, and the local addresses that belong to them.
    #[expect(clippy::needless_pass_by_value, reason = "the node's elements keep it")]
    pub fn set_adjacencies(&mut self, adjacencies: Arc<Adjacencies>) {
        set_adjacencies(self.worker.graph_mut(), &adjacencies);
    }

    /// Drops frames for ports that are down, as [`DropReason::LinkDown`], from now on. Workers of one node share the
    /// flags.
    pub fn set_down_links(&mut self, down: Arc<DownLinks>) {
        set_down_links(self.worker.graph_mut(), &down);
        self.down = down;
    }

    /// Starts probing and routing around failures.
    #[expect(clippy::needless_pass_by_value, reason = "the node's elements keep it")]
    pub fn set_fabric_health(&mut self, health: Arc<FabricHealth>) {
        set_fabric_health(self.worker.graph_mut(), &health);
        if health.interval().is_some() {
            let _timer = self.worker.wake_at(name::PROBES, Duration::ZERO, 0);
        }
    }

    /// Keeps packets for the slow path from now on. [`Node::take_punts`] must then be called after every turn.
    pub fn keep_punts(&mut self) {
        if let Some(slow_path) = self.slow_path() {
            slow_path.keep();
        }
    }

    /// Swaps the slow-path packets since the last call with `into`, which must be empty.
    pub fn take_punts(&mut self, into: &mut Vec<Punt<P>>) {
        if let Some(slow_path) = self.slow_path() {
            slow_path.take(into);
        }
    }

    /// Drops a packet that the slow path did not take, for its original reason.
    #[expect(clippy::needless_pass_by_value, reason = "it ends here")]
    pub fn drop_punt(&mut self, punt: Punt<P>) {
        let Some(reason) = self.slow_path().map(|slow_path| slow_path.drop_id(punt.why.reason())) else {
            return;
        };
        self.worker.drop_packet(name::SLOW_PATH, reason, &punt.packet);
    }

    /// Counts a packet that the slow path held and lost as dropped.
    pub fn drop_frame(&mut self, frame: &[u8], reason: DropReason) {
        let Some(reason) = self.slow_path().map(|slow_path| slow_path.drop_id(reason)) else { return };
        self.worker.drop_bytes(name::SLOW_PATH, reason, frame);
    }

    fn slow_path(&mut self) -> Option<&mut SlowPath<P>> {
        self.worker.graph_mut().get_mut(name::SLOW_PATH)
    }

    /// Sends a complete frame that the slow path held or made. A [packet](FrameKind::Packet) counts as sent. Messages
    /// of the node itself do not leave by a port that is down and do not count as dropped packets: `false`.
    pub fn send_frame(&mut self, port: OutputPort, packet: P, kind: FrameKind) -> bool {
        let element = match port {
            OutputPort::Internet => name::TO_INTERNET,
            OutputPort::BaseStation => name::TO_BASE_STATION,
        };
        match kind {
            // It was held while the lease was valid.
            FrameKind::Packet if !self.may_forward => {
                self.worker.drop_packet(element, ToPort::NO_LEASE, &packet);
            }
            FrameKind::Other if self.down.is_down(port.into()) => return false,
            _ => drop(self.worker.inject(element, 0, packet, kind == FrameKind::Other)),
        }
        true
    }
}
