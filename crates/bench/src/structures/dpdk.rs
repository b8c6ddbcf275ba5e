//! DPDK's tables: EFD, which answers any key, and `rte_hash`, which is exact. Both take keys of 16 bytes.
//!
//! A call of many keys is as many of DPDK's as its own bulk calls need: 32 keys at the most for EFD, 64 for `rte_hash`. EFD
//! hashes keys itself, three times, and cannot be given a hash; `rte_hash` is given it, as all others are. Debian's EFD has no
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

/// On what pages they lie.
pub fn pages() -> &'static str {
    if has_huge_pages() == Some(false) { "ordinary pages" } else { "DPDK's huge pages" }
}

/// The keys of a set, as building takes them.
fn words(set: &KeySet) -> Vec<Key> {
    (0..set.len() as u64).into_par_iter().map(keys::words).collect()
}

/// Keys and values, ready to build EFD from.
pub struct PreparedEfd<'a> {
    set: &'a KeySet,
    words: Vec<Key>,
}

impl<'a> PreparedEfd<'a> {
    /// Those of `set`.
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

/// Keys and values, ready to build `rte_hash` from.
pub struct PreparedHash<'a> {
    set: &'a KeySet,
    words: Vec<Key>,
}

impl<'a> PreparedHash<'a> {
    /// Those of `set`.
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

/// `rte_hash`, an array of a value for each of its places, and how an answer is read from a value.
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

    /// The answer in the value at a place; none there is what exact tables say of a key they do not have.
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

/// The bits of a hash that `rte_hash` takes.
const fn short(hash: KeyHash) -> u32 {
    hash.get() as u32
}

fn refused(error: scalebricks_dpdk::DpdkError) -> BenchError {
    BenchError::of("rte_hash", error)
}

impl<V: Copy + Default + Send + Sync> Table for Valued<V> {
    /// By its documentation: buckets of a line for eight keys, a power of two of them; a key and its place, 32 bytes; and the
    /// values.
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

/// `rte_hash` with flows and their values of 16 bytes.
pub type FlowHash = Valued<[u64; 2]>;

impl FlowHash {
    /// An empty one with room for so many.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if there is no memory.
    pub fn of_flows(keys: usize) -> Result<Self, BenchError> {
        Self::new(keys, |value| value[0] as u8) // the part of it that is checked has at most 8 bits
    }

    /// Adds the flows at these places.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses one.
    pub fn insert_flows(&mut self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        for place in places {
            let (key, hash, value) = flows.at(place);
            self.insert(key, hash, value)?;
        }
        Ok(())
    }

    /// Takes the flows at these places out again.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if one is not there.
    pub fn remove_flows(&mut self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        for place in places {
            let (key, hash, _) = flows.at(place);
            self.table.remove(key, short(hash)).map_err(refused)?;
        }
        Ok(())
    }
}
