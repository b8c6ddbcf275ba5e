//! The cuckoo table with one-word keys.

use super::queries::{LookupMode, Queries, exact, in_batches};
use super::{Build, Table};
use crate::error::BenchError;
use crate::keys::KeySet;
use scalebricks_tables::cuckoo::{CuckooTable, HashWords};
use scalebricks_types::KeyHash;
use std::ops::Range;

/// Keys for which an insert prefetches.
const AHEAD: usize = 8;

/// Hashes keys that are hashes already.
#[derive(Debug, Clone, Copy)]
pub struct Hashed;

impl HashWords<1> for Hashed {
    #[inline]
    fn hash_words(&self, key: &[u64; 1]) -> KeyHash {
        KeyHash::new(key[0])
    }
}

type Cuckoo = CuckooTable<1, 1, Hashed>;

/// Inserts the keys at these positions as one writer with prefetching. `at` returns key and value.
///
/// # Errors
/// [`BenchError::Structure`] if the table refuses a key.
pub fn insert_run<const K: usize, const V: usize, H: HashWords<K>>(
    table: &CuckooTable<K, V, H>,
    hashes: &[KeyHash],
    places: Range<usize>,
    at: impl Fn(usize) -> ([u64; K], [u64; V]),
) -> Result<(), BenchError> {
    let mut writer = table.write();
    for place in places {
        if let Some(&ahead) = hashes.get(place + AHEAD) {
            writer.prefetch(ahead);
        }
        let (key, value) = at(place);
        writer.insert(&key, hashes[place], &value).map_err(|error| BenchError::of("cuckoo", error))?;
    }
    Ok(())
}

/// Keys and values to build from.
pub struct Prepared<'a>(&'a KeySet);

impl<'a> Prepared<'a> {
    pub const fn new(set: &'a KeySet) -> Self {
        Self(set)
    }
}

impl Build for Prepared<'_> {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        let KeySet { hashes, values, .. } = self.0;
        let table = Cuckoo::new(Cuckoo::slots_for(hashes.len()), 1, Hashed);
        insert_run(&table, hashes, 0..hashes.len(), |place| ([hashes[place].get()], [values[place].into()]))?;
        Ok(Box::new(Filled(table)))
    }
}

struct Filled(Cuckoo);

impl Table for Filled {
    fn table_bytes(&self) -> u64 {
        self.0.table_bytes() as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        if mode == LookupMode::Loop {
            for (&hash, answer) in queries.hashes.iter().zip(answers) {
                *answer = exact(self.0.get(&[hash.get()], hash));
            }
            return;
        }
        let mut keys = Vec::new();
        let ask = |_: &[KeyHash], hashes: &[KeyHash], values: &mut [_]| {
            keys.clear();
            keys.extend(hashes.iter().map(|hash| [hash.get()]));
            self.0.get_batch(&keys, hashes, values);
        };
        in_batches(mode, (queries.hashes, queries.hashes), answers, None, ask, exact);
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        for (place, &hash) in queries.hashes.iter().enumerate() {
            self.0.touched(&[hash.get()], hash, &mut |at| visit(place, at));
        }
    }
}
