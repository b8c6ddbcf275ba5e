//! A node's control plane: what drives [`Agent`](scalebricks_control::agent::Agent), its engine and its neighbours.
//!
//! ```text
//!  API ─▶ accept ─▶ calling: a task per partition ─▶ actor of the partition's owner ─▶ write: a task per partition ─▶ engine: log
//!                        ▲                             │                                                              │
//!                        └───────── verdicts ──────────┘◀── follow: a task per partition of this node ◀───────────────┘
//!  engine: record ─▶ view ─────────▶ actor ─▶ tables
//!  other nodes: beats, messages ──▶   └─────▶ other nodes
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`plane`] | the handle that the rest of the process has |
//! | `actor`, `event`, `repinning` | the one task that owns the agent, what it is told, and what it does for dead and drained nodes |
//! | [`inbox`] | what comes from other nodes |
//! | [`counters`] | counts of flows, carried to the flows' next nodes |
//! | `follow` | a partition's snapshot and log, read for the agent |
//! | [`stats`] | what is counted |
//! | `accept` | changes that callers bring, and what became of them |
//! | `calling` | changes on their way to the owner of their partition |
//! | `snapshots` | snapshots, stored for the agent |
//! | `write` | calls at the owner, batched into the partition's log |
//! | [`live`] | a control plane from a node's start to its end |
//! | [`shared_tables`] | the node's tables, shared with the rest of the process |
//! | [`leasing`] | until when the node may act on what it knows |
//! | `identity` | the number under which the process writes and calls |
//! | `view` | the record of membership |
//! | `shape` | the record of the table's shape |
//! | `placement` | the record of what the controller says of nodes: drained ones, standbys |
//! | [`rib`] | a partition's RIB, made of its log by whoever wants it |
//! | [`verify`] | are all tables as the logs say? |
//! | [`repins`] | what the controller is told of flows that went to other nodes |
//! | `pulses` | which nodes are in contact with the engine |
//! | `relaying` | messages round a broken pair of nodes |
//! | [`secret`] | key files, read with their permissions checked |
//! | `beating` | signs of life while the actor is busy |
//! | [`mesh`] | how nodes reach each other: signs of life, and messages |
//! | [`local`] | several nodes in one process, for tests and measurements |
//! | [`wire`] | what those messages say |
//! | `mesh_link` | the mesh, as the control plane uses it |
//! | `waiting` | who waits until all nodes have applied something |

#![forbid(unsafe_code)]

mod accept;
mod actor;
pub mod beating;
mod calling;
pub mod counters;
mod event;
mod follow;
mod identity;
pub mod inbox;
pub mod leasing;
pub mod live;
pub mod local;
pub mod mesh;
mod mesh_link;
pub mod moved;
mod placement;
pub mod plane;
mod pulses;
mod relaying;
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
