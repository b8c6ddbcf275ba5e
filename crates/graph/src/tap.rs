//! Captures of packets on edges and of drops.

use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Where a packet was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// On an edge: its number among [`Graph::edges`](crate::Graph::edges).
    Edge(u32),
    /// As it was dropped: the reason's name.
    Dropped(&'static str),
}

/// A packet that was captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Where.
    pub seen: Seen,
    /// When, as the worker's clock says.
    pub now: Duration,
    /// Its length in bytes.
    pub len: usize,
    /// Its bytes, the first [`Taps::snap`] of them.
    pub bytes: Vec<u8>,
}

/// Which edges of a graph are captured. Control switches them; the worker looks once for each list that passes.
#[derive(Debug)]
pub struct Taps {
    edges: Box<[AtomicBool]>,
    drops: AtomicBool,
    waiting: ArrayQueue<Captured>,
    lost: AtomicU64,
    snap: usize,
}

/// Captured packets that wait to be fetched, at the most.
const WAITING: usize = 4_096;

impl Taps {
    pub(crate) fn new(edges: usize, snap: usize) -> Self {
        Self {
            edges: (0..edges).map(|_| AtomicBool::new(false)).collect(),
            drops: AtomicBool::new(false),
            waiting: ArrayQueue::new(WAITING),
            lost: AtomicU64::new(0),
            snap,
        }
    }

    /// Captures an edge, or stops that. `false` if there is no such edge.
    pub fn set_edge(&self, edge: usize, is_on: bool) -> bool {
        let switch = self.edges.get(edge);
        switch.inspect(|switch| switch.store(is_on, Ordering::Relaxed)).is_some()
    }

    /// Captures all drops, or stops that.
    pub fn set_drops(&self, is_on: bool) {
        self.drops.store(is_on, Ordering::Relaxed);
    }

    /// The next captured packet.
    pub fn next(&self) -> Option<Captured> {
        self.waiting.pop()
    }

    /// Packets that were not captured because too many waited to be fetched.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Bytes captured of a packet at the most.
    pub const fn snap(&self) -> usize {
        self.snap
    }

    #[inline(always)]
    pub(crate) fn has_edge(&self, edge: u32) -> bool {
        self.edges.get(edge as usize).is_some_and(|switch| switch.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn has_drops(&self) -> bool {
        self.drops.load(Ordering::Relaxed)
    }

    /// Copies a packet, if there is room for it.
    #[cold]
    pub(crate) fn capture(&self, seen: Seen, now: Duration, packet: &[u8]) {
        let is_kept = !self.waiting.is_full() && {
            let bytes = packet[..packet.len().min(self.snap)].to_vec();
            self.waiting.push(Captured { seen, now, len: packet.len(), bytes }).is_ok()
        };
        if !is_kept {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_capture_loses_the_newest_and_says_so() {
        let taps = Taps::new(3, 4);
        assert!(taps.set_edge(2, true) && !taps.set_edge(3, true));
        assert!(taps.has_edge(2) && !taps.has_edge(1) && !taps.has_edge(3) && !taps.has_drops());
        for n in 0..WAITING + 5 {
            taps.capture(Seen::Edge(2), Duration::from_nanos(n as u64), b"123456");
        }
        let first = taps.next().unwrap();
        assert_eq!((first.now, first.len, &first.bytes[..]), (Duration::ZERO, 6, &b"1234"[..]));
        assert_eq!(taps.lost(), 5);
        assert_eq!(std::iter::from_fn(|| taps.next()).count(), WAITING - 1);
    }
}
