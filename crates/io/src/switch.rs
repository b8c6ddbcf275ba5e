//! An Ethernet switch in memory: forwards by destination MAC address, without flooding, and counts frames.
//!
//! Each pair of ports has its own rings with one producer and one consumer, so ports on different threads do not contend,
//! and frames between two ports stay in order. A port forwards its frames when it transmits, so the switch needs no
//! thread.

use crate::packet::{Burst, PacketBuf, Tag};
use crate::port::{RxPort, TxPort, receive_into};
use crossbeam_utils::CachePadded;
use rtrb::{Consumer, Producer, RingBuffer};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A MAC address.
type Mac = [u8; 6];

/// A switch under construction.
#[derive(Debug, Default)]
pub struct MemorySwitch {
    addresses: FxHashMap<u64, u16>,
    ports: u16,
}

/// Counters of the frames that enter at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwitchStats {
    /// Forwarded frames.
    pub frames: u64,
    /// Their bytes, including the Ethernet header, without preamble and checksum.
    pub bytes: u64,
    /// Dropped frames with an unknown destination.
    pub unknown_address: u64,
}

#[derive(Debug, Default)]
struct Counters {
    frames: AtomicU64,
    bytes: AtomicU64,
    unknown_address: AtomicU64,
}

/// Reads a port's counters from any thread.
#[derive(Debug, Clone)]
pub struct StatsReader(Arc<CachePadded<Counters>>);

impl StatsReader {
    /// The counters.
    pub fn read(&self) -> SwitchStats {
        SwitchStats {
            frames: self.0.frames.load(Ordering::Relaxed),
            bytes: self.0.bytes.load(Ordering::Relaxed),
            unknown_address: self.0.unknown_address.load(Ordering::Relaxed),
        }
    }
}

/// A port of a switch.
#[derive(Debug)]
pub struct SwitchPort<P> {
    addresses: Arc<FxHashMap<u64, u16>>,
    /// To each port, by number, including this one.
    to: Vec<Producer<P>>,
    /// From each port, by number.
    from: Vec<Consumer<P>>,
    /// The first port of the next receive, so that no port starves the others.
    turn: usize,
    counters: Arc<CachePadded<Counters>>,
}

impl MemorySwitch {
    /// A switch with this many ports.
    pub fn new(ports: u16) -> Self {
        Self { addresses: FxHashMap::default(), ports }
    }

    /// Forwards frames for `mac` to `port`; replaces an earlier entry.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn announce(&mut self, mac: Mac, port: u16) {
        assert!(port < self.ports, "port {port} of a switch with {}", self.ports);
        self.addresses.insert(number(mac), port);
    }

    /// The ports, in order, connected by rings of `capacity` frames.
    pub fn power_on<P>(self, capacity: usize) -> Vec<SwitchPort<P>> {
        let ports = usize::from(self.ports);
        let addresses = Arc::new(self.addresses);
        let mut from: Vec<Vec<Consumer<P>>> = (0..ports).map(|_| Vec::with_capacity(ports)).collect();
        let mut to: Vec<Vec<Producer<P>>> = Vec::with_capacity(ports);
        for _ in 0..ports {
            let (producers, consumers): (Vec<_>, Vec<_>) =
                (0..ports).map(|_| RingBuffer::new(capacity)).unzip();
            to.push(producers);
            for (queue, consumer) in from.iter_mut().zip(consumers) {
                queue.push(consumer);
            }
        }
        to.into_iter()
            .zip(from)
            .map(|(to, from)| SwitchPort {
                addresses: Arc::clone(&addresses),
                to,
                from,
                turn: 0,
                counters: Arc::default(),
            })
            .collect()
    }
}

impl<P> SwitchPort<P> {
    /// A reader of this port's counters.
    pub fn stats(&self) -> StatsReader {
        StatsReader(Arc::clone(&self.counters))
    }
}

