//! Room in nodes' FIBs, as the owner of a partition counts it.
//!
//! Nodes report how full their FIBs are. With P partitions an owner may use 1/P of the free entries, and counts the keys that it
//! has assigned until a report includes them. New flows leave room for the flows of a node that dies: with N living nodes each is
//! filled to (N−1)/N of [`USED_PERCENT`] % of its capacity. Re-pinned flows are not limited.

use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::{PartitionCount, Position};
use std::collections::VecDeque;

/// Percentage of a FIB's capacity that flows may use: owners count with reports that are some milliseconds old.
pub const USED_PERCENT: u64 = 95;

/// A node's FIB, as the node reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct FibRoom {
    /// Keys held.
    pub used: u64,
    /// Keys that it can hold; `u64::MAX` if it knows no limit.
    pub capacity: u64,
    /// Keys that it should hold and does not, as it was full when they came.
    pub shed: u64,
}

impl FibRoom {
    /// A FIB that is never full.
    pub const UNLIMITED: Self = Self { used: 0, capacity: u64::MAX, shed: 0 };

    /// The number of keys up to which new flows are accepted, with so many nodes alive.
    fn limit(self, alive: usize) -> u64 {
        let alive = alive.max(1) as u128;
        let of = if alive == 1 { (1, 1) } else { (alive - 1, alive) };
        let limit = u128::from(self.capacity) * u128::from(USED_PERCENT) * of.0 / (100 * of.1);
        limit as u64 // below the capacity
    }

    /// New keys that one partition may still assign, beside `on_their_way`.
    pub(super) fn share(self, alive: usize, partitions: PartitionCount, on_their_way: u64) -> u64 {
        if self.shed > 0 {
            return 0;
        }
        let free = self.limit(alive).saturating_sub(self.used);
        (free / u64::from(partitions.get())).saturating_sub(on_their_way)
    }
}

/// Keys that an owner has given to a node and that no report includes.
#[derive(Debug, Default)]
pub(super) struct OnTheirWay {
    entries: VecDeque<(Position, u64)>,
    keys: u64,
}

impl OnTheirWay {
    /// The entry at this position assigns so many keys.
    pub(super) fn bring(&mut self, position: Position, keys: u64) {
        if keys > 0 {
            self.entries.push_back((position, keys));
            self.keys += keys;
        }
    }

    /// The FIB contains the keys of the entries up to this one.
    pub(super) fn reported(&mut self, position: Position) {
        while let Some((_, keys)) = self.entries.front().filter(|(at, _)| *at <= position) {
            self.keys -= keys;
            self.entries.pop_front();
        }
    }

    pub(super) const fn keys(&self) -> u64 {
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_flows_leave_room_for_those_of_a_node_that_dies() {
        let partitions = PartitionCount::new(4).unwrap();
        let room = FibRoom { used: 300, capacity: 1_000, shed: 0 };
        assert_eq!([1, 2, 4].map(|alive| room.limit(alive)), [950, 475, 712]);
        assert_eq!(room.share(4, partitions, 0), 103);
        assert_eq!(room.share(4, partitions, 100), 3);
        assert_eq!(FibRoom { used: 800, ..room }.share(4, partitions, 0), 0);
        assert_eq!(FibRoom { shed: 1, ..room }.share(4, partitions, 0), 0, "it has more than it can hold");
        assert!(FibRoom::UNLIMITED.share(256, partitions, 1 << 40) > 1 << 60);
    }

    #[test]
    fn keys_in_a_report_are_not_counted_as_assigned() {
        let mut keys = OnTheirWay::default();
        keys.bring(Position(3), 5);
        keys.bring(Position(4), 0);
        keys.bring(Position(7), 2);
        keys.reported(Position(2));
        assert_eq!(keys.keys(), 7);
        keys.reported(Position(6));
        assert_eq!(keys.keys(), 2);
        keys.reported(Position(7));
        assert_eq!(keys.keys(), 0);
    }
}
