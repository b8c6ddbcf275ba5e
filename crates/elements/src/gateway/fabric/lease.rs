//! A node's lease as its workers see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The deadlines of a node's lease, in the time of [`Worker::turn`](scalebricks_graph::Worker::turn). The control plane
/// moves the deadlines; workers compare them with the time themselves. So a lease also expires while the control plane
/// is stuck, and for a process that was stopped and resumed.
///
/// Cost: one relaxed load and one comparison per check.
#[derive(Debug)]
pub struct Lease {
    claim_until_ns: AtomicU64,
    forward_until_ns: AtomicU64,
    /// Whether the tables were filled once.
    is_filled: AtomicBool,
    /// The start of the node's time, if it can be read here.
    start: Option<Instant>,
}

impl Lease {
    /// A lease that was never granted: the node may do nothing.
    pub const fn none() -> Self {
        Self {
            claim_until_ns: AtomicU64::new(0),
            forward_until_ns: AtomicU64::new(0),
            is_filled: AtomicBool::new(true),
            start: None,
        }
    }

    /// A lease that never expires, for a node whose tables come from a file.
    pub const fn unlimited() -> Self {
        Self {
            claim_until_ns: AtomicU64::new(u64::MAX),
            forward_until_ns: AtomicU64::new(u64::MAX),
            is_filled: AtomicBool::new(true),
            start: None,
        }
    }

    /// The same for a node whose tables are not yet filled. Until [`Self::filled`] it takes no packets from outside, as
    /// its tables may misdirect them; it does handle packets from other nodes for flows that it holds.
    #[must_use]
    pub const fn to_be_filled(self) -> Self {
        Self { is_filled: AtomicBool::new(false), ..self }
    }

    /// Marks the tables as filled.
    pub fn filled(&self) {
        self.is_filled.store(true, Ordering::Relaxed);
    }

    /// Whether the tables were filled once.
    #[inline]
    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Relaxed)
    }

    /// Sets the moment from which the node's time counts: see [`Self::still_lets_forward`].
    #[must_use]
    pub const fn counted_from(self, start: Instant) -> Self {
        Self { start: Some(start), ..self }
    }

    /// Moves the deadlines.
    pub fn set(&self, claim_until: Duration, forward_until: Duration) {
        self.claim_until_ns.store(nanoseconds(claim_until), Ordering::Relaxed);
        self.forward_until_ns.store(nanoseconds(forward_until), Ordering::Relaxed);
    }

    /// Whether the node may claim addresses and report errors to peers. False until its tables are filled: it would
    /// drop the packets that it attracts.
    #[inline]
    pub fn may_claim(&self, now: Duration) -> bool {
        self.is_filled() && nanoseconds(now) < self.claim_until_ns.load(Ordering::Relaxed)
    }

    /// Whether it may forward packets.
    #[inline]
    pub fn may_forward(&self, now: Duration) -> bool {
        nanoseconds(now) < self.forward_until_ns.load(Ordering::Relaxed)
    }

    /// Whether it may forward according to the clock instead of the turn's start time: a worker may have been stopped
    /// since. True if the clock cannot be read here.
    ///
    /// Cost: one clock read, about 25 ns.
    pub fn still_lets_forward(&self) -> bool {
        self.start.is_none_or(|start| self.may_forward(start.elapsed()))
    }

    /// The times until which the node may claim addresses and may forward.
    pub fn deadlines(&self) -> (Duration, Duration) {
        let load = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        (load(&self.claim_until_ns), load(&self.forward_until_ns))
    }
}

/// Below `u64::MAX`, which means that the lease never expires.
#[inline]
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_at_its_deadlines() {
        let at = Duration::from_millis;
        let lease = Lease::none();
        assert!(!lease.may_claim(at(0)) && !lease.may_forward(at(0)));
        lease.set(at(3), at(10));
        assert!(lease.may_claim(at(2)) && !lease.may_claim(at(3)));
        assert!(lease.may_forward(at(9)) && !lease.may_forward(at(10)));
        assert_eq!(lease.deadlines(), (at(3), at(10)));
        assert!(lease.is_filled());
        let empty = Lease::none().to_be_filled();
        empty.set(at(3), at(10));
        assert!(!empty.is_filled() && !empty.may_claim(at(1)) && empty.may_forward(at(1)));
        empty.filled();
        assert!(empty.is_filled() && empty.may_claim(at(1)));
        let unlimited = Lease::unlimited();
        assert!(unlimited.may_claim(Duration::MAX) && unlimited.may_forward(Duration::MAX));
    }
}
