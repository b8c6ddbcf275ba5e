//! The causes for which a packet may be dropped, as far as its sender knows.

use scalebricks_elements::gateway::DropReason;

/// A property of a packet, known before it is put in, for which it may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// It is neither IPv4 nor IPv6.
    NotIp,
    /// It is truncated or malformed.
    Unreadable,
    /// It is multicast or broadcast.
    Multicast,
    /// Its destination is link-local.
    LinkLocal,
    /// Its IPv4 header checksum is wrong, and checksums are verified.
    Checksum,
    /// It is a later fragment, and its first fragment was not forwarded before it, or may have been forgotten.
    NoFirstFragment,
    /// It belongs to no flow.
    NoFlow,
    /// With tunnel headers it is larger than an IP packet can be.
    TooLarge,
    /// With tunnel headers it does not fit the base-station link, and may not be fragmented.
    TooBigForLink,
    /// The run may put in more packets than buffers, links or the fabric can hold.
    NoRoom,
}

impl DropCause {
    /// Whether a packet with this property may be dropped for this reason.
    ///
    /// Every reason is listed, so that a new reason does not compile before its causes are decided.
    pub const fn calls_for(self, reason: DropReason) -> bool {
        match reason {
            DropReason::NonIp => matches!(self, Self::NotIp | Self::Unreadable),
            DropReason::Truncated | DropReason::MalformedIp => matches!(self, Self::Unreadable),
            DropReason::Multicast => matches!(self, Self::Multicast),
            DropReason::LinkLocal => matches!(self, Self::LinkLocal),
            DropReason::BadIpv4Checksum => matches!(self, Self::Checksum),
            DropReason::FragmentWithoutFirst => matches!(self, Self::NoFirstFragment),
            // A hint about an unknown key may name no node at all.
            DropReason::UnknownFlow | DropReason::NoSuchNode => matches!(self, Self::NoFlow),
            DropReason::TooLarge => matches!(self, Self::TooLarge),
            DropReason::FragmentationNeeded => matches!(self, Self::TooBigForLink),
            DropReason::NoBuffer | DropReason::PortFull | DropReason::FabricFull => {
                matches!(self, Self::NoRoom)
            }
            // Packets are put in with the MAC address of the node, in valid tunnels of known flows. A cluster in memory
            // has neither IP addresses nor a slow path, and all its next hops are resolved.
            DropReason::ForThisNode
            | DropReason::OtherMac
            | DropReason::EncodedMacOutside
            | DropReason::BadFabricMac
            | DropReason::BadProbe
            | DropReason::NotForGateway
            | DropReason::NoPin
            | DropReason::Refused
            | DropReason::NotGtpu
            | DropReason::MalformedGtpu
            | DropReason::GtpuSignalling
            | DropReason::UnsupportedExtension
            | DropReason::GtpuFragment
            | DropReason::MalformedInner
            | DropReason::NoRoute
            | DropReason::Unresolved
            | DropReason::LinkDown
            | DropReason::SlowPathFull
            | DropReason::NoLease
            | DropReason::NoSlot
            | DropReason::GraphError => false,
        }
    }

    /// The cause in words, for messages.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NotIp => "it is not IP",
            Self::Unreadable => "it is cut short or malformed",
            Self::Multicast => "it is multicast",
            Self::LinkLocal => "its destination is link-local",
            Self::Checksum => "its IPv4 header checksum is wrong",
            Self::NoFirstFragment => "its first fragment is missing",
            Self::NoFlow => "it belongs to no flow",
            Self::TooLarge => "it is too large for a tunnel",
            Self::TooBigForLink => "it does not fit the base-station link",
            Self::NoRoom => "there is no room for it",
        }
    }
}
