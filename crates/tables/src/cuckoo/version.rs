//! The version counters that let readers run beside a writer without locks.
//!
//! A counter guards a *stripe*: all buckets whose number is equal modulo the number of stripes. It is odd while the
//! writer changes keys or values of one of them, and two larger after. A reader notes the counters of its two
//! buckets, reads keys and value, and looks at the counters again: if nothing moved, what it read was all there at
//! one moment.
//!
//! # Why this is sound
//!
//! All guarded words are atomics, so nothing here is a data race; the question is only which values may meet.
//!
//! - *A reader that saw the even value `v` sees every store of the change that made it.* The writer publishes `v`
//!   with `Release`, [`Versions::begin`] loads it with `Acquire`. So no word is older than `v`.
//! - *A reader that read a word of a later change sees the counter moved.* The writer stores the odd value, then a
//!   `Release` fence, then the words. The reader loads the words, then an `Acquire` fence
//!   ([`Versions::end_of_reads`]), then the counter. If a load returned a word stored after the writer's fence, the
//!   two fences synchronise, so the odd store happens before the second look, which coherence then forbids to return
//!   `v`. So no word is newer than `v`.
//! - *Both buckets at once.* The second counter is first looked at before the first one is looked at again, so there
//!   is a moment at which both were unchanged: a key that moves from one to the other (both stripes odd meanwhile) is
//!   seen in exactly one of them.
//! - Counters have 64 bits and only grow: they never come back to a value.
//!
//! The model in the tests runs under loom: `RUSTFLAGS="--cfg loom" cargo test -p scalebricks-tables --lib loom_`.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Most counters a table has: 32 KiB, so that they stay in a core's own cache (ADR 3).
const MAX_STRIPES: usize = 4096;

/// Looks at a busy stripe before a reader gives its core away: the writer may need that very core.
const SPINS_BEFORE_YIELD: u32 = 64;

/// How many counters a table of this many buckets has: a power of two.
const fn stripes_for(buckets: usize) -> usize {
    let stripes = buckets.next_power_of_two();
    if stripes < MAX_STRIPES { stripes } else { MAX_STRIPES }
}

/// Bytes of the counters of a table of this many buckets.
pub(super) const fn bytes_for(buckets: usize) -> usize {
    stripes_for(buckets) * size_of::<u64>()
}

/// The counters of one table.
#[derive(Debug)]
pub(super) struct Versions {
    stripes: Box<[AtomicU64]>,
}

impl Versions {
    /// Counters for this many buckets.
    pub(super) fn for_buckets(buckets: usize) -> Self {
        Self { stripes: (0..stripes_for(buckets)).map(|_| AtomicU64::new(0)).collect() }
    }

    #[inline]
    fn of(&self, bucket: u32) -> &AtomicU64 {
        &self.stripes[bucket as usize & (self.stripes.len() - 1)]
    }

    /// The first look: the value that [`Self::unchanged`] must find again. Of a counter that is odd now it gives the
    /// even value below, which the counter will never have again, so one comparison serves both cases.
    #[inline]
    pub(super) fn begin(&self, bucket: u32) -> u64 {
        self.of(bucket).load(Ordering::Acquire) & !1
    }

    /// Between the last guarded load and [`Self::unchanged`].
    #[inline]
    pub(super) fn end_of_reads() {
        fence(Ordering::Acquire);
    }

    /// The second look: whether all loads since [`Self::begin`] belong together.
    #[inline]
    pub(super) fn unchanged(&self, bucket: u32, seen: u64) -> bool {
        self.of(bucket).load(Ordering::Relaxed) == seen
    }

    /// Runs `stores`, which change guarded words of these two buckets (possibly the same one). For one writer at a
    /// time; `stores` must not panic, or readers of the stripes wait for ever.
    #[inline]
    pub(super) fn change(&self, a: u32, b: u32, stores: impl FnOnce()) {
        let (a, b) = (self.of(a), self.of(b));
        let both = !std::ptr::eq(a, b);
        // Only the writer stores to counters, so these loads return its own last values.
        let (before_a, before_b) = (a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
        a.store(before_a + 1, Ordering::Relaxed);
        if both {
            b.store(before_b + 1, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        stores();
        a.store(before_a + 2, Ordering::Release);
        if both {
            b.store(before_b + 2, Ordering::Release);
        }
    }
}

/// What a reader does before its next try: spin, and after [`SPINS_BEFORE_YIELD`] tries let others run.
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
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two buckets of one slot each; a slot is a key word and a value word.
    struct Model {
        versions: Versions,
        slots: [[AtomicU64; 2]; 2],
    }

    impl Model {
        /// Key 7 with value 70 in bucket 0, bucket 1 empty.
        fn new() -> Arc<Self> {
            let slot = |key, value| [AtomicU64::new(key), AtomicU64::new(value)];
            Arc::new(Self { versions: Versions::for_buckets(2), slots: [slot(7, 70), slot(0, 0)] })
        }

        fn set(&self, bucket: usize, key: u64, value: u64) {
            self.slots[bucket][1].store(value, Ordering::Relaxed);
            self.slots[bucket][0].store(key, Ordering::Relaxed);
        }

        /// One try of a lookup of `key`; `None` if it has to be tried again.
        fn try_get(&self, key: u64) -> Option<Option<u64>> {
            let seen = [self.versions.begin(0), self.versions.begin(1)];
            let mut found = None;
            for slot in &self.slots {
                if slot[0].load(Ordering::Relaxed) == key {
                    found = Some(slot[1].load(Ordering::Relaxed));
                }
            }
            Versions::end_of_reads();
            (self.versions.unchanged(0, seen[0]) && self.versions.unchanged(1, seen[1])).then_some(found)
        }
    }

    #[test]
    fn loom_a_moving_key_is_never_missed() {
        loom::model(|| {
            let table = Model::new();
            let writer = thread::spawn({
                let table = table.clone();
                move || {
                    table.versions.change(0, 1, || {
                        table.set(1, 7, 70);
                        table.set(0, 0, 70);
                    });
                    table.versions.change(0, 0, || table.set(0, 8, 80)); // its old slot is used at once
                }
            });
            if let Some(found) = table.try_get(7) {
                assert_eq!(found, Some(70));
            }
            writer.join().unwrap();
            assert_eq!(table.try_get(7), Some(Some(70)), "an idle table answers at the first try");
        });
    }

    #[test]
    fn loom_a_value_is_never_mixed() {
        loom::model(|| {
            let table = Model::new();
            let writer = thread::spawn({
                let table = table.clone();
                move || {
                    table.versions.change(0, 0, || table.set(0, 7, 71));
                    table.versions.change(0, 0, || table.set(0, 9, 90));
                }
            });
            if let Some(found) = table.try_get(7) {
                assert!(matches!(found, Some(70 | 71) | None), "{found:?}");
            }
            if let Some(Some(value)) = table.try_get(9) {
                assert_eq!(value, 90);
            }
            writer.join().unwrap();
        });
    }
}
