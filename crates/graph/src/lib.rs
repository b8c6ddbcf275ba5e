//! The data plane as a graph of elements.
//!
//! | module | contents |
//! |---|---|
//! | [`slot`], [`meta`], [`mod@column`], [`frame`] | a worker's packets, lists of packets, and their metadata |
//! | [`spec`], [`args`] | specifications of element classes, declared by [`element!`]; parameters |
//! | [`mod@element`], [`out`], [`upstream`] | the traits of elements, and their access to outputs and inputs |
//! | [`bursts`], [`ports`] | packets passed by value between two elements; a worker's ports |
//! | [`per_packet`], [`fuse`] | elements that process single packets, and sequences of them as one element |
//! | [`registry`], [`builder`] | classes by name; builds checked graphs |
//! | [`graph`], [`worker`] | graphs, and the workers that run them |
//! | [`environment`] | devices and files, which elements open before a graph runs |
//! | [`mailbox`], [`quiescence`], [`tap`], [`trace`] | requests to a worker; quiescence; captures; a hook for every packet |
//! | [`count`], [`class_docs`] | counters by element; documentation of classes |
//!
//! An example with an element that processes single packets:
//!
//! ```
//! use scalebricks_graph::{
//!     Builder, Control, Element, Frame, SlotList, Ledger, Meta, Out, PerPacket, Registry, PacketContext, Upstream,
//!     Verdict, Worker, agnostic, element,
//! };
//! use scalebricks_io::{Packet, PacketBuf, Pool};
//! use std::time::Duration;
//!
//! element! {
//!     /// Drops packets shorter than a number of bytes.
//!     pub struct DropShort as "DropShort" { bytes: usize, }
//!     inputs { agnostic "in": "Packets.", }
//!     outputs { agnostic "out": "Those that are long enough.", }
//!     params DropShortParams {
//!         /// Bytes that a packet needs.
//!         bytes: usize = 60,
//!     }
//!     drops { SHORT = "too_short": "The packet is too short.", }
//!     makes |params| Self { bytes: params.bytes },
//! }
//!
//! impl Control for DropShort {}
//!
//! agnostic! { DropShort }
//!
//! impl<P: PacketBuf> PerPacket<P> for DropShort {
//!     fn each(&mut self, packet: &mut P, _: &mut Meta, _: PacketContext<'_>) -> Verdict {
//!         if packet.data().len() < self.bytes { Verdict::Drop(Self::SHORT) } else { Verdict::ON }
//!     }
//! }
//!
//! element! {
//!     /// Makes a packet of every length below 100 in each turn.
//!     struct Lengths as "Lengths" {}
//!     outputs { push "out": "Packets.", }
//!     hooks { Begin, }
//! }
//! element! {
//!     /// Ends packets.
//!     struct End as "End" {}
//!     inputs { push "in": "Packets.", }
//! }
//! # impl Control for Lengths {}
//! # impl Control for End {}
//!
//! impl<P: PacketBuf> Element<P> for Lengths {
//!     fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
//!         for len in 0..out.intake(frame.used()).min(100) {
//!             let Some(mut packet) = frame.alloc() else { return };
//!             if packet.append(&vec![0; len]).is_ok() && let Ok(slot) = frame.put(packet) {
//!                 out.push(0, slot);
//!             }
//!         }
//!     }
//! }
//!
//! impl<P: PacketBuf> Element<P> for End {
//!     fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, _: &mut Out<'_>) {
//!         batch.drain().for_each(|slot| drop(frame.take(slot)));
//!     }
//! }
//!
//! let mut registry = Registry::<Packet>::new();
//! registry.add::<DropShort>();
//! let mut builder = Builder::new();
//! builder.add("lengths", Lengths {}).add("end", End {});
//! builder.declare("short", "DropShort", &["BYTES 90"]).chain(&["lengths", "short", "end"]);
//! let mut ledger = Ledger::new();
//! let graph = builder.build(&registry, &mut ledger)?;
//! let mut worker = Worker::new(graph, Box::new(Pool::new(256, 100)?), ());
//! worker.turn(Duration::ZERO);
//! for counted in ledger.snapshot() {
//!     match &*counted.element {
//!         "end" => assert_eq!(counted.get("packets"), Some(10)),
//!         "short" => assert_eq!((counted.get("packets"), counted.get("too_short")), (Some(100), Some(90))),
//!         _ => assert_eq!(counted.dropped(), 0),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A worker owns 256 slots, and a batch is a list of one-byte slot numbers; a packet does not move between the element
//! that receives it and the element that sends it (`docs/adr/0037-a-graph-of-elements.md`).

#![forbid(unsafe_code)]

pub mod args;
pub mod builder;
pub mod bursts;
pub mod class_docs;
pub mod column;
pub mod count;
mod declare;
pub mod element;
pub mod environment;
pub mod frame;
pub mod fuse;
pub mod graph;
mod idle;
mod inject;
pub mod mailbox;
pub mod meta;
pub mod out;
mod passing;
pub mod per_packet;
pub mod ports;
pub mod quiescence;
pub mod registry;
mod replace;
mod running;
pub mod slot;
pub mod spec;
pub mod tap;
mod timers;
pub mod trace;
pub mod upstream;
pub mod worker;

pub use builder::{BuildError, BuildErrors, Builder, Draft, Shortcut};
pub use bursts::{Bursts, Chunk};
pub use column::{Column, Handle, Values};
pub use count::{CounterSnapshot, Ledger, PassedCounts, Reading};
pub use element::{Binder, Control, Declared, Element};
pub use environment::{Clock, Environment, Inlet, Outlet, Recording, Secret, Supply};
pub use frame::{Frame, INTAKE};
pub use fuse::Fuse;
pub use graph::Graph;
pub use mailbox::Remote;
pub use meta::{Meta, PortId};
pub use out::{Out, Turn};
pub use per_packet::{PacketContext, PerPacket, Verdict};
pub use ports::Ports;
pub use quiescence::{GracePeriod, Mark, Quiescence};
pub use registry::{Class, Registry};
pub use slot::{SLOTS, Slot, SlotList};
pub use spec::{CounterId, DropId, HandlerId, Spec};
pub use timers::TimerId;
pub use trace::Trace;
pub use upstream::Upstream;
pub use worker::{HOP_LIMIT, Worker};
