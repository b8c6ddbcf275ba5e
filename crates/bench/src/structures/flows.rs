//! Exact flow tables with 16-byte keys and values.

use super::Table;
use super::cuckoo::insert_run;
use super::hash_map::IdentityHasher;
use super::queries::{KeyForm, LookupMode, Queries, exact, in_batches, in_calls};
use crate::error::BenchError;
use crate::keys::{self, KeySet};
use hashbrown::HashMap;
use scalebricks_tables::cuckoo::CuckooTable;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::{Fib, FibError, KeyBatch};
use scalebricks_types::KeyHash;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flows inserted by one call.
pub const RUN: usize = 256;

/// Seed of the table. It need not be secret, because the key hash is keyed.
const SEED: u64 = 1;

/// Flows to insert: keys, hashes and values.
pub struct Flows<'a> {
    set: &'a KeySet,
    words: Vec<[u64; 2]>,
}

impl<'a> Flows<'a> {
    /// The flows of `set`.
    pub fn new(set: &'a KeySet) -> Self {
        Self { set, words: (0..set.len() as u64).map(keys::words).collect() }
    }

    /// Key, hash and value of a flow.
    pub(super) fn at(&self, place: usize) -> (&[u64; 2], KeyHash, [u64; 2]) {
        (&self.words[place], self.set.hashes[place], [self.set.values[place].into(), place as u64])
    }
}

/// The cuckoo table.
pub struct FlowTable(CuckooTable<2, 2>);

impl FlowTable {
    /// An empty table that `keys` keys fill to 95 %.
    pub fn new(keys: usize) -> Self {
        Self(CuckooTable::new(CuckooTable::<2, 2>::slots_for(keys), SEED, keys::HASHER))
    }

    /// An empty table that will grow.
    pub fn growing() -> Self {
        Self(CuckooTable::new(0, SEED, keys::HASHER))
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.0.slots()
    }

    /// Inserts the flows at these positions one by one.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_each(&self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        for place in places {
            let (key, hash, value) = flows.at(place);
            self.0.insert(key, hash, &value).map_err(refused)?;
        }
        Ok(())
    }

    /// Inserts the flows at these positions as one writer with prefetching.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_run(&self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        insert_run(&self.0, &flows.set.hashes, places, |place| {
            let (&key, _, value) = flows.at(place);
            (key, value)
        })
    }

    /// Inserts the flows at these positions, [`RUN`] per call.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_runs(&self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        self.in_runs(flows, places, false)
    }

    /// The same for a table that grows when needed.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_growing(&self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        self.in_runs(flows, places, true)
    }

    fn in_runs(&self, flows: &Flows<'_>, places: Range<usize>, grows: bool) -> Result<(), BenchError> {
        let mut values = [[0; 2]; RUN];
        for from in places.clone().step_by(RUN) {
            let run = from..places.end.min(from + RUN);
            for (value, place) in values.iter_mut().zip(run.clone()) {
                *value = flows.at(place).2;
            }
            let (words, hashes) = (&flows.words[run.clone()], &flows.set.hashes[run]);
            let (mut writer, values) = (self.0.write(), &values[..words.len()]);
            let inserted = if grows {
                writer.insert_all_growing(words, hashes, values)
            } else {
                writer.insert_all(words, hashes, values)
            };
            inserted.map_err(|error| BenchError::of("cuckoo", error))?;
        }
        Ok(())
    }

    /// Begins to move all keys to a table with 1.5 times the slots, and stops half way.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses to grow.
    pub fn move_half(&self) -> Result<(), BenchError> {
        let mut writer = self.0.write();
        writer.grow_step(usize::MAX).map_err(refused)?;
        let buckets = self.0.slots() / 4;
        writer.grow_begin(self.0.slots() / 2 * 3).map_err(refused)?;
        writer.grow_step(buckets / 2).map_err(refused)?;
        Ok(())
    }

    /// Removes the flows at these positions one by one.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if a flow is missing.
    pub fn remove_each(&self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        for place in places {
            let (key, hash, _) = flows.at(place);
            self.0.remove(key, hash).map_err(refused)?;
        }
        Ok(())
    }
}

