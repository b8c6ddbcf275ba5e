//! A running node, as the admin interface sees it.

use super::config::{Idle, Layout};
use super::health::HealthView;
use super::load::Configuration;
use super::slow_path::SlowPath;
use super::source::{Source, SourceSizes};
use super::worker::{Load, SharedStats};
use scalebricks_admin::graph::ServedGraph;
use scalebricks_admin::inspect::{CaptureError, CaptureStream, Inspect, TraceError};
use scalebricks_admin::model::{
    CaptureRequest, FabricPeerView, FlowsView, NeighbourView, NodeCounters, NodeState, PoolView,
    PortCounters, PortView, ReasonView, Stats, Status, TableRole, TableView, Trace, TraceRequest,
    WorkerStats, WorkerView,
};
use scalebricks_apps::directory::Directory;
use scalebricks_apps::gateway::{Architecture, NodeStats};
use scalebricks_elements::gateway::fabric::health::PeerView;
use scalebricks_elements::gateway::{DownLinks, FabricHealth, NodeConfig, PortRole as Port};
use scalebricks_graph::tap::{MAX_CAPTURES, Taps};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

/// A port's link, as its driver sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkState {
    /// The port.
    pub port: Port,
    /// Its device, as configured.
    pub device: String,
    /// Whether frames can pass; `None` if the driver does not say.
    pub is_up: Option<bool>,
}

/// The devices and packet buffers of a node.
pub trait Hardware: Send + Sync {
    /// The current links of its ports. Must not block.
    fn links(&self) -> Vec<LinkState>;
    /// The current state of its ports.
    fn ports(&self) -> Vec<PortView>;
    /// The counters of their devices.
    fn counters(&self) -> Vec<PortCounters>;
    /// Its packet buffers.
    fn pool(&self) -> PoolView;
    /// Frames dropped before they reached a port of the node, by name.
    fn dropped(&self) -> BTreeMap<String, u64>;
}

/// A running node.
pub struct Running {
    /// Its configuration.
    pub configuration: Configuration,
    /// When it was started.
    pub started: Instant,
    /// Its [`NodeState`].
    pub(super) state: AtomicU8,
    /// The data plane's configuration, which traces need.
    pub node: NodeConfig,
    /// Its tables, and what fills them.
    pub tables: Source,
    /// The flows, as of the last load.
    pub(super) flows: Mutex<(FlowsView, SourceSizes)>,
    /// The slow path.
    pub slow_path: Arc<SlowPath>,
    /// The state of the fabric; `None` in a cluster of one node.
    pub fabric: Option<Arc<FabricHealth>>,
    /// Each worker's core and statistics.
    pub workers: Vec<(Option<u16>, Arc<SharedStats>)>,
    /// Its devices.
    pub hardware: Box<dyn Hardware>,
    /// The graphs of its workers.
    pub graphs: Arc<Directory>,
    /// The taps for captures.
    pub taps: Taps,
    /// Why it is unfit, as last observed.
    pub health: HealthView,
    /// The ports whose links are known to be down, for all workers.
    pub down: Arc<DownLinks>,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner) // replaced whole, or of use as it is
}

impl Running {
    /// Whether its tables are complete, and its lease lets it claim its addresses.
    pub fn may_become_ready(&self) -> bool {
        self.tables.is_complete() && self.slow_path.lease().may_claim(self.started.elapsed())
    }

