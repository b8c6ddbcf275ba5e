//! Byte budgets of a node's destinations or links: a token bucket each, at one rate.

use scalebricks_types::{Limit, NodeId, Spent};
use std::time::Duration;

/// Budgets of up to 256 nodes, all with one rate. A packet may overdraw a bucket by its length; then the bucket has no
/// room until it has refilled, so the rate holds exactly. Packets sent although there was no room overdraw it by one burst
/// at most, so that it has room again soon after an overload.
#[derive(Debug, Clone)]
pub(crate) struct Budgets {
    limit: Limit,
    /// The same with twice the burst: whether a bucket is overdrawn by less than a burst.
    overdraft: Limit,
    spent: Box<[Spent]>,
}

impl Budgets {
    /// Full buckets of `burst` bytes, refilled at `rate` bytes per second.
    pub(crate) fn new(nodes: usize, rate: u64, burst: u64) -> Self {
        let (limit, overdraft) = (Limit::new(rate, burst), Limit::new(rate, burst.saturating_mul(2)));
        Self { limit, overdraft, spent: vec![Spent::default(); nodes].into() }
    }

    /// Whether a node's bucket has room for a packet.
    #[inline]
    pub(crate) fn has_room(&self, node: NodeId, now: Duration) -> bool {
        self.spent.get(node.index()).is_some_and(|&spent| self.limit.has_token(spent, now))
    }

    /// Takes a packet's bytes, whether there is room or not.
    #[inline]
    pub(crate) fn charge(&mut self, node: NodeId, now: Duration, bytes: usize) {
        let overdraft = self.overdraft;
        if let Some(spent) =
            self.spent.get_mut(node.index()).filter(|spent| overdraft.has_token(**spent, now))
        {
            self.limit.charge(spent, now, bytes as u64);
        }
    }

    /// Whether a bucket is overdrawn by a burst: then how much it is loaded is no longer known.
    #[inline]
    pub(crate) fn is_exhausted(&self, node: NodeId, now: Duration) -> bool {
        self.spent.get(node.index()).is_none_or(|&spent| !self.overdraft.has_token(spent, now))
    }

    /// Bytes left, 0 if overdrawn.
    #[inline]
    pub(crate) fn left(&self, node: NodeId, now: Duration) -> u64 {
        self.spent.get(node.index()).map_or(0, |&spent| self.limit.tokens(spent, now))
    }

    /// When the bucket has room again: the larger, the more it is loaded.
    #[inline]
    pub(crate) fn next(&self, node: NodeId) -> Duration {
        self.spent.get(node.index()).map_or(Duration::MAX, |&spent| self.limit.next(spent))
    }
}

/// A part of a rate, rounded up.
pub(crate) fn share(rate: u64, of: u64, all: u64) -> u64 {
    let share = (u128::from(rate) * u128::from(of)).div_ceil(u128::from(all.max(1)));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_always_sends_what_it_may_sends_its_rate_and_a_burst() {
        let mut budgets = Budgets::new(2, 1_000_000, 3_000);
        let node = NodeId::new(1);
        let mut sent = 0;
        for ms in 0..1_000 {
            let now = Duration::from_millis(ms);
            while budgets.has_room(node, now) {
                budgets.charge(node, now, 700);
                sent += 700;
            }
        }
        let most = 999_000 + 3_000 + 700;
        assert!((most - 1_400..=most).contains(&sent), "{sent}");
        assert_eq!(budgets.left(NodeId::new(0), Duration::ZERO), 3_000);
        assert!(budgets.next(node) > budgets.next(NodeId::new(0)));
        assert!(!budgets.has_room(NodeId::new(2), Duration::MAX), "no such node");
    }

    #[test]
    fn an_overload_is_soon_forgotten() {
        let (mut budgets, node) = (Budgets::new(1, 1_000_000, 10_000), NodeId::new(0));
        (0..100_000).for_each(|_| budgets.charge(node, Duration::ZERO, 1_000));
        assert!(!budgets.has_room(node, Duration::from_millis(9)));
        assert!(budgets.has_room(node, Duration::from_millis(12)));
    }
}
