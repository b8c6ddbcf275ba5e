//! The gateway as elements of a [graph](scalebricks_graph): the four architectures are wirings of the same ones.
//!
//! | element | what it does |
//! |---|---|
//! | [`FromPort`] | takes frames from a port |
//! | [`FabricSort`] | tells by their addresses what is to be done with frames from the fabric that are not simply for a flow of this node |
//! | [`Steer`] | from a frame to its flow's key, and to the node that a table names for it |
//! | [`Valiant`] | VLB: sends frames for another node over a third |
//! | [`Handle`] | from the key to the flow's state, and into its tunnel or out of it |
//! | [`SteerAndHandle`] | the two as one element, so that a packet whose flow is here needs no slot between them |
//! | [`ToPort`], [`FabricOut`] | send frames, and keep what a full fabric refuses |
//! | [`Probes`] | the probes of the fabric |
//! | [`SlowPath`] | keeps packets for the node itself until the turn ends |
//!
//! Frames pass by value from the ports to these elements and back; only what the slow path gets, and what is handled apart from where
//! it was steered, is in slots. [`wiring`] is a node of an architecture.

mod batch;
mod columns;
mod drops;
mod fabric_out;
mod fabric_sort;
mod from_port;
mod handle;
mod here;
mod joined;
mod permit;
mod probes;
mod settings;
mod slow_path;
mod steer;
mod to_port;
mod valiant;
mod ways;
mod wiring;

pub use columns::{Found, Keyed, Punted};
pub use fabric_out::{FABRIC_QUEUE, FabricOut};
pub use fabric_sort::FabricSort;
pub use from_port::FromPort;
pub use handle::Handle;
pub use joined::SteerAndHandle;
pub use probes::Probes;
pub(crate) use settings::{set_adjacencies, set_down_links, set_fabric_health, set_lease};
pub use slow_path::SlowPath;
pub use steer::{Directory, Steer};
pub use to_port::ToPort;
pub use valiant::Valiant;
pub(crate) use wiring::name;
pub use wiring::{Form, wiring};
