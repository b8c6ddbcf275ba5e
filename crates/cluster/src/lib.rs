//! A node's control plane: it connects [`Agent`](scalebricks_control::agent::Agent) with its engine and the other nodes.
//!
//! ```text
//!  API ─▶ accept ─▶ calling: a task per partition ─▶ actor of the partition's owner ─▶ write: a task per partition ─▶ engine: log
//!                        ▲                             │                                                              │
//!                        └───────── verdicts ──────────┘◀── follow: a task per partition of this node ◀───────────────┘
//!  engine: record ─▶ view ─────────▶ actor ─▶ tables
//!  other nodes: beats, messages ──▶   └─────▶ other nodes
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`plane`] | the handle that the rest of the process uses |
//! | `actor`, `event`, `repinning` | the task that owns the agent, its events, and its work for dead and drained nodes |
//! | [`inbox`] | messages received from other nodes |
//! | [`counters`] | moves the counters of flows to their new nodes |
//! | `follow` | a partition's snapshot and log, read for the agent |
//! | [`stats`] | the counters |
//! | `accept` | accepts changes from callers, and reports their outcome |
//! | `calling` | sends changes to the owner of their partition |
//! | `snapshots` | stores snapshots for the agent |
//! | `write` | calls at the owner, batched into the partition's log |
//! | [`live`] | runs the control plane from the start to the end of the process |
//! | [`shared_tables`] | the node's tables, shared with the rest of the process |
//! | [`leasing`] | the node's lease: until when it may act on its state |
//! | `identity` | the number under which the process writes and calls |
//! | `view` | the record of membership |
//! | `shape` | the record of the GPT's parameters |
//! | `placement` | the record of drained nodes and standbys, as the controller sets them |
//! | [`rib`] | builds a partition's RIB from its log |
//! | [`verify`] | compares all tables with the logs |
//! | [`progress`] | the positions of the node's tables in the logs |
//! | [`repins`] | notifies the controller of flows that moved to other nodes |
//! | `pulses` | the nodes that are in contact with the engine |
//! | `peers` | sends messages to other nodes, relayed around a broken link |
//! | [`secret`] | key files, read with their permissions checked |
//! | `heartbeat` | sends heartbeats while the actor is busy |
//! | [`mesh`] | heartbeats and messages between nodes |
//! | [`local`] | several nodes in one process, for tests and measurements |
//! | [`wire`] | the format of these messages |
//! | `mesh_link` | the mesh, as the control plane uses it |
//! | `waiting` | callers that wait until all nodes have applied a change |

#![forbid(unsafe_code)]

mod accept;
mod actor;
mod calling;
pub mod counters;
mod event;
mod follow;
pub mod heartbeat;
mod identity;
pub mod inbox;
pub mod leasing;
pub mod live;
pub mod local;
pub mod mesh;
mod mesh_link;
pub mod moved;
mod peers;
mod placement;
pub mod plane;
pub mod progress;
mod pulses;
mod repinning;
pub mod repins;
pub mod rib;
pub mod secret;
mod shape;
pub mod shared_tables;
mod snapshots;
pub mod stats;
pub mod verify;
mod view;
mod waiting;
pub mod wire;
mod write;

pub use plane::draw_writer;
pub use plane::{ControlPlane, PlaneConfig};
