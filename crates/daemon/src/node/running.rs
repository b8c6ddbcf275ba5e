//! A running node, as the admin interface sees it.

use super::config::{Idle, Layout, Role};
use super::health::HealthView;
use super::load::Configuration;
use super::slow_path::SlowPath;
use super::source::{Source, SourceSizes};
use super::worker::{Load, SharedStats};
use scalebricks_admin::graph::ServedGraph;
use scalebricks_admin::inspect::{CaptureError, CaptureStream, Inspect, TraceError};
use scalebricks_admin::model::{
    CaptureRequest, FabricPeerView, FlowsView, NeighbourView, NodeCounters, NodeState, PoolView,
    PortCounters, PortRole, PortView, ReasonView, Stats, Status, TableRole, TableView, Trace, TraceRequest,
    WorkerStats, WorkerView,
};
use scalebricks_apps::directory::Directory;
use scalebricks_apps::gateway::{Architecture, NodeStats};
use scalebricks_elements::gateway::fabric::health::PeerView;
use scalebricks_elements::gateway::{DownLinks, FabricHealth, NodeConfig, OutputPort, PortRole as Port};
use scalebricks_graph::tap::{MAX_CAPTURES, Taps};
use scalebricks_types::KeyProfile;
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

/// What is asked of a node's devices and buffers.
pub trait Hardware: Send + Sync {
    /// The links of its ports, as they are. Must not wait.
    fn links(&self) -> Vec<LinkState>;
    /// Its ports, as they are.
    fn ports(&self) -> Vec<PortView>;
    /// What their devices have counted.
    fn counters(&self) -> Vec<PortCounters>;
    /// Its packet buffers.
    fn pool(&self) -> PoolView;
    /// Frames dropped before any port of the node saw them, by name.
    fn dropped(&self) -> BTreeMap<String, u64>;
}

/// A node, from the moment its flows are loaded.
pub struct Running {
    /// What it was told.
    pub configuration: Configuration,
    /// When it was started.
    pub started: Instant,
    state: AtomicU8,
    /// The data plane's configuration, which traces need.
    pub node: NodeConfig,
    /// Its tables, and who feeds them.
    pub tables: Source,
    flows: Mutex<(FlowsView, SourceSizes)>,
    /// Off the fast path.
    pub slow_path: Arc<SlowPath>,
    /// What its workers find out about the fabric, if there are other nodes.
    pub fabric: Option<Arc<FabricHealth>>,
    /// Each worker's core, and what it tells of itself.
    pub workers: Vec<(Option<u16>, Arc<SharedStats>)>,
    /// Its devices.
    pub hardware: Box<dyn Hardware>,
    /// The graphs that its workers run.
    pub graphs: Arc<Directory>,
    /// Where captures are started.
    pub taps: Taps,
    /// Why it is unfit, as of a moment ago.
    pub health: HealthView,
    /// The ports whose links are known to be down, for all workers.
    pub down: Arc<DownLinks>,
}

/// What a [`Running`] is made of.
pub struct Parts {
    /// As in [`Running`].
    pub configuration: Configuration,
    /// As in [`Running`].
    pub node: NodeConfig,
    /// As in [`Running`].
    pub tables: Source,
    /// As in [`Running`].
    pub slow_path: Arc<SlowPath>,
    /// As in [`Running`].
    pub fabric: Option<Arc<FabricHealth>>,
    /// As in [`Running`].
    pub workers: Vec<(Option<u16>, Arc<SharedStats>)>,
    /// As in [`Running`].
    pub hardware: Box<dyn Hardware>,
    /// As in [`Running`].
    pub taps: Taps,
    /// As in [`Running`].
    pub started: Instant,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner) // replaced whole, or of use as it is
}

