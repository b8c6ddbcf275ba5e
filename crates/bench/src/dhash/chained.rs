//! Hashing with chaining, the paper's "traditional" table: that of Libnids, with any number of buckets.
//!
//! An array of heads leads to linked entries. An entry holds the key of the session's first packet and is compared with
//! both directions, as Libnids compares them; its number is that of the record. Batches are looked up in stages with
//! prefetching, as in every other table here: Libnids looks up one packet after the other.

use super::contender::{ABSENT, Contender, RecordPool, answer};
use crate::error::{BenchError, ensure};
use scalebricks_console::quantity::short_count;
use scalebricks_tables::dhash::{Direction, FlowHash, FlowKey, Key4};
use scalebricks_tables::prefetch_read;

pub(crate) const NAME: &str = "chained hash";

/// Buckets of Libnids, if its user says nothing.
pub(super) const LIBNIDS_BUCKETS: usize = 1040;

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Key4,
    /// The next entry's number; [`ABSENT`] ends the chain.
    next: u32,
}

/// A table with chaining.
pub(super) struct Chained {
    heads: Vec<u32>,
    entries: Vec<Entry>,
    records: RecordPool,
    note: Option<&'static str>,
}

impl Chained {
    /// A table for so many sessions in so many buckets, whose records are in random order or in that of arrival.
    pub(super) fn new(sessions: usize, buckets: usize, in_order: bool) -> Self {
        let unused = Entry { key: Key4::ZERO, next: ABSENT };
        Self {
            heads: vec![ABSENT; buckets.max(1)],
            entries: vec![unused; sessions],
            records: RecordPool::new(sessions, in_order),
            note: in_order.then_some("entries in order of arrival"),
        }
    }

    #[inline(always)]
    fn bucket(&self, hash: FlowHash) -> usize {
        ((u64::from(hash.index()) * self.heads.len() as u64) >> 32) as usize
    }

    /// Adds a session that is not there, in front of its chain.
    ///
    /// # Errors
    /// [`BenchError::Check`] if no record is left.
    pub(super) fn add_absent(&mut self, key: &Key4, hash: FlowHash) -> Result<u32, BenchError> {
        let (bucket, record) = (self.bucket(hash), self.records.take(NAME)?);
        let next = std::mem::replace(&mut self.heads[bucket], record);
        self.entries[record as usize] = Entry { key: *key, next };
        Ok(record)
    }

    /// Searches a chain.
    #[inline(always)]
    fn search(&self, mut at: u32, key: &Key4) -> Option<(u32, Direction)> {
        while at != ABSENT {
            let entry = &self.entries[at as usize];
            if let Some(direction) = entry.key.direction_of(key) {
                return Some((at, direction));
            }
            at = entry.next;
        }
        None
    }
}

impl Contender for Chained {
    fn name(&self) -> &'static str {
        NAME
    }

    fn variant(&self) -> Option<String> {
        let buckets = format!("{} buckets", short_count(self.heads.len() as u64));
        Some(self.note.map_or_else(|| buckets.clone(), |note| format!("{buckets}, {note}")))
    }

    fn table_bytes(&self) -> u64 {
        (size_of_val(&self.heads[..]) + size_of_val(&self.entries[..])) as u64
    }

    fn find(&self, keys: &[Key4], hashes: &[FlowHash], answers: &mut [u32]) {
        for &hash in hashes {
            prefetch_read(&self.heads[self.bucket(hash)]);
        }
        for (first, &hash) in answers.iter_mut().zip(hashes) {
            *first = self.heads[self.bucket(hash)];
            if let Some(entry) = self.entries.get(*first as usize) {
                prefetch_read(entry);
            }
        }
        for (first, key) in answers.iter_mut().zip(keys) {
            *first = self.search(*first, key).map_or(ABSENT, |(record, direction)| answer(record, direction));
        }
    }

    fn add(&mut self, keys: &[Key4], hashes: &[FlowHash], records: &mut [u32]) -> Result<(), BenchError> {
        self.find(keys, hashes, records);
        for ((key, &hash), record) in keys.iter().zip(hashes).zip(records) {
            let bucket = self.bucket(hash);
            let is_new = *record == ABSENT && self.search(self.heads[bucket], key).is_none();
            ensure(is_new, NAME, || "a new session was already there")?;
            *record = self.add_absent(key, hash)?;
        }
        Ok(())
    }

    fn remove(&mut self, keys: &[Key4], hashes: &[FlowHash], _: &[u32]) -> Result<(), BenchError> {
        for (key, &hash) in keys.iter().zip(hashes) {
            let bucket = self.bucket(hash);
            let (mut before, mut at) = (ABSENT, self.heads[bucket]);
            while let Some(entry) = self.entries.get(at as usize).copied() {
                if entry.key.direction_of(key).is_some() {
                    match self.entries.get_mut(before as usize) {
                        Some(before) => before.next = entry.next,
                        None => self.heads[bucket] = entry.next,
                    }
                    break;
                }
                (before, at) = (at, entry.next);
            }
            ensure(at != ABSENT, NAME, || "a session to delete is missing")?;
            self.records.give_back(at);
        }
        Ok(())
    }

    fn count(&mut self, answers: &[u32]) {
        self.records.count(answers);
    }

    fn counted(&self, record: u32) -> u64 {
        self.records.counted(record)
    }
}
