//! Our cuckoo table and hashbrown's, with the canonical form of keys: they know no directions. A value is a record, and
//! a bit that says whether the session's first packet has the canonical form's direction.

use super::contender::{ABSENT, Contender, RecordPool, SECRET};
use crate::error::{BenchError, OrFail, ensure};
use hashbrown::HashTable;
use scalebricks_tables::cuckoo::CuckooTable;
use scalebricks_tables::dhash::{FlowHash, Key4};
use scalebricks_types::{KeyHash, KeyHasher};

pub(crate) const CUCKOO: &str = "cuckoo";
pub(crate) const HASHBROWN: &str = "hashbrown";

/// The bit of a value for which the first packet's ends were exchanged.
const SWAPPED: u32 = 1 << 31;

/// The answer for a packet, from the value of its session and whether its ends were exchanged.
#[inline(always)]
const fn answer_of(value: u32, is_swapped: bool) -> u32 {
    value ^ (is_swapped as u32) << 31
}

/// Our cuckoo table, at its usual load of 95 %.
pub(super) struct Cuckoo {
    table: CuckooTable<2, 1, KeyHasher>,
    records: RecordPool,
}

impl Cuckoo {
    pub(super) fn new(sessions: usize) -> Self {
        let slots = CuckooTable::<2, 1, KeyHasher>::slots_for(sessions);
        Self {
            table: CuckooTable::new(slots, 1, KeyHasher::new(SECRET)),
            records: RecordPool::new(sessions, false),
        }
    }
}

impl Contender for Cuckoo {
    fn name(&self) -> &'static str {
        CUCKOO
    }

    fn table_bytes(&self) -> u64 {
        self.table.table_bytes() as u64
    }

    fn find(&self, keys: &[Key4], hashes: &[FlowHash], answers: &mut [u32]) {
        use super::contender::BATCH;
        let (mut words, mut own, mut values) = ([[0; 2]; BATCH], [KeyHash::default(); BATCH], [None; BATCH]);
        for ((((key, hash), words), own), answer) in
            keys.iter().zip(hashes).zip(&mut words).zip(&mut own).zip(answers.iter_mut())
        {
            let (canonical, is_swapped) = key.canonical();
            (*words, *own, *answer) = (canonical, KeyHash::new(hash.word()), u32::from(is_swapped));
        }
        let count = keys.len();
        self.table.get_batch(&words[..count], &own[..count], &mut values[..count]);
        for (answer, value) in answers.iter_mut().zip(values) {
            *answer = value.map_or(ABSENT, |[value]: [u64; 1]| answer_of(value as u32, *answer == 1));
        }
    }

    fn add(&mut self, keys: &[Key4], hashes: &[FlowHash], records: &mut [u32]) -> Result<(), BenchError> {
        let mut writer = self.table.write();
        for &hash in hashes {
            writer.prefetch(KeyHash::new(hash.word()));
        }
        for ((key, hash), record) in keys.iter().zip(hashes).zip(records) {
            let (words, is_swapped) = key.canonical();
            *record = self.records.take(CUCKOO)?;
            let value = *record | u32::from(is_swapped) << 31;
            // Refuses a key that is already there.
            writer.insert(&words, KeyHash::new(hash.word()), &[value.into()]).of(CUCKOO)?;
        }
        Ok(())
    }

    fn remove(&mut self, keys: &[Key4], hashes: &[FlowHash], _: &[u32]) -> Result<(), BenchError> {
        let mut writer = self.table.write();
        for &hash in hashes {
            writer.prefetch(KeyHash::new(hash.word()));
        }
        for (key, hash) in keys.iter().zip(hashes) {
            let [value] = writer.remove(&key.canonical().0, KeyHash::new(hash.word())).of(CUCKOO)?;
            self.records.give_back(value as u32 & !SWAPPED);
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

/// A key with its value. The table stores no hash, so growth would need it again; it does not grow.
type Item = ([u64; 2], u32);

/// hashbrown's table, with room for all sessions.
pub(super) struct HashBrown {
    table: HashTable<Item>,
    hasher: KeyHasher,
    records: RecordPool,
}

impl HashBrown {
    pub(super) fn new(sessions: usize) -> Self {
        Self {
            table: HashTable::with_capacity(sessions),
            hasher: KeyHasher::new(SECRET),
            records: RecordPool::new(sessions, false),
        }
    }
}

impl Contender for HashBrown {
    fn name(&self) -> &'static str {
        HASHBROWN
    }

    fn variant(&self) -> Option<String> {
        crate::structures::native::handicap().map(str::to_owned)
    }

    fn table_bytes(&self) -> u64 {
        self.table.allocation_size() as u64
    }

    fn find(&self, keys: &[Key4], hashes: &[FlowHash], answers: &mut [u32]) {
        for ((key, hash), answer) in keys.iter().zip(hashes).zip(answers) {
            let (words, is_swapped) = key.canonical();
            let found = self.table.find(hash.word(), |item| item.0 == words);
            *answer = found.map_or(ABSENT, |&(_, value)| answer_of(value, is_swapped));
        }
    }

    fn add(&mut self, keys: &[Key4], hashes: &[FlowHash], records: &mut [u32]) -> Result<(), BenchError> {
        use scalebricks_tables::cuckoo::HashWords;
        for ((key, hash), record) in keys.iter().zip(hashes).zip(records) {
            let (words, is_swapped) = key.canonical();
            let hasher = self.hasher;
            let entry = self.table.entry(
                hash.word(),
                |item| item.0 == words,
                |item| HashWords::<2>::hash_words(&hasher, &item.0).get(),
            );
            let hashbrown::hash_table::Entry::Vacant(place) = entry else {
                return Err(BenchError::check(HASHBROWN, "a new session was already there"));
            };
            *record = self.records.take(HASHBROWN)?;
            place.insert((words, *record | u32::from(is_swapped) << 31));
        }
        Ok(())
    }

    fn remove(&mut self, keys: &[Key4], hashes: &[FlowHash], _: &[u32]) -> Result<(), BenchError> {
        for (key, hash) in keys.iter().zip(hashes) {
            let words = key.canonical().0;
            let entry = self.table.find_entry(hash.word(), |item| item.0 == words);
            ensure(entry.is_ok(), HASHBROWN, || "a session to delete is missing")?;
            if let Ok(entry) = entry {
                let ((_, value), _) = entry.remove();
                self.records.give_back(value & !SWAPPED);
            }
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
