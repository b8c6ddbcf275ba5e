//! A running switch: its names, their changes, and its counters.

use super::load::Configuration;
use super::log::{LogError, LogHandle, LogProgress};
use crate::error::ProcessError;
use scalebricks_admin::graph::ServedGraph;
use scalebricks_admin::model::NodeState;
use scalebricks_admin::model::switch::{Change, ChangeView, ChangedView, FoundView, PortView, SwitchView};
use scalebricks_apps::directory::Directory;
use scalebricks_apps::switch::text::{PortNames, action_text, name_text, parse_action, parse_name};
use scalebricks_apps::switch::{SwitchPolicy, SwitchPort, counts, wiring};
use scalebricks_elements::flat::{Changes, FibReader, NameError, NameOp, NameTable};
use scalebricks_graph::{BuildErrors, Ledger, Registry, Worker};
use scalebricks_io::{PacketBuf, PacketSource, RxPort, TxPort};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// The names of a switch, shared between threads.
#[derive(Debug, Clone)]
pub struct SharedNames(Arc<Mutex<NameTable>>);

impl SharedNames {
    /// Shares a table.
    pub fn new(table: NameTable) -> Self {
        Self(Arc::new(Mutex::new(table)))
    }

    /// Locks the table.
    pub fn lock(&self) -> MutexGuard<'_, NameTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // changes are atomic
    }
}

/// A worker's queues of a port: receiving and sending.
pub type Queues<P> = (Box<dyn RxPort<P>>, Box<dyn TxPort<P>>);

/// Errors of changing names.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A change is invalid; nothing was done.
    #[error("{0}")]
    Bad(String),
    /// The table refused it; nothing was done.
    #[error("{}", refused(.0, .1.as_deref()))]
    Refused(NameError, Option<String>),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Names cannot be changed yet; the reason, if there is a fault.
    #[error("the switch has not read the log yet{}", .0.as_ref().map_or_else(String::new, |why| format!(": {why}")))]
    NotReady(Option<String>),
}

fn refused(error: &NameError, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("'{name}': {error}"),
        None => error.to_string(),
    }
}

/// A running switch.
#[derive(Debug)]
pub struct Running {
    /// Its configuration.
    pub configuration: Configuration,
    /// Its names.
    pub names: SharedNames,
    /// The log that its names come from, if not from a file.
    pub log: OnceLock<LogHandle>,
    /// Frames dropped because they have another VLAN tag or none.
    pub other_vlan: Arc<AtomicU64>,
    /// Shared by all workers, because the rate of the storm guard is per port, not per queue.
    policy: SwitchPolicy,
    /// The graphs of its workers.
    graphs: Arc<Directory>,
    state: AtomicU8,
    started: Instant,
    /// The reader for `lookup`.
    reader: Mutex<FibReader>,
}

impl Running {
    /// Creates a switch in the state `Loading`.
    pub fn new(configuration: Configuration, table: NameTable, started: Instant) -> Self {
        let reader = Mutex::new(table.fib().reader(configuration.file.names.unknown));
        let (names, state) = (SharedNames::new(table), AtomicU8::new(0));
        Self {
            policy: configuration.policy(),
            configuration,
            names,
            log: OnceLock::new(),
            other_vlan: Arc::default(),
            graphs: Arc::default(),
            state,
            started,
            reader,
        }
    }

