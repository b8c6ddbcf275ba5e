//! The cluster router of RouteBricks (SOSP 2009): nodes as one router, and how to judge it.
//!
//! | module | contents |
//! |---|---|
//! | [`cluster`] | a node as a graph, and a full mesh of nodes |
//! | [`fly`] | a k-ary n-fly of nodes |
//! | [`network`] | nodes joined by links with capacities and queues, in virtual time |
//! | [`reorder`], [`fairness`] | measures of what leaves |
//! | [`mix`] | a synthetic mix of flows, as on a backbone |
//! | [`routes`] | routes of a cluster from a table of prefixes |

pub mod cluster;
pub mod fairness;
pub mod fly;
pub mod mix;
pub mod network;
pub mod reorder;
pub mod routes;
