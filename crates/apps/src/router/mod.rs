//! The IP router: one server, or a cluster of servers as one router (RouteBricks, SOSP 2009).
//!
//! | module | contents |
//! |---|---|
//! | [`feed`] | sources of routes: BGP tables from files |
//! | [`server`] | one server: configurations for forwarding and IP routing |
//! | [`tunnel`] | one server as the end of ESP tunnels |
//! | [`node`] | a node of a cluster on real links: next hops, ICMP, hellos |
//! | [`cluster`] | a node with given next hops as a graph, and a full mesh of such nodes in memory |
//! | [`node_cluster`] | a full mesh of nodes in memory, whose links can be cut |
//! | [`fly`] | a k-ary n-fly of nodes |
//! | [`network`] | nodes joined by links with capacities and queues, in virtual time |
//! | [`reorder`], [`fairness`] | measures of what leaves |
//! | [`mix`] | a synthetic mix of flows, as on a backbone |
//! | [`routes`] | routes of a cluster from a table of prefixes |

pub mod cluster;
pub mod fairness;
pub mod feed;
pub mod fly;
pub mod mix;
pub mod network;
pub mod node;
pub mod node_cluster;
mod paths;
pub mod reorder;
pub mod routes;
pub mod server;
pub mod tunnel;
