//! What a node counts.

use super::{NodeCounters, PortCounters, WorkerView};
use scalebricks_cluster::mesh::{MeshStats, PeerStats};
use scalebricks_cluster::moved::MovedCounters;
use scalebricks_cluster::stats::PlaneStats;
use scalebricks_control::membership::{Suspension, View};
use scalebricks_types::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What a node has counted since it started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Seconds since the node started.
    pub uptime_s: f64,
    /// All workers together.
    pub total: NodeCounters,
    /// Each worker.
    pub workers: Vec<WorkerStats>,
    /// Each port.
    pub ports: Vec<PortCounters>,
    /// What is done off the fast path (ARP, neighbour discovery, echo and the like), by name.
    pub slow_path: BTreeMap<String, u64>,
    /// Packet buffers.
    pub pool: PoolView,
    /// Counters of flows that have left this node; none where flows come from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_counters: Option<MovedCounters>,
    /// The control plane, if the node has one and its engine could be reached.
    #[serde(default)]
    pub control: Option<ControlStats>,
}

/// What a node's control plane counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControlStats {
    /// Beside its members and peers.
    #[serde(flatten)]
    pub counters: PlaneStats,
    /// The node's lease.
    #[serde(default)]
    pub lease: Option<LeaseView>,
    /// Members that are alive.
    #[serde(default)]
    pub members: Vec<MemberFitness>,
    /// The other nodes, as this one reaches them.
    pub peers: Vec<PeerView>,
    /// What came from those who have not shown that they are peers, by name.
    pub strangers: BTreeMap<String, u64>,
}

/// How long the node acts on what it knows without contact to the log and to half of the other members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseView {
    /// `held`; `claims_lapsed`: the node forwards, and claims no address; `expired`: it forwards nothing.
    pub state: String,
    /// Milliseconds for which the node forwards if nothing renews the lease.
    pub forwards_ms: u64,
}

/// Whether a member that is alive can do its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberFitness {
    /// The node.
    pub node: u16,
    /// Why it takes no flows, and others answer for its addresses; empty if it can do its work.
    pub suspended_for: Vec<String>,
}

/// The names of the reasons why a member takes no flows though it is alive.
pub fn suspended_for(view: &View, node: NodeId) -> Vec<String> {
    let names = view.suspension(node).into_iter().flat_map(Suspension::names);
    names.map(str::to_owned).collect()
}

impl MemberFitness {
    /// What a view says of all that are alive.
    pub fn of(view: &View) -> Vec<Self> {
        let member =
            |node: NodeId| Self { node: u16::from(node.get()), suspended_for: suspended_for(view, node) };
        view.alive().map(member).collect()
    }
}

/// How another node is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerView {
    /// The node.
    pub node: u16,
    /// Whether there is a connection over which messages go to it.
    pub is_connected: bool,
    /// Messages that wait to be sent to it.
    pub waiting: u64,
    /// What was counted, by name.
    pub counts: BTreeMap<String, u64>,
}

impl From<(PlaneStats, Option<MeshStats>)> for ControlStats {
    fn from((counters, mesh): (PlaneStats, Option<MeshStats>)) -> Self {
        let mut stats = Self { counters, ..Self::default() };
        if let Some(MeshStats { peers, strangers }) = mesh {
            stats.peers = peers
                .into_iter()
                .map(|(node, PeerStats { is_connected, waiting, counts })| PeerView {
                    node: u16::from(node.get()),
                    is_connected,
                    waiting: waiting as u64,
                    counts: counts.into_iter().map(|(what, n)| (what.name().to_owned(), n)).collect(),
                })
                .collect();
            stats.strangers = strangers.into_iter().map(|(what, n)| (what.name().to_owned(), n)).collect();
        }
        stats
    }
}

/// One worker's share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerStats {
    /// The worker, and how busy it is.
    pub worker: WorkerView,
    /// What it counted.
    pub counters: NodeCounters,
}

/// Packet buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// Free.
    pub free: u64,
    /// In use: in queues, in descriptors, in a worker's hands.
    pub in_use: u64,
}
