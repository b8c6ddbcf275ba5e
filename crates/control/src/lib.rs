//! The control plane: agrees on the state of the cluster and computes the nodes' tables from it.
//!
//! No module does I/O or reads a clock: state machines take messages and the time, and return messages to send.
//!
//! | module | contents |
//! |---|---|
//! | [`agent`] | combines the others at one node |
//! | [`calls`] | requests for changes to the owners of partitions, and their verdicts |
//! | [`codec`] | encoding of records, snapshots and messages |
//! | [`courier`] | transfers the counters of flows to the flows' next nodes |
//! | [`engine`] | the interface of a log |
//! | [`lease`] | until when a node may act without contact |
//! | [`membership`] | which nodes are alive, and which node owns which partition |
//! | [`record`] | contents of log entries: changes to sessions |
//! | [`distribution`] | brings the tables of all nodes to the log's state, make before break |
//! | [`partition`] | the RIB and the GPT bits of a part of the key space, computed from its log |
//! | [`replay`] | decides when a snapshot is due, so that a restart replays a bounded part of the log |
//! | [`routes`] | routes of a cluster router: records of their log, and the selected paths |
//! | [`shape`] | the shape of the GPT and its changes |
//! | [`version`] | protocol versions |

#![forbid(unsafe_code)]

pub mod agent;
pub mod calls;
pub mod codec;
pub mod courier;
pub mod distribution;
pub mod engine;
pub mod lease;
pub mod membership;
pub mod partition;
pub mod record;
mod rendezvous;
pub mod replay;
pub mod routes;
pub mod shape;
pub mod version;
