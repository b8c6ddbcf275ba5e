//! The data plane: gateway nodes that run to completion, and whole clusters of them in memory.
//!
//! A packet enters at any node. The *ingress node* finds the flow's *handling node* as its [`Architecture`] says,
//! and sends the packet there over the fabric; the handling node finds the flow's state in its FIB, and the packet
//! leaves: downstream in a GTP-U tunnel to the flow's base station, upstream out of its tunnel to the Internet.
//!
//! | module | what it holds |
//! |---|---|
//! | [`fabric_mac`] | what a destination MAC says inside the cluster |
//! | [`fabric_health`] | whom a node hears and reaches over the fabric, and the ways round what is broken |
//! | [`architecture`] | the four ways to spread the FIB |
//! | [`policy`], [`reason`] | what is decided about packets, and every reason to drop one |
//! | `classify`, `plain`, [`fragment_cache`] | from a frame to its flow key |
//! | [`elements`] | the steps of a node as elements of a graph; the architectures as wirings of them |
//! | [`node`] | one node: a worker with such a graph, and what it may be asked between turns |
//! | `tunnels`, [`oversize`], [`identification`] | the two ends of a tunnel, and what does not fit |
//! | [`adjacency`], `own`, [`punt`] | next hops on the outside links, own addresses there; what a node gives to its slow path |
//! | [`local`] | the slow path: neighbours, answers of the node itself |
//! | [`down_links`] | ports whose links are known to be down |
//! | [`flow`], [`counters`], [`drop_log`] | a flow's state and counters, a node's counters, its drops packet by packet |
//! | [`tap`], [`trace`] | captures from running nodes; where a packet would go |
//! | [`worker`] | nodes on threads |
//! | [`flow_tables`] | the tables of a node, changed under traffic; counters that move with flows; how many flows fit in a given memory |
//! | [`cluster`] | a cluster in memory |

#![forbid(unsafe_code)]

pub mod adjacency;
pub mod architecture;
mod classify;
pub mod cluster;
pub mod counters;
mod detour;
pub mod down_links;
pub mod drop_log;
pub mod elements;
pub mod fabric_health;
pub mod fabric_mac;
pub mod flow;
pub mod flow_tables;
pub mod fragment_cache;
pub mod identification;
pub mod lease;
pub mod local;
pub mod node;
pub mod oversize;
mod own;
mod plain;
pub mod policy;
pub mod punt;
mod readings;
pub mod reason;
pub mod role;
pub mod tap;
pub mod trace;
mod tunnels;
pub mod worker;

pub use adjacency::{Adjacencies, NextHop};
pub use architecture::{Architecture, ParseArchitectureError};
pub use cluster::{Cluster, ClusterConfig, ClusterError, OutsideLinks};
pub use counters::NodeStats;
pub use down_links::DownLinks;
pub use drop_log::{DropWatcher, Dropped};
pub use fabric_health::FabricHealth;
pub use fabric_mac::{FabricMac, OutputPort, Phase};
pub use flow::{BaseStation, BaseStationId, FlowCount, FlowCounters, FlowState};
pub use flow_tables::capacity::{Capacity, capacity, capacity_by_formula};
pub use flow_tables::list::FlowList;
pub use flow_tables::{FlowSpec, FlowTables, FlowTablesError, Layout, PinnedState, TableSizes, Turns};
pub use identification::Identifications;
pub use lease::Lease;
pub use node::{Node, NodeConfig, NodePorts, NodeTables, OutsideMacs};
pub use policy::{Oversize, Policy};
pub use punt::{Punt, Why};
pub use reason::{DropCounts, DropReason};
pub use role::PortRole;
