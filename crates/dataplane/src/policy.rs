//! What a gateway decides about packets, apart from where they go. Configured once per cluster.

use scalebricks_types::KeyProfile;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What happens to a downstream packet that does not fit the base-station link once encapsulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Oversize {
    /// The outer packet is fragmented, whatever the inner DF bit says: the tunnel hides it (TS 29.281 §4.2.2 has the
    /// outer network layer fragment).
    FragmentOuter,
    /// The packet is dropped and its sender told the MTU: ICMP "fragmentation needed" (RFC 1191) or ICMPv6 "packet
    /// too big" (RFC 8201).
    Icmp,
}

/// The policy of a cluster's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// What of a downstream packet is its key.
    pub key_profile: KeyProfile,
    /// Verify IPv4 header checksums, outer and inner. Captures taken with checksum offload need it off.
    pub verify_ipv4_checksum: bool,
    /// What does not fit the base-station link.
    pub oversize: Oversize,
    /// Largest IP packet on the base-station link, in bytes.
    pub base_station_mtu: u16,
    /// The tunnel address of the gateway, the same at every node: GTP-U for it may arrive anywhere.
    pub gateway_address: Ipv4Addr,
    /// The source of the gateway's ICMPv6 errors.
    pub gateway_address_v6: Ipv6Addr,
}

/// Smallest MTU accepted: what every IPv4 host must be able to reassemble (RFC 791 §3.1).
pub const MIN_MTU: u16 = 576;

impl Default for Policy {
    /// Five-tuples, checksums verified, a 1,600-byte link whose excess is fragmented.
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
