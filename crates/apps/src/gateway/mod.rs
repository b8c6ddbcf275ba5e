//! The gateway: run-to-completion nodes, their shared tables, and in-memory clusters.
//!
//! | module | contents |
//! |---|---|
//! | [`architecture`], [`mod@wiring`] | the four ways to spread the FIB, as wirings of the same [elements](scalebricks_elements::gateway) |
//! | [`appliance`] | what handles packets instead of tunnels: a firewall, a NAT, any configuration in the Click language |
//! | [`node`] | one node: a worker with such a graph, and operations on it between turns |
//! | [`worker`] | nodes on threads |
//! | [`flow_tables`] | a node's tables, updated under traffic; counters that move with flows; how many flows fit in a given memory |
//! | [`counters`], [`drop_log`] | a node's counters; its dropped packets |
//! | [`filter`], [`trace`] | filters for captures on a running node; the path that a packet would take |
//! | [`cluster`] | an in-memory cluster |

pub mod appliance;
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

pub use appliance::{Appliance, ApplianceError};
pub use architecture::{Architecture, ParseArchitectureError};
pub use cluster::{Cluster, ClusterConfig, ClusterError, OutsideLinks};
pub use counters::NodeStats;
pub use drop_log::Dropped;
pub use flow_tables::capacity::{Capacity, capacity, capacity_by_formula};
pub use flow_tables::list::FlowList;
pub use flow_tables::{FlowSpec, FlowTables, FlowTablesError, Layout, PinnedState, TableSizes};
pub use node::{Node, NodePorts, NodeTables};
pub use wiring::{Form, wiring};
