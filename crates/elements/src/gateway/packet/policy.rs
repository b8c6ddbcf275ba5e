//! A gateway's decisions about packets, other than their next hop. Configured once per cluster.

use scalebricks_types::KeyProfile;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What happens to a downstream packet that does not fit the base-station link once encapsulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Oversize {
    /// The outer packet is fragmented whatever the inner DF bit says: the tunnel hides it (TS 29.281 §4.2.2 requires
    /// fragmentation in the outer network layer).
    FragmentOuter,
    /// If the sender can send smaller packets, the packet is dropped and the MTU is reported to the sender: for an IPv4
    /// packet with DF by ICMP "fragmentation needed" (RFC 1191 §4), for an IPv6 packet by ICMPv6 "packet too big" (RFC
    /// 8201). Otherwise the outer packet is fragmented: an IPv4 sender that leaves DF clear relies on fragmentation,
    /// and an IPv6 sender need not send packets below 1,280 octets (RFC 8200 §5).
    Icmp,
}

/// What happens to one packet that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DoesNotFit {
    /// The outer packet is fragmented.
    Fragment,
    /// The packet is dropped and this MTU is reported to its sender.
    Refuse {
        /// Octets from the inner IP header on.
        mtu: u16,
    },
}

/// The policy of a cluster's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Which fields of a downstream packet form its key.
    pub key_profile: KeyProfile,
    /// Verify IPv4 header checksums, outer and inner. Turn it off for captures taken with checksum offload.
    pub verify_ipv4_checksum: bool,
    /// How packets that do not fit the base-station link are treated.
    pub oversize: Oversize,
    /// Largest IP packet on the base-station link, in bytes.
    pub base_station_mtu: u16,
    /// The tunnel address of the gateway, the same at every node: GTP-U packets may arrive at any node.
    pub gateway_address: Ipv4Addr,
    /// The source of the gateway's ICMPv6 errors.
    pub gateway_address_v6: Ipv6Addr,
}

/// Smallest MTU accepted: the size that every IPv4 host must be able to reassemble (RFC 791 §3.1).
pub const MIN_MTU: u16 = 576;

/// The smallest link MTU of IPv6 (RFC 8200 §5): no "packet too big" reports less.
pub const MIN_MTU_V6: u16 = 1_280;

impl Policy {
    /// What happens to a user's packet for which a tunnel has room for only `mtu` octets.
    ///
    /// For IPv6 over a link with less room than [`MIN_MTU_V6`] this differs from RFC 4213 §3.2.2, which refuses packets
    /// above 1,280 octets and fragments the others: a packet of 1,280 octets needs fragments too, so refusing would
    /// lose a packet and save nothing.
    pub(crate) fn does_not_fit(&self, user: &[u8], mtu: u16) -> DoesNotFit {
        const DONT_FRAGMENT: u8 = 0x40; // in octet 6 of IPv4 (RFC 791 §3.1)
        let is_refused = match user {
            _ if self.oversize == Oversize::FragmentOuter => false,
            [first, _, _, _, _, _, flags, ..] if first >> 4 == 4 => flags & DONT_FRAGMENT != 0,
            _ => mtu >= MIN_MTU_V6,
        };
        if is_refused { DoesNotFit::Refuse { mtu } } else { DoesNotFit::Fragment }
    }
}

impl Default for Policy {
    /// Five-tuples, checksums verified, a 1,600-byte link, larger packets fragmented.
    fn default() -> Self {
        Self {
            key_profile: KeyProfile::Flow5,
            verify_ipv4_checksum: true,
            oversize: Oversize::FragmentOuter,
            base_station_mtu: 1_600,
            gateway_address: Ipv4Addr::new(10, 255, 0, 1),
            gateway_address_v6: Ipv6Addr::new(0xfd00, 0x5b, 0, 0, 0, 0, 0, 1),
        }
    }
}
