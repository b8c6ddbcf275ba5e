//! Processes that run: a gateway node, a switch, a graph of elements, and the engine that keeps the cluster's log.
//!
//! | module | what it holds |
//! |---|---|
//! | [`node`] | a gateway node |
//! | [`switch`] | a switch for flat names |
//! | [`graph`] | a configuration in the Click language |
//! | [`engine`] | the process that keeps the log on one machine |
//! | [`runtime`] | what nodes, switches and graphs share: workers, devices, signals |

#![forbid(unsafe_code)]

pub mod engine;
pub mod graph;
pub mod node;
pub mod runtime;
pub mod switch;
