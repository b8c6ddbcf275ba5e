//! Ports for a whole node, joined by rings: packets that enter, and packets from the fabric.
//!
//! ```text
//!          ┌───────────────── rings of packets to enter ◀──────────────┐
//!          ▼                                                           │
//!   Internet port ─▶ external core ─┬─ own flow ─▶ base-station port ──┤
//!                                   └─ others' ──▶ fabric port ─┐      │
//!          ┌──────────────── ring of the fabric ◀───────────────┘      │
//!          ▼                                                           │
//!   fabric port ─▶ internal core ───────────────▶ base-station port ───┘
//! ```
//!
//! In a cluster of equal nodes, a node receives as many packets over the fabric as it sends. So a packet that
//! the node sends to another node is turned into one that another node would have sent to it. The port that
//! is sent a packet turns it into the next one; this generator and sink runs once per packet and core and is
//! part of the measurement. The rings are `io`'s memory ports with one producer and one consumer each. They
//! have room for all packets and never refuse one.

use super::packet_ring::ROTATION;
use super::traffic::{Exit, Traffic};
use scalebricks_io::{Burst, MemoryPort, PacketBuf, RxPort, TxPort, memory_port_pair};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Packets held back for a core that fills its own ring, so that they have left its L1 cache, as packets from
/// a network card would.
pub const HELD: usize = 2048;

/// Holds packets that no node has.
pub struct PacketStore<P>(Arc<Mutex<Vec<P>>>);

impl<P> Clone for PacketStore<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> std::fmt::Debug for PacketStore<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketStore").finish_non_exhaustive()
    }
}

impl<P: PacketBuf> PacketStore<P> {
    /// A store of these packets, which must be empty.
    pub fn new(mut packets: Vec<P>) -> Self {
        for packet in &mut packets {
            // Fill the longest frame once, so that later frames have their tail; the buffer is large enough.
            let _ = packet.append(&[0xAB; 96]);
        }
        Self(Arc::new(Mutex::new(packets)))
    }

    /// Removes up to `count` packets.
    fn take(&self, count: usize) -> VecDeque<P> {
        let mut packets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = packets.len().saturating_sub(count);
        packets.drain(rest..).collect()
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether it holds no packets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Checks departing packets if enabled.
#[derive(Debug, Default)]
pub struct Verifier {
    is_on: AtomicBool,
    judged: AtomicU64,
    fault: Mutex<Option<&'static str>>,
}

impl Verifier {
    /// Enables or disables the check.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    fn look_at<P: PacketBuf>(&self, traffic: &Traffic, exit: Exit, burst: &Burst<P>) {
        self.judged.fetch_add(burst.len() as u64, Ordering::Relaxed);
        if let Some(fault) = burst.iter().find_map(|packet| traffic.fault(exit, packet.data())) {
            self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        }
    }

    /// The number of packets checked, and the first fault.
    pub fn verdict(&self) -> (u64, Option<&'static str>) {
        let fault = *self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        (self.judged.load(Ordering::Relaxed), fault)
    }
}

/// Where a core takes packets from: rings with a queue that can hold some back.
struct Source<P: PacketBuf> {
    rings: Vec<MemoryPort<P>>,
    waiting: VecDeque<P>,
    held: usize,
    home: PacketStore<P>,
}

impl<P: PacketBuf> Source<P> {
    fn receive(&mut self, burst: &mut Burst<P>) -> usize {
        let mut some = Burst::new();
        for ring in &mut self.rings {
            ring.rx_burst(&mut some);
            self.waiting.extend(some.drain(..));
        }
        let count = burst.remaining_capacity().min(self.waiting.len().saturating_sub(self.held));
        burst.extend(self.waiting.drain(..count));
        count
    }
}

impl<P: PacketBuf> Drop for Source<P> {
    fn drop(&mut self) {
        let mut home = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        home.extend(self.waiting.drain(..));
        for ring in &mut self.rings {
            home.extend(std::iter::from_fn(|| ring.receive()));
        }
    }
}

/// Where packets leave and become new ones.
struct Sink<P> {
    ring: MemoryPort<P>,
    /// The traffic that packets leave as.
    left: Arc<Traffic>,
    next: Arc<Traffic>,
    number: usize,
    exit: Exit,
    judge: Arc<Verifier>,
}

impl<P: PacketBuf> Sink<P> {
    fn send(&mut self, burst: &mut Burst<P>) -> usize {
        if self.judge.is_on.load(Ordering::Relaxed) {
            self.judge.look_at(&self.left, self.exit, burst);
        }
        for packet in burst.iter_mut() {
            self.next.renew(packet, self.number);
            self.number = if self.number + 1 < self.next.len() { self.number + 1 } else { 0 };
        }
        self.ring.tx_burst(burst)
    }
}

/// A port with an optional source and an optional sink.
pub struct JoinedPort<P: PacketBuf> {
    source: Option<Source<P>>,
    sink: Option<Sink<P>>,
}

impl<P: PacketBuf> Default for JoinedPort<P> {
    fn default() -> Self {
        Self { source: None, sink: None }
    }
}

impl<P: PacketBuf> std::fmt::Debug for JoinedPort<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinedPort").finish_non_exhaustive()
    }
}

