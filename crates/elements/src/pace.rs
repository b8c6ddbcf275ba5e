//! A rate limit that can be changed while packets flow.

use scalebricks_graph::element::HandlerError;
use scalebricks_types::Bucket;
use std::time::Duration;

/// The burst of a shaper after a pause: as in Click, the packets or bytes of 20 ms.
const BURSTS_A_SECOND: u64 = 50;

/// A rate of packets or bytes, with bursts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    per_second: u64,
    /// A burst is this fraction of a second.
    parts: u64,
    bucket: Bucket,
    now: Duration,
}

impl Pace {
    /// A rate per second, with bursts of 20 ms.
    pub(crate) fn new(per_second: u64) -> Self {
        Self::with_bursts(per_second, BURSTS_A_SECOND)
    }

    /// A rate per second, with bursts of 1/`parts` second.
    pub(crate) fn with_bursts(per_second: u64, parts: u64) -> Self {
        Self { per_second, parts, bucket: Bucket::new(per_second, per_second / parts), now: Duration::ZERO }
    }

    /// The rate.
    pub(crate) const fn per_second(&self) -> u64 {
        self.per_second
    }

    /// How many packets or bytes are due.
    pub(crate) fn due(&mut self, now: Duration) -> usize {
        self.now = now;
        usize::try_from(self.bucket.tokens(now)).unwrap_or(usize::MAX)
    }

    /// Subtracts what was sent, even if it was more than was due.
    pub(crate) fn spend(&mut self, count: u64) {
        self.bucket.charge(self.now, count);
    }

    /// Forgets what was due before `now`.
    pub(crate) fn empty(&mut self, now: Duration) {
        self.now = now;
        self.bucket = Bucket::new(self.per_second, self.per_second / self.parts);
        self.spend((self.per_second / self.parts).max(1));
    }

    /// Adopts another's rate; keeps what is due if the rate is the same.
    pub(crate) fn at_rate_of(mut self, other: &Self) -> Self {
        if (self.per_second, self.parts) != (other.per_second, other.parts) {
            self.parts = other.parts;
            self.set(other.per_second);
        }
        self
    }

    /// Sets the rate.
    pub(crate) fn set(&mut self, per_second: u64) {
        self.per_second = per_second;
        self.empty(self.now);
    }

    /// Sets the rate from a handler's value.
    pub(crate) fn write<T: scalebricks_graph::args::Param + Into<u64>>(
        &mut self,
        value: &str,
    ) -> Result<(), HandlerError> {
        let rate = T::read(value.trim())
            .ok_or_else(|| HandlerError::Value(format!("expected {}, not {value:?}", T::KIND)))?;
        self.set(rate.into());
        Ok(())
    }
}
