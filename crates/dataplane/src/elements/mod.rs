//! The gateway as elements of a [graph](scalebricks_graph): the four architectures are wirings of the same ones.
//!
//! | element | what it does |
//! |---|---|
//! | [`FromPort`], [`FabricIn`] | take frames from an outside port, and from the fabric |
//! | [`Steer`] | from a frame to its flow's key, and to the node that a table names for it |
//! | [`Valiant`] | VLB: sends frames for another node over a third |
//! | [`Handle`] | from the key to the flow's state, and into its tunnel or out of it |
//! | [`ToPort`], [`FabricOut`] | send frames, and keep what a full fabric refuses |
//! | [`Unknown`] | ends packets whose flow is unknown |
//!
//! An element is one of today's steps of a node as a whole: what a step knows of its packets stays in arrays side by side, and a list
//! of slots goes to the next one. [`wiring`] is a node of an architecture.
//!
//! Not here yet: the lease, the slow path, ports that are down, and ways round broken links.

mod asked;
mod columns;
mod drops;
mod fabric_in;
mod fabric_out;
mod from_port;
mod handle;
mod steer;
mod to_port;
mod unknown;
mod valiant;
mod wiring;

pub use columns::{Found, Keyed};
pub use fabric_in::FabricIn;
pub use fabric_out::FabricOut;
pub use from_port::FromPort;
pub use handle::Handle;
pub use steer::{Directory, Steer};
pub use to_port::ToPort;
pub use unknown::Unknown;
pub use valiant::Valiant;
pub use wiring::{End, Ends, wiring};
