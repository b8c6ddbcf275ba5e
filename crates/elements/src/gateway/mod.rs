//! The gateway: its elements, and what they are made of.
//!
//! A packet enters at any node. The *ingress node* asks a table for the flow's *handling node*, and sends the packet there over the
//! fabric; the handling node finds the flow's state in its FIB, and the packet leaves: downstream in a GTP-U tunnel to the flow's base
//! station, upstream out of its tunnel to the Internet.
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
//! it was steered, is in slots.
//!
//! | module | what it holds |
//! |---|---|
//! | [`fabric`] | between the nodes: addresses, probes and the ways round what is broken, leases |
//! | [`packet`] | from a frame to its flow key; the two ends of a tunnel; what does not fit |
//! | [`outside`] | next hops on the outside links, own addresses there, links that are down |
//! | [`local`] | the slow path: neighbours, and answers of the node itself |
//! | [`flow`] | a flow's state and its counters |
//! | [`config`], [`settings`] | what a node's elements are told when they are made, and while they run |
//! | [`punt`], [`reason`], [`role`] | what is given to the slow path, every reason to drop a packet, what a port leads to |

mod batch;
mod columns;
pub mod config;
mod drop_ids;
pub mod fabric;
mod fabric_out;
mod fabric_sort;
pub mod flow;
mod from_port;
mod handle;
mod handling_stage;
pub mod local;
pub mod outside;
pub mod packet;
mod permit;
mod probes;
pub mod punt;
pub mod reason;
pub mod role;
mod route_cache;
pub mod settings;
mod slow_path;
mod steer;
mod steer_and_handle;
mod to_port;
mod valiant;

pub use columns::{FibHit, HashedKey, PuntInfo};
pub use config::{NodeConfig, OutsideMacs};
pub use fabric::health::FabricHealth;
pub use fabric::lease::Lease;
pub use fabric::mac::{FabricMac, OutputPort, Phase};
pub use fabric_out::{FABRIC_QUEUE, FabricOut};
pub use fabric_sort::FabricSort;
pub use flow::{BaseStation, BaseStationId, FlowCount, FlowCounters, FlowState};
pub use from_port::FromPort;
pub use handle::Handle;
pub use outside::adjacency::{Adjacencies, NextHop};
pub use outside::down_links::DownLinks;
pub use packet::identification::Identifications;
pub use packet::policy::{Oversize, Policy};
pub use probes::Probes;
pub use punt::{Punt, PuntReason};
pub use reason::{DropCounts, DropReason};
pub use role::PortRole;
pub use slow_path::SlowPath;
pub use steer::{LocationTable, Steer};
pub use steer_and_handle::SteerAndHandle;
pub use to_port::ToPort;
pub use valiant::Valiant;

use scalebricks_graph::Spec;
use scalebricks_io::PacketBuf;

/// What the elements are, in the order in which a packet meets them.
pub fn specs<P: PacketBuf + 'static>() -> [&'static Spec; 9] {
    [
        FromPort::SPEC,
        Steer::<P>::SPEC,
        Valiant::SPEC,
        FabricSort::SPEC,
        Handle::<P>::SPEC,
        Probes::SPEC,
        SlowPath::<P>::SPEC,
        ToPort::SPEC,
        FabricOut::<P>::SPEC,
    ]
}