impl FlowTable {
    /// Rewrites the flows with their own values until stopped.
    pub fn rewrite(&self, flows: &Flows<'_>, stop: &AtomicBool) {
        for place in (0..flows.set.len()).cycle() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let (key, hash, value) = flows.at(place);
            // No flow is missing; if one were, the readers would detect it.
            let _ = self.0.update(key, hash, &value);
        }
    }
}

fn refused(error: FibError) -> BenchError {
    BenchError::of("cuckoo", error)
}

impl Table for FlowTable {
    fn table_bytes(&self) -> u64 {
        self.0.table_bytes() as u64
    }

    fn form(&self) -> KeyForm {
        KeyForm::Words
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        if mode == LookupMode::Loop {
            for ((key, &hash), answer) in queries.words.iter().zip(queries.hashes).zip(answers) {
                *answer = exact(self.0.get(key, hash));
            }
            return;
        }
        let ask = |words: &[_], hashes: &[_], values: &mut [_]| self.0.get_batch(words, hashes, values);
        in_batches(mode, (queries.words, queries.hashes), answers, None, ask, exact);
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        for (place, (words, &hash)) in queries.words.iter().zip(queries.hashes).enumerate() {
            self.0.touched(words, hash, &mut |at| visit(place, at));
        }
    }
}

/// The FIB of a node, which contains such a table.
pub struct FlowFib(PartialFib);

impl FlowFib {
    /// A FIB with these flows.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn new(flows: &Flows<'_>) -> Result<Self, BenchError> {
        let fib = PartialFib::new(FibConfig::new(keys::HASHER).short_keys(flows.set.len()));
        for place in 0..flows.set.len() {
            let (_, hash, value) = flows.at(place);
            fib.insert(&keys::flow(place as u64), hash, value).map_err(refused)?;
        }
        Ok(Self(fib))
    }
}

impl Table for FlowFib {
    fn table_bytes(&self) -> u64 {
        self.0.table_bytes() as u64
    }

    fn form(&self) -> KeyForm {
        KeyForm::Flow
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        if mode == LookupMode::Loop {
            for ((flow, &hash), answer) in queries.flows.iter().zip(queries.hashes).zip(answers) {
                *answer = exact(self.0.get(flow, hash));
            }
            return;
        }
        let ask = |flows: &[_], hashes: &[_], values: &mut [_]| {
            self.0.lookup_batch(KeyBatch::new(flows, hashes), values);
        };
        in_batches(mode, (queries.flows, queries.hashes), answers, None, ask, exact);
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        for (place, (flow, &hash)) in queries.flows.iter().zip(queries.hashes).enumerate() {
            self.0.touched(flow, hash, &mut |at| visit(place, at));
        }
    }
}

/// A key with its hash, so that the map computes no additional hash.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Hashed([u64; 2], KeyHash);

impl Hash for Hashed {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.1.get());
    }
}

/// The hash map of Rust's standard library.
pub struct FlowMap(HashMap<Hashed, [u64; 2], BuildHasherDefault<IdentityHasher>>);

impl FlowMap {
    /// An empty map with room for `keys` keys.
    pub fn new(keys: usize) -> Self {
        Self(HashMap::with_capacity_and_hasher(keys, BuildHasherDefault::default()))
    }

    /// Inserts the flows at these positions.
    pub fn insert(&mut self, flows: &Flows<'_>, places: Range<usize>) {
        for place in places {
            let (&key, hash, value) = flows.at(place);
            self.0.insert(Hashed(key, hash), value);
        }
    }

    /// Removes the flows at these positions.
    pub fn remove(&mut self, flows: &Flows<'_>, places: Range<usize>) {
        for place in places {
            let (&key, hash, _) = flows.at(place);
            self.0.remove(&Hashed(key, hash));
        }
    }
}

impl Table for FlowMap {
    fn table_bytes(&self) -> u64 {
        self.0.allocation_size() as u64
    }

    fn form(&self) -> KeyForm {
        KeyForm::Words
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        let mut words = queries.words.chunks(mode.keys());
        in_calls(mode, queries.hashes, answers, |hashes, answers| {
            for ((&key, &hash), answer) in words.next().unwrap_or_default().iter().zip(hashes).zip(answers) {
                *answer = exact(self.0.get(&Hashed(key, hash)).copied());
            }
        });
    }
}
