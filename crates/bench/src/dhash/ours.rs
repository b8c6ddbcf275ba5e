//! Our table.

use super::buckets_for;
use super::contender::{ABSENT, BATCH, Contender, Counts, SECRET, record_of};
use crate::error::{BenchError, OrFail, ensure};
use scalebricks_tables::dhash::{
    AddError, Added, Column, Config, DHash, FlowHash, Found, Growth, Key4, Pool, Record, Records, Signature,
};
use scalebricks_types::HashSeed;

pub(crate) const NAME: &str = "dhash";

/// A table with the paper's load, of fixed size.
pub(super) fn config(sessions: usize, signature: Signature, secret: HashSeed) -> Config {
    let entries = sessions as u32 / 64 + 64;
    let pool = Pool { entries, max_entries: entries.max(sessions as u32) };
    let buckets = buckets_for(sessions);
    Config { buckets, growth: Growth::Fixed, pool, signature, ..Config::for_sessions(1, secret) }
}

/// `tables::dhash` with records of 64 bytes.
pub(super) struct Ours {
    table: DHash<Key4>,
    counts: Column<Counts>,
}

impl Ours {
    /// An empty table for so many sessions.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if there is no memory.
    pub(super) fn new(sessions: usize, signature: Signature) -> Result<Self, BenchError> {
        let mut records = Records::new();
        let counts = records.reserve();
        Ok(Self { table: DHash::new(&config(sessions, signature, SECRET), records).of(NAME)?, counts })
    }
}

impl Contender for Ours {
    fn name(&self) -> &'static str {
        NAME
    }

    fn table_bytes(&self) -> u64 {
        let memory = self.table.memory();
        (memory.lookup_bytes() + memory.keys_bytes) as u64
    }

    fn find(&self, keys: &[Key4], hashes: &[FlowHash], answers: &mut [u32]) {
        let mut found = [None; BATCH];
        let found = &mut found[..keys.len()];
        self.table.find_batch_hashed(keys, hashes, found);
        for (answer, found) in answers.iter_mut().zip(found) {
            *answer = found.map_or(ABSENT, |Found { record, direction }| {
                super::contender::answer(record.get(), direction)
            });
        }
    }

    fn add(&mut self, keys: &[Key4], hashes: &[FlowHash], records: &mut [u32]) -> Result<(), BenchError> {
        let mut added = [Err(AddError::PoolFull { max_entries: 0 }); BATCH];
        let added = &mut added[..keys.len()];
        self.table.find_or_add_batch_hashed(keys, hashes, added);
        for (record, added) in records.iter_mut().zip(added) {
            let Added { record: given, is_new, .. } = added.of(NAME)?;
            ensure(is_new, NAME, || "a new session was already there")?;
            *record = given.get();
        }
        Ok(())
    }

    fn remove(&mut self, _: &[Key4], _: &[FlowHash], answers: &[u32]) -> Result<(), BenchError> {
        for &answer in answers {
            let is_deleted = self.table.delete(Record::new(record_of(answer)));
            ensure(is_deleted, NAME, || "a session to delete is missing")?;
        }
        Ok(())
    }

    fn count(&mut self, answers: &[u32]) {
        let counts = self.table.column_mut(self.counts);
        let records = || answers.iter().filter(|&&answer| answer != ABSENT).map(|&answer| record_of(answer));
        records().for_each(|record| counts.prefetch(Record::new(record)));
        for record in records() {
            counts[Record::new(record)].packets += 1;
        }
    }

    fn counted(&self, record: u32) -> u64 {
        self.table.column(self.counts)[Record::new(record)].packets
    }
}
