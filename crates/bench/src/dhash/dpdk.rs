//! DPDK's `rte_hash` with the canonical form of keys. It gives each key a position, which leads to a record and to the
//! direction of the first packet.

use super::contender::{ABSENT, BATCH, Contender, RecordPool};
use crate::error::{BenchError, OrFail, ensure};
use crate::gateway::dpdk::{eal, name};
use crate::structures::dpdk::pages;
use scalebricks_dpdk::peers::RteHash as Table;
use scalebricks_tables::dhash::{FlowHash, Key4};
use scalebricks_tables::prefetch_read;

pub(super) const NAME: &str = "rte_hash";

/// `rte_hash` with an array of records by position.
pub(super) struct RteHash {
    table: Table,
    /// The record of each position, and whether the first packet's ends were exchanged.
    values: Vec<u32>,
    records: RecordPool,
}

impl RteHash {
    /// An empty table for so many sessions.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if there is no memory.
    pub(super) fn new(sessions: usize) -> Result<Self, BenchError> {
        let table = Table::new(eal()?, &name(), sessions).of(NAME)?;
        Ok(Self { values: vec![ABSENT; table.places()], table, records: RecordPool::new(sessions, false) })
    }
}

/// The hash bits that `rte_hash` takes.
const fn short(hash: FlowHash) -> u32 {
    hash.word() as u32
}

impl Contender for RteHash {
    fn name(&self) -> &'static str {
        NAME
    }

    fn variant(&self) -> Option<String> {
        Some(pages().to_owned())
    }

    /// By its documentation: buckets of a line for eight keys each, a power of two, and 32 bytes per key; and the
    /// values.
    fn table_bytes(&self) -> u64 {
        let places = self.values.len();
        (places.next_power_of_two() / 8 * 64 + places * (32 + size_of::<u32>())) as u64
    }

    fn find(&self, keys: &[Key4], hashes: &[FlowHash], answers: &mut [u32]) {
        let (mut words, mut own, mut places) = ([[0; 2]; BATCH], [0; BATCH], [-1; BATCH]);
        for ((((key, &hash), words), own), answer) in
            keys.iter().zip(hashes).zip(&mut words).zip(&mut own).zip(answers.iter_mut())
        {
            let (canonical, is_swapped) = key.canonical();
            (*words, *own, *answer) = (canonical, short(hash), u32::from(is_swapped) << 31);
        }
        let count = keys.len();
        self.table.find(&words[..count], &mut own[..count], &mut places[..count]);
        let value = |place: i32| self.values.get(usize::try_from(place).ok()?);
        for place in &places[..count] {
            if let Some(value) = value(*place) {
                prefetch_read(value);
            }
        }
        for (answer, place) in answers.iter_mut().zip(places) {
            *answer = value(place).map_or(ABSENT, |value| value ^ *answer);
        }
    }

    fn add(&mut self, keys: &[Key4], hashes: &[FlowHash], records: &mut [u32]) -> Result<(), BenchError> {
        for ((key, &hash), record) in keys.iter().zip(hashes).zip(records) {
            let (words, is_swapped) = key.canonical();
            // It returns the position of a key that is already there.
            let place = self.table.add(&words, short(hash)).of(NAME)?;
            ensure(self.values[place] == ABSENT, NAME, || "a new session was already there")?;
            *record = self.records.take(NAME)?;
            self.values[place] = *record | u32::from(is_swapped) << 31;
        }
        Ok(())
    }

    fn remove(&mut self, keys: &[Key4], hashes: &[FlowHash], _: &[u32]) -> Result<(), BenchError> {
        for (key, &hash) in keys.iter().zip(hashes) {
            let place = self.table.remove(&key.canonical().0, short(hash)).of(NAME)?;
            let value = std::mem::replace(&mut self.values[place], ABSENT);
            self.records.give_back(value & !(1 << 31));
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
