//! The mobile gateway: its elements and their parts.
//!
//! A packet enters at any node. The *ingress node* looks up the flow's *handling node* and sends the packet there over
//! the fabric. The handling node finds the flow's state in its FIB and sends the packet out: downstream in a GTP-U
//! tunnel to the flow's base station, upstream out of its tunnel to the Internet.
//!
//! | element | what it does |
//! |---|---|
//! | [`FromPort`] | takes frames from a port |
//! | [`FabricSort`] | sorts frames from the fabric that need more than plain handling |
//! | [`Steer`] | parses a frame to its flow's key and looks up the flow's node |
//! | [`Valiant`] | VLB: sends frames for another node through an intermediate node |
//! | [`Handle`] | looks up the flow's state, then encapsulates or decapsulates |
//! | [`SteerAndHandle`] | both as one element, so that packets of local flows need no slot in between |
//! | [`ToNextHop`] | sends the packets of an appliance to their next hops |
//! | [`ToPort`], [`FabricOut`] | send frames; `FabricOut` queues what a full fabric refuses |
//! | [`Probes`] | sends and answers the fabric's probes |
//! | [`SlowPath`] | collects packets for the node itself until the turn ends |
//!
//! Frames pass by value between ports and these elements. Only packets for the slow path, and packets that another
//! element handles after steering, use slots.
//!
//! | module | contents |
//! |---|---|
//! | [`fabric`] | between the nodes: addresses, probes, paths around failures, leases |
//! | [`packet`] | from a frame to its flow key; encapsulation; packets that exceed the MTU |
//! | [`outside`] | next hops, local addresses and link state of the outside links |
//! | [`local`] | the slow path: neighbours, and the node's own answers |
//! | [`flow`] | a flow's state and its counters |
//! | [`config`], [`settings`] | what elements are created with, and what changes while they run |
//! | [`punt`], [`reason`], [`role`] | packets for the slow path, all drop reasons, port roles |

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
mod to_next_hop;
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
pub use to_next_hop::ToNextHop;
pub use to_port::ToPort;
pub use valiant::Valiant;

use scalebricks_graph::Spec;
use scalebricks_io::PacketBuf;

/// The specs of the elements, in the order in which a packet meets them.
pub fn specs<P: PacketBuf + 'static>() -> [&'static Spec; 10] {
    [
        FromPort::SPEC,
        Steer::<P>::SPEC,
        Valiant::SPEC,
        FabricSort::SPEC,
        Handle::<P>::SPEC,
        Probes::SPEC,
        SlowPath::<P>::SPEC,
        ToNextHop::SPEC,
        ToPort::SPEC,
        FabricOut::<P>::SPEC,
    ]
}
