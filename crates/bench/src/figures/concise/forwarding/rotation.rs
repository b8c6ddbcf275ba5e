//! Packets of hosts that rotate in memory.

use crate::gateway::packet_ring::{PacketKind, Ring, RingPort};
use crate::keys::mix;
use crate::names::population::{Population, SEED};
use crate::names::{NameHasher, macs};
use scalebricks_io::PacketBuf;
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, HEADER_LEN, destination};
use scalebricks_wire::ipv4::{Ipv4Header, MIN_HEADER_LEN};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Ports by which packets leave. The port at which they arrive follows them.
pub(super) const PORTS: usize = 4;
/// The MAC address of the switch.
pub(super) const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0xFF, 0xFF]);
/// TTL of arriving packets.
const TTL: u8 = 64;
/// Length of the name that bare tables look up. It follows the IPv4 header.
const NAME_LEN: usize = 8;
const NAME: usize = HEADER_LEN + MIN_HEADER_LEN;
/// Bytes written for each packet: headers, name, and the host's number.
const HEAD_LEN: usize = NAME + NAME_LEN + 8;

/// The 64-bit name in a frame.
#[inline]
pub(super) fn name(frame: &[u8]) -> [u8; NAME_LEN] {
    frame.get(NAME..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// The MAC address of an action's next hop.
pub(super) fn next_hop(action: u16) -> MacAddr {
    let [high, low] = action.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// The port of an action.
pub(super) fn port(action: u16) -> usize {
    usize::from(action) % PORTS
}

/// Hosts with a MAC address, which the switch looks up, a 64-bit name, which bare tables look up, and an
/// action.
pub(super) struct Hosts {
    pub(super) addresses: Vec<[u8; 6]>,
    /// Hashed names and actions.
    pub(super) set: Population,
}

/// The unique name of the host with this number.
const fn name_of(number: u64) -> [u8; NAME_LEN] {
    mix(number).to_be_bytes()
}

impl Hosts {
    /// Uses the first unicast addresses of the register; the switch does not look up multicast addresses.
    pub(super) fn new(names: u64, value_bits: u8) -> Self {
        let addresses: Vec<[u8; 6]> =
            macs(1).filter(|&mac| !MacAddr(mac).is_multicast()).take(names as usize).collect(); // they fit the memory
        let hasher = NameHasher::new(SEED);
        let hashes = (0..names).map(|number| hasher.hash(&name_of(number))).collect();
        Self { addresses, set: Population::new(hashes, value_bits) }
    }
}

/// What a departing packet must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// Unchanged.
    Unchanged,
    /// Addressed to its next hop.
    Rewritten,
    /// Addressed to its next hop, with the TTL decremented.
    Routed,
}

/// The packets of all hosts in turn.
pub(super) struct HostPackets {
    hosts: Arc<Hosts>,
    octets: usize,
    /// Ethernet and IPv4 headers of an arriving packet, with room for its name and number.
    head: [u8; HEAD_LEN],
    expected: Expected,
}

impl HostPackets {
    fn is_right(&self, frame: &[u8], exit: usize) -> bool {
        let number = frame.get(NAME + NAME_LEN..).and_then(|rest| rest.first_chunk());
        let name = number.map_or(usize::MAX, |&number| u64::from_be_bytes(number) as usize);
        let Some(&action) = self.hosts.set.actions.get(name) else { return false };
        let (to, ttl) = match self.expected {
            Expected::Unchanged => (MacAddr(self.hosts.addresses[name]), TTL),
            Expected::Rewritten => (next_hop(action), TTL),
            Expected::Routed => (next_hop(action), TTL - 1),
        };
        let addresses = destination(frame) == Some(to) && frame.get(6..12) == Some(&OWN.octets());
        addresses
            && frame.get(HEADER_LEN + 8) == Some(&ttl)
            && port(action) == exit
            && frame.len() == self.octets
    }
}

impl PacketKind for HostPackets {
    type Exit = usize;

    fn count(&self) -> usize {
        self.hosts.addresses.len()
    }

    fn room(&self, _: usize) -> usize {
        self.octets
    }

    #[inline]
    fn renew<P: PacketBuf>(&self, packet: &mut P, number: usize) {
        let Some(head) = packet.data_mut().first_chunk_mut::<HEAD_LEN>() else { return };
        *head = self.head;
        head[..6].copy_from_slice(&self.hosts.addresses[number]);
        head[NAME..NAME + NAME_LEN].copy_from_slice(&name_of(number as u64));
        head[NAME + NAME_LEN..].copy_from_slice(&(number as u64).to_be_bytes());
    }

    fn fault(&self, exit: usize, frame: &[u8]) -> Option<&'static str> {
        (!self.is_right(frame, exit)).then_some("it is not what its host's packet must be")
    }
}

/// Rotating packets of hosts.
pub(super) type Rotation<P> = Ring<P, HostPackets>;
/// A port of such packets.
pub(super) type RotationPort<P> = RingPort<P, HostPackets>;

/// A rotation of these packets, which must be empty and have enough room.
pub(super) fn rotation<P: PacketBuf>(packets: Vec<P>, hosts: &Arc<Hosts>, octets: usize) -> Rotation<P> {
    let header = Ipv4Header {
        dscp_ecn: 0,
        total_len: (octets - HEADER_LEN) as u16, // of one Ethernet frame
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_units: 0,
        ttl: TTL,
        protocol: 17,
        src: Ipv4Addr::new(192, 0, 2, 1),
        dst: Ipv4Addr::new(198, 51, 100, 1),
    };
    let mut head = [0; HEAD_LEN];
    head[6..12].copy_from_slice(&OWN.octets());
    head[12..HEADER_LEN].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
    head[HEADER_LEN..NAME].copy_from_slice(&header.to_bytes());
    Ring::new(packets, HostPackets { hosts: Arc::clone(hosts), octets, head, expected: Expected::Unchanged })
}

/// A port of a rotation: packets arrive at the last one and leave by the others.
pub(super) fn port_of<P: PacketBuf>(rotation: &Rotation<P>, number: usize) -> RotationPort<P> {
    rotation.port(number, number == PORTS)
}

/// Checks each departing packet while `doing` runs; returns the packets checked and how many were right.
pub(super) fn verify<P: PacketBuf>(
    rotation: &Rotation<P>,
    expected: Expected,
    doing: impl FnOnce(),
) -> (usize, usize) {
    rotation.check(|packets| packets.expected = expected);
    doing();
    let checked = rotation.checked();
    (checked.packets, checked.right)
}