    /// Sets its state.
    pub fn set_state(&self, state: NodeState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn state(&self) -> NodeState {
        let state = self.state.load(Ordering::Relaxed);
        NodeState::ALL.into_iter().find(|&known| known as u8 == state).unwrap_or(NodeState::Loading)
    }

    /// Records that flows were loaded.
    pub fn loaded(&self, sizes: SourceSizes) {
        let mut flows = unpoisoned(&self.flows);
        let (view, known) = &mut *flows;
        view.file = match &self.tables {
            Source::List(_) => self.configuration.flow_file().display().to_string(),
            Source::Control(_) => "control plane".to_owned(),
        };
        view.in_cluster = sizes.flows as u64;
        view.here = sizes.tables.flows_here as u64;
        view.generation += 1;
        view.loaded_unix_s =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
        *known = sizes;
    }

    /// Why the node is not ready: the reason of its state, then why it is unfit.
    pub fn reasons(&self) -> Vec<ReasonView> {
        let state = match self.state() {
            NodeState::Draining => Some(("draining", "it was asked to stop")),
            _ if !self.tables.is_complete() => {
                Some(("not_caught_up", "its tables do not hold all flows yet"))
            }
            _ if !self.may_become_ready() => {
                Some(("no_lease", "it has no contact with the log and half of the other members"))
            }
            NodeState::Loading => Some(("loading", "its tables are being filled")),
            NodeState::Ready => None,
        };
        let state = state.map(|(reason, meaning)| ReasonView::new(reason, meaning));
        state.into_iter().chain(self.health.reasons(self.started.elapsed())).collect()
    }

    fn ports(&self) -> Vec<PortView> {
        let mut ports = self.hardware.ports();
        for port in &mut ports {
            // Not every driver reports the state of its link.
            port.is_link_up &= !self.down.is_down(port.role.port());
        }
        ports
    }

    fn tables_view(&self, sizes: SourceSizes) -> Vec<TableView> {
        let bytes = |table, bytes: usize, keys| TableView { table, table_bytes: bytes as u64, keys };
        let which = match self.configuration.file.architecture {
            Architecture::HashPartition => Some(TableRole::Lookup),
            Architecture::ScaleBricks => Some(TableRole::Gpt),
            Architecture::FullDuplication | Architecture::Vlb => None,
        };
        let in_fib = if which.is_none() { sizes.flows } else { sizes.tables.flows_here };
        let fib = bytes(TableRole::Fib, sizes.tables.fib_bytes, Some(2 * in_fib as u64));
        let which = which.map(|which| bytes(which, sizes.tables.gpt_bytes, Some(2 * sizes.flows as u64)));
        which.into_iter().chain([fib]).collect()
    }

    fn worker(&self, at: usize) -> WorkerView {
        let (core, stats) = &self.workers[at];
        let Load { turns, busy_turns, packets, busy, busy_share } = stats.load();
        let workers = &self.configuration.file.workers;
        let idle = match workers.idle {
            Idle::Spin => "spin".to_owned(),
            Idle::Sleep { us } => format!("sleep {us} us"),
        };
        let duty = match (workers.layout, at) {
            (Layout::RunToCompletion, _) => "all",
            (Layout::Split, 0) => "external",
            (Layout::Split, _) => "internal",
        };
        WorkerView {
            worker: at as u16, // at most 64
            core: *core,
            mode: format!("{duty}, {idle}"),
            busy_share,
            busy_s: busy.as_secs_f64(),
            turns,
            mean_batch_fill: packets as f64 / busy_turns.max(1) as f64,
        }
    }

    fn fabric_peers(&self) -> Vec<FabricPeerView> {
        let probing = self.fabric.as_ref().filter(|_| self.configuration.file.probe_every.is_some());
        let view = |peer: PeerView| FabricPeerView {
            node: peer.node.get().into(),
            is_heard: peer.is_heard,
            is_reached: peer.is_reached,
            round_trip_us: peer.round_trip.map(|time| time.as_secs_f64() * 1e6),
            via: peer.via.map(|via| via.get().into()),
        };
        let peers = probing.map(|health| health.view(self.started.elapsed()));
        peers.unwrap_or_default().into_iter().map(view).collect()
    }

    fn neighbours(&self) -> Vec<NeighbourView> {
        let view = |neighbour: scalebricks_elements::gateway::local::Neighbour| NeighbourView {
            port: Port::from(neighbour.port).into(),
            address: neighbour.address,
            mac: neighbour.mac.map(|mac| mac.to_string()),
            state: neighbour.state.name().to_owned(),
            age_s: Some(neighbour.age.as_secs_f64()),
        };
        self.slow_path.neighbours().into_iter().map(view).collect()
    }
}

impl Inspect for Running {
    fn status(&self) -> Status {
        let node = &self.configuration.file;
        let (mut flows, mut sizes) = unpoisoned(&self.flows).clone();
        if let Source::Control(_) = &self.tables {
            sizes = self.tables.sizes();
            (flows.in_cluster, flows.here) = (sizes.flows as u64, sizes.tables.flows_here as u64);
        }
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: node.id.get().into(),
            nodes: node.size.get() as u16, // at most 256
            architecture: node.architecture.to_string(),
            key: node.profile.to_string(),
            state: self.state(),
            reasons: self.reasons(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            flows,
            tables: self.tables_view(sizes),
            ports: self.ports(),
            neighbours: self.neighbours(),
            fabric: self.fabric_peers(),
            workers: (0..self.workers.len()).map(|at| self.worker(at)).collect(),
        }
    }

    fn stats(&self) -> Stats {
        let mut total = NodeStats::default();
        let mut workers = Vec::new();
        for (at, (_, stats)) in self.workers.iter().enumerate() {
            let counters = stats.counters();
            total += &counters;
            workers.push(WorkerStats { worker: self.worker(at), counters: NodeCounters::from(&counters) });
        }
        let mut slow_path = self.slow_path.stats();
        slow_path.extend(self.hardware.dropped());
        if let Some(fabric) = &self.fabric {
            slow_path.insert("probes_overrun".to_owned(), fabric.overrun());
        }
        Stats {
            uptime_s: self.started.elapsed().as_secs_f64(),
            total: NodeCounters::from(&total),
            workers,
            ports: self.hardware.counters(),
            slow_path,
            pool: self.hardware.pool(),
            moved_counters: self.tables.moved_counters(),
            control: self.tables.control_stats(),
        }
    }

    fn trace(&self, request: &TraceRequest) -> Result<Trace, TraceError> {
        let tables = self.tables.try_node_tables().ok_or(TraceError::NotReady)?;
        let config = NodeConfig { adjacencies: self.slow_path.adjacencies(), ..self.node.clone() };
        scalebricks_admin::trace::answer(config, tables, request)
    }

    fn capture(&self, request: &CaptureRequest) -> Result<CaptureStream, CaptureError> {
        self.taps.start(request.selection()?).map_err(|_| CaptureError::TooMany(MAX_CAPTURES))
    }

    fn graph(&self) -> ServedGraph {
        ServedGraph::new(Arc::clone(&self.graphs), &self.configuration.path, self.started)
    }

    fn is_ready(&self) -> bool {
        self.reasons().is_empty()
    }

    fn reasons(&self) -> Vec<ReasonView> {
        Self::reasons(self)
    }
}
