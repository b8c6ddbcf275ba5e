//! Expiry: a hand goes round all records, a bounded number per call.

use super::compare::SLOTS;
use super::key::FlowKey;
use super::records::{Record, StartedRecords};
use super::table::{DHash, slot_record};

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
        for _ in 0..budget {
            let record = if self.hand.slot < self.buckets() * SLOTS {
                let record = slot_record(self.hand.slot / SLOTS, self.hand.slot % SLOTS);
                self.is_used(record).then_some(record)
            } else if self.hand.entry < self.pool.len() {
                self.pool.record_of(self.hand.entry)
            } else {
                self.hand = Hand::default();
                stats.is_round_complete = true;
                break;
            };
            if let Some(record) = record {
                stats.visited += 1;
                let key = &self.keys[record.at()];
                if !keep(Swept { record, key, records: &mut self.records }) {
                    self.delete(record);
                    stats.removed += 1;
                    if self.is_used(record) {
                        continue; // promoted into this slot
                    }
                }
            }
            if self.hand.slot < self.buckets() * SLOTS {
                self.hand.slot += 1;
            } else {
                self.hand.entry += 1;
            }
        }
        stats
    }
}