    /// Creates a worker with its queues of all ports, in their order. It allocates packets from `buffers`. Its counters
    /// are part of the [view](Self::view).
    ///
    /// # Errors
    /// [`BuildErrors`], if its graph has too many elements.
    pub fn worker<P: PacketBuf + 'static>(
        &self,
        queues: impl IntoIterator<Item = Queues<P>>,
        buffers: Box<dyn PacketSource<P> + Send>,
    ) -> Result<Worker<P>, BuildErrors> {
        let file = &self.configuration.file;
        let ports = queues.into_iter().zip(&file.ports);
        let ports = ports.map(|((rx, tx), port)| SwitchPort { rx, tx, group: port.group });
        let fib = Arc::clone(self.names.lock().fib());
        let reader = || fib.reader(file.names.unknown);
        let mut ledger = Ledger::new();
        let builder = wiring(&self.policy, reader, &file.port_names, ports.collect());
        let graph = builder.build(&Registry::new(), &mut ledger)?;
        let worker = Worker::new(graph, buffers, ());
        self.graphs.add(&worker, Arc::new(Mutex::new(ledger)));
        Ok(worker)
    }

    /// The graphs of its workers, for the admin server.
    pub fn served_graph(&self) -> ServedGraph {
        ServedGraph::new(Arc::clone(&self.graphs), &self.configuration.path, self.started)
    }

    /// The counters of each port.
    pub fn ports(&self) -> Vec<PortView> {
        // No counters before the workers run.
        let counted = self.graphs.counted(None).unwrap_or_default();
        let names = &self.configuration.file.port_names;
        let counts = counts::by_port(&counted, names);
        names.all().iter().zip(&counts).map(|(name, counts)| PortView::new(name, counts)).collect()
    }

    /// Its state.
    pub fn state(&self) -> NodeState {
        let at = usize::from(self.state.load(Ordering::Relaxed)); // nothing is published with it
        NodeState::ALL.get(at).copied().unwrap_or(NodeState::Draining)
    }

    /// Sets its state.
    pub fn set_state(&self, state: NodeState) {
        let at = NodeState::ALL.iter().position(|&other| other == state).unwrap_or_default();
        self.state.store(at as u8, Ordering::Relaxed); // one of three
    }

    /// Whether it forwards and has all its names.
    pub fn is_ready(&self) -> bool {
        self.state() == NodeState::Ready && self.has_all_names()
    }

    /// Whether all names are loaded.
    pub fn has_all_names(&self) -> bool {
        self.configuration.file.control.is_none() || self.progress().is_some_and(|log| log.has_caught_up)
    }

    fn progress(&self) -> Option<LogProgress> {
        self.log.get().map(LogHandle::progress)
    }

    /// Reads the file of names again and applies the differences; `None` if names come from a log.
    ///
    /// # Errors
    /// [`ProcessError`]; the names are then unchanged.
    pub fn reload(&self) -> Result<Option<Changes>, ProcessError> {
        if self.configuration.file.control.is_some() {
            return Ok(None);
        }
        let list = self.configuration.names()?;
        Ok(Some(self.names.lock().change_to(&list)?))
    }

    /// Changes names one after another: all, or none.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn change(&self, changes: &[ChangeView]) -> Result<ChangedView, ChangeError> {
        let ops = self.ops(changes)?;
        if self.configuration.file.control.is_none() {
            let done = self.names.lock().apply(&ops);
            return done.map(|done| changed(done, None)).map_err(|error| of_name(error, changes));
        }
        let log = self.log.get().filter(|_| self.has_all_names());
        let fault = || self.progress().and_then(|log| log.fault);
        let log = log.ok_or_else(|| ChangeError::NotReady(fault()))?;
        // In the switch's notation, so that names in the log have one form.
        let ports = &self.configuration.file.port_names;
        let written: Vec<ChangeView> = ops.iter().map(|op| view(op, ports)).collect();
        let (position, outcome) = log.change(&written).await?;
        outcome.map(|done| changed(done, Some(position))).map_err(|error| of_name(error, changes))
    }

    fn ops(&self, changes: &[ChangeView]) -> Result<Vec<NameOp>, ChangeError> {
        let file = &self.configuration.file;
        changes.iter().map(|change| op(change, file).map_err(ChangeError::Bad)).collect()
    }

    /// Looks a name up.
    ///
    /// # Errors
    /// [`ChangeError::Bad`] for an invalid name.
    pub fn lookup(&self, text: &str) -> Result<FoundView, ChangeError> {
        let file = &self.configuration.file;
        let name = parse_name(text, file.names.kind, &file.port_names)
            .map_err(|error| ChangeError::Bad(error.to_string()))?;
        let (action, hash) = {
            let table = self.names.lock();
            (table.get(&name), name.hash(&table.config().hasher))
        };
        let answer = self.reader.lock().unwrap_or_else(PoisonError::into_inner).lookup(hash);
        let text = |action| action_text(&action, &file.port_names);
        Ok(FoundView {
            name: name_text(&name, &file.port_names),
            action: action.map(text),
            answer: answer.action.map(text),
            is_alien: answer.is_alien,
        })
    }

    /// All names, sorted, in the format of a names file.
    pub fn list(&self) -> Vec<String> {
        listed(&self.names, &self.configuration.file.port_names)
    }

    /// Its status.
    pub fn view(&self) -> SwitchView {
        let file = &self.configuration.file;
        let (stats, log) = (self.names.lock().stats(), self.progress());
        SwitchView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kind: file.names.kind.word().to_owned(),
            state: self.state(),
            is_ready: self.is_ready(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            source: if file.control.is_some() { "log" } else { "file" }.to_owned(),
            position: log.as_ref().map(|log| log.position),
            log_reloads: log.as_ref().map_or(0, |log| log.reloads),
            fault: log.and_then(|log| log.fault),
            names: stats.names as u64,
            actions: stats.actions as u64,
            value_bits: stats.value_bits,
            check_bits: stats.check_bits,
            table_bytes: stats.table_bytes as u64,
            control_bytes: stats.control_bytes as u64,
            reshaped: stats.reshaped,
            other_vlan: self.other_vlan.load(Ordering::Relaxed),
            ports: self.ports(),
        }
    }
}

