//! Limits on rates: token buckets, each in one number, the moment at which it would be full again (GCRA, ITU-T I.371).

use std::time::Duration;

/// A token, in the unit of [`Spent`].
const TOKEN: u128 = 1_000_000_000;

/// How fast a bucket fills, and what it holds. Exact at all rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    per_second: u64,
    /// All tokens but one, in the unit of [`Spent`].
    tolerance: u128,
}

/// What was taken from a bucket: the moment at which it would be full again, in the time that the [`Limit`] needs for a billionth of
/// a token. The default is a full bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent(u128);

impl Limit {
    /// So many tokens a second, none if that is 0, and so many at once after a pause, at least one.
    pub const fn new(per_second: u64, burst: u64) -> Self {
        Self { per_second, tolerance: burst.saturating_sub(1) as u128 * TOKEN }
    }

    fn at(self, now: Duration) -> u128 {
        now.as_nanos().saturating_mul(u128::from(self.per_second))
    }

    /// Tokens that are there.
    pub fn tokens(self, spent: Spent, now: Duration) -> u64 {
        let beyond_one = self.tolerance.checked_sub(spent.0.saturating_sub(self.at(now)));
        let tokens = beyond_one.filter(|_| self.per_second > 0).map_or(0, |beyond| beyond / TOKEN + 1);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// Whether there is a token.
    pub fn has_token(self, spent: Spent, now: Duration) -> bool {
        self.per_second > 0 && spent.0.saturating_sub(self.at(now)) <= self.tolerance
    }

    /// Takes a token if there is one.
    pub fn take(self, spent: &mut Spent, now: Duration) -> bool {
        let is_there = self.has_token(*spent, now);
        if is_there {
            self.charge(spent, now, 1);
        }
        is_there
    }

    /// Takes tokens, also such as will only come: then the next one comes later.
    pub fn charge(self, spent: &mut Spent, now: Duration, tokens: u64) {
        spent.0 = spent.0.max(self.at(now)).saturating_add(u128::from(tokens) * TOKEN);
    }

    /// When there is a token; the end of time if never.
    pub fn next(self, spent: Spent) -> Duration {
        if self.per_second == 0 {
            return Duration::MAX;
        }
        let nanos = spent.0.saturating_sub(self.tolerance).div_ceil(u128::from(self.per_second));
        let whole = u64::try_from(nanos / 1_000_000_000);
        whole.map_or(Duration::MAX, |seconds| Duration::new(seconds, (nanos % 1_000_000_000) as u32))
    }
}

/// A bucket, full at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    limit: Limit,
    spent: Spent,
}

impl Bucket {
    /// As [`Limit::new`].
    pub fn new(per_second: u64, burst: u64) -> Self {
        Self { limit: Limit::new(per_second, burst), spent: Spent::default() }
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Duration) -> bool {
        self.limit.take(&mut self.spent, now)
    }

    /// Tokens that are there.
    pub fn tokens(&self, now: Duration) -> u64 {
        self.limit.tokens(self.spent, now)
    }

    /// Whether there is a token.
    pub fn has_token(&self, now: Duration) -> bool {
        self.limit.has_token(self.spent, now)
    }

    /// As [`Limit::charge`].
    pub fn charge(&mut self, now: Duration, tokens: u64) {
        self.limit.charge(&mut self.spent, now, tokens);
    }

    /// When there is a token; the end of time if never.
    pub fn next(&self) -> Duration {
        self.limit.next(self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(10, 3);
        let taken = |bucket: &mut Bucket, now| (0..10).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, MS(5)), 3);
        assert!(!bucket.has_token(MS(104)));
        assert_eq!(bucket.next(), MS(105));
        assert_eq!(taken(&mut bucket, MS(105)), 1);
        assert_eq!(taken(&mut bucket, MS(10_000)), 3);
        // A clock that goes back gives nothing for nothing.
        assert_eq!(taken(&mut bucket, MS(9_000)), 0);
        let mut never = Bucket::new(0, 9);
        assert_eq!((taken(&mut never, MS(5)), never.next()), (0, Duration::MAX));
    }

    #[test]
    fn rates_over_one_token_per_nanosecond_are_exact() {
        let mut bucket = Bucket::new(12_500_000_000, 1);
        bucket.charge(MS(0), 12_500_000_001);
        assert_eq!(bucket.next(), Duration::from_nanos(1_000_000_001));
        assert!(!bucket.has_token(MS(1_000)) && bucket.has_token(MS(1_001)));
        bucket.charge(Duration::MAX, u64::MAX);
        assert!(bucket.next() > MS(1_001));
    }

    proptest! {
        /// The twin counts tokens: fractions, as billionths, that come with time up to the burst.
        #[test]
        fn a_bucket_is_one_that_counts_its_tokens(
            per_second in 1..2_000_000u64,
            burst in 1..50u64,
            steps in prop::collection::vec((0..2_000_000u64, 1..4u64, any::<bool>()), 1..60),
        ) {
            let mut bucket = Bucket::new(per_second, burst);
            let full = i128::from(burst) * 1_000_000_000;
            let (mut tokens, mut now) = (full, Duration::ZERO);
            for (step, charge, is_charged) in steps {
                now += Duration::from_nanos(step);
                tokens = (tokens + i128::from(step) * i128::from(per_second)).min(full);
                let has = tokens >= 1_000_000_000;
                prop_assert_eq!(bucket.has_token(now), has);
                prop_assert_eq!(bucket.tokens(now), u64::try_from(tokens / 1_000_000_000).unwrap_or(0));
                prop_assert_eq!(bucket.next() <= now, has);
                if is_charged {
                    bucket.charge(now, charge);
                    tokens -= i128::from(charge) * 1_000_000_000;
                } else {
                    prop_assert_eq!(bucket.take(now), has);
                    tokens -= if has { 1_000_000_000 } else { 0 };
                }
            }
        }
    }
}
