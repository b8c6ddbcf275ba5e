//! The cluster, and what is done with a node as a whole.

use scalebricks_cluster::repins::RepinNotice;
use scalebricks_cluster::verify::Verdict;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use utoipa::ToSchema;

/// The cluster, as a node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterView {
    /// The node that says so.
    pub node: u16,
    /// Whether its tables hold all they are to hold.
    pub has_caught_up: bool,
    /// Counts the changes of membership.
    pub epoch: u64,
    /// Nodes that the cluster may have, by its configuration; numbered from 0.
    pub nodes: u16,
    /// What of a downstream packet is its key: `flow5` or `ue`.
    pub key: String,
    /// Tunnel addresses of the base stations.
    #[schema(value_type = Vec<String>)]
    pub base_stations: Vec<Ipv4Addr>,
    /// All nodes that were ever there.
    pub members: Vec<MemberView>,
    /// Partitions of the key space that nobody owns.
    pub unowned_partitions: Vec<u16>,
    /// Flows of the cluster, as the owners of their keys told a moment ago.
    #[serde(default)]
    pub flows: u64,
    /// Nodes that are to get no flows.
    #[serde(default)]
    pub drained: Vec<u16>,
    /// Nodes whose flows one other takes when they die or are drained; those of all others go to all, evenly.
    #[serde(default)]
    pub standbys: Vec<StandbyView>,
    /// The last nodes whose flows went to others, the newest at the end.
    #[serde(default)]
    pub repins: Vec<RepinNotice>,
}

/// Who takes a node's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StandbyView {
    /// The node.
    pub node: u16,
    /// The one who takes its flows when it dies or is drained, while it is alive and not drained itself; none: all others,
    /// evenly.
    pub to: Option<u16>,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// Its number.
    pub node: u16,
    /// Which of its lives: rises each time it joins.
    pub life: u64,
    /// Whether it is alive.
    pub is_alive: bool,
    /// Why it takes no flows, and others answer for its addresses, though it is alive; empty if it can do its work.
    #[serde(default)]
    pub suspended_for: Vec<String>,
    /// The partitions of the key space that it owns.
    pub partitions: Vec<u16>,
}

/// The node that is to get no flows, or to get some again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Its number.
    pub node: u16,
}

/// What becomes of a node's flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drained {
    /// The nodes that get them.
    pub heirs: Vec<u16>,
    /// Whether all living nodes are known to have applied it; only a call that waits finds out.
    pub is_applied: bool,
}

/// What a node found when it compared its tables with the logs: a line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeVerdict {
    /// The node.
    pub node: u16,
    /// What it found; none if it did not answer in time.
    pub verdict: Option<Verdict>,
}