impl Running {
    /// A node that does not forward yet.
    pub fn new(parts: Parts) -> Self {
        let file = match &parts.tables {
            Source::List(_) => parts.configuration.flows.display().to_string(),
            Source::Control(_) => "control plane".to_owned(),
        };
        let flows = FlowsView { file, ..FlowsView::default() };
        Self {
            configuration: parts.configuration,
            started: parts.started,
            state: AtomicU8::new(NodeState::Loading as u8),
            node: parts.node,
            tables: parts.tables,
            flows: Mutex::new((flows, SourceSizes::default())),
            slow_path: parts.slow_path,
            fabric: parts.fabric,
            workers: parts.workers,
            hardware: parts.hardware,
            graphs: Arc::default(),
            taps: parts.taps,
            health: HealthView::default(),
            down: Arc::default(),
        }
    }

    /// Whether its tables hold all they are to hold, and it has a lease that lets it claim its addresses.
    pub fn may_become_ready(&self) -> bool {
        self.tables.is_complete() && self.slow_path.lease().may_claim(self.started.elapsed())
    }

    /// What it does from now on.
    pub fn set_state(&self, state: NodeState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn state(&self) -> NodeState {
        let state = self.state.load(Ordering::Relaxed);
        NodeState::ALL.into_iter().find(|&known| known as u8 == state).unwrap_or(NodeState::Loading)
    }

    /// Tells that flows were loaded, just now.
    pub fn loaded(&self, sizes: SourceSizes) {
        let mut flows = unpoisoned(&self.flows);
        let (view, known) = &mut *flows;
        view.in_cluster = sizes.flows as u64;
        view.here = sizes.tables.flows_here as u64;
        view.generation += 1;
        view.loaded_unix_s =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
        *known = sizes;
    }

    /// Why the node is not ready, if it is not: what it does not do yet or any more, then why it is unfit.
    pub fn reasons(&self) -> Vec<ReasonView> {
        let state = match self.state() {
            NodeState::Draining => Some(("draining", "it was asked to stop")),
            _ if !self.tables.is_complete() => {
                Some(("not_caught_up", "its tables do not hold all flows of this life yet"))
            }
            _ if !self.may_become_ready() => {
                Some(("no_lease", "it has contact neither with the log nor with half of the other members"))
            }
            NodeState::Loading => Some(("loading", "its tables are being made")),
            NodeState::Ready => None,
        };
        let state = state.map(|(reason, meaning)| ReasonView::new(reason, meaning));
        state.into_iter().chain(self.health.reasons(self.started.elapsed())).collect()
    }

    fn ports(&self) -> Vec<PortView> {
        let mut ports = self.hardware.ports();
        for port in &mut ports {
            // Not every driver finds out.
            port.is_link_up &= !self.down.is_down(port.role.port());
        }
        ports
    }

    fn tables_view(&self, sizes: SourceSizes) -> Vec<TableView> {
        let bytes = |table, bytes: usize, keys| TableView { table, table_bytes: bytes as u64, keys };
        let which = match self.configuration.node.architecture {
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
        let (core, told) = &self.workers[at];
        let Load { turns, busy_turns, packets, busy, busy_share } = told.load();
        let workers = &self.configuration.node.workers;
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
        let probing = self.fabric.as_ref().filter(|_| self.configuration.node.probe_every.is_some());
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
            port: match neighbour.port {
                OutputPort::Internet => PortRole::Internet,
                OutputPort::BaseStation => PortRole::BaseStation,
            },
            address: neighbour.address,
            mac: neighbour.mac.map(|mac| mac.to_string()),
            state: neighbour.state.name().to_owned(),
            age_s: Some(neighbour.age.as_secs_f64()),
        };
        self.slow_path.neighbours().into_iter().map(view).collect()
    }
}

/// A role as the admin interface says it.
pub const fn role(role: Role) -> PortRole {
    match role {
        Role::Internet => PortRole::Internet,
        Role::BaseStation => PortRole::BaseStation,
        Role::Fabric => PortRole::Fabric,
    }
}

impl Inspect for Running {
    fn status(&self) -> Status {
        let node = &self.configuration.node;
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
            key: match node.profile {
                KeyProfile::Flow5 => "flow5",
                KeyProfile::Ue => "ue",
            }
            .to_owned(),
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
        for (at, (_, told)) in self.workers.iter().enumerate() {
            let counters = told.counters();
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
