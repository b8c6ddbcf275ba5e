//! Exact tables: the cuckoo table with one-word keys, the full copy of all flows, and the hash map of Rust's
//! standard library.

use super::queries::{KeyForm, LookupMode, Queries, exact, in_batches, in_calls, look_up_each, touch_each};
use super::{Build, Table};
use crate::error::{BenchError, OrFail};
use crate::keys::{self, KeySet};
use hashbrown::HashMap;
use rayon::prelude::*;
use scalebricks_tables::cuckoo::{CuckooTable, HashWords};
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::full_copy::FullCopy;
use scalebricks_tables::{Fib, FibValue, Gpt, KeyBatch};
use scalebricks_types::{FlowKey, KeyHash, NodeHint};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

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

/// The cuckoo table with hashes as keys.
pub type Cuckoo = CuckooTable<1, 1, Hashed>;

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
        writer.insert(&key, hashes[place], &value).of("cuckoo")?;
    }
    Ok(())
}

/// Builds the cuckoo table.
pub fn cuckoo(KeySet { hashes, values, .. }: &KeySet) -> Build<'_> {
    Box::new(move || {
        let table = Cuckoo::new(Cuckoo::slots_for(hashes.len()), 1, Hashed);
        let at = |place: usize| ([hashes[place].get()], [values[place].into()]);
        insert_run(&table, hashes, 0..hashes.len(), at)?;
        Ok(Box::new(table))
    })
}

impl Table for Cuckoo {
    fn table_bytes(&self) -> u64 {
        self.table_bytes() as u64
    }

    fn lookup(&self, mode: LookupMode, Queries { hashes, .. }: Queries<'_>, answers: &mut [u8]) {
        if mode == LookupMode::Loop {
            let mut reader = self.reader();
            return look_up_each(hashes, hashes, answers, |key, hash| reader.get(&[key.get()], hash));
        }
        let mut keys = Vec::new();
        let ask = |_: &[KeyHash], hashes: &[KeyHash], values: &mut [_]| {
            keys.clear();
            keys.extend(hashes.iter().map(|hash| [hash.get()]));
            self.get_batch(&keys, hashes, values);
        };
        in_batches(mode, (hashes, hashes), answers, None, ask, exact);
    }

    fn touched(&self, Queries { hashes, .. }: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        touch_each(hashes, hashes, visit, |key, hash, visit| self.touched(&[key.get()], hash, visit));
    }
}

/// Converts a key set for a build of the full copy.
pub fn full_copy(set: &KeySet) -> Build<'_> {
    let flows: Vec<FlowKey> = (0..set.len() as u64).into_par_iter().map(keys::flow).collect();
    Box::new(move || Ok(Box::new(FullCopyTable::new(&flows, set)?)))
}

/// The full copy for batches, and its FIB for single keys.
pub struct FullCopyTable(pub Arc<FullCopy>);

impl FullCopyTable {
    /// The copy of these flows with hashes and values of `set`.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn new(flows: &[FlowKey], set: &KeySet) -> Result<Self, BenchError> {
        let fib = PartialFib::new(FibConfig::new(keys::HASHER).short_keys(flows.len()));
        for ((flow, &hash), &value) in flows.iter().zip(&set.hashes).zip(&set.values) {
            fib.insert(flow, hash, [value.into(), 0]).of("full-copy")?;
        }
        let node = |value: FibValue| NodeHint::new(value[0] as u16); // a value of at most 8 bits
        Ok(Self(Arc::new(FullCopy::new(Arc::new(fib), node))))
    }
}

impl Table for FullCopyTable {
    fn table_bytes(&self) -> u64 {
        self.0.table_bytes() as u64
    }

    fn form(&self) -> KeyForm {
        KeyForm::Flow
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        if mode == LookupMode::Loop {
            let fib = self.0.fib();
            return look_up_each(queries.flows, queries.hashes, answers, |flow, hash| fib.get(flow, hash));
        }
        let mut reader = Arc::clone(&self.0).reader();
        let ask = |flows: &[_], hashes: &[_], hints: &mut [_]| {
            reader.lookup_batch(KeyBatch::new(flows, hashes), hints);
        };
        // At most 8 bits. A miss matches no value or is detected as a wrong answer.
        let decode = |hint: NodeHint| hint.get() as u8;
        in_batches(mode, (queries.flows, queries.hashes), answers, NodeHint::NONE, ask, decode);
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        let fib = self.0.fib();
        touch_each(queries.flows, queries.hashes, visit, |flow, hash, visit| fib.touched(flow, hash, visit));
    }
}

/// Uses the key as its hash.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    /// Not called for the keys used here, but must hash whole words.
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// A hash map whose keys contain their hashes.
pub type IdentityMap<K, V> = HashMap<K, V, BuildHasherDefault<IdentityHasher>>;

/// Builds the hash map.
pub fn hash_map(set: &KeySet) -> Build<'_> {
    Box::new(move || {
        let mut map = IdentityMap::with_capacity_and_hasher(set.len(), BuildHasherDefault::default());
        map.extend(set.hashes.iter().map(|hash| hash.get()).zip(set.values.iter().copied()));
        Ok(Box::new(map))
    })
}

impl Table for IdentityMap<u64, u8> {
    fn table_bytes(&self) -> u64 {
        self.allocation_size() as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        in_calls(mode, queries.hashes, answers, |hashes, answers| {
            for (hash, answer) in hashes.iter().zip(answers) {
                *answer = self.get(&hash.get()).copied().unwrap_or(u8::MAX);
            }
        });
    }
}
