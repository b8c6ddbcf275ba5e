//! The clock and the stamps that let readers run concurrently with a writer without locks.
//!
//! The table has one *clock*. The writer makes it odd while it changes keys or values, and even again
//! afterwards. Each stripe of buckets (all whose number is equal modulo the number of stripes) has a *stamp*:
//! the clock after the stripe's last change. A reader reads the clock, reads any number of keys, and reads
//! the clock again. If the clock was even and is unchanged, nothing at all has changed, and there is no cost
//! per key; that is the usual case. Otherwise the reader reads the stamps of each key's two buckets. If
//! neither is above the first reading of the clock, all that it read of that key was present at one moment.
//!
//! # Why this is sound
//!
//! All guarded words are atomics, so there is no data race; the question is only which values may be
//! combined. Let `t` be the result of [`Versions::begin`]: the clock, rounded down to even.
//!
//! - *No word is older than `t`.* All stores to the clock are `Release` and the first read is `Acquire`, so a
//!   reader that sees the clock at `t` or `t + 1` sees every store of the changes up to `t`, including their
//!   stamps.
//! - *A reader that read a word of a later change notices.* The writer makes the clock odd and stores the
//!   stamps, then executes a `Release` fence, then stores the words. The reader loads the words, then
//!   executes an `Acquire` fence ([`Versions::end_of_reads`]), then loads clock and stamps. If a load
//!   returned a word stored after the writer's fence, the two fences synchronise: the reader's second read
//!   finds the clock above `t`, and the stamp of the word's stripe at `t + 2` or more. So data that passes
//!   either test contains no word newer than `t`.
//! - *Both buckets at once.* All parts of a key's answer were read while the table's guarded words of these
//!   two stripes were those of time `t`: a key that moves from one bucket to the other is seen in exactly one
//!   of them.
//! - The clock has 64 bits and only grows: no value occurs twice.
//!
//! A stamp is stored once per change, before it, with the value that the clock will have afterwards. So a
//! reader that arrives during the change (and rounds the clock down to before it) finds the stamp too new,
//! and waits.
//!
//! The models in the tests run under loom: `RUSTFLAGS="--cfg loom" cargo test -p scalebricks-tables --lib
//! loom_`.

use crate::reclaim::sync::{AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;

/// The maximum number of stamps of a table: 32 KiB, so that they stay in a core's own cache (ADR 3).
const MAX_STRIPES: usize = 4096;

/// How often a reader checks a busy stripe before it yields its core: the writer may need that core.
const SPINS_BEFORE_YIELD: u32 = 64;

/// The number of stamps for a table of this many buckets: a power of two.
const fn stripes_for(buckets: usize) -> usize {
    let stripes = buckets.next_power_of_two();
    if stripes < MAX_STRIPES { stripes } else { MAX_STRIPES }
}

/// Bytes of the stamps for a table of this many buckets.
pub(super) const fn bytes_for(buckets: usize) -> usize {
    stripes_for(buckets) * size_of::<u64>()
}

/// The clock and the stamps of one table.
#[derive(Debug)]
pub(super) struct Versions {
    clock: CachePadded<AtomicU64>,
    stamps: Box<[AtomicU64]>,
}

/// A reader's first reading of the clock, rounded down to even.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockReading(u64);

impl Versions {
    /// Stamps for this many buckets.
    pub(super) fn for_buckets(buckets: usize) -> Self {
        let stamps = (0..stripes_for(buckets)).map(|_| AtomicU64::new(0)).collect();
        Self { clock: CachePadded::new(AtomicU64::new(0)), stamps }
    }

    #[inline]
    fn stamp(&self, bucket: u32) -> &AtomicU64 {
        &self.stamps[bucket as usize & (self.stamps.len() - 1)]
    }

    /// The first reading, before the first guarded load.
    #[inline]
    pub(super) fn begin(&self) -> ClockReading {
        ClockReading(self.clock.load(Ordering::Acquire) & !1)
    }

    /// Call this between the last guarded load and the second reading of the clock.
    #[inline]
    pub(super) fn end_of_reads() {
        fence(Ordering::Acquire);
    }

    /// Whether nothing at all has changed since `seen`: then all loads since [`Self::begin`] are consistent.
    #[inline]
    pub(super) fn quiet(&self, seen: ClockReading) -> bool {
        self.clock.load(Ordering::Relaxed) == seen.0
    }

    /// Whether this bucket's stripe has not changed since `seen`.
    #[inline]
    pub(super) fn unchanged(&self, bucket: u32, seen: ClockReading) -> bool {
        self.stamp(bucket).load(Ordering::Relaxed) <= seen.0
    }

    /// Runs `stores`, which change guarded words of these two buckets (possibly the same one). For one writer
    /// at a time. `stores` must not panic, or readers of the stripes wait forever.
    #[inline]
    pub(super) fn change(&self, a: u32, b: u32, stores: impl FnOnce()) {
        // Only the writer stores to the clock, so this load returns its own last value.
        let now = self.clock.load(Ordering::Relaxed);
        self.clock.store(now + 1, Ordering::Release);
        self.stamp(a).store(now + 2, Ordering::Relaxed);
        self.stamp(b).store(now + 2, Ordering::Relaxed);
        fence(Ordering::Release);
        stores();
        self.clock.store(now + 2, Ordering::Release);
    }
}

/// Called by a reader before it tries again: spins, and after [`SPINS_BEFORE_YIELD`] tries yields the core.
#[cold]
pub(super) fn wait(tries: &mut u32) {
    *tries += 1;
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    if *tries < SPINS_BEFORE_YIELD {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
    #[cfg(loom)]
    let _ = SPINS_BEFORE_YIELD;
}

#[cfg(all(test, loom))]
mod loom_tests;
