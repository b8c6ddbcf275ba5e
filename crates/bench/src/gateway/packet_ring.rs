//! Rotating packets: ports that give out the oldest packet and take it back as a new one.
//!
//! These ports are generator and sink, inline. They need no other core, and their cost is measured separately
//! ([`super::node_rig::bare_loop`]). A packet leaves a port 8,192 packets after it was made, so its first
//! line has left the L1 cache, as with a network card.

use super::traffic::{Arrival, Direction, Exit, Traffic};
use scalebricks_apps::gateway::NodePorts;
use scalebricks_io::{BURST, Burst, PacketBuf, RxPort, TxPort};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of rotating packets.
pub const ROTATION: usize = 8192;

/// Makes the packets of a ring, and checks those that leave.
pub trait PacketKind: Send {
    /// Where packets leave.
    type Exit: Copy + Send;

    /// Number of distinct packets, at least 1.
    fn count(&self) -> usize;

    /// Bytes of the longest frame that the packet with this place in the ring becomes.
    fn room(&self, place: usize) -> usize;

    /// Turns a packet into the one with this number.
    fn renew<P: PacketBuf>(&self, packet: &mut P, number: usize);

    /// What is wrong with a packet that left here; `None` if it is right.
    fn fault(&self, exit: Self::Exit, frame: &[u8]) -> Option<&'static str>;
}

impl PacketKind for Arc<Traffic> {
    type Exit = Exit;

    fn count(&self) -> usize {
        self.len()
    }

    fn room(&self, _: usize) -> usize {
        96
    }

    #[inline]
    fn renew<P: PacketBuf>(&self, packet: &mut P, number: usize) {
        Traffic::renew(self, packet, number);
    }

    fn fault(&self, exit: Exit, frame: &[u8]) -> Option<&'static str> {
        Traffic::fault(self, exit, frame)
    }
}

/// The result of checking packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checked {
    /// Packets checked.
    pub packets: usize,
    /// Those without a fault.
    pub right: usize,
    /// The first fault.
    pub fault: Option<&'static str>,
}

struct Inner<P, K> {
    packets: VecDeque<P>,
    kind: K,
    /// Number of the next packet.
    number: usize,
    /// How many packets may still be given out.
    left: usize,
    /// The result so far, while packets are checked.
    checked: Option<Checked>,
}

impl<P: PacketBuf, K: PacketKind> Inner<P, K> {
    /// Turns a packet into the next one and appends it.
    #[inline]
    fn take_back(&mut self, mut packet: P) {
        self.kind.renew(&mut packet, self.number);
        self.number = if self.number + 1 < self.kind.count() { self.number + 1 } else { 0 };
        self.packets.push_back(packet);
    }

    /// Adds an empty packet.
    fn add(&mut self, mut packet: P) {
        // Fill the longest frame once, so that later frames have their tail; the buffer is large enough.
        let _ = packet.append(&[0xAB; 2000][..self.kind.room(self.packets.len())]);
        self.take_back(packet);
    }
}

/// Rotating packets. Clones share them. Only one thread uses them at a time, so the lock is always free.
pub struct Ring<P, K = Arc<Traffic>>(Arc<Mutex<Inner<P, K>>>);

