//! Where a node's tables are fed from: a list of flows, or the control plane.

use super::NodeError;
use super::config::ControlFile;
use super::errors::{Owners, OwnersByPlane};
use super::load::Configuration;
use crate::node::control_plane::{self, Daemon, DaemonError, Setting};
use scalebricks_admin::model::{ControlStats, LeaseView, MemberFitness};
use scalebricks_apps::gateway::flow_tables::list::Changes;
use scalebricks_apps::gateway::node::NodeTables;
use scalebricks_apps::gateway::{FlowList, FlowSpec, FlowTables, FlowTablesError, TableSizes};
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::leasing::Leasing;
use scalebricks_cluster::moved::MovedCounters;
use scalebricks_cluster::shared_tables::SharedTables;
use scalebricks_graph::Mark;
use scalebricks_types::KeyHasher;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A node's tables, and who feeds them.
#[derive(Debug)]
pub enum Source {
    /// A list, which the operator changes; held while that is done.
    List(Box<Mutex<FlowList>>),
    /// The control plane.
    Control(Box<Daemon>),
}

/// What a node's tables hold, and how large they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceSizes {
    /// Flows in the cluster.
    pub flows: usize,
    /// The tables.
    pub tables: TableSizes,
}

/// Starts the control plane of a node, with empty tables. It goes on by itself as soon as its engine can be reached.
///
/// # Errors
/// [`NodeError::Control`].
pub fn control_plane(
    configuration: &Configuration,
    control: &ControlFile,
    leasing: Leasing,
) -> Result<Daemon, NodeError> {
    let file = &configuration.node;
    let params = control_plane::params(control, file.gpt, file.size).map_err(DaemonError::from)?;
    let keys_here = 2 * control.flows as usize / file.size.get();
    let hasher = KeyHasher::new(file.seed);
    let tables = FlowTables::for_log(file.id, params, hasher, file.workers.count(), keys_here)
        .with_max_keys(control.fib_keys);
    let setting = Setting { control, node: file.id, params, seed: file.seed, key: &control.key, leasing };
    Ok(Daemon::start(&setting, SharedTables::new(tables))?)
}

fn lock(tables: &Mutex<FlowList>) -> MutexGuard<'_, FlowList> {
    tables.lock().unwrap_or_else(PoisonError::into_inner) // the next list starts from what is there
}

impl Source {
    /// What a worker is given.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn node_tables(&self, worker: usize) -> NodeTables {
        match self {
            Self::List(tables) => lock(tables).tables().node_tables(worker),
            Self::Control(daemon) => daemon.tables().lock().node_tables(worker),
        }
    }

    /// What a worker says with that it is between two turns; handed out once.
    pub fn mark(&self, worker: usize) -> Option<Mark> {
        match self {
            Self::List(tables) => lock(tables).mark(worker),
            Self::Control(daemon) => daemon.tables().lock().mark(worker),
        }
    }

    /// Tables for a look, as worker 0 has them; `None` while they are being changed for long.
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

    /// What the tables hold now; of what the whole cluster has, the control plane knows as of a moment ago.
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

    /// What has become of the counters of flows that left this node, where the control plane moves flows.
    pub fn moved_counters(&self) -> Option<MovedCounters> {
        match self {
            Self::List(_) => None,
            Self::Control(daemon) => daemon.plane().map(ControlPlane::moved_counters),
        }
    }

    /// What the control plane has counted, if there is one and it has begun.
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
                Some(ControlStats { lease, members, ..(plane.stats(), daemon.mesh_stats()).into() })
            }
        }
    }

    /// Who knows whether flows exist that are not in the tables, unless the tables have all flows.
    pub fn owners(&self) -> Option<Box<dyn Owners>> {
        match self {
            Self::List(_) => None,
            Self::Control(daemon) => Some(Box::new(OwnersByPlane(daemon.later()))),
        }
    }

    /// Whether the tables hold all that they are to hold.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Control(daemon) => daemon.has_caught_up(),
        }
    }

    /// Brings the tables to a list; `None` where the control plane feeds them.
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
