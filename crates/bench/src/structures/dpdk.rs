//! DPDK's tables with 16-byte keys: EFD, which answers for any key, and `rte_hash`, which is exact.
//!
//! A call is split into DPDK's bulk calls: at most 32 keys for EFD and 64 for `rte_hash`. EFD hashes keys
//! itself, three times, and accepts no hash; `rte_hash` accepts one, like all others. Debian's EFD has no
//! vector lookup (see [`Efd`]).

use super::flows::Flows;
use super::queries::{KeyForm, LookupMode, Queries, in_calls};
use super::{Build, Table};
use crate::error::{BenchError, OrFail};
use crate::gateway::dpdk::{eal, has_huge_pages, name};
use crate::keys::{self, KeySet};
use rayon::prelude::*;
use scalebricks_dpdk::peers::{Efd, HASH_KEYS, KEYS, Key, RteHash};
use scalebricks_tables::prefetch_read;
use scalebricks_types::KeyHash;
use std::ops::Range;

/// The name of `rte_hash`.
const HASH: &str = "rte_hash";

/// The kind of pages of DPDK's tables.
pub fn pages() -> &'static str {
    if has_huge_pages() == Some(false) { "ordinary pages" } else { "DPDK's huge pages" }
}

/// The keys of a set in the form for building.
fn words(set: &KeySet) -> Vec<Key> {
    (0..set.len() as u64).into_par_iter().map(keys::words).collect()
}

/// Converts a key set for a build of EFD.
pub fn prepare_efd(set: &KeySet) -> Build<'_> {
    let words = words(set);
    Box::new(move || {
        let mut table = Efd::new(eal()?, &name(), words.len()).of("efd")?;
        for (key, &value) in words.iter().zip(&set.values) {
            table.set(key, value).of("efd")?;
        }
        Ok(Box::new(FilledEfd { table, keys: words.len() }))
    })
}

struct FilledEfd {
    table: Efd,
    keys: usize,
}

impl Table for FilledEfd {
    fn table_bytes(&self) -> u64 {
        Efd::table_bytes(self.keys) as u64
    }

    fn form(&self) -> KeyForm {
        KeyForm::Words
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        let mut words = queries.words.chunks(mode.keys());
        in_calls(mode, queries.hashes, answers, |_, answers| {
            let words = words.next().unwrap_or_default();
            if let ([key], [answer]) = (words, &mut *answers) {
                *answer = self.table.value(key);
                return;
            }
            for (keys, answers) in words.chunks(KEYS).zip(answers.chunks_mut(KEYS)) {
                self.table.values(keys, answers);
            }
        });
    }

    fn note(&self) -> Option<&'static str> {
        Some("no vector lookup")
    }

    fn on_huge_pages(&self) -> Option<bool> {
        has_huge_pages()
    }
}

/// Converts a key set for a build of `rte_hash`.
pub fn prepare_hash(set: &KeySet) -> Build<'_> {
    let words = words(set);
    Box::new(move || {
        let mut table = HashTable::new(words.len(), |value: u8| value)?;
        for ((key, &hash), &value) in words.iter().zip(&set.hashes).zip(&set.values) {
            table.values.insert(key, hash, value)?;
        }
        Ok(Box::new(table))
    })
}

/// `rte_hash`, which maps keys to positions, with an array of values.
#[derive(Debug)]
pub struct ValueHash<V> {
    table: RteHash,
    values: Vec<V>,
}

impl<V: Copy + Default> ValueHash<V> {
    /// A table with room for `keys` keys.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if there is no memory.
    pub fn new(keys: usize) -> Result<Self, BenchError> {
        let table = RteHash::new(eal()?, &name(), keys).of(HASH)?;
        Ok(Self { values: vec![V::default(); table.places()], table })
    }

    /// Inserts a key.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses it.
    pub fn insert(&mut self, key: &Key, hash: KeyHash, value: V) -> Result<(), BenchError> {
        let place = self.table.add(key, short(hash)).of(HASH)?;
        self.values[place] = value;
        Ok(())
    }

