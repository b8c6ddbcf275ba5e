//! Drop reasons, declared once: elements take names and meanings from here, and each reason is a counter of this name.

use scalebricks_graph::spec::NameAndDoc;

/// Declares reasons, their names and meanings, and their counters.
macro_rules! reasons {
    ($(#[doc = $about:literal])+ $reason:ident, $(#[doc = $of_counts:literal])+ $counts:ident;
     $($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $reason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $reason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The reason with this name.
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.name() == name)
            }

            /// Its meaning as text.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)+
                }
            }

            /// Name and meaning, for an element that drops for this reason.
            #[must_use]
            pub const fn named(self) -> NameAndDoc {
                NameAndDoc { name: self.name(), doc: self.meaning() }
            }

            /// The counter's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        $(#[doc = $of_counts])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $counts([u64; $reason::ALL.len()]);

        impl Default for $counts {
            fn default() -> Self {
                Self([0; $reason::ALL.len()])
            }
        }

        impl $counts {
            /// Counts one.
            #[inline]
            pub const fn count(&mut self, reason: $reason) {
                self.0[reason as usize] += 1;
            }

            /// Adds to the count of one reason.
            pub const fn add(&mut self, reason: $reason, count: u64) {
                self.0[reason as usize] += count;
            }

            /// The count of one reason.
            pub const fn get(&self, reason: $reason) -> u64 {
                self.0[reason as usize]
            }

            /// Reasons that occurred, with their counts.
            pub fn iter(&self) -> impl Iterator<Item = ($reason, u64)> + '_ {
                $reason::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, count)| count > 0)
            }

            /// The sum of all drops.
            pub fn total(&self) -> u64 {
                self.0.iter().sum()
            }
        }

        impl std::ops::AddAssign<&Self> for $counts {
            fn add_assign(&mut self, other: &Self) {
                for (a, b) in self.0.iter_mut().zip(other.0) {
                    *a += b;
                }
            }
        }
    };
}

reasons! {
    /// Why a packet was dropped. Every drop has a reason.
    DropReason,
    /// How many packets were dropped, by reason.
    DropCounts;
    /// The frame ends before its headers, or its IP packet before its stated length.
    Truncated = "truncated",
    /// Neither IPv4 nor IPv6: ARP, other ethertypes, 802.3 frames.
    NonIp = "non_ip",
    /// The IP header contradicts itself.
    MalformedIp = "malformed_ip",
    /// The IPv4 header checksum is wrong (an option ignores it).
    BadIpv4Checksum = "bad_ipv4_checksum",
    /// Addressed to the node itself, which does not answer it.
    ForThisNode = "for_this_node",
    /// From or to a link-local unicast address, which routers do not forward (RFC 4291 §2.5.6, RFC 3927 §7).
    LinkLocal = "link_local",
    /// Multicast or broadcast, by MAC or IP address.
    Multicast = "multicast",
    /// The frame is for another station's MAC address.
    OtherMac = "other_mac",
    /// The frame has an address of the fabric but arrived on an outside port.
    EncodedMacOutside = "encoded_mac_outside",
    /// A frame on the fabric whose address is not of the fabric's layout, or not for this node.
    BadFabricMac = "bad_fabric_mac",
    /// A probe that no node of this cluster made for this node, or that reached a node without probing.
    BadProbe = "bad_probe",
    /// A non-first fragment whose first fragment did not pass here before it.
    FragmentWithoutFirst = "fragment_without_first",
    /// The hint names no node of the cluster.
    NoSuchNode = "no_such_node",
    /// The handling node's FIB does not hold the key.
    UnknownFlow = "unknown_flow",
    /// Nothing in the packet can be pinned to a node of a firewall or NAT: it is IPv6; or it is from outside to a NAT's
    /// address, and has no port or identifier in a block of ports.
    NoPin = "no_pin",
    /// Refused by the firewall or NAT. The counters of its elements tell why.
    Refused = "refused",
    /// Upstream, but not addressed to the gateway.
    NotForGateway = "not_for_gateway",
    /// Upstream to the gateway, but not GTP-U.
    NotGtpu = "not_gtpu",
    /// The GTP-U header contradicts itself.
    MalformedGtpu = "malformed_gtpu",
    /// A GTP-U message other than G-PDU.
    GtpuSignalling = "gtpu_signalling",
    /// A G-PDU with an extension header that the receiver must comprehend, but that this node does not know.
    UnsupportedExtension = "unsupported_extension",
    /// An outer GTP-U packet that arrived fragmented: only the first fragment has the TEID.
    GtpuFragment = "gtpu_fragment",
    /// The packet inside the tunnel is not an IP packet.
    MalformedInner = "malformed_inner",
    /// It does not fit the base-station link and is answered by ICMP, as configured.
    FragmentationNeeded = "fragmentation_needed",
    /// Once encapsulated, it would exceed the size of an IP packet.
    TooLarge = "too_large",
    /// No buffer was free for a copy, a fragment or an answer.
    NoBuffer = "no_buffer",
    /// No route leads to its destination.
    NoRoute = "no_route",
    /// The next hop's MAC address is unknown: the packet was held until resolution failed, or dropped at once.
    Unresolved = "unresolved",
    /// More packets for the node itself than the slow path takes per turn.
    SlowPathFull = "slow_path_full",
    /// The outgoing port's link is down.
    LinkDown = "link_down",
    /// The outgoing port took no more packets.
    PortFull = "port_full",
    /// The fabric was congested and the node's queue was full.
    FabricFull = "fabric_full",
    /// The node's lease had expired, because it had no contact with the log and half of the other members; or its
    /// tables were never filled.
    NoLease = "no_lease",
    /// More packets were in progress than a turn has slots for.
    NoSlot = "no_slot",
    /// An element lost track of the packet: a bug.
    GraphError = "graph_error",
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_distinct_and_counters_line_up() {
        let names: HashSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        assert!(
            DropReason::ALL
                .iter()
                .all(|r| r.meaning().ends_with(['.', ')']) && !r.meaning().starts_with(' '))
        );
        let mut counts = DropCounts::default();
        for (n, &reason) in DropReason::ALL.iter().enumerate() {
            (0..=n).for_each(|_| counts.count(reason));
        }
        let total: usize = (1..=DropReason::ALL.len()).sum();
        assert_eq!(counts.total(), total as u64);
        for (n, (reason, count)) in counts.iter().enumerate() {
            assert_eq!((reason, count), (DropReason::ALL[n], n as u64 + 1));
        }
    }
}
