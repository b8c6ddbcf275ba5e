//! A node's control plane: what drives [`Agent`](scalebricks_control::agent::Agent), its engine and its neighbours.
//!
//! ```text
//!  API ─▶ write: a task a partition ─▶ engine: log ─▶ follow: a task a partition that is this node's ─┐
//!                                      engine: record ─▶ view ───────────────────────────────────────▶│ actor ─▶ tables
//!                                      other nodes: beats, messages ─────────────────────────────────▶│   └──▶ other nodes
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`plane`] | the handle that the rest of the process has |
//! | [`daemon`] | all of it on a thread of a node's process |
//! | `actor` | the one task that owns the agent |
//! | [`counters`] | counts of flows, carried to the flows' next nodes |
//! | `follow` | a partition's snapshot and log, read for the agent |
//! | `write` | changes, batched into a partition's log |
//! | `view` | the record of membership |
//! | `shape` | the record of the table's shape |
//! | [`mesh`] | how nodes reach each other: signs of life, and messages |
//! | [`local`] | several nodes in one process, for tests and measurements |
//! | [`wire`] | what those messages say |
//! | `waiting` | who waits until all nodes have applied something |

mod actor;
pub mod counters;
pub mod daemon;
mod follow;
pub mod local;
pub mod mesh;
pub mod plane;
mod shape;
mod view;
mod waiting;
pub mod wire;
mod write;

pub use plane::{ControlPlane, PlaneConfig};
