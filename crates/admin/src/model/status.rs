//! What a node is.

use scalebricks_elements::gateway::PortRole as NodePort;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use utoipa::ToSchema;

/// What a node is, and how it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// The node's number, from 0.
    pub node: u16,
    /// Nodes in the cluster.
    pub nodes: u16,
    /// How the FIB is spread over them.
    pub architecture: String,
    /// What of a downstream packet is its key: `flow5` or `ue`.
    pub key: String,
    /// Loading, ready or draining.
    pub state: NodeState,
    /// Why the node is not ready; none if it is.
    #[serde(default)]
    pub reasons: Vec<ReasonView>,
    /// Seconds since the node started.
    pub uptime_s: f64,
    /// The flows it knows.
    pub flows: FlowsView,
    /// The tables they fill.
    pub tables: Vec<TableView>,
    /// Its ports.
    pub ports: Vec<PortView>,
    /// Next hops on its outside links.
    pub neighbours: Vec<NeighbourView>,
    /// The other nodes, as its probes find them over the fabric; empty if it sends none.
    #[serde(default)]
    pub fabric: Vec<FabricPeerView>,
    /// The threads that forward.
    pub workers: Vec<WorkerView>,
}

/// Whether a node forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// Its flows are being loaded.
    Loading,
    /// It forwards.
    Ready,
    /// It finishes what is under way, and goes.
    Draining,
}

impl NodeState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Loading, Self::Ready, Self::Draining];

    /// As in JSON.
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

/// The flows a node knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowsView {
    /// In the whole cluster.
    pub in_cluster: u64,
    /// Pinned to this node.
    pub here: u64,
    /// The file they came from.
    pub file: String,
    /// When it was loaded last, in seconds since 1970-01-01 UTC; none before the first time.
    pub loaded_unix_s: Option<f64>,
    /// How often it was loaded.
    pub generation: u64,
}

/// What a table answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableRole {
    /// Which node, of every flow.
    Gpt,
    /// Which node, of the flows this node looks up for others.
    Lookup,
    /// Which flow, exactly.
    Fib,
}

impl TableRole {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpt => "gpt",
            Self::Lookup => "lookup",
            Self::Fib => "fib",
        }
    }
}

/// A table's size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableView {
    /// What it answers.
    pub table: TableRole,
    /// Its memory.
    pub table_bytes: u64,
    /// Keys in it, two a flow; none if it does not count them.
    pub keys: Option<u64>,
}

/// What a port leads to.
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

    /// As in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        self.port().name()
    }

    /// As the data plane says it.
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
    /// What it leads to.
    pub role: PortRole,
    /// The device, as configured.
    pub device: String,
    /// Its driver.
    pub driver: String,
    /// Its MAC address.
    pub mac: String,
    /// Addresses it answers for, with their networks' lengths.
    pub addresses: Vec<String>,
    /// Whether packets can pass.
    pub is_link_up: bool,
    /// Mbit/s; none if the driver does not know.
    pub speed_mbps: Option<u32>,
}

/// A next hop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NeighbourView {
    /// The port it is behind.
    pub port: PortRole,
    /// Its address.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// Its MAC address, once known.
    pub mac: Option<String>,
    /// What is known of it: `reachable`, `stale`, `incomplete` and the like.
    pub state: String,
    /// Seconds since it was last heard of.
    pub age_s: Option<f64>,
}

/// Another node, as probes find it over the fabric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FabricPeerView {
    /// Its number.
    pub node: u16,
    /// Whether its probes arrive.
    pub is_heard: bool,
    /// Whether it answers probes.
    pub is_reached: bool,
    /// Time from a probe to its echo, the work of both nodes' workers included; none before the first echo.
    pub round_trip_us: Option<f64>,
    /// The node over which frames for it go, if not directly.
    pub via: Option<u16>,
}

impl FabricPeerView {
    /// The way to it: `direct`, `relayed` over another node, or `none`.
    pub const fn way(&self) -> &'static str {
        match (self.via, self.is_reached) {
            (Some(_), _) => "relayed",
            (None, true) => "direct",
            (None, false) => "none",
        }
    }
}

/// A thread that forwards, and how busy it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    /// Its number, from 0.
    pub worker: u16,
    /// The core it is bound to, if it is.
    pub core: Option<u16>,
    /// What it does when there is nothing to do: `spin`, `yield`, `sleep` and the like.
    pub mode: String,
    /// Share of its time spent on turns that moved packets, 0 to 1, over the last while.
    pub busy_share: f64,
    /// Seconds spent on such turns.
    pub busy_s: f64,
    /// Turns of work.
    pub turns: u64,
    /// Packets a turn that moved any, on average.
    pub mean_batch_fill: f64,
}

/// The answer of a health check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Loading, ready or draining.
    pub state: NodeState,
    /// Whether packets are forwarded.
    pub is_ready: bool,
    /// Why not, in an answer of `/readyz`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<ReasonView>,
}

/// Why a node is not ready.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReasonView {
    /// Its name: `loading`, `draining`, `not_caught_up`, `no_lease`, or why the node is unfit: `worker`, `fabric_link`, `fabric`,
    /// `internet_link`, `internet_next_hop`, `ran_link`, `ran_next_hop`. There may be more.
    pub reason: String,
    /// What it means.
    pub meaning: String,
    /// Seconds since it was first seen; none if nobody counts them.
    pub since_s: Option<f64>,
    /// What exactly is seen, as `no answer from 192.0.2.1 on the internet link for 1.4 s`; may be empty.
    pub detail: String,
}

impl ReasonView {
    /// One of which there is no more to say.
    pub fn new(reason: &str, meaning: &str) -> Self {
        Self { reason: reason.to_owned(), meaning: meaning.to_owned(), ..Self::default() }
    }
}

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// In words.
    pub error: String,
}
