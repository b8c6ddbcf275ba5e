//! The data plane as a graph of elements.
//!
//! | module | what it holds |
//! |---|---|
//! | [`slot`], [`meta`], [`column`], [`frame`] | a worker's packets, lists of them, and what is known of each |
//! | [`spec`], [`args`] | what an element class is, declared once by [`element!`]; its parameters |
//! | [`element`], [`out`], [`upstream`] | what an element does, and what it may do while it runs |
//! | [`small`], [`fuse`] | elements that look at one packet at a time, and several of them as one |
//! | [`registry`], [`builder`] | classes by name; from declarations to a checked graph |
//! | [`graph`], [`worker`] | the graph, and the turn that runs it |
//! | [`mailbox`], [`mark`], [`tap`], [`trace`] | control's ways to a worker; quiescence; captures; a hook that sees every packet |
//! | [`count`], [`describe`] | counters by element; documentation of classes |
//!
//! A worker owns 256 slots, and a batch is a list of one-byte slot numbers; a packet does not move between the element
//! that receives it and the element that sends it (`docs/adr/0037-a-graph-of-elements.md`).

#![forbid(unsafe_code)]

pub mod args;
pub mod builder;
pub mod column;
pub mod count;
pub mod describe;
pub mod element;
pub mod frame;
pub mod fuse;
pub mod graph;
mod idle;
pub mod mailbox;
pub mod mark;
pub mod meta;
pub mod out;
pub mod registry;
mod replace;
pub mod slot;
pub mod small;
pub mod spec;
pub mod tap;
pub mod trace;
pub mod upstream;
mod wheel;
pub mod worker;

pub use builder::{BuildError, BuildErrors, Builder};
pub use column::{Column, Handle, Values};
pub use count::{Counted, Ledger};
pub use element::{Binder, Control, Element, Pull, State};
pub use frame::{Frame, INTAKE};
pub use fuse::Fuse;
pub use graph::Graph;
pub use mailbox::Remote;
pub use mark::Quiescence;
pub use meta::{Meta, PortId};
pub use out::{Out, Turn};
pub use registry::{Class, Registry};
pub use slot::{Lanes, SLOTS, Slot};
pub use small::{Each, PerPacket, Tally, Verdict};
pub use spec::{CounterId, DropId, HandlerId, Spec};
pub use trace::Trace;
pub use upstream::Upstream;
pub use wheel::TimerId;
pub use worker::{HOP_LIMIT, Worker};
