//! Rate limits on answers, in total and per peer.

use super::config::Rate;
use scalebricks_types::{Bucket, Limit, Spent};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

impl Rate {
    /// A full bucket.
    pub(super) fn bucket(self) -> Bucket {
        Bucket::new(self.per_second.into(), self.burst.into())
    }
}

/// Token buckets of peers. Bounded: peers share [`PEER_BUCKETS`] by a randomly keyed hash, so that no peer can tell
/// with which others it shares.
#[derive(Debug)]
pub(super) struct PeerBuckets {
    limit: Limit,
    spent: Box<[Spent]>,
    hash: RandomState,
}

/// Buckets that all peers share.
const PEER_BUCKETS: usize = 1_024;

impl PeerBuckets {
    pub(super) fn new(rate: Rate) -> Self {
        let spent = vec![Spent::default(); PEER_BUCKETS].into();
        let limit = Limit::new(rate.per_second.into(), rate.burst.into());
        Self { limit, spent, hash: RandomState::new() }
    }

    /// Takes a token from the peer's bucket, if there is one.
    pub(super) fn take(&mut self, peer: IpAddr, now: Duration) -> bool {
        let at = self.hash.hash_one(peer) as usize % PEER_BUCKETS;
        self.spent.get_mut(at).is_some_and(|spent| self.limit.take(spent, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_greedy_peer_takes_little_from_others() {
        let mut buckets = PeerBuckets::new(Rate { per_second: 1, burst: 2 });
        let greedy = IpAddr::from([10, 0, 0, 1]);
        assert_eq!((0..1_000).filter(|_| buckets.take(greedy, MS(0))).count(), 2);
        let served = (0..100).filter(|&n| buckets.take(IpAddr::from([10, 0, 1, n]), MS(0))).count();
        assert!(served > 80, "{served}");
    }
}
