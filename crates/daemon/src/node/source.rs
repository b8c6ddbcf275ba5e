//! What fills a node's tables: a list of flows, or the control plane.

use super::config::ControlFile;
use super::errors::{Owners, OwnersByPlane};
use super::load::Configuration;
use crate::error::ProcessError;
use crate::node::control_plane::{self, Daemon, DaemonError};
use scalebricks_admin::model::{ControlStats, LeaseView, LogView, MemberFitness};
use scalebricks_apps::gateway::flow_tables::list::Changes;
use scalebricks_apps::gateway::node::NodeTables;
use scalebricks_apps::gateway::{FlowList, FlowSpec, FlowTables, FlowTablesError, TableSizes};
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::leasing::Leasing;
use scalebricks_cluster::moved::MovedCounters;
use scalebricks_cluster::plane::PlaneConfig;
use scalebricks_cluster::shared_tables::SharedTables;
use scalebricks_graph::Mark;
use scalebricks_types::KeyHasher;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A node's tables, and what fills them.
#[derive(Debug)]
pub enum Source {
    /// A list of flows from a file. It is locked while it changes.
    List(Box<Mutex<FlowList>>),
    /// The control plane.
    Control(Box<Daemon>),
}

/// The contents and sizes of a node's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceSizes {
    /// Number of flows in the cluster.
    pub flows: usize,
    /// The tables.
    pub tables: TableSizes,
}

/// Starts the control plane of a node, with empty tables.
///
/// # Errors
/// [`ProcessError::Control`].
pub fn control_plane(
    configuration: &Configuration,
    control: &ControlFile,
    leasing: Leasing,
) -> Result<Daemon, ProcessError> {
    let file = &configuration.file;
    let params = control_plane::params(control, file.gpt, file.size).map_err(DaemonError::from)?;
    let keys_here = 2 * control.flows as usize / file.size.get();
    let hasher = KeyHasher::new(file.seed);
    let tables = FlowTables::for_log(file.id, params, hasher, file.workers.count(), keys_here)
        .with_max_keys(control.fib_keys);
    let config = PlaneConfig {
        node: file.id,
        partitions: control.partitions,
        params,
        hasher,
        grace: control_plane::GRACE,
        version: control.version,
    };
    Ok(Daemon::start(control, config, leasing, SharedTables::new(tables))?)
}

fn lock(tables: &Mutex<FlowList>) -> MutexGuard<'_, FlowList> {
    tables.lock().unwrap_or_else(PoisonError::into_inner) // the next list starts from what is there
}

impl Source {
    /// The tables of a worker.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn node_tables(&self, worker: usize) -> NodeTables {
        match self {
            Self::List(tables) => lock(tables).tables().node_tables(worker),
            Self::Control(daemon) => daemon.tables().lock().node_tables(worker),
        }
    }

    /// The mark by which a worker signals that it is between two turns; returned once.
    pub fn mark(&self, worker: usize) -> Option<Mark> {
        match self {
            Self::List(tables) => lock(tables).mark(worker),
            Self::Control(daemon) => daemon.tables().lock().mark(worker),
        }
    }

    /// The tables of worker 0; `None` while they change, which may take long.
    pub fn try_node_tables(&self) -> Option<NodeTables> {
        match self {
            Self::List(tables) => match tables.try_lock() {
                Ok(tables) => Some(tables.tables().node_tables(0)),
                Err(TryLockError::Poisoned(tables)) => Some(tables.into_inner().tables().node_tables(0)),
                Err(TryLockError::WouldBlock) => None,
            },
            Self::Control(_) => Some(self.node_tables(0)),
        }
    }

    /// The current sizes. The number of flows in the cluster is the one that the control plane last learned.
    pub fn sizes(&self) -> SourceSizes {
        match self {
            Self::List(list) => {
                let list = lock(list);
                SourceSizes { flows: list.flows(), tables: list.tables().sizes() }
            }
            Self::Control(daemon) => SourceSizes {
                flows: daemon.plane().map_or(0, |plane| plane.keys() / 2) as usize,
                tables: daemon.tables().lock().sizes(),
            },
        }
    }

    /// Counters of the transfer of flow counters; `None` if flows come from a file.
    pub fn moved_counters(&self) -> Option<MovedCounters> {
        match self {
            Self::List(_) => None,
            Self::Control(daemon) => daemon.plane().map(ControlPlane::moved_counters),
        }
    }

    /// Statistics of the control plane, if it runs.
    pub fn control_stats(&self) -> Option<ControlStats> {
        match self {
            Self::List(_) => None,
            Self::Control(daemon) => {
                let plane = daemon.plane()?;
                let lease = plane.lease().map(|(state, left)| LeaseView {
                    state: state.name().to_owned(),
                    forwards_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
                });
                let members = MemberFitness::of(&plane.view());
                let log = LogView::of(&plane.positions());
                Some(ControlStats { log, lease, members, ..(plane.stats(), daemon.mesh_stats()).into() })
            }
        }
    }

    /// The owners, which know whether a flow exists; `None` if the tables hold all flows.
    pub fn owners(&self) -> Option<Box<dyn Owners>> {
        match self {
            Self::List(_) => None,
            Self::Control(daemon) => Some(Box::new(OwnersByPlane(daemon.later()))),
        }
    }

    /// Whether the tables are complete.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Control(daemon) => daemon.has_caught_up(),
        }
    }

    /// Changes the tables to a list of flows; `None` if the control plane fills them.
    ///
    /// # Errors
    /// As [`FlowList::change_to`].
    pub fn change_to(&self, list: &[FlowSpec]) -> Result<Option<Changes>, FlowTablesError> {
        match self {
            Self::List(tables) => lock(tables).change_to(list, |_| {}).map(Some),
            Self::Control(_) => Ok(None),
        }
    }
}
