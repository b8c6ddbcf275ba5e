//! Clusters to try, on one machine, with every packet checked.
//!
//! | module | what it holds |
//! |---|---|
//! | [`demo`] | the demonstration: a cluster in one process, in four architectures |
//! | [`testbed`] | the lab: a cluster of processes over real interfaces in network namespaces |
//! | [`replay`] | a captured trace through a cluster |
//! | [`ledger`] | what must happen to each packet, and what did |
//! | [`pages`] | results kept for the pages of the documentation |

#![forbid(unsafe_code)]

pub mod demo;
pub mod ledger;
pub mod pages;
pub mod replay;
#[cfg(feature = "testbed")]
pub mod testbed;
