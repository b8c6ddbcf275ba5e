//! The packets of a whole node: those that enter and those that come over the fabric, by ports joined with rings.
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
//! In a cluster of equal nodes as many packets come to a node over the fabric as it sends there. So a packet that a node
//! sends to another one becomes one of the node's own flows, as another node would have sent it. The port that is sent
//! a packet makes it the next one: that is generator and sink, once for each packet and core, and part of what is
//! measured. The rings are those of `io`'s memory ports, one producer and one consumer each, with room for all packets:
//! they never refuse one.

use super::packet_ring::ROTATION;
use super::traffic::{Exit, Traffic};
use scalebricks_io::{Burst, MemoryPort, PacketBuf, RxPort, TxPort, memory_port_pair};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Packets that wait for a core that filled the ring itself, so that they have left its first cache, as with a network card.
pub const HELD: usize = 2048;

/// Where packets are while no node has them.
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
    /// Of these packets, which must be empty.
    pub fn new(mut packets: Vec<P>) -> Self {
        for packet in &mut packets {
            // The longest frame there is, so that every later one has its tail; a buffer has the room.
            let _ = packet.append(&[0xAB; 96]);
        }
        Self(Arc::new(Mutex::new(packets)))
    }

    /// Takes out so many, or as many as there are.
    fn take(&self, count: usize) -> VecDeque<P> {
        let mut packets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = packets.len().saturating_sub(count);
        packets.drain(rest..).collect()
    }

    /// How many are there.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether packets that leave are judged, and what was found.
#[derive(Debug, Default)]
pub struct Verifier {
    is_on: AtomicBool,
    judged: AtomicU64,
    fault: Mutex<Option<&'static str>>,
}

impl Verifier {
    /// Judges from now on, or no longer.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    fn look_at<P: PacketBuf>(&self, traffic: &Traffic, exit: Exit, burst: &Burst<P>) {
        self.judged.fetch_add(burst.len() as u64, Ordering::Relaxed);
        if let Some(fault) = burst.iter().find_map(|packet| traffic.fault(exit, packet.data())) {
            self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        }
    }

    /// The packets judged, and the first fault.
    pub fn verdict(&self) -> (u64, Option<&'static str>) {
        let fault = *self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        (self.judged.load(Ordering::Relaxed), fault)
    }
}

/// What a core takes packets from: rings, by way of a queue in which a few can be held back.
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

/// Where packets leave, to become others.
struct Sink<P> {
    ring: MemoryPort<P>,
    /// What packets leave as, and what they become.
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

/// A port: what it gives and what it takes, if anything.
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

/// The ports of one core: what enters, what leaves, and the fabric.
#[derive(Debug)]
pub struct CorePorts<P: PacketBuf> {
    /// Where packets enter.
    pub internet: JoinedPort<P>,
    /// Where they leave.
    pub base_station: JoinedPort<P>,
    /// Towards the other nodes.
    pub fabric: JoinedPort<P>,
}

/// What enters at a node, and what comes to it over the fabric.
#[derive(Debug, Clone)]
pub struct TrafficMix {
    /// From outside, of all flows.
    pub outside: Arc<Traffic>,
    /// Over the fabric, of the node's own.
    pub fabric: Arc<Traffic>,
}

impl TrafficMix {
    fn source<P: PacketBuf>(rings: Vec<MemoryPort<P>>, held: usize, home: &PacketStore<P>) -> JoinedPort<P> {
        let source = Source { rings, waiting: VecDeque::new(), held, home: home.clone() };
        JoinedPort { source: Some(source), sink: None }
    }

    /// Where packets become ones from outside, from the `part`-th half of them on.
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

    /// Where packets become ones that come over the fabric.
    fn to_fabric<P>(&self, ring: MemoryPort<P>, judge: &Arc<Verifier>) -> Sink<P> {
        let (left, next) = (Arc::clone(&self.outside), Arc::clone(&self.fabric));
        Sink { ring, left, next, number: 0, exit: Exit::Fabric, judge: Arc::clone(judge) }
    }

    /// All packets, as ones from outside, to wait at a port.
    fn fill<P: PacketBuf>(&self, port: &mut JoinedPort<P>, home: &PacketStore<P>) {
        let mut packets = home.take(ROTATION);
        for (number, packet) in packets.iter_mut().enumerate() {
            self.outside.renew(packet, number % self.outside.len());
        }
        if let Some(source) = &mut port.source {
            source.waiting = packets;
        }
    }

    /// The ports of two cores: what enters, and what comes over the fabric.
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

    /// The ports of one core that does both.
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
