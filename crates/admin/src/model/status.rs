//! Status of a node.

use scalebricks_elements::gateway::PortRole as NodePort;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use utoipa::ToSchema;

/// Status of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// The node's number, from 0.
    pub node: u16,
    /// Nodes in the cluster.
    pub nodes: u16,
    /// The architecture: how the FIB is distributed over the nodes.
    pub architecture: String,
    /// The key of downstream packets: `flow5` or `ue`.
    pub key: String,
    /// Loading, ready or draining.
    pub state: NodeState,
    /// Why the node is not ready; empty if it is.
    #[serde(default)]
    pub reasons: Vec<ReasonView>,
    /// Seconds since the node started.
    pub uptime_s: f64,
    /// Its flows.
    pub flows: FlowsView,
    /// Its tables.
    pub tables: Vec<TableView>,
    /// Its ports.
    pub ports: Vec<PortView>,
    /// Next hops on its outside links.
    pub neighbours: Vec<NeighbourView>,
    /// The other nodes, as its fabric probes find them; empty if it sends none.
    #[serde(default)]
    pub fabric: Vec<FabricPeerView>,
    /// Its workers.
    pub workers: Vec<WorkerView>,
}

/// State of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It loads its flows.
    Loading,
    /// It forwards.
    Ready,
    /// It finishes its work and then stops.
    Draining,
}

impl NodeState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Loading, Self::Ready, Self::Draining];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Draining => "draining",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The flows of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowsView {
    /// Number of flows in the cluster.
    pub in_cluster: u64,
    /// Number of flows pinned to this node.
    pub here: u64,
    /// Their file, or `control plane`.
    pub file: String,
    /// Time of the last load, in seconds since 1970-01-01 UTC; none before the first one.
    pub loaded_unix_s: Option<f64>,
    /// Number of loads.
    pub generation: u64,
}

/// The role of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableRole {
    /// The node of every flow.
    Gpt,
    /// The node of each flow that this node looks up for others.
    Lookup,
    /// The flow, exactly.
    Fib,
}

impl TableRole {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpt => "gpt",
            Self::Lookup => "lookup",
            Self::Fib => "fib",
        }
    }
}

/// Size of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableView {
    /// Its role.
    pub table: TableRole,
    /// Its memory in bytes.
    pub table_bytes: u64,
    /// Number of keys, two per flow; none if it does not count them.
    pub keys: Option<u64>,
}

/// What a port connects to.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum PortRole {
    /// The Internet.
    Internet,
    /// The base stations.
    BaseStation,
    /// The other nodes.
    Fabric,
}

impl PortRole {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Internet, Self::BaseStation, Self::Fabric];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        self.port().name()
    }

    /// The port of the data plane.
    pub const fn port(self) -> NodePort {
        match self {
            Self::Internet => NodePort::Internet,
            Self::BaseStation => NodePort::BaseStation,
            Self::Fabric => NodePort::Fabric,
        }
    }
}

impl From<NodePort> for PortRole {
    fn from(port: NodePort) -> Self {
        match port {
            NodePort::Internet => Self::Internet,
            NodePort::BaseStation => Self::BaseStation,
            NodePort::Fabric => Self::Fabric,
        }
    }
}

impl fmt::Display for PortRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortView {
    /// What it connects to.
    pub role: PortRole,
    /// The device, as configured.
    pub device: String,
    /// Its driver.
    pub driver: String,
    /// Its MAC address.
    pub mac: String,
    /// Its addresses, with the prefix lengths of their networks.
    pub addresses: Vec<String>,
    /// Whether packets can pass.
    pub is_link_up: bool,
    /// Speed in Mbit/s; none if the driver does not report it.
    pub speed_mbps: Option<u32>,
}

/// A next hop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NeighbourView {
    /// Its port.
    pub port: PortRole,
    /// Its address.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// Its MAC address, if known.
    pub mac: Option<String>,
    /// The state of its entry: `reachable`, `stale`, `incomplete` and the like.
    pub state: String,
    /// Seconds since it was last heard.
    pub age_s: Option<f64>,
}

/// Another node, as the fabric probes find it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FabricPeerView {
    /// Its number.
    pub node: u16,
    /// Whether its probes arrive.
    pub is_heard: bool,
    /// Whether it answers probes.
    pub is_reached: bool,
    /// Time from a probe to its echo, including the work of both nodes' workers; none before the first echo.
    pub round_trip_us: Option<f64>,
    /// The node that relays frames to it; none if they go directly.
    pub via: Option<u16>,
}

impl FabricPeerView {
    /// How frames reach it: `direct`, `relayed` by another node, or `none`.
    pub const fn way(&self) -> &'static str {
        match (self.via, self.is_reached) {
            (Some(_), _) => "relayed",
            (None, true) => "direct",
            (None, false) => "none",
        }
    }
}

/// A worker and its load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    /// Its number, from 0.
    pub worker: u16,
    /// The core that it is bound to, if any.
    pub core: Option<u16>,
    /// What it does when idle: `spin`, `sleep` and the like.
    pub mode: String,
    /// Share of recent time spent on turns that moved packets, 0 to 1.
    pub busy_share: f64,
    /// Seconds spent on such turns.
    pub busy_s: f64,
    /// Number of turns.
    pub turns: u64,
    /// Average packets per turn that moved any.
    pub mean_batch_fill: f64,
}

/// The answer to a health check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Loading, ready or draining.
    pub state: NodeState,
    /// Whether packets are forwarded.
    pub is_ready: bool,
    /// Why packets are not forwarded, in an answer of `/readyz`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonView>,
}

/// Why a node is not ready.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReasonView {
    /// Its name: `loading`, `draining`, `not_caught_up`, `no_lease`, or why the node is unfit: `worker`, `fabric_link`,
    /// `fabric`, `internet_link`, `internet_next_hop`, `ran_link`, `ran_next_hop`. There may be more.
    pub reason: String,
    /// Its meaning.
    pub meaning: String,
    /// Seconds since it was first observed; none if unknown.
    pub since_s: Option<f64>,
    /// The observation, as `no answer from 192.0.2.1 on the internet link for 1.4 s`; may be empty.
    pub detail: String,
}

impl ReasonView {
    /// A reason without time and details.
    pub fn new(reason: &str, meaning: &str) -> Self {
        Self { reason: reason.to_owned(), meaning: meaning.to_owned(), ..Self::default() }
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The error as text.
    pub error: String,
}