impl<P: PacketBuf> TxPort<P> for SwitchPort<P> {
    /// Forwards frames in order up to the first whose ring is full; that one and the following stay in the burst. Frames
    /// for unknown addresses are dropped and count as sent.
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let offered = burst.len();
        let (mut frames, mut bytes, mut unknown) = (0, 0, 0);
        let mut waiting = std::mem::take(burst).into_iter();
        for mut packet in waiting.by_ref() {
            let Some(&port) = address_of(&packet).and_then(|mac| self.addresses.get(&mac)) else {
                unknown += 1;
                continue;
            };
            let ring = &mut self.to[usize::from(port)];
            if ring.is_full() {
                burst.push(packet);
                break;
            }
            frames += 1;
            bytes += packet.data().len() as u64;
            let tag = packet.tag();
            packet.set_tag(Tag { hops: tag.hops.saturating_add(1), ..tag });
            if let Err(rtrb::PushError::Full(packet)) = ring.push(packet) {
                unreachable!("only this port fills the ring, it had room for {:?}", packet.tag());
            }
        }
        burst.extend(waiting);
        self.counters.frames.fetch_add(frames, Ordering::Relaxed);
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counters.unknown_address.fetch_add(unknown, Ordering::Relaxed);
        offered - burst.len()
    }
}

impl<P: PacketBuf> RxPort<P> for SwitchPort<P> {
    /// Receives from all ports in turn.
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let before = burst.len();
        let sources = self.from.len();
        for step in 0..sources {
            if burst.is_full() {
                break;
            }
            let source = (self.turn + step) % sources;
            receive_into(&mut self.from[source], burst);
        }
        self.turn = (self.turn + 1) % sources;
        burst.len() - before
    }
}

/// The destination MAC of a frame as a number; `None` if it is shorter than an address.
#[inline]
fn address_of<P: PacketBuf>(packet: &P) -> Option<u64> {
    packet.data().first_chunk::<6>().map(|mac| number(*mac))
}

#[inline]
const fn number([a, b, c, d, e, f]: Mac) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Packet, Pool};

    fn frame(pool: &mut Pool, to: u8, body: u8) -> Packet {
        pool.packet(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 9, 8, 0, body]).unwrap()
    }

    fn three_ports(capacity: usize) -> Vec<SwitchPort<Packet>> {
        let mut switch = MemorySwitch::new(3);
        for port in 0..3 {
            switch.announce([2, 0, 0, 0, 0, port as u8], port);
        }
        switch.power_on(capacity)
    }

    #[test]
    fn frames_leave_where_their_address_was_announced() {
        let mut pool = Pool::new(5, 100).unwrap();
        let mut ports = three_ports(8);
        let mut burst: Burst<Packet> = [(1, 10), (2, 20), (7, 70), (1, 11), (0, 0)]
            .map(|(to, body)| frame(&mut pool, to, body))
            .into_iter()
            .collect();
        assert_eq!(ports[0].tx_burst(&mut burst), 5);
        assert!(pool.packet(&[]).is_some(), "the dropped frame's buffer is back");
        let bodies = |port: &mut SwitchPort<Packet>| {
            let mut got = Burst::new();
            port.rx_burst(&mut got);
            got.iter().map(|p| (p.data()[14], p.tag().hops)).collect::<Vec<_>>()
        };
        assert_eq!(bodies(&mut ports[0]), [(0, 1)]);
        assert_eq!(bodies(&mut ports[1]), [(10, 1), (11, 1)]);
        assert_eq!(bodies(&mut ports[2]), [(20, 1)]);
        assert_eq!(ports[0].stats().read(), SwitchStats { frames: 4, bytes: 60, unknown_address: 1 });
    }

    #[test]
    fn a_full_ring_holds_back_the_rest_in_order() {
        let mut pool = Pool::new(10, 100).unwrap();
        let mut ports = three_ports(2);
        let mut burst: Burst<Packet> = (0..5).map(|body| frame(&mut pool, 1, body)).collect();
        assert_eq!(ports[0].tx_burst(&mut burst), 2);
        assert_eq!(ports[0].tx_burst(&mut burst), 0);
        let mut got = Burst::new();
        assert_eq!(ports[1].rx_burst(&mut got), 2);
        assert_eq!(ports[0].tx_burst(&mut burst), 2);
        ports[1].rx_burst(&mut got);
        assert_eq!(ports[0].tx_burst(&mut burst), 1);
        ports[1].rx_burst(&mut got);
        assert_eq!(got.iter().map(|p| p.data()[14]).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_frame_too_short_for_an_address_is_dropped() {
        let mut pool = Pool::new(1, 100).unwrap();
        let mut ports = three_ports(2);
        let mut burst: Burst<Packet> = std::iter::once(pool.packet(&[2, 0]).unwrap()).collect();
        assert_eq!(ports[0].tx_burst(&mut burst), 1);
        assert_eq!(ports[0].stats().read().unknown_address, 1);
    }
}
