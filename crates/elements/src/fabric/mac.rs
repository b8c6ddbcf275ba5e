//! The destination MAC address of a frame between the nodes of a cluster router (RouteBricks §6.1).
//!
//! The input node parses a packet and looks up its route once. It encodes the result in the destination address, so
//! later nodes move the frame by its address alone. The address shares its first two octets with those of the gateway
//! ([`FabricMac`](crate::gateway::fabric::mac::FabricMac)); bit 6 of octet 2 tells the two layouts apart:
//!
//! | octet | content |
//! |---|---|
//! | 0 | `0x02`: unicast, locally administered |
//! | 1 | `0x5b`: marks the cluster's encoded addresses |
//! | 2 | bits 0–5: the external port; bit 6: set; bit 7: an intermediate node sent the frame round a failed link |
//! | 3 | the node where the packet leaves the cluster |
//! | 4, 5 | the number of the next hop, by which the output node restores the real addresses; 65,535: the packet's destination is itself the neighbour |

use super::next_hops::CONNECTED;
use scalebricks_tables::lpm::NextHop;
use scalebricks_types::NodeId;
use scalebricks_wire::MacAddr;
use std::fmt;

/// Octet 0 of every encoded address.
pub(crate) const LOCAL_UNICAST: u8 = 0x02;
/// Octet 1 of every encoded address.
pub(crate) const MARK: u8 = 0x5b;

const ROUTER: u8 = 0x40;
const REROUTED: u8 = 0x80;
const PORT: u8 = 0x3f;

/// Most external ports of a node.
pub const PORTS: usize = 64;

/// An external port of a node, below [`PORTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExternalPort(u8);

impl ExternalPort {
    /// The port with this number; `None` from [`PORTS`] on.
    pub const fn new(number: u8) -> Option<Self> {
        if number <= PORT { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[inline(always)]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Its number, as an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ExternalPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where a packet leaves a cluster router. It fits the number of a next hop of [`tables::lpm`](scalebricks_tables::lpm),
/// so one lookup gives the whole address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RouterMac {
    /// The node where the packet leaves.
    pub output_node: NodeId,
    /// The port where it leaves.
    pub port: ExternalPort,
    /// The number of the next hop in the output node's table.
    pub next_hop: u16,
    /// An intermediate node sent the frame round its failed link to the output node. It happens once at most, so
    /// frames cannot loop.
    pub is_rerouted: bool,
}

impl RouterMac {
    /// The address of packets that leave by a port of a node to a next hop.
    pub const fn new(output_node: NodeId, port: ExternalPort, next_hop: u16) -> Self {
        Self { output_node, port, next_hop, is_rerouted: false }
    }

    /// The address of packets to hosts that are themselves at a port of a node: a route without a next hop.
    pub const fn connected(output_node: NodeId, port: ExternalPort) -> Self {
        Self::new(output_node, port, CONNECTED)
    }

    /// The six octets.
    #[inline(always)]
    pub const fn encode(self) -> MacAddr {
        let flags = ROUTER | self.port.0 | if self.is_rerouted { REROUTED } else { 0 };
        let [high, low] = self.next_hop.to_be_bytes();
        MacAddr([LOCAL_UNICAST, MARK, flags, self.output_node.get(), high, low])
    }

    /// Decodes an address; `None` if it is not of this layout.
    #[inline(always)]
    pub const fn decode(mac: MacAddr) -> Option<Self> {
        let [LOCAL_UNICAST, MARK, flags, node, high, low] = mac.octets() else { return None };
        if flags & ROUTER == 0 {
            return None;
        }
        Some(Self {
            output_node: NodeId::new(node),
            port: ExternalPort(flags & PORT),
            next_hop: u16::from_be_bytes([high, low]),
            is_rerouted: flags & REROUTED != 0,
        })
    }

    /// The next hop to store in a routing table: 30 bits, node, port and number.
    pub const fn hop(self) -> NextHop {
        let index = (self.output_node.get() as u32) << 22 | (self.port.0 as u32) << 16 | self.next_hop as u32;
        match NextHop::new(index) {
            Some(hop) => hop,
            None => unreachable!(), // 30 bits
        }
    }

    /// The address that a next hop of a routing table stands for; `None` if [`hop`](Self::hop) did not make it.
    #[inline(always)]
    pub const fn of_hop(hop: NextHop) -> Option<Self> {
        let index = hop.index();
        if index >> 30 != 0 {
            return None;
        }
        let port = ExternalPort((index >> 16) as u8 & PORT);
        Some(Self::new(NodeId::new((index >> 22) as u8), port, index as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fabric::mac::FabricMac;
    use proptest::prelude::*;

    /// All addresses of this layout.
    fn macs() -> impl Strategy<Value = RouterMac> {
        (any::<u8>(), 0..64u8, any::<u16>(), any::<bool>()).prop_map(|(node, port, next_hop, is_rerouted)| {
            let port = ExternalPort::new(port).unwrap();
            RouterMac { is_rerouted, ..RouterMac::new(NodeId::new(node), port, next_hop) }
        })
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let mac = RouterMac::new(NodeId::new(7), ExternalPort::new(3).unwrap(), 0x1234);
        assert_eq!(mac.encode().octets(), [0x02, 0x5b, 0x43, 7, 0x12, 0x34]);
        let rerouted = RouterMac { is_rerouted: true, ..mac };
        assert_eq!(rerouted.encode().octets(), [0x02, 0x5b, 0xc3, 7, 0x12, 0x34]);
        assert_eq!((ExternalPort::new(64), NextHop::new(1 << 30).map(RouterMac::of_hop)), (None, Some(None)));
    }

    proptest! {
        #[test]
        fn addresses_and_next_hops_stand_for_the_same_and_the_gateway_has_others(mac in macs()) {
            let octets = mac.encode();
            prop_assert_eq!(RouterMac::decode(octets), Some(mac));
            prop_assert!(FabricMac::is_marked(octets) && !octets.is_multicast());
            prop_assert_eq!(FabricMac::decode(octets), None);
            let plain = RouterMac { is_rerouted: false, ..mac };
            prop_assert_eq!(RouterMac::of_hop(plain.hop()), Some(plain));
        }

        #[test]
        fn an_address_decodes_only_to_itself(octets: [u8; 6], is_marked: bool) {
            let octets = if is_marked { [0x02, 0x5b, octets[2], octets[3], octets[4], octets[5]] } else { octets };
            let decoded = RouterMac::decode(MacAddr(octets));
            prop_assert_eq!(decoded.map(|mac| mac.encode().octets()), decoded.map(|_| octets));
            prop_assert_eq!(decoded.is_some(), octets[..2] == [0x02, 0x5b] && octets[2] & 0x40 != 0);
        }
    }
}