    /// The value of one key.
    fn get(&self, key: &Key, hash: KeyHash) -> Option<&V> {
        self.table.find_one(key, short(hash)).and_then(|place| self.values.get(place))
    }

    /// Calls `each` with the value of each key, in order. DPDK finds at most [`HASH_KEYS`] keys per call.
    #[inline]
    pub fn find(&self, keys: &[Key], hashes: &[KeyHash], mut each: impl FnMut(Option<&V>)) {
        let (mut short_hashes, mut places) = ([0; HASH_KEYS], [-1; HASH_KEYS]);
        for (keys, hashes) in keys.chunks(HASH_KEYS).zip(hashes.chunks(HASH_KEYS)) {
            let (short_hashes, places) = (&mut short_hashes[..keys.len()], &mut places[..keys.len()]);
            short_hashes.iter_mut().zip(hashes).for_each(|(own, &hash)| *own = short(hash));
            self.table.find(keys, short_hashes, places);
            let values = places.iter().map(|&place| self.values.get(usize::try_from(place).ok()?));
            values.clone().flatten().for_each(|value| prefetch_read(value));
            values.for_each(&mut each);
        }
    }

    /// According to its documentation: a power of two of one-line buckets for eight keys each, 32 bytes per
    /// key with its position, and the values.
    pub fn table_bytes(&self) -> usize {
        let places = self.values.len();
        places.next_power_of_two() / 8 * 64 + places * (32 + size_of::<V>())
    }
}

/// The hash bits that `rte_hash` takes.
const fn short(hash: KeyHash) -> u32 {
    hash.get() as u32
}

/// `rte_hash` with a function that decodes an answer.
pub struct HashTable<V> {
    values: ValueHash<V>,
    decode: fn(V) -> u8,
}

impl<V: Copy + Default> HashTable<V> {
    fn new(keys: usize, decode: fn(V) -> u8) -> Result<Self, BenchError> {
        Ok(Self { values: ValueHash::new(keys)?, decode })
    }

    /// The answer for a value; for none, the answer of exact tables to unknown keys.
    fn answer(&self, value: Option<&V>) -> u8 {
        value.map_or(u8::MAX, |&value| (self.decode)(value))
    }
}

impl<V: Copy + Default + Send + Sync> Table for HashTable<V> {
    fn table_bytes(&self) -> u64 {
        self.values.table_bytes() as u64
    }

    fn form(&self) -> KeyForm {
        KeyForm::Words
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        let mut words = queries.words.chunks(mode.keys());
        in_calls(mode, queries.hashes, answers, |hashes, answers| {
            let words = words.next().unwrap_or_default();
            if let ([key], [hash], [answer]) = (words, hashes, &mut *answers) {
                *answer = self.answer(self.values.get(key, *hash));
                return;
            }
            let mut answers = answers.iter_mut();
            self.values.find(words, hashes, |value| {
                if let Some(answer) = answers.next() {
                    *answer = self.answer(value);
                }
            });
        });
    }

    fn on_huge_pages(&self) -> Option<bool> {
        has_huge_pages()
    }
}

/// `rte_hash` with flows and 16-byte values.
pub type FlowHash = HashTable<[u64; 2]>;

impl FlowHash {
    /// An empty table with room for `keys` keys.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if there is no memory.
    pub fn of_flows(keys: usize) -> Result<Self, BenchError> {
        Self::new(keys, |value| value[0] as u8) // the part of it that is checked has at most 8 bits
    }

    /// Inserts the flows at these positions.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_flows(&mut self, flows: &Flows<'_>, mut places: Range<usize>) -> Result<(), BenchError> {
        places.try_for_each(|place| {
            let (key, hash, value) = flows.at(place);
            self.values.insert(key, hash, value)
        })
    }

    /// Removes the flows at these positions.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if a flow is missing.
    pub fn remove_flows(&mut self, flows: &Flows<'_>, mut places: Range<usize>) -> Result<(), BenchError> {
        places.try_for_each(|place| {
            let (key, hash, _) = flows.at(place);
            self.values.table.remove(key, short(hash)).map(drop).of(HASH)
        })
    }
}
