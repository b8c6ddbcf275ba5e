//! Requests and answers of a node of a cluster router, as JSON.

use crate::model::NodeState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Most routes in one answer.
pub const MAX_ROUTES: usize = 10_000;

/// Status of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RouterView {
    /// The program's version.
    pub version: String,
    /// The node.
    pub node: u8,
    /// Nodes of the router.
    pub nodes: u16,
    /// How packets are spread over the nodes.
    pub steering: String,
    /// Its state.
    pub state: NodeState,
    /// Whether it forwards and has all routes of the log.
    pub is_ready: bool,
    /// Seconds since its start.
    pub uptime_s: f64,
    /// The last applied entry of the log.
    pub position: u64,
    /// Why the log cannot be read now, if so; the node uses the routes read before.
    pub fault: Option<String>,
    /// How often all routes were read again because the log had lost applied entries.
    pub log_reloads: u64,
    /// Prefixes with at least one path.
    pub prefixes: u64,
    /// IPv4 routes in the table.
    pub routes_ipv4: u64,
    /// IPv6 routes in the table.
    pub routes_ipv6: u64,
    /// Selected routes that are in no table, because it is full.
    pub missing_routes: u64,
    /// Announcements refused because the router has no room for more prefixes.
    pub refused_prefixes: u64,
    /// Announcements refused because a node has no number for one more next hop.
    pub refused_next_hops: u64,
    /// Next hops of all nodes.
    pub next_hops: u64,
    /// Next hops of this node, and how many of them have a MAC address.
    pub own_next_hops: u64,
    /// Next hops of this node whose MAC address is known.
    pub resolved_next_hops: u64,
    /// Memory that lookups may touch, bytes.
    pub table_bytes: u64,
    /// The nodes that are alive, as far as this one knows.
    pub alive: Vec<u8>,
    /// How often other nodes were alive than before.
    pub walks: u64,
    /// Duration of the last change of all routes after such a change, milliseconds.
    pub last_walk_ms: u64,
    /// Sources of routes of this node.
    pub feeders: Vec<FeederView>,
    /// Frames dropped because their VLAN is none of their device.
    pub other_vlan: u64,
}

/// A source of routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FeederView {
    /// Its kind: `connected`, `static` or `fpm`.
    pub name: String,
    /// What it does.
    pub state: String,
    /// Its routes.
    pub routes: u64,
    /// Next hops that are in no network of a port.
    pub unresolved: u64,
    /// Paths beyond the limit of a prefix.
    pub surplus: u64,
    /// Records that it logged.
    pub logged: u64,
    /// Messages of a BGP speaker, by kind.
    pub messages: BTreeMap<String, u64>,
    /// What was wrong with the last message that could not be read.
    pub last_error: Option<String>,
    /// Why it cannot work now.
    pub fault: Option<String>,
}

/// Asks for routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoutesRequest {
    /// Only the route to this address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Only prefixes behind this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most routes, up to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Routes, by prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoutesView {
    /// The routes.
    pub routes: Vec<RouteView>,
    /// Whether there are further ones behind the last.
    pub has_more: bool,
}

/// A prefix and its paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteView {
    /// The prefix.
    pub prefix: String,
    /// Its paths, best first.
    pub paths: Vec<PathView>,
}

/// A path to a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathView {
    /// The node where packets leave.
    pub node: u8,
    /// Its port.
    pub port: u8,
    /// The neighbour; none if the destination is on the link.
    pub next_hop: Option<String>,
    /// The number of the neighbour at its node.
    pub number: u16,
    /// The path with the lowest value is used.
    pub preference: u32,
    /// Its source.
    pub feeder: String,
    /// Whether packets take it.
    pub is_selected: bool,
}

/// A next hop of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextHopView {
    /// Its number.
    pub number: u16,
    /// The port.
    pub port: u8,
    /// The address.
    pub address: String,
    /// The MAC address, if it is known.
    pub mac: Option<String>,
}

/// A link to another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// The other node.
    pub node: u8,
    /// The device.
    pub device: String,
    /// Whether hellos arrive in both directions.
    pub is_up: bool,
    /// Whether packets reach the node, over this link or over another node.
    pub is_reachable: bool,
    /// The nodes that the other one reaches over links of its own.
    pub reaches: Vec<u8>,
}
