//! The processes: a gateway node, a switch, a graph of elements, and the engine that stores the cluster's log.
//!
//! | module | content |
//! |---|---|
//! | [`node`] | a gateway node |
//! | [`switch`] | a switch for flat names |
//! | [`graph`] | a configuration in the Click language |
//! | [`flows`] | a log of the flows of a capture or of ports |
//! | [`engine`] | the process that stores the log on one machine |
//! | [`router`] | routers: one server, or a node of a cluster |
//! | `replica` | a state that several processes compute from one log |
//! | `config` | reading and checking of configurations: one description of their keys
//! | [`runtime`] | code that nodes, switches and graphs share: workers, devices, signals |
//! | [`error`] | the errors of nodes, switches and graphs |

#![forbid(unsafe_code)]

mod config;
pub mod engine;
pub mod error;
pub mod flows;
pub mod graph;
pub mod node;
mod replica;
pub mod router;
pub mod runtime;
pub mod switch;
