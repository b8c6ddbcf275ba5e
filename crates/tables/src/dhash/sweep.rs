//! Expiry: a hand goes round all records, a bounded number per call.

use super::compare::{self, SLOTS};
use super::key::FlowKey;
use super::records::{Record, StartedRecords};
use super::table::{DHash, Equal, slot_record};

/// Where the hand is: at a slot, or behind all slots at an entry of the pool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hand {
    slot: usize,
    entry: usize,
}

/// A session that the hand passes.
#[derive(Debug)]
pub struct Swept<'a, K> {
    /// Its record.
    pub record: Record,
    /// Its key, as its first packet had it.
    pub key: &'a K,
    /// All arrays of the records.
    pub records: &'a mut StartedRecords,
}

/// What a call of [`DHash::sweep`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepStats {
    /// Sessions passed.
    pub visited: usize,
    /// Sessions removed.
    pub removed: usize,
    /// Whether the hand passed the last record, after which it starts again.
    pub is_round_complete: bool,
}

impl<K: FlowKey> DHash<K> {
    /// Moves the hand over `budget` records, used or not, and deletes each session for which `keep` returns false.
    /// The hand stops where a round is complete, and the next call begins another one.
    ///
    /// A session that is there during two rounds is passed at least once, also while the table grows: a split may
    /// move a session from the pool into a slot that this round has passed, or make the round pass it twice.
    ///
    /// `keep` decides from the values that elements stored, such as the time of the last packet. It may also emit
    /// what the session has to leave behind, because its values are cleared only afterwards.
    ///
    /// Cost: per 16 records one line of the table, per session one call of `keep` and its key; the keys lie in the
    /// order of the hand.
    pub fn sweep(&mut self, budget: usize, mut keep: impl FnMut(Swept<'_, K>) -> bool) -> SweepStats {
        let mut stats = SweepStats::default();
        let mut left = budget;
        while left > 0 {
            let slots = self.buckets() * SLOTS;
            if self.hand.slot < slots {
                let (bucket, slot) = (self.hand.slot / SLOTS, self.hand.slot % SLOTS);
                let span = left.min(SLOTS - slot);
                let mut used = self.used_slots(bucket) >> slot & ((1 << span) - 1);
                let mut passed = span;
                while used != 0 {
                    let skipped = used.trailing_zeros() as usize;
                    used &= used - 1;
                    if self.pass(slot_record(bucket, slot + skipped), &mut keep, &mut stats) {
                        // The hand stays at this slot, and the pass counts.
                        (passed, left) = (skipped, left - 1);
                        break;
                    }
                }
                self.hand.slot += passed;
                left -= passed;
            } else if self.hand.entry < self.pool.len() {
                left -= 1;
                if let Some(record) = self.pool.record_of(self.hand.entry) {
                    self.pass(record, &mut keep, &mut stats);
                }
                self.hand.entry += 1;
            } else {
                self.hand = Hand::default();
                stats.is_round_complete = true;
                break;
            }
        }
        stats
    }

    /// One bit per slot: set if it has a session.
    #[inline]
    fn used_slots(&self, bucket: usize) -> u32 {
        !compare::run(self.isa, Equal { line: &self.lines[bucket], signature: 0 }) & 0xFFFF
    }

    /// Asks whether to keep a session. Returns whether its record has another one now, promoted into its slot.
    #[inline(always)]
    fn pass(
        &mut self,
        record: Record,
        keep: &mut impl FnMut(Swept<'_, K>) -> bool,
        stats: &mut SweepStats,
    ) -> bool {
        stats.visited += 1;
        let key = &self.keys[record.at()];
        if keep(Swept { record, key, records: &mut self.records }) {
            return false;
        }
        self.delete(record);
        stats.removed += 1;
        self.is_promoting && self.is_used(record)
    }
}
