//! A limit on a rate: a token bucket in one word, the moment at which it would be full again (GCRA, ITU-T I.371).

use std::time::Duration;

/// A bucket, full at first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    /// What a token is worth; `None` if there are none.
    interval: Option<Duration>,
    /// What all tokens but one are worth.
    tolerance: Duration,
    full_at: Duration,
}

impl Bucket {
    /// So many tokens a second, and so many at once after a pause.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(per_second);
        let tolerance = interval.unwrap_or_default().saturating_mul(burst.max(1) - 1);
        Self { interval, tolerance, full_at: Duration::ZERO }
    }

    /// Takes a token if there is one.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let Some(interval) = self.interval else { return false };
        let from = self.full_at.max(now);
        let is_there = from.saturating_sub(now) <= self.tolerance;
        if is_there {
            self.full_at = from.saturating_add(interval);
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let taken =
            |bucket: &mut Bucket, ms| (0..10).filter(|_| bucket.take(Duration::from_millis(ms))).count();
        let mut bucket = Bucket::new(10, 3);
        assert_eq!([5, 104, 105, 10_000, 9_000].map(|ms| taken(&mut bucket, ms)), [3, 0, 1, 3, 0]);
        assert_eq!(taken(&mut Bucket::new(0, 9), 5), 0);
    }
}
