//! Clusters for experiments on one machine, in which every packet is checked.
//!
//! | module | content |
//! |---|---|
//! | [`demo`] | the demonstration: a cluster in one process, in four architectures |
//! | [`replay`] | a capture in place of synthetic traffic |
//! | [`testbed`] | the lab: a cluster of processes over real interfaces in network namespaces |
//! | [`memory_cluster`] | the cluster of the demonstration |
//! | [`ledger`] | compares what leaves with what is expected |
//! | [`tunnel`] | builds GTP-U packets of base stations |
//! | [`pages`] | results that are kept for the pages of the documentation |

#![forbid(unsafe_code)]

pub mod demo;
pub mod ledger;
pub mod memory_cluster;
pub mod pages;
pub mod replay;
#[cfg(feature = "testbed")]
pub mod testbed;
pub mod tunnel;
