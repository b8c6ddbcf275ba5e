//! Packets that a node gives to its slow path: packets for the node itself, and packets that wait for something.
//!
//! The fast path never acts on them. It hands them over at the end of a turn. The slow path answers them, holds them,
//! or gives them back to be dropped for their original reason. A node without a slow path drops them at once.

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::local::FrameKind;
use crate::gateway::reason::DropReason;
use scalebricks_types::FlowKey;
use std::net::IpAddr;

/// Packets that may wait for the slow path in one turn: as many as one port brings per turn, so that a newly seen next
/// hop costs no packet. More are dropped as [`DropReason::SlowPathFull`].
pub const PUNTS: usize = 128;

/// Why the fast path did not process a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PuntReason {
    /// It came from outside and belongs to no flow.
    NoFlow(DropReason),
    /// It is complete except for the MAC address of its next hop.
    Unresolved {
        /// The next hop.
        next_hop: IpAddr,
        /// Whether the frame counts as a packet.
        kind: FrameKind,
    },
    /// Its flow, with this key, is unknown, and this node must report that.
    UnknownFlow(FlowKey),
}

impl PuntReason {
    /// The reason to drop it if the slow path does not take it.
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
    /// The frame: as it arrived, or complete except for its destination MAC.
    pub packet: P,
    /// The outside link it came from, or will leave by. For an unknown flow, the link where it reached its ingress
    /// node.
    pub link: OutputPort,
    /// Why it was punted.
    pub why: PuntReason,
}

/// Whether a packet refused for this reason may be addressed to the node itself.
pub(crate) const fn may_be_local(reason: DropReason) -> bool {
    matches!(
        reason,
        DropReason::NonIp
            | DropReason::Multicast
            | DropReason::ForThisNode
            | DropReason::LinkLocal
            | DropReason::NotForGateway
            | DropReason::NoPin
            | DropReason::NotGtpu
            | DropReason::GtpuSignalling
            | DropReason::UnsupportedExtension
    )
}
