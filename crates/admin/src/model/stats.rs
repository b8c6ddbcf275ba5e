//! Counters of a node.

use super::{NodeCounters, PortCounters, WorkerView};
use scalebricks_cluster::mesh::{MeshStats, PeerStats};
use scalebricks_cluster::moved::MovedCounters;
use scalebricks_cluster::progress::PartitionPosition;
use scalebricks_cluster::stats::PlaneStats;
use scalebricks_control::membership::{Suspension, View};
use scalebricks_types::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Counters of a node since its start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Seconds since the node started.
    pub uptime_s: f64,
    /// The sum over all workers.
    pub total: NodeCounters,
    /// Each worker.
    pub workers: Vec<WorkerStats>,
    /// Each port.
    pub ports: Vec<PortCounters>,
    /// Events of the slow path (ARP, neighbour discovery, echo and the like), by name.
    pub slow_path: BTreeMap<String, u64>,
    /// Packet buffers.
    pub pool: PoolView,
    /// Transfers of the counters of flows that have left this node; none if flows come from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_counters: Option<MovedCounters>,
    /// The control plane, if the node has one and has reached its engine.
    #[serde(default)]
    pub control: Option<ControlStats>,
}

/// Counters of a node's control plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControlStats {
    /// Counters of the control plane itself.
    #[serde(flatten)]
    pub counters: PlaneStats,
    /// The positions of the node's tables in the logs.
    #[serde(default)]
    pub log: LogView,
    /// The node's lease.
    #[serde(default)]
    pub lease: Option<LeaseView>,
    /// Living members.
    #[serde(default)]
    pub members: Vec<MemberFitness>,
    /// The connections to the other nodes.
    pub peers: Vec<PeerView>,
    /// Events of senders that are not authenticated as peers, by name.
    pub strangers: BTreeMap<String, u64>,
}

/// The positions of a node's tables in the logs, added over all partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogView {
    /// The last entries that the node's GPT has.
    pub reached: u64,
    /// The last entries there are, as the partitions' owners reported.
    pub newest: u64,
}

impl LogView {
    /// The sums of all partitions.
    pub fn of(positions: &[PartitionPosition]) -> Self {
        let sum = |of: fn(&PartitionPosition) -> u64| positions.iter().map(of).sum();
        Self { reached: sum(|position| position.reached), newest: sum(|position| position.newest) }
    }
}

/// The lease: how long the node acts without contact to the log and to half of the other members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseView {
    /// `held`; `claims_lapsed`: the node forwards but claims no address; `expired`: it forwards nothing.
    pub state: String,
    /// Milliseconds for which the node forwards if the lease is not renewed.
    pub forwards_ms: u64,
}

/// Fitness of a living member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberFitness {
    /// The node.
    pub node: u16,
    /// Why it is suspended: it takes no flows, and others answer for its addresses; empty if it is fit.
    pub suspended_for: Vec<String>,
}

/// The names of the reasons why a living member is suspended.
pub fn suspended_for(view: &View, node: NodeId) -> Vec<String> {
    let names = view.suspension(node).into_iter().flat_map(Suspension::names);
    names.map(str::to_owned).collect()
}

impl MemberFitness {
    /// The fitness of all living members of a view.
    pub fn of(view: &View) -> Vec<Self> {
        let member =
            |node: NodeId| Self { node: u16::from(node.get()), suspended_for: suspended_for(view, node) };
        view.alive().map(member).collect()
    }
}

/// The connection to another node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerView {
    /// The node.
    pub node: u16,
    /// Whether messages can be sent to it.
    pub is_connected: bool,
    /// Messages waiting to be sent to it.
    pub waiting: u64,
    /// Counters, by name.
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

/// Counters of one worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerStats {
    /// The worker and its load.
    pub worker: WorkerView,
    /// Its counters.
    pub counters: NodeCounters,
}

/// Packet buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// Free buffers.
    pub free: u64,
    /// Buffers in use: in queues, in descriptors, or held by a worker.
    pub in_use: u64,
}
