//! A worker's timers, ordered by their times.

use std::collections::BTreeMap;
use std::time::Duration;

/// Most timers that expire per turn. Others wait for the next turn.
pub const TIMERS_A_TURN: usize = 64;

/// A timer that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId {
    at: Duration,
    /// Timers are numbered in the order in which they are set.
    number: u64,
}

/// A timer that expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) node: u16,
    pub(crate) token: u64,
}

/// A bounded number of timers. Setting, cancelling and expiring one takes O(log timers).
#[derive(Debug)]
pub(crate) struct Timers {
    set: BTreeMap<TimerId, Expired>,
    most: usize,
    now: Duration,
    last: u64,
}

impl Timers {
    /// Up to `most` timers.
    pub(crate) const fn new(most: usize) -> Self {
        Self { set: BTreeMap::new(), most, now: Duration::ZERO, last: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    /// Sets a timer, which expires at `at`, but later than the last time that timers expired. `None` if there are too
    /// many.
    pub(crate) fn set(&mut self, at: Duration, node: u16, token: u64) -> Option<TimerId> {
        if self.set.len() >= self.most {
            return None;
        }
        self.last += 1;
        let soonest = self.now.saturating_add(Duration::from_nanos(1));
        let id = TimerId { at: at.max(soonest), number: self.last };
        self.set.insert(id, Expired { node, token });
        Some(id)
    }

    /// Whether the timer was still set.
    pub(crate) fn cancel(&mut self, timer: TimerId) -> bool {
        self.set.remove(&timer).is_some()
    }

    /// Removes a timer that expired by `now`: the earliest, and of several the one that was set first. Call it until it
    /// returns `None`, or stop earlier: expired timers stay.
    #[inline]
    pub(crate) fn expired(&mut self, now: Duration) -> Option<Expired> {
        self.now = self.now.max(now);
        let first = self.set.first_entry()?;
        (first.key().at <= self.now).then(|| first.remove())
    }

    /// Reassigns timers to other elements; those of an element mapped to `None` are cancelled.
    pub(crate) fn renumber(&mut self, to: impl Fn(u16) -> Option<u16>) {
        self.set.retain(|_, timer| {
            let node = to(timer.node);
            timer.node = node.unwrap_or(timer.node);
            node.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn tokens(timers: &mut Timers, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| timers.expired(at(now))).map(|expired| expired.token).collect()
    }

    #[test]
    fn timers_expire_in_order_and_are_never_early() {
        let mut timers = Timers::new(10);
        for (seconds, token) in [(5, 1), (3, 2), (5, 3), (9, 4)] {
            timers.set(at(seconds), 0, token).unwrap();
        }
        assert_eq!(timers.expired(at(3) - Duration::from_nanos(1)), None);
        assert_eq!((tokens(&mut timers, 5), timers.len()), (vec![2, 1, 3], 1));
        timers.set(at(1), 0, 5).unwrap();
        assert_eq!(tokens(&mut timers, 5), [], "it expires after those of this time");
        assert_eq!(tokens(&mut timers, 6), [5]);
        timers.set(Duration::MAX, 0, 6).unwrap();
        assert_eq!((tokens(&mut timers, 1 << 40), timers.len()), (vec![4], 1));
    }

    #[test]
    fn timers_are_bounded_and_cancelled_once() {
        let mut timers = Timers::new(2);
        let first = timers.set(at(1), 0, 1).unwrap();
        timers.set(at(2), 0, 2).unwrap();
        assert_eq!(timers.set(at(3), 0, 3), None);
        assert!(timers.expired(at(1)).is_some());
        let again = timers.set(at(3), 0, 3).unwrap();
        assert!(!timers.cancel(first));
        assert!(timers.cancel(again) && !timers.cancel(again));
        assert_eq!(timers.len(), 1);
    }

    #[test]
    fn timers_follow_their_element_or_end_with_it() {
        let mut timers = Timers::new(3);
        for node in 0..3 {
            timers.set(at(1), node, node.into()).unwrap();
        }
        timers.renumber(|node| (node != 1).then_some(node + 7));
        let expired: Vec<_> = std::iter::from_fn(|| timers.expired(at(1))).collect();
        assert_eq!(expired, [Expired { node: 7, token: 0 }, Expired { node: 9, token: 2 }]);
    }
}
