//! The storm guard: limits how many frames of each port are flooded.
//!
//! One token bucket per port, stored in one word: the time at which it would be full again (GCRA, ITU-T I.371). All
//! workers of a switch share the buckets, so the rate holds however a device spreads its frames over queues.

use super::action::PortNo;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The flooding limit per input port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StormRate {
    /// Nanoseconds per frame.
    interval_ns: u64,
    /// The time value of all tokens of a full bucket except one.
    tolerance_ns: u64,
}

/// A rate of zero, or too high to be expressed in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rate must be 1 to 1000000000 frames per second, and burst at least 1")]
pub struct NoRate;

impl StormRate {
    /// Limits to this rate and burst.
    ///
    /// # Errors
    /// [`NoRate`].
    pub const fn new(frames_per_s: u32, burst: u32) -> Result<Self, NoRate> {
        if frames_per_s == 0 || frames_per_s > 1_000_000_000 || burst == 0 {
            return Err(NoRate);
        }
        let interval_ns = 1_000_000_000 / frames_per_s as u64;
        Ok(Self { interval_ns, tolerance_ns: interval_ns.saturating_mul(burst as u64 - 1) })
    }
}

/// The token buckets of all ports.
#[derive(Debug)]
pub struct StormGuard {
    rate: StormRate,
    full_at_ns: Box<[CachePadded<AtomicU64>]>,
}

impl StormGuard {
    /// Full buckets for this many ports.
    pub fn new(rate: StormRate, ports: usize) -> Self {
        Self { rate, full_at_ns: (0..ports).map(|_| CachePadded::default()).collect() }
    }

    /// Takes a token from a port's bucket, if there is one. `now` is the time since a moment that all workers share.
    /// Cost: one locked instruction, on a cache line that workers share only when they flood.
    #[inline]
    pub fn take(&self, port: PortNo, now: Duration) -> bool {
        let Some(bucket) = self.full_at_ns.get(port.index()) else { return false };
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let StormRate { interval_ns, tolerance_ns } = self.rate;
        let one = |full_at: u64| {
            let from = full_at.max(now);
            (from - now <= tolerance_ns).then(|| from.saturating_add(interval_ns))
        };
        // No other data is published with a token.
        bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_burst_and_then_the_rate_port_by_port() {
        let guard = StormGuard::new(StormRate::new(10, 3).unwrap(), 2);
        let [a, b] = [0, 1].map(|port| PortNo::new(port).unwrap());
        let taken = |port, now| (0..10).filter(|_| guard.take(port, now)).count();
        assert_eq!((taken(a, MS(5)), taken(b, MS(5))), (3, 3));
        assert_eq!(taken(a, MS(104)), 0);
        assert_eq!(taken(a, MS(105)), 1);
        assert_eq!(taken(a, MS(10_000)), 3);
        assert_eq!(taken(a, MS(9_000)), 0, "a clock that goes back gives nothing");
        assert_eq!(taken(PortNo::new(2).unwrap(), MS(5)), 0, "no such port");
        assert_eq!(StormRate::new(0, 5), Err(NoRate));
        assert_eq!(StormRate::new(5, 0), Err(NoRate));
    }

    #[test]
    fn over_any_stretch_no_more_than_the_rate_and_a_burst() {
        let guard = StormGuard::new(StormRate::new(1_000, 50).unwrap(), 1);
        let port = PortNo::new(0).unwrap();
        // 100,000 frames in one second.
        let taken = (0..100_000_u64).filter(|&n| guard.take(port, Duration::from_micros(10 * n))).count();
        assert!((1_000..=1_050).contains(&taken), "{taken}");
    }
}
