//! DPDK's tables with 16-byte keys: EFD, which answers for any key, and `rte_hash`, which is exact.
//!
//! A call is split into DPDK's bulk calls: at most 32 keys for EFD and 64 for `rte_hash`. EFD hashes keys
//! itself, three times, and accepts no hash; `rte_hash` accepts one, like all others. Debian's EFD has no
//! vector lookup (see [`Efd`]).

use super::flows::Flows;
use super::queries::{KeyForm, LookupMode, Queries, in_calls};
use super::{Build, Table};
use crate::error::BenchError;
use crate::gateway::dpdk::{eal, has_huge_pages, name};
use crate::keys::{self, KeySet};
use rayon::prelude::*;
use scalebricks_dpdk::peers::{Efd, HASH_KEYS, KEYS, Key, RteHash};
use scalebricks_tables::prefetch_read;
use scalebricks_types::KeyHash;
use std::ops::Range;

/// The kind of pages of DPDK's tables.
pub fn pages() -> &'static str {
    if has_huge_pages() == Some(false) { "ordinary pages" } else { "DPDK's huge pages" }
}

/// The keys of a set in the form for building.
fn words(set: &KeySet) -> Vec<Key> {
    (0..set.len() as u64).into_par_iter().map(keys::words).collect()
}

/// Keys and values to build EFD from.
pub struct PreparedEfd<'a> {
    set: &'a KeySet,
    words: Vec<Key>,
}

impl<'a> PreparedEfd<'a> {
    /// The keys and values of `set`.
    pub fn new(set: &'a KeySet) -> Self {
        Self { set, words: words(set) }
    }
}

impl Build for PreparedEfd<'_> {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        let failed = |error| BenchError::of("efd", error);
        let keys = self.words.len();
        let mut table = Efd::new(eal()?, &name(), keys).map_err(failed)?;
        for (key, &value) in self.words.iter().zip(&self.set.values) {
            table.set(key, value).map_err(failed)?;
        }
        Ok(Box::new(FilledEfd { table, keys }))
    }
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

/// Keys and values to build `rte_hash` from.
pub struct PreparedHash<'a> {
    set: &'a KeySet,
    words: Vec<Key>,
}

impl<'a> PreparedHash<'a> {
    /// The keys and values of `set`.
    pub fn new(set: &'a KeySet) -> Self {
        Self { set, words: words(set) }
    }
}

impl Build for PreparedHash<'_> {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        let mut table = Valued::new(self.words.len(), |value: u8| value)?;
        for ((key, &hash), &value) in self.words.iter().zip(&self.set.hashes).zip(&self.set.values) {
            table.insert(key, hash, value)?;
        }
        Ok(Box::new(table))
    }
}

/// `rte_hash` with an array of values, and a function that decodes an answer.
pub struct Valued<V> {
    table: RteHash,
    values: Vec<V>,
    decode: fn(V) -> u8,
}

impl<V: Copy + Default> Valued<V> {
    fn new(keys: usize, decode: fn(V) -> u8) -> Result<Self, BenchError> {
        let table = RteHash::new(eal()?, &name(), keys).map_err(refused)?;
        Ok(Self { values: vec![V::default(); table.places()], table, decode })
    }

    fn insert(&mut self, key: &Key, hash: KeyHash, value: V) -> Result<(), BenchError> {
        let place = self.table.add(key, short(hash)).map_err(refused)?;
        self.values[place] = value;
        Ok(())
    }

    /// The answer at a position; for no position, the answer of exact tables to unknown keys.
    fn at(&self, place: Option<usize>) -> u8 {
        place.and_then(|place| self.values.get(place)).map_or(u8::MAX, |&value| (self.decode)(value))
    }

    fn call(&self, words: &[Key], hashes: &[KeyHash], answers: &mut [u8]) {
        let (mut short_hashes, mut places) = ([0; HASH_KEYS], [-1; HASH_KEYS]);
        let calls = words.chunks(HASH_KEYS).zip(hashes.chunks(HASH_KEYS)).zip(answers.chunks_mut(HASH_KEYS));
        for ((words, hashes), answers) in calls {
            let (short_hashes, places) = (&mut short_hashes[..words.len()], &mut places[..words.len()]);
            short_hashes.iter_mut().zip(hashes).for_each(|(own, &hash)| *own = short(hash));
            self.table.find(words, short_hashes, places);
            for value in places.iter().filter_map(|&place| self.values.get(usize::try_from(place).ok()?)) {
                prefetch_read(value);
            }
            for (answer, &place) in answers.iter_mut().zip(&*places) {
                *answer = self.at(usize::try_from(place).ok());
            }
        }
    }
}

/// The hash bits that `rte_hash` takes.
const fn short(hash: KeyHash) -> u32 {
    hash.get() as u32
}

fn refused(error: scalebricks_dpdk::DpdkError) -> BenchError {
    BenchError::of("rte_hash", error)
}

impl<V: Copy + Default + Send + Sync> Table for Valued<V> {
    /// According to its documentation: a power of two of one-line buckets for eight keys each, 32 bytes per
    /// key with its position, and the values.
    fn table_bytes(&self) -> u64 {
        let places = self.values.len();
        (places.next_power_of_two() / 8 * 64 + places * (32 + size_of::<V>())) as u64
    }

    fn form(&self) -> KeyForm {
        KeyForm::Words
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        let mut words = queries.words.chunks(mode.keys());
        in_calls(mode, queries.hashes, answers, |hashes, answers| {
            let words = words.next().unwrap_or_default();
            if let ([key], [hash], [answer]) = (words, hashes, &mut *answers) {
                *answer = self.at(self.table.find_one(key, short(*hash)));
                return;
            }
            self.call(words, hashes, answers);
        });
    }

    fn on_huge_pages(&self) -> Option<bool> {
        has_huge_pages()
    }
}

/// `rte_hash` with flows and 16-byte values.
pub type FlowHash = Valued<[u64; 2]>;

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
    pub fn insert_flows(&mut self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        for place in places {
            let (key, hash, value) = flows.at(place);
            self.insert(key, hash, value)?;
        }
        Ok(())
    }

    /// Removes the flows at these positions.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if a flow is missing.
    pub fn remove_flows(&mut self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        for place in places {
            let (key, hash, _) = flows.at(place);
            self.table.remove(key, short(hash)).map_err(refused)?;
        }
        Ok(())
    }
}
