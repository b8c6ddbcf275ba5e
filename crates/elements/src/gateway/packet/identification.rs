//! Identifications of the outer IPv4 packets that are sent in fragments.
//!
//! A receiver reassembles fragments by source, destination, protocol and identification (RFC 791 §3.2). All nodes send
//! from one gateway address, so each of them draws from a part of the 16-bit number space that no other node uses.
//! Packets that fit the link are atomic (DF set) and need no unique identification (RFC 6864 §4.1).

use scalebricks_types::{ClusterSize, NodeId};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU16, Ordering};

/// Size of the number space.
const NUMBERS: u32 = 1 << 16;

/// Counters of one node. Destinations that map to the same counter share its numbers.
const COUNTERS: usize = 1 << COUNTER_BITS;
const COUNTER_BITS: u32 = 10;

/// The identifications of one node, shared by its workers.
///
/// With n nodes a node's range has 65,536 / n numbers. Each destination gets them in turn, so a number repeats after
/// that many fragmented packets to one destination, or to destinations that share its counter.
#[derive(Debug)]
pub struct Identifications {
    first: u16,
    last: u16,
    next: Box<[AtomicU16]>,
}

impl Identifications {
    /// The range of one node in a cluster of this size. `start` shifts where each counter begins: a restarted process
    /// should not begin with the numbers it used last.
    pub fn new(node: NodeId, size: ClusterSize, start: u32) -> Self {
        let nodes = size.get() as u32; // at most 256
        // A node beyond the cluster would have no range; it gets the last one.
        let node = u32::from(node.get()).min(nodes - 1);
        let (first, end) = (NUMBERS * node / nodes, NUMBERS * (node + 1) / nodes);
        let begin = first + start % (end - first);
        let next = (0..COUNTERS).map(|_| AtomicU16::new(begin as u16)).collect(); // below 65,536
        Self { first: first as u16, last: (end - 1) as u16, next }
    }

    /// The range of this node.
    pub const fn part(&self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// The identification for the next fragmented packet to a destination. Cost: one atomic update; workers that
    /// fragment for the same destination contend for it.
    pub fn next(&self, destination: Ipv4Addr) -> u16 {
        // Multiplicative hashing: neighbouring addresses get different counters.
        let at = destination.to_bits().wrapping_mul(0x9E37_79B1) >> (u32::BITS - COUNTER_BITS);
        let Some(counter) = self.next.get(at as usize) else { return self.first };
        let mut drawn = counter.load(Ordering::Relaxed);
        loop {
            let following = if drawn >= self.last { self.first } else { drawn + 1 };
            match counter.compare_exchange_weak(drawn, following, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return drawn,
                Err(now) => drawn = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::sync::Arc;

    const STATION: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

    fn of(node: u8, nodes: usize, start: u32) -> Identifications {
        Identifications::new(NodeId::new(node), ClusterSize::new(nodes).unwrap(), start)
    }

    #[test]
    fn the_parts_of_all_nodes_are_the_number_space() {
        for nodes in 1..=256 {
            let size = ClusterSize::new(nodes).unwrap();
            let mut end = 0;
            for node in size.nodes() {
                let part = Identifications::new(node, size, 0).part();
                assert_eq!(u32::from(*part.start()), end, "node {node} of {nodes}");
                end = u32::from(*part.end()) + 1;
                assert!(part.len() >= (1 << 16) / nodes, "node {node} of {nodes}");
            }
            assert_eq!(end, 1 << 16);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_number_comes_again_after_all_others(nodes in 1usize..=256, node: u8, start: u32) {
            let node = node % nodes.min(255) as u8;
            let drawn = of(node, nodes, start);
            let numbers = drawn.part().len();
            let first: Vec<u16> = (0..numbers).map(|_| drawn.next(STATION)).collect();
            prop_assert!(first.iter().all(|number| drawn.part().contains(number)));
            prop_assert_eq!(first.iter().collect::<HashSet<_>>().len(), numbers);
            let second: Vec<u16> = (0..numbers).map(|_| drawn.next(STATION)).collect();
            prop_assert_eq!(first, second);
        }
    }

    #[test]
    fn workers_of_a_node_never_draw_the_same_number() {
        let shared = Arc::new(of(1, 4, 7));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let drawn = Arc::clone(&shared);
                std::thread::spawn(move || (0..4_096).map(|_| drawn.next(STATION)).collect::<Vec<_>>())
            })
            .collect();
        let all: Vec<u16> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 4 * 4_096, "all numbers of the part, once");
    }

    #[test]
    fn neighbouring_base_stations_have_counters_of_their_own() {
        let drawn = of(0, 4, 0);
        let station = |n: u8| Ipv4Addr::new(10, 9, 0, n);
        assert!((0..=255).all(|n| drawn.next(station(n)) == 0), "each begins anew");
    }
}
