//! Which drops a packet calls for, as far as whoever put it in can know.

use scalebricks_elements::gateway::DropReason;

/// What is known of a packet before it is put in that may keep it from leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// It is neither IPv4 nor IPv6.
    NotIp,
    /// It is cut short, or contradicts itself.
    Unreadable,
    /// It is for many receivers.
    Multicast,
    /// It is for a UE at a link-local address.
    LinkLocal,
    /// Its IPv4 header checksum is wrong, and checksums are verified.
    Checksum,
    /// It is a later fragment whose first one was not forwarded before it, or may have been forgotten since.
    NoFirstFragment,
    /// It belongs to no flow.
    NoFlow,
    /// With tunnel headers it is larger than an IP packet can be.
    TooLarge,
    /// With tunnel headers it does not fit the base-station link, and may not be fragmented.
    TooBigForLink,
    /// The run may put in more than buffers, links or the fabric hold.
    NoRoom,
}

impl Ground {
    /// Whether a drop for this reason is right for a packet of which this is known.
    ///
    /// Every reason is listed, so that a new one does not compile before it is decided here which packets call for it.
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
            // Packets are put in with the MAC address of the node, in sound tunnels of known flows. A cluster in memory
            // has neither addresses of its own nor a slow path, and all its next hops are known.
            DropReason::ForThisNode
            | DropReason::OtherMac
            | DropReason::EncodedMacOutside
            | DropReason::BadFabricMac
            | DropReason::BadProbe
            | DropReason::NotForGateway
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

    /// Why the packet should have been dropped, for messages.
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
