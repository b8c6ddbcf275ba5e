//! Token buckets, in one word each: the moment at which the bucket would be full again (GCRA, ITU-T I.371).

use super::config::Rate;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// One bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    /// What one token is worth; `None` if there are none.
    interval: Option<Duration>,
    /// What all tokens but one are worth.
    tolerance: Duration,
    full_at: Duration,
}

impl Bucket {
    pub(super) fn new(rate: Rate) -> Self {
        let interval = Duration::from_secs(1).checked_div(rate.per_second);
        let tolerance = interval.unwrap_or_default().saturating_mul(rate.burst.max(1) - 1);
        Self { interval, tolerance, full_at: Duration::ZERO }
    }

    /// Takes a token if there is one.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        take(self.interval, self.tolerance, &mut self.full_at, now)
    }

    /// Whether there is a token.
    pub(super) fn has_token(&self, now: Duration) -> bool {
        self.interval.is_some() && now >= self.next()
    }

    /// When there is one; the end of time if never.
    pub(super) fn next(&self) -> Duration {
        if self.interval.is_none() { Duration::MAX } else { self.full_at.saturating_sub(self.tolerance) }
    }
}

fn take(interval: Option<Duration>, tolerance: Duration, full_at: &mut Duration, now: Duration) -> bool {
    let Some(interval) = interval else { return false };
    let from = (*full_at).max(now);
    let allowed = from.saturating_sub(now) <= tolerance;
    if allowed {
        *full_at = from.saturating_add(interval);
    }
    allowed
}

/// Buckets of peers. Bounded: peers share [`PEER_BUCKETS`] by a hash that is keyed at random, so that nobody can tell
/// whom he shares with.
#[derive(Debug)]
pub(super) struct PeerBuckets {
    rate: Bucket,
    full_at: Box<[Duration]>,
    hash: RandomState,
}

/// Buckets that all peers share.
const PEER_BUCKETS: usize = 1_024;

impl PeerBuckets {
    pub(super) fn new(rate: Rate) -> Self {
        let full_at = vec![Duration::ZERO; PEER_BUCKETS].into();
        Self { rate: Bucket::new(rate), full_at, hash: RandomState::new() }
    }

    /// Takes a token of the peer's bucket if there is one.
    pub(super) fn take(&mut self, peer: IpAddr, now: Duration) -> bool {
        let at = self.hash.hash_one(peer) as usize % PEER_BUCKETS;
        let Some(full_at) = self.full_at.get_mut(at) else { return false };
        take(self.rate.interval, self.rate.tolerance, full_at, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(Rate { per_second: 10, burst: 3 });
        let taken = |bucket: &mut Bucket, now| (0..10).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, MS(5)), 3);
        assert!(!bucket.has_token(MS(104)));
        assert_eq!(bucket.next(), MS(105));
        assert_eq!(taken(&mut bucket, MS(105)), 1);
        assert_eq!(taken(&mut bucket, MS(10_000)), 3);
        // A clock that goes back gives nothing for nothing.
        assert_eq!(taken(&mut bucket, MS(9_000)), 0);
        assert_eq!(taken(&mut Bucket::new(Rate { per_second: 0, burst: 9 }), MS(5)), 0);
    }

    #[test]
    fn a_greedy_peer_takes_little_from_others() {
        let mut buckets = PeerBuckets::new(Rate { per_second: 1, burst: 2 });
        let greedy = IpAddr::from([10, 0, 0, 1]);
        assert_eq!((0..1_000).filter(|_| buckets.take(greedy, MS(0))).count(), 2);
        let served = (0..100).filter(|&n| buckets.take(IpAddr::from([10, 0, 1, n]), MS(0))).count();
        assert!(served > 80, "{served}");
    }
}
