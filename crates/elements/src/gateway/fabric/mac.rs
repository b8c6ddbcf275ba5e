//! The meaning of a destination MAC address inside the cluster.
//!
//! The fabric adds no header (RouteBricks §6.1). The ingress node rewrites the destination MAC, which carries
//! everything that later nodes need to forward the frame. The cluster router has a layout of its own, told apart by bit 6 of
//! octet 2 ([`RouterMac`](crate::fabric::mac::RouterMac)):
//!
//! | octet | content |
//! |---|---|
//! | 0 | `0x02`: unicast, locally administered |
//! | 1 | `0x5b`: marks the cluster's encoded addresses |
//! | 2 | bits 0–3: [`Phase`]; bit 7: the frame was forwarded once more after a FIB miss |
//! | 3 | the node to which the switch delivers |
//! | 4 | the node where the packet leaves the cluster, as far as is known; for an indirect lookup, the node that looks up |
//! | 5 | the port where it leaves: [`OutputPort`] |
//!
//! A switch needs one entry per address: a node announces every address whose octet 3 is its own
//! ([`FabricMac::announced_by`]).

use crate::fabric::mac::{LOCAL_UNICAST, MARK};
use scalebricks_types::{ClusterSize, NodeId};
use scalebricks_wire::MacAddr;

const AGAIN: u8 = 0x80;

/// What the addressed node must do with the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Look the flow up in the FIB and handle the packet.
    Handling = 0,
    /// Find the handling node in the lookup table and forward the packet there (hash partition).
    Lookup = 1,
    /// Relay it, unparsed, to the output node, which handles it (VLB, or around a broken link).
    Indirect = 2,
    /// Relay it, unparsed, to the output node, which looks up its handling node (around a broken link).
    IndirectLookup = 3,
    /// Answer it: a node tests whether it reaches another ([`fabric_health`](crate::gateway::fabric::health)).
    Probe = 4,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Handling, Self::Lookup, Self::Indirect, Self::IndirectLookup, Self::Probe];

    /// Whether the addressed node relays the frame to the output node.
    pub const fn is_indirect(self) -> bool {
        matches!(self, Self::Indirect | Self::IndirectLookup)
    }
}

/// Where a packet leaves the handling node; this determines its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OutputPort {
    /// Upstream: GTP-U arrives, IP leaves to the Internet.
    Internet = 0,
    /// Downstream: IP arrives, GTP-U leaves to the base stations.
    BaseStation = 1,
}

impl OutputPort {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Internet, Self::BaseStation];

    /// The other port, where packets that leave here come from.
    #[inline]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Internet => Self::BaseStation,
            Self::BaseStation => Self::Internet,
        }
    }
}

/// An encoded destination address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FabricMac {
    /// What the addressed node must do.
    pub phase: Phase,
    /// The node to which the switch delivers.
    pub node: NodeId,
    /// The node where the packet leaves or is looked up; equal to `node` unless the phase [is
    /// indirect](Phase::is_indirect).
    pub output_node: NodeId,
    /// The port where it leaves.
    pub port: OutputPort,
    /// The frame was already forwarded once more after a FIB miss; a second miss drops it.
    pub again: bool,
}

impl FabricMac {
    /// The address of a packet's handling node.
    pub const fn handling(node: NodeId, port: OutputPort) -> Self {
        Self { phase: Phase::Handling, node, output_node: node, port, again: false }
    }

    /// The address of the node that looks up a packet's handling node.
    pub const fn lookup(node: NodeId, port: OutputPort) -> Self {
        Self { phase: Phase::Lookup, node, output_node: node, port, again: false }
    }

    /// The address of an intermediate node that relays the packet to `output_node`.
    pub const fn indirect(node: NodeId, output_node: NodeId, port: OutputPort) -> Self {
        Self { phase: Phase::Indirect, node, output_node, port, again: false }
    }

    /// The address of probes and echoes for a node.
    pub const fn probe(node: NodeId) -> Self {
        Self { phase: Phase::Probe, node, output_node: node, port: OutputPort::Internet, again: false }
    }

    /// The address that reaches the same node through `relay`. An address that is already indirect is unchanged: there
    /// is never more than one intermediate node.
    pub const fn by_way_of(self, relay: NodeId) -> Self {
        let phase = match self.phase {
            Phase::Handling => Phase::Indirect,
            Phase::Lookup => Phase::IndirectLookup,
            Phase::Indirect | Phase::IndirectLookup | Phase::Probe => return self,
        };
        Self { phase, node: relay, ..self }
    }

    /// The next address of a frame at its intermediate node.
    pub const fn second_phase(self) -> Self {
        let phase = match self.phase {
            Phase::Lookup | Phase::IndirectLookup => Phase::Lookup,
            Phase::Handling | Phase::Indirect | Phase::Probe => Phase::Handling,
        };
        Self { phase, node: self.output_node, ..self }
    }