impl<P, K> Clone for Ring<P, K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P, K> std::fmt::Debug for Ring<P, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl<P: PacketBuf, K: PacketKind> Ring<P, K> {
    /// A ring of these packets, which must be empty.
    pub fn new(packets: Vec<P>, kind: K) -> Self {
        let rotating = VecDeque::with_capacity(packets.len());
        let mut inner = Inner { packets: rotating, kind, number: 0, left: usize::MAX, checked: None };
        for packet in packets {
            inner.add(packet);
        }
        Self(Arc::new(Mutex::new(inner)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner<P, K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an empty packet.
    pub fn add(&self, packet: P) {
        self.inner().add(packet);
    }

    /// Takes back packets that were not sent, without checking them.
    pub fn take_back(&self, burst: &mut Burst<P>) {
        let mut inner = self.inner();
        burst.drain(..).for_each(|packet| inner.take_back(packet));
    }

    /// Makes all packets those of this kind, from its first on.
    pub fn send_of(&self, kind: K) {
        let mut inner = self.inner();
        (inner.kind, inner.number) = (kind, 0);
        for packet in std::mem::take(&mut inner.packets) {
            inner.take_back(packet);
        }
    }

    /// A port for this exit, which also gives out packets if `gives` is set.
    pub fn port(&self, exit: K::Exit, gives: bool) -> RingPort<P, K> {
        RingPort { ring: self.clone(), exit, gives, per_call: BURST }
    }

    /// Checks every returned packet from now on, after a change of what it is checked for.
    pub fn check(&self, change: impl FnOnce(&mut K)) {
        let mut inner = self.inner();
        change(&mut inner.kind);
        inner.checked = Some(Checked::default());
    }

    /// Ends the check.
    pub fn checked(&self) -> Checked {
        self.inner().checked.take().unwrap_or_default()
    }

    /// Limits how many packets may be given out from now on.
    pub fn limit(&self, packets: usize) {
        self.inner().left = packets;
    }

    /// How many packets may still be given out.
    pub fn left(&self) -> usize {
        self.inner().left
    }

    /// Number of waiting packets.
    pub fn len(&self) -> usize {
        self.inner().packets.len()
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<P: PacketBuf + 'static> Ring<P> {
    /// The ports of a node that gets this traffic.
    pub fn ports(&self, traffic: &Traffic) -> NodePorts<P> {
        let entry = match (traffic.arrival(), traffic.way()) {
            (Arrival::Fabric, _) => Exit::Fabric,
            (Arrival::Outside, Direction::Downstream) => Exit::Internet,
            (Arrival::Outside, Direction::Upstream) => Exit::BaseStation,
        };
        let port = |exit| Box::new(self.port(exit, exit == entry));
        NodePorts {
            internet: port(Exit::Internet),
            base_station: port(Exit::BaseStation),
            fabric: port(Exit::Fabric),
        }
    }
}

/// A port of a [`Ring`].
#[derive(Debug)]
pub struct RingPort<P, K: PacketKind = Arc<Traffic>> {
    ring: Ring<P, K>,
    exit: K::Exit,
    gives: bool,
    /// Most packets that pass while the lock is held once.
    per_call: usize,
}

impl<P, K: PacketKind> RingPort<P, K> {
    /// The same port, which takes its lock anew after this many packets, as a network card takes descriptors in
    /// transactions.
    #[must_use]
    pub fn per_call(mut self, packets: usize) -> Self {
        self.per_call = packets.clamp(1, BURST);
        self
    }
}

impl<P: PacketBuf, K: PacketKind> RxPort<P> for RingPort<P, K> {
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        if !self.gives {
            return 0;
        }
        let before = burst.len();
        loop {
            let mut inner = self.ring.inner();
            let most = burst.remaining_capacity().min(self.per_call);
            let count = most.min(inner.packets.len()).min(inner.left);
            inner.left -= count;
            burst.extend(inner.packets.drain(..count));
            if count < most || burst.is_full() {
                return burst.len() - before;
            }
        }
    }
}

impl<P: PacketBuf, K: PacketKind> TxPort<P> for RingPort<P, K> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let all = burst.len();
        while !burst.is_empty() {
            let mut inner = self.ring.inner();
            let Inner { kind, checked, .. } = &mut *inner;
            let count = burst.len().min(self.per_call);
            if let Some(checked) = checked {
                let faults = burst[..count].iter().map(|packet| kind.fault(self.exit, packet.data()));
                for fault in faults {
                    checked.packets += 1;
                    checked.right += usize::from(fault.is_none());
                    checked.fault = checked.fault.or(fault);
                }
            }
            burst.drain(..count).for_each(|packet| inner.take_back(packet));
        }
        all
    }
}
