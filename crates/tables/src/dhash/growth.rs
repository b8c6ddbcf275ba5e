//! Growth: one bucket is split at a time, just before a session is added.

use super::compare::SLOTS;
use super::config::Growth;
use super::key::FlowKey;
use super::table::{DHash, slot_record};

impl<K: FlowKey> DHash<K> {
    /// Splits buckets until there is room for `sessions` more, at most as many buckets as sessions. So one added
    /// session costs at most one split, and a table that was smaller than its load catches up.
    #[inline]
    pub(super) fn grow_for(&mut self, sessions: usize) {
        if let Growth::Linear { max_buckets, mean_sessions } = self.growth {
            for _ in 0..sessions {
                let is_due = self.len() + sessions > self.buckets() * mean_sessions as usize;
                if !is_due || self.buckets() >= max_buckets as usize {
                    return;
                }
                self.split();
            }
        }
    }

    /// Splits the next bucket. Sessions of the new bucket keep their slot number, those of the list take free slots
    /// of their bucket.
    #[cold]
    fn split(&mut self) {
        let (old, new) = (self.place.next_split(), self.buckets());
        self.place = self.place.grown();
        self.records.resize(self.extent());
        for slot in 0..SLOTS {
            let signature = self.lines[old][slot];
            let from = slot_record(old, slot);
            if signature != 0 && self.place.bucket(self.hash(&self.keys[from.at()])) == new {
                self.lines[old][slot] = 0;
                self.lines[new][slot] = signature;
                self.move_record(from, slot_record(new, slot));
            }
        }
        self.split_list(old);
        self.counters.splits += 1;
    }

    /// Gives each session of a list a slot of its bucket, or puts it into that bucket's list.
    fn split_list(&mut self, old: usize) {
        let mut rest = std::mem::take(&mut self.heads[old]);
        loop {
            let first = self.pool.list(rest).next().map(|(id, entry)| (id, entry.record));
            let Some((id, record)) = first else { return };
            self.pool.unlink(&mut rest, id);
            let hash = self.hash(&self.keys[record as usize]);
            let bucket = self.place.bucket(hash);
            match self.empty_slot(bucket, self.start(hash)) {
                Some(slot) => self.move_to_slot(id, bucket, slot),
                None => self.pool.relink(&mut self.heads[bucket], id),
            }
        }
    }
}