impl<P: PacketBuf> RxPort<P> for JoinedPort<P> {
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        self.source.as_mut().map_or(0, |source| source.receive(burst))
    }
}

impl<P: PacketBuf> TxPort<P> for JoinedPort<P> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        self.sink.as_mut().map_or(0, |sink| sink.send(burst))
    }
}

/// The ports of one core.
#[derive(Debug)]
pub struct CorePorts<P: PacketBuf> {
    /// Where packets enter.
    pub internet: JoinedPort<P>,
    /// Where packets leave.
    pub base_station: JoinedPort<P>,
    /// Where packets go to other nodes.
    pub fabric: JoinedPort<P>,
}

/// Packets that enter at a node, and packets from the fabric.
#[derive(Debug, Clone)]
pub struct TrafficMix {
    /// Packets from outside, of all flows.
    pub outside: Arc<Traffic>,
    /// Packets from the fabric, of the node's own flows.
    pub fabric: Arc<Traffic>,
}

impl TrafficMix {
    fn source<P: PacketBuf>(rings: Vec<MemoryPort<P>>, held: usize, home: &PacketStore<P>) -> JoinedPort<P> {
        let source = Source { rings, waiting: VecDeque::new(), held, home: home.clone() };
        JoinedPort { source: Some(source), sink: None }
    }

    /// A sink that makes packets from outside, starting at half `part`.
    fn to_outside<P>(
        &self,
        left: &Arc<Traffic>,
        ring: MemoryPort<P>,
        part: usize,
        judge: &Arc<Verifier>,
    ) -> Sink<P> {
        Sink {
            ring,
            left: Arc::clone(left),
            next: Arc::clone(&self.outside),
            number: part * (self.outside.len() / 2),
            exit: Exit::BaseStation,
            judge: Arc::clone(judge),
        }
    }

    /// A sink that makes packets from the fabric.
    fn to_fabric<P>(&self, ring: MemoryPort<P>, judge: &Arc<Verifier>) -> Sink<P> {
        let (left, next) = (Arc::clone(&self.outside), Arc::clone(&self.fabric));
        Sink { ring, left, next, number: 0, exit: Exit::Fabric, judge: Arc::clone(judge) }
    }

    /// Makes all packets ones from outside that wait at a port.
    fn fill<P: PacketBuf>(&self, port: &mut JoinedPort<P>, home: &PacketStore<P>) {
        let mut packets = home.take(ROTATION);
        for (number, packet) in packets.iter_mut().enumerate() {
            self.outside.renew(packet, number % self.outside.len());
        }
        if let Some(source) = &mut port.source {
            source.waiting = packets;
        }
    }

    /// The ports of two cores: one for packets that enter, one for the fabric.
    pub fn two_cores<P: PacketBuf>(&self, home: &PacketStore<P>, judge: &Arc<Verifier>) -> [CorePorts<P>; 2] {
        let [(own_in, own_out), (fabric_in, fabric_out), (back_in, back_out)] =
            [(); 3].map(|()| memory_port_pair(ROTATION));
        let mut internet = Self::source(vec![own_out, back_out], HELD, home);
        self.fill(&mut internet, home);
        let external = CorePorts {
            internet,
            base_station: JoinedPort {
                source: None,
                sink: Some(self.to_outside(&self.outside, own_in, 0, judge)),
            },
            fabric: JoinedPort { source: None, sink: Some(self.to_fabric(fabric_in, judge)) },
        };
        let internal = CorePorts {
            internet: JoinedPort::default(),
            base_station: JoinedPort {
                source: None,
                sink: Some(self.to_outside(&self.fabric, back_in, 1, judge)),
            },
            fabric: Self::source(vec![fabric_out], 0, home),
        };
        [external, internal]
    }

    /// The ports of one core for both.
    pub fn one_core<P: PacketBuf>(&self, home: &PacketStore<P>, judge: &Arc<Verifier>) -> CorePorts<P> {
        let [(out_in, out_out), (fabric_in, fabric_out)] = [(); 2].map(|()| memory_port_pair(ROTATION));
        let mut internet = Self::source(vec![out_out], HELD, home);
        self.fill(&mut internet, home);
        let mut fabric = Self::source(vec![fabric_out], HELD, home);
        fabric.sink = Some(self.to_fabric(fabric_in, judge));
        let base_station =
            JoinedPort { source: None, sink: Some(self.to_outside(&self.outside, out_in, 0, judge)) };
        CorePorts { internet, base_station, fabric }
    }
}
