//! The state of the cluster, and operations on nodes.

use scalebricks_cluster::progress::PartitionPosition;
use scalebricks_cluster::repins::RepinNotice;
use scalebricks_cluster::verify::Verdict;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use utoipa::ToSchema;

/// The cluster, as one node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterView {
    /// The node that answers.
    pub node: u16,
    /// Whether its tables are complete.
    pub has_caught_up: bool,
    /// Counts the changes of membership.
    pub epoch: u64,
    /// Most nodes of the cluster, as configured; numbered from 0.
    pub nodes: u16,
    /// The key of downstream packets: `flow5` or `ue`.
    pub key: String,
    /// Tunnel addresses of the base stations.
    #[schema(value_type = Vec<String>)]
    pub base_stations: Vec<Ipv4Addr>,
    /// All nodes that have ever joined.
    pub members: Vec<MemberView>,
    /// Partitions without an owner.
    pub unowned_partitions: Vec<u16>,
    /// Number of flows in the cluster, as last reported by the owners of their keys.
    #[serde(default)]
    pub flows: u64,
    /// Nodes that get no flows.
    #[serde(default)]
    pub drained: Vec<u16>,
    /// Nodes with a standby, which takes their flows when they die or are drained; the flows of other nodes go to all,
    /// evenly.
    #[serde(default)]
    pub standbys: Vec<StandbyView>,
    /// The last moves of a node's flows to other nodes, the newest last.
    #[serde(default)]
    pub repins: Vec<RepinNotice>,
    /// The positions of the tables in the logs of all partitions.
    #[serde(default)]
    pub positions: Vec<PartitionPosition>,
}

/// The standby of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StandbyView {
    /// The node.
    pub node: u16,
    /// The node that takes its flows when it dies or is drained, while that one is alive and not drained; none: all
    /// others, evenly.
    pub to: Option<u16>,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// Its number.
    pub node: u16,
    /// Its incarnation, which increases each time it joins.
    pub life: u64,
    /// Whether it is alive.
    pub is_alive: bool,
    /// Why it is suspended although it is alive: it takes no flows, and others answer for its addresses; empty if it is
    /// fit.
    #[serde(default)]
    pub suspended_for: Vec<String>,
    /// The partitions that it owns.
    pub partitions: Vec<u16>,
}

/// The node of a request to drain, undrain or forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Its number.
    pub node: u16,
}

/// The result of draining a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drained {
    /// The nodes that get its flows.
    pub heirs: Vec<u16>,
    /// Whether all living nodes are known to have applied the change; only a call that waits finds out.
    pub is_applied: bool,
}

/// The result of a node's comparison of its tables with the logs: a line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeVerdict {
    /// The node.
    pub node: u16,
    /// The result; none if it did not answer in time.
    pub verdict: Option<Verdict>,
}
