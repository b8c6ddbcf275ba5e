//! The control plane: what the cluster has agreed on, and what follows from it.
//!
//! Nothing here does I/O or reads a clock: machines are given messages and the time, and hand out messages to send.
//!
//! | module | what it holds |
//! |---|---|
//! | [`agent`] | a node's part in all of it |
//! | [`calls`] | requests for changes, to the owners of partitions, and verdicts back |
//! | [`courier`] | counts of flows on their way to the flows' next nodes |
//! | [`engine`] | what is asked of a log, whoever keeps it |
//! | [`lease`] | until when a node may act on what it knows |
//! | [`membership`] | who is alive, and who owns which partition |
//! | [`record`] | what a log says: changes to sessions |
//! | [`distribution`] | how it comes into the tables of all nodes, make before break |
//! | [`partition`] | what follows: the RIB and the GPT bits of a share of the keys |
//! | [`replay`] | when a snapshot is due, so that what a restart replays is bounded |
//! | [`shape`] | the shape of the GPT, and when it changes |
//! | [`version`] | what nodes of different software say to each other |

#![forbid(unsafe_code)]

pub mod agent;
pub mod calls;
pub mod courier;
pub mod distribution;
pub mod engine;
pub mod lease;
pub mod membership;
pub mod partition;
pub mod record;
mod rendezvous;
pub mod replay;
pub mod shape;
pub mod version;
