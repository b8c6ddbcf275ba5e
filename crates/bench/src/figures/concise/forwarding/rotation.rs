//! Packets that rotate in memory, and their ports.

use crate::keys::mix;
use crate::names::population::{Population, SEED, action};
use crate::names::{NameHasher, macs};
use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, HEADER_LEN, destination};
use scalebricks_wire::ipv4::{Ipv4Header, MIN_HEADER_LEN};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
        let actions = (0..names).map(|number| action(number, value_bits)).collect();
        Self { addresses, set: Population { value_bits, hashes, actions } }
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

struct Inner<P> {
    packets: VecDeque<P>,
    hosts: Arc<Hosts>,
    octets: usize,
    /// Ethernet and IPv4 headers of an arriving packet, its name and number.
    head: [u8; HEAD_LEN],
    /// Index of the next packet's name.
    next: usize,
    /// If set, departing packets are checked; then the counts of right and of checked packets.
    rule: Option<Expected>,
    right: usize,
    verified: usize,
    /// How many packets may still arrive.
    left: usize,
}

impl<P: PacketBuf> Inner<P> {
    fn add(&mut self, mut packet: P) {
        let _ = packet.append(&[0xAB; 2000][..self.octets]); // empty packets have the room
        self.renew(packet);
    }

    /// Gives a packet the next name and appends it.
    #[inline]
    fn renew(&mut self, mut packet: P) {
        let name = self.next;
        self.next = if name + 1 < self.hosts.addresses.len() { name + 1 } else { 0 };
        self.head[..6].copy_from_slice(&self.hosts.addresses[name]);
        self.head[NAME..NAME + NAME_LEN].copy_from_slice(&name_of(name as u64));
        self.head[NAME + NAME_LEN..].copy_from_slice(&(name as u64).to_be_bytes());
        if let Some(head) = packet.data_mut().first_chunk_mut() {
            *head = self.head;
        }
        self.packets.push_back(packet);
    }

    fn is_right(&self, packet: &P, exit: usize, rule: Expected) -> bool {
        let frame = packet.data();
        let number = frame.get(NAME + NAME_LEN..).and_then(|rest| rest.first_chunk());
        let name = number.map_or(usize::MAX, |&number| u64::from_be_bytes(number) as usize);
        let Some(&action) = self.hosts.set.actions.get(name) else { return false };
        let (to, ttl) = match rule {
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

/// Rotating packets. Clones share them. Only one thread uses them at a time, so the lock is always free.
pub(super) struct Rotation<P>(Arc<Mutex<Inner<P>>>);

impl<P> Clone for Rotation<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: PacketBuf> Rotation<P> {
    /// A rotation of these packets, which must be empty and have enough room.
    pub(super) fn new(packets: Vec<P>, hosts: &Arc<Hosts>, octets: usize) -> Self {
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
        let mut inner = Inner {
            packets: VecDeque::with_capacity(packets.len()),
            hosts: Arc::clone(hosts),
            octets,
            head,
            next: 0,
            rule: None,
            right: 0,
            verified: 0,
            left: usize::MAX,
        };
        for packet in packets {
            inner.add(packet);
        }
        Self(Arc::new(Mutex::new(inner)))
    }

    /// Adds an empty packet.
    #[cfg(feature = "dpdk")]
    pub(super) fn add(&self, packet: P) {
        self.inner().add(packet);
    }

    /// Takes back packets that were not sent, without checking them.
    #[cfg(feature = "dpdk")]
    pub(super) fn take_back(&self, burst: &mut Burst<P>) {
        let mut inner = self.inner();
        burst.drain(..).for_each(|packet| inner.renew(packet));
    }

    fn inner(&self) -> MutexGuard<'_, Inner<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port at which packets arrive.
    pub(super) fn entry(&self) -> RotationPort<P> {
        self.exit(PORTS)
    }

    /// A port by which packets leave.
    pub(super) fn exit(&self, exit: usize) -> RotationPort<P> {
        RotationPort { rotation: self.clone(), exit }
    }

    /// Number of waiting packets.
    pub(super) fn len(&self) -> usize {
        self.inner().packets.len()
    }

    /// Limits how many packets may arrive from now on.
    pub(super) fn limit(&self, packets: usize) {
        self.inner().left = packets;
    }

    /// How many packets may still come.
    pub(super) fn left(&self) -> usize {
        self.inner().left
    }

    /// Checks each departing packet while `doing` runs; returns the packets checked and how many were right.
    pub(super) fn verify(&self, rule: Expected, doing: impl FnOnce()) -> (usize, usize) {
        {
            let mut inner = self.inner();
            (inner.rule, inner.right, inner.verified) = (Some(rule), 0, 0);
        }
        doing();
        let mut inner = self.inner();
        inner.rule = None;
        (inner.verified, inner.right)
    }
}

/// A port of a rotation.
pub(super) struct RotationPort<P> {
    rotation: Rotation<P>,
    exit: usize,
}

impl<P: PacketBuf> RxPort<P> for RotationPort<P> {
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        if self.exit != PORTS {
            return 0;
        }
        let mut inner = self.rotation.inner();
        let room = burst.remaining_capacity().min(inner.packets.len()).min(inner.left);
        inner.left -= room;
        burst.extend(inner.packets.drain(..room));
        room
    }
}

impl<P: PacketBuf> TxPort<P> for RotationPort<P> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let mut inner = self.rotation.inner();
        let sent = burst.len();
        for packet in burst.drain(..) {
            if let Some(rule) = inner.rule {
                inner.verified += 1;
                inner.right += usize::from(inner.is_right(&packet, self.exit, rule));
            }
            inner.renew(packet);
        }
        sent
    }
}
