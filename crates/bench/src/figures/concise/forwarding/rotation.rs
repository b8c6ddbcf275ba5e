//! Packets in memory that go round, and the ports they go through.

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

/// Ports that packets leave by. The one they come from is behind them.
pub(super) const PORTS: usize = 4;
/// The switch itself.
pub(super) const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0xFF, 0xFF]);
/// Hops that a packet has left when it comes.
const TTL: u8 = 64;
/// Octets of a name that is looked up by bare tables. It stands behind the packet's IPv4 header.
const NAME_LEN: usize = 8;
const NAME: usize = HEADER_LEN + MIN_HEADER_LEN;
/// Octets of what is written for each packet: headers, name, and the station's number.
const HEAD_LEN: usize = NAME + NAME_LEN + 8;

/// The 64-bit name in a packet.
#[inline]
pub(super) fn name(frame: &[u8]) -> [u8; NAME_LEN] {
    frame.get(NAME..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// The next hop of an action, as an address.
pub(super) fn next_hop(action: u16) -> MacAddr {
    let [high, low] = action.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// The port of an action.
pub(super) fn port(action: u16) -> usize {
    usize::from(action) % PORTS
}

/// Hosts: each has an address, which the switch goes by, a name of 64 bits, which bare tables do, and an action.
pub(super) struct Hosts {
    pub(super) addresses: Vec<[u8; 6]>,
    /// The names, as hashes, and the actions.
    pub(super) set: Population,
}

/// The name of the station of this number: no two have the same.
const fn name_of(number: u64) -> [u8; NAME_LEN] {
    mix(number).to_be_bytes()
}

impl Hosts {
    /// The first of the register that are no group's: frames to these have no name.
    pub(super) fn new(names: u64, value_bits: u8) -> Self {
        let addresses: Vec<[u8; 6]> =
            macs(1).filter(|&mac| !MacAddr(mac).is_multicast()).take(names as usize).collect(); // they fit the memory
        let hasher = NameHasher::new(SEED);
        let hashes = (0..names).map(|number| hasher.hash(&name_of(number))).collect();
        let actions = (0..names).map(|number| action(number, value_bits)).collect();
        Self { addresses, set: Population { value_bits, hashes, actions } }
    }
}

/// What a packet must be when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// As it came.
    Unchanged,
    /// To its next hop.
    Rewritten,
    /// To its next hop, with a hop less to live.
    Routed,
}

struct Inner<P> {
    packets: VecDeque<P>,
    hosts: Arc<Hosts>,
    octets: usize,
    /// Ethernet and IPv4 headers of a packet as it comes, its name and its number.
    head: [u8; HEAD_LEN],
    /// The name of the next packet.
    next: usize,
    /// Whether each packet is looked at that comes out; how many were right, and how many there were.
    rule: Option<Expected>,
    right: usize,
    verified: usize,
    /// How many may still come in.
    left: usize,
}

impl<P: PacketBuf> Inner<P> {
    fn add(&mut self, mut packet: P) {
        let _ = packet.append(&[0xAB; 2000][..self.octets]); // empty packets have the room
        self.renew(packet);
    }

    /// Makes a packet the next one, behind all others.
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

/// Packets in rotation. A clone is the same. One thread uses it at a time: the lock is always free.
pub(super) struct Rotation<P>(Arc<Mutex<Inner<P>>>);

impl<P> Clone for Rotation<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: PacketBuf> Rotation<P> {
    /// These packets, which must be empty and have the room.
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

    /// Takes packets back that were not sent: they are nobody's to verify.
    #[cfg(feature = "dpdk")]
    pub(super) fn take_back(&self, burst: &mut Burst<P>) {
        let mut inner = self.inner();
        burst.drain(..).for_each(|packet| inner.renew(packet));
    }

    fn inner(&self) -> MutexGuard<'_, Inner<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port that packets come from.
    pub(super) fn entry(&self) -> RotationPort<P> {
        self.exit(PORTS)
    }

    /// A port that packets leave by.
    pub(super) fn exit(&self, exit: usize) -> RotationPort<P> {
        RotationPort { rotation: self.clone(), exit }
    }

    /// How many packets come round: those at rest.
    pub(super) fn len(&self) -> usize {
        self.inner().packets.len()
    }

    /// Lets so many packets come from now on.
    pub(super) fn limit(&self, packets: usize) {
        self.inner().left = packets;
    }

    /// How many packets may still come.
    pub(super) fn left(&self) -> usize {
        self.inner().left
    }

    /// Judges each packet that comes out while something is done; how many did, and how many of these were right.
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

/// A port.
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