/// All names, sorted, in the format of a names file.
pub(super) fn listed(names: &SharedNames, ports: &PortNames) -> Vec<String> {
    let mut names: Vec<_> = names.lock().iter().map(|(name, action)| (name.clone(), action)).collect();
    names.sort_unstable();
    let line = |(name, action)| format!("{},{}\n", name_text(name, ports), action_text(action, ports));
    names.iter().map(|(name, action)| line((name, action))).collect()
}

/// The operation of a change, or its error.
pub(super) fn op(change: &ChangeView, file: &super::config::SwitchFile) -> Result<NameOp, String> {
    let wrong = |what: String| format!("'{}': {what}", change.name);
    let name = parse_name(&change.name, file.names.kind, &file.port_names)
        .map_err(|error| wrong(error.to_string()))?;
    let action = || parse_action(change.action.as_deref().unwrap_or_default(), &file.port_names);
    Ok(match change.op {
        Change::Add => NameOp::Add(name, action().map_err(|error| wrong(error.to_string()))?),
        Change::Alter => NameOp::Alter(name, action().map_err(|error| wrong(error.to_string()))?),
        Change::Remove => NameOp::Remove(name),
    })
}

fn view(op: &NameOp, ports: &PortNames) -> ChangeView {
    let (change, action) = match op {
        NameOp::Add(_, action) => (Change::Add, Some(action)),
        NameOp::Alter(_, action) => (Change::Alter, Some(action)),
        NameOp::Remove(_) => (Change::Remove, None),
    };
    ChangeView {
        op: change,
        name: name_text(op.name(), ports),
        action: action.map(|action| action_text(action, ports)),
    }
}

fn changed(done: Changes, position: Option<u64>) -> ChangedView {
    ChangedView {
        added: done.added as u64,
        altered: done.altered as u64,
        removed: done.removed as u64,
        position,
    }
}

fn of_name(error: NameError, changes: &[ChangeView]) -> ChangeError {
    let name = error.op().and_then(|op| changes.get(op)).map(|change| change.name.clone());
    ChangeError::Refused(error, name)
}