    /// The six octets.
    #[inline(always)]
    pub const fn encode(self) -> MacAddr {
        let flags = self.phase as u8 | if self.again { AGAIN } else { 0 };
        // Written as one word instead of octet by octet.
        let word = LOCAL_UNICAST as u64
            | (MARK as u64) << 8
            | (flags as u64) << 16
            | (self.node.get() as u64) << 24
            | (self.output_node.get() as u64) << 32
            | (self.port as u64) << 40;
        let [a, b, c, d, e, f, ..] = word.to_le_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// Decodes the address; `None` if it is not an encoded address of this layout.
    #[inline]
    pub const fn decode(mac: MacAddr) -> Option<Self> {
        let [LOCAL_UNICAST, MARK, flags, node, output_node, port] = mac.octets() else { return None };
        let phase = match flags & !AGAIN {
            0 => Phase::Handling,
            1 => Phase::Lookup,
            2 => Phase::Indirect,
            3 => Phase::IndirectLookup,
            4 => Phase::Probe,
            _ => return None,
        };
        let port = match port {
            0 => OutputPort::Internet,
            1 => OutputPort::BaseStation,
            _ => return None,
        };
        let (node, output_node) = (NodeId::new(node), NodeId::new(output_node));
        Some(Self { phase, node, output_node, port, again: flags & AGAIN != 0 })
    }

    /// Whether an address carries the cluster's mark, whatever the rest says. Such a frame on an outside port is an
    /// attempt to inject into the fabric.
    #[inline]
    pub const fn is_marked(mac: MacAddr) -> bool {
        matches!(mac.octets(), [LOCAL_UNICAST, MARK, ..])
    }

    /// Every address that must reach `node` in a cluster of this size: the switch's static entries for its port.
    pub fn announced_by(node: NodeId, size: ClusterSize) -> impl Iterator<Item = MacAddr> {
        let addresses = Phase::ALL.into_iter().flat_map(move |phase| {
            // No node relays to itself.
            let outputs = size.nodes().filter(move |&output| phase.is_indirect() != (output == node));
            outputs.flat_map(move |output_node| {
                let ports = OutputPort::ALL.into_iter();
                ports.map(move |port| Self { phase, node, output_node, port, again: false })
            })
        });
        addresses
            .flat_map(|mac| [mac, Self { again: true, ..mac }])
            .filter(|mac| mac.exists())
            .map(Self::encode)
    }

    /// Whether any node sends to this address: frames are forwarded once more only to be handled, and probes have one
    /// address per node.
    const fn exists(self) -> bool {
        match self.phase {
            Phase::Handling | Phase::Indirect => true,
            Phase::Lookup | Phase::IndirectLookup => !self.again,
            Phase::Probe => !self.again && matches!(self.port, OutputPort::Internet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_announced_address_decodes_to_itself_and_no_two_nodes_share_one() {
        let size = ClusterSize::new(5).unwrap();
        let mut seen = HashSet::new();
        for node in size.nodes() {
            for mac in FabricMac::announced_by(node, size) {
                let decoded = FabricMac::decode(mac).unwrap();
                assert_eq!(decoded.encode(), mac);
                assert_eq!(decoded.node, node);
                assert!(FabricMac::is_marked(mac));
                assert!(seen.insert(mac), "{mac} announced twice");
            }
        }
        // A node: (handling + 4 indirect) x 2 ports x 2 for "again", (lookup + 4 indirect) x 2 ports, and one for probes.
        assert_eq!(seen.len(), 5 * (5 * 2 * 2 + 5 * 2 + 1));
    }

    #[test]
    fn a_frame_gets_over_a_relay_to_where_it_was_to_get() {
        let size = ClusterSize::new(4).unwrap();
        let (node, relay) = (NodeId::new(1), NodeId::new(2));
        let announced: HashSet<MacAddr> = FabricMac::announced_by(relay, size).collect();
        for port in OutputPort::ALL {
            let again = FabricMac { again: true, ..FabricMac::handling(node, port) };
            for mac in [FabricMac::handling(node, port), FabricMac::lookup(node, port), again] {
                let first = mac.by_way_of(relay);
                assert!(
                    first.node == relay && first.phase.is_indirect() && announced.contains(&first.encode())
                );
                assert_eq!(FabricMac::decode(first.encode()).unwrap().second_phase(), mac);
                assert_eq!(first.by_way_of(NodeId::new(3)), first, "one intermediate node at the most");
            }
        }
    }

    #[test]
    fn the_second_phase_goes_to_the_output_node() {
        let first = FabricMac::indirect(NodeId::new(2), NodeId::new(7), OutputPort::BaseStation);
        assert_eq!(first.second_phase(), FabricMac::handling(NodeId::new(7), OutputPort::BaseStation));
    }

    #[test]
    fn foreign_and_unknown_addresses_do_not_decode() {
        for octets in [
            [0x02, 0x5c, 0, 1, 1, 0],
            [0x00, 0x5b, 0, 1, 1, 0],
            [0x02, 0x5b, 5, 1, 1, 0],
            [0x02, 0x5b, 0, 1, 1, 2],
            [0x02, 0x5b, 0x40, 1, 1, 0],
        ] {
            assert_eq!(FabricMac::decode(MacAddr(octets)), None, "{octets:x?}");
        }
    }
}
