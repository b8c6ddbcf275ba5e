//! The cuckoo table with keys of one word.

use super::{Build, Mode, Questions, Table};
use crate::error::BenchError;
use crate::keys::KeySet;
use scalebricks_tables::cuckoo::{CuckooTable, HashWords};
use scalebricks_types::KeyHash;

/// Most keys a call.
const MAX_BATCH: usize = 256;

/// Keys an insert asks ahead for.
const AHEAD: usize = 8;

/// Keys that are hashes already.
#[derive(Debug, Clone, Copy)]
pub struct Hashed;

impl HashWords<1> for Hashed {
    #[inline]
    fn hash_words(&self, key: &[u64; 1]) -> KeyHash {
        KeyHash::new(key[0])
    }
}

type Cuckoo = CuckooTable<1, 1, Hashed>;

/// Keys and values, ready to be built from.
pub struct Prepared<'a>(&'a KeySet);

impl<'a> Prepared<'a> {
    pub const fn new(set: &'a KeySet) -> Self {
        Self(set)
    }
}

impl Build for Prepared<'_> {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        let table = Cuckoo::new(Cuckoo::slots_for(self.0.len()), 1, Hashed);
        let mut writer = table.write();
        for (place, (&hash, &value)) in self.0.hashes.iter().zip(&self.0.values).enumerate() {
            if let Some(&ahead) = self.0.hashes.get(place + AHEAD) {
                writer.prefetch(ahead);
            }
            writer
                .insert(&[hash.get()], hash, &[value.into()])
                .map_err(|error| BenchError::of("cuckoo", error))?;
        }
        drop(writer);
        Ok(Box::new(Filled(table)))
    }
}

struct Filled(Cuckoo);

impl Table for Filled {
    fn table_bytes(&self) -> u64 {
        self.0.table_bytes() as u64
    }

    fn lookup(&self, mode: Mode, questions: Questions<'_>, answers: &mut [u8]) {
        let batch = mode.batch().unwrap_or(MAX_BATCH).clamp(1, MAX_BATCH);
        let (mut keys, mut values) = ([[0]; MAX_BATCH], [None; MAX_BATCH]);
        for (hashes, answers) in questions.hashes.chunks(batch).zip(answers.chunks_mut(batch)) {
            let (keys, values) = (&mut keys[..hashes.len()], &mut values[..hashes.len()]);
            for (key, hash) in keys.iter_mut().zip(hashes) {
                *key = [hash.get()];
            }
            self.0.get_batch(keys, hashes, values);
            for (answer, value) in answers.iter_mut().zip(values) {
                *answer = value.map_or(u8::MAX, |[value]| value as u8); // a value of at most 8 bits
            }
        }
    }
}
