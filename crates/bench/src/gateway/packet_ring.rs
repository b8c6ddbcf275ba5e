//! Rotating packets: ports that give out the oldest packet and take it back as a new one.
//!
//! These ports are generator and sink, inline. They need no other core, and their cost is measured separately
//! ([`super::node_rig::bare_loop`]). A packet leaves a port 8,192 packets after it was made, so its first
//! line has left the L1 cache, as with a network card.

use super::traffic::{Arrival, Direction, Exit, Traffic};
use scalebricks_apps::gateway::NodePorts;
use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of rotating packets.
pub const ROTATION: usize = 8192;

/// The next number, wrapping around.
#[inline]
fn after(number: usize, traffic: &Traffic) -> usize {
    if number + 1 < traffic.len() { number + 1 } else { 0 }
}

struct Inner<P> {
    packets: VecDeque<P>,
    traffic: Arc<Traffic>,
    number: usize,
    /// While packets are checked: how many were, and the first fault.
    verdict: Option<(u64, Option<&'static str>)>,
}

/// Rotating packets. Clones share them. Only one thread uses them at a time, so the lock is always free.
pub struct Ring<P>(Arc<Mutex<Inner<P>>>);

impl<P> Clone for Ring<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> std::fmt::Debug for Ring<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl<P: PacketBuf + 'static> Ring<P> {
    /// A ring of these packets, which must be empty.
    pub fn new(packets: impl IntoIterator<Item = P>, traffic: &Arc<Traffic>) -> Self {
        let mut packets: VecDeque<P> = packets.into_iter().collect();
        for packet in &mut packets {
            // Fill the longest frame once, so that later frames have their tail; the buffer is large enough.
            let _ = packet.append(&[0xAB; 96]);
        }
        let ring = Self(Arc::new(Mutex::new(Inner {
            packets,
            traffic: Arc::clone(traffic),
            number: 0,
            verdict: None,
        })));
        ring.send_of(traffic);
        ring
    }

    fn inner(&self) -> MutexGuard<'_, Inner<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all packets those of this traffic, from its first on.
    pub fn send_of(&self, traffic: &Arc<Traffic>) {
        let mut inner = self.inner();
        inner.traffic = Arc::clone(traffic);
        inner.number = 0;
        for at in 0..inner.packets.len() {
            let number = inner.number;
            if let Some(packet) = inner.packets.get_mut(at) {
                traffic.renew(packet, number);
            }
            inner.number = after(number, traffic);
        }
    }

    /// The port at which traffic arrives.
    const fn entry(traffic: &Traffic) -> Exit {
        match (traffic.arrival(), traffic.way()) {
            (Arrival::Fabric, _) => Exit::Fabric,
            (Arrival::Outside, Direction::Downstream) => Exit::Internet,
            (Arrival::Outside, Direction::Upstream) => Exit::BaseStation,
        }
    }

    /// The ports of a node that gets this traffic.
    pub fn ports(&self, traffic: &Traffic) -> NodePorts<P> {
        let entry = Self::entry(traffic);
        let port = |exit| Box::new(RingPort { ring: self.clone(), exit, gives: exit == entry });
        NodePorts {
            internet: port(Exit::Internet),
            base_station: port(Exit::BaseStation),
            fabric: port(Exit::Fabric),
        }
    }

    /// A port that gives and takes packets, for bare loops.
    pub fn port(&self) -> RingPort<P> {
        RingPort { ring: self.clone(), exit: Exit::Fabric, gives: true }
    }

    /// Checks every returned packet from now on.
    pub fn judge(&self) {
        self.inner().verdict = Some((0, None));
    }

    /// Ends the check; returns the number of packets checked, and the first fault.
    pub fn verdict(&self) -> (u64, Option<&'static str>) {
        self.inner().verdict.take().unwrap_or_default()
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

/// A port of a [`Ring`].
#[derive(Debug)]
pub struct RingPort<P> {
    ring: Ring<P>,
    exit: Exit,
    gives: bool,
}

impl<P: PacketBuf + 'static> RxPort<P> for RingPort<P> {
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        if !self.gives {
            return 0;
        }
        let mut inner = self.ring.inner();
        let count = burst.remaining_capacity().min(inner.packets.len());
        burst.extend(inner.packets.drain(..count));
        count
    }
}

impl<P: PacketBuf + 'static> TxPort<P> for RingPort<P> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let mut inner = self.ring.inner();
        let Inner { packets, traffic, number, verdict } = &mut *inner;
        if let Some((judged, first)) = verdict {
            *judged += burst.len() as u64;
            *first =
                first.or_else(|| burst.iter().find_map(|packet| traffic.fault(self.exit, packet.data())));
        }
        let count = burst.len();
        for mut packet in burst.drain(..) {
            traffic.renew(&mut packet, *number);
            *number = after(*number, traffic);
            packets.push_back(packet);
        }
        count
    }
}
