//! The gateway: nodes that run to completion, the tables they share, and whole clusters of them in memory.
//!
//! | module | what it holds |
//! |---|---|
//! | [`architecture`], [`mod@wiring`] | the four ways to spread the FIB, as wirings of the same [elements](scalebricks_elements::gateway) |
//! | [`node`] | one node: a worker with such a graph, and what it may be asked between turns |
//! | [`worker`] | nodes on threads |
//! | [`flow_tables`] | the tables of a node, changed under traffic; counters that move with flows; how many flows fit in a given memory |
//! | [`counters`], [`drop_log`] | a node's counters, its drops packet by packet |
//! | [`filter`], [`trace`] | which frames a capture of a running node wants; where a packet would go |
//! | [`cluster`] | a cluster in memory |

pub mod architecture;
pub mod cluster;
pub mod counters;
pub mod drop_log;
pub mod filter;
pub mod flow_tables;
pub mod node;
mod readings;
pub mod trace;
pub mod wiring;
pub mod worker;

pub use architecture::{Architecture, ParseArchitectureError};
pub use cluster::{Cluster, ClusterConfig, ClusterError, OutsideLinks};
pub use counters::NodeStats;
pub use drop_log::Dropped;
pub use flow_tables::capacity::{Capacity, capacity, capacity_by_formula};
pub use flow_tables::list::FlowList;
pub use flow_tables::{FlowSpec, FlowTables, FlowTablesError, Layout, PinnedState, TableSizes};
pub use node::{Node, NodePorts, NodeTables};
pub use wiring::{Form, wiring};
