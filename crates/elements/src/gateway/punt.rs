//! What a node gives to its slow path: packets that are for the node itself, or that wait for something.
//!
//! The fast path never acts on them. It hands them over at the end of a turn; whoever takes them answers, holds them,
//! or gives them back to be dropped for the reason they had. Nodes without a slow path drop them at once.

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::local::FrameKind;
use crate::gateway::reason::DropReason;
use scalebricks_types::FlowKey;
use std::net::IpAddr;

/// Packets that may wait for the slow path in one turn: as many as one port brings in a turn, so that a next hop which was just found costs
/// no packet. More are dropped as [`DropReason::SlowPathFull`].
pub const PUNTS: usize = 128;

/// Why the fast path did not deal with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PuntReason {
    /// It came from outside and belongs to no flow.
    NoFlow(DropReason),
    /// It is finished but for the MAC address of its next hop.
    Unresolved {
        /// The next hop.
        next_hop: IpAddr,
        /// Whether the frame stands for a packet.
        kind: FrameKind,
    },
    /// Its flow, with this key, is unknown, and it is for this node to say so.
    UnknownFlow(FlowKey),
}

impl PuntReason {
    /// The reason to drop it, should nobody want it.
    pub const fn reason(self) -> DropReason {
        match self {
            Self::NoFlow(reason) => reason,
            Self::Unresolved { .. } => DropReason::Unresolved,
            Self::UnknownFlow(_) => DropReason::UnknownFlow,
        }
    }
}

/// A packet for the slow path.
#[derive(Debug)]
pub struct Punt<P> {
    /// The frame: as it came, or finished but for its destination.
    pub packet: P,
    /// The outside link it came from, or will leave by. Of an unknown flow: the one it came from to its ingress node.
    pub link: OutputPort,
    /// Why.
    pub why: PuntReason,
}

/// Whether a packet refused for this reason may be for the node itself.
pub(crate) const fn may_be_local(reason: DropReason) -> bool {
    matches!(
        reason,
        DropReason::NonIp
            | DropReason::Multicast
            | DropReason::ForThisNode
            | DropReason::LinkLocal
            | DropReason::NotForGateway
            | DropReason::NotGtpu
            | DropReason::GtpuSignalling
            | DropReason::UnsupportedExtension
    )
}
