//! Exact flow tables with 16-byte keys and values.

use super::Table;
use super::exact::{IdentityMap, insert_run};
use super::queries::{KeyForm, LookupMode, Queries, exact, in_batches, in_calls, look_up_each, touch_each};
use crate::error::{BenchError, OrFail};
use crate::keys::{self, KeySet};
use scalebricks_tables::cuckoo::CuckooTable;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::{Fib, KeyBatch};
use scalebricks_types::KeyHash;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flows inserted by one call.
pub const RUN: usize = 256;

/// Seed of the table. It need not be secret, because the key hash is keyed.
const SEED: u64 = 1;

/// The name of the cuckoo table in errors.
const NAME: &str = "cuckoo";

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
    /// An empty table that `keys` keys fill to 95 %; for 0 keys, one that will grow.
    pub fn new(keys: usize) -> Self {
        Self(CuckooTable::new(if keys == 0 { 0 } else { Self::slots_for(keys) }, SEED, keys::HASHER))
    }

    /// Number of slots that this many keys fill to 95 %.
    pub fn slots_for(keys: usize) -> usize {
        CuckooTable::<2, 2>::slots_for(keys)
    }

    /// Inserts the flows at these positions one by one.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_each(&mut self, flows: &Flows<'_>, mut places: Range<usize>) -> Result<(), BenchError> {
        places.try_for_each(|place| {
            let (key, hash, value) = flows.at(place);
            self.0.insert(key, hash, &value).of(NAME)
        })
    }

    /// Inserts the flows at these positions as one writer with prefetching.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_run(&mut self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        insert_run(&self.0, &flows.set.hashes, places, |place| {
            let (&key, _, value) = flows.at(place);
            (key, value)
        })
    }

    /// Inserts the flows at these positions, [`RUN`] per call.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_runs(&mut self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
        self.in_runs(flows, places, false)
    }

    /// The same for a table that grows when needed.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses a flow.
    pub fn insert_growing(&mut self, flows: &Flows<'_>, places: Range<usize>) -> Result<(), BenchError> {
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
            if grows {
                writer.insert_all_growing(words, hashes, values).of(NAME)?;
            } else {
                writer.insert_all(words, hashes, values).of(NAME)?;
            }
        }
        Ok(())
    }

    /// Begins to move all keys to a table with 1.5 times the slots, and stops half way.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if the table refuses to grow.
    pub fn move_half(&self) -> Result<(), BenchError> {
        let mut writer = self.0.write();
        writer.grow_step(usize::MAX).of(NAME)?;
        let buckets = self.0.slots() / 4;
        writer.grow_begin(self.0.slots() / 2 * 3).of(NAME)?;
        writer.grow_step(buckets / 2).of(NAME)?;
        Ok(())
    }

    /// Removes the flows at these positions one by one.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if a flow is missing.
    pub fn remove_each(&mut self, flows: &Flows<'_>, mut places: Range<usize>) -> Result<(), BenchError> {
        places.try_for_each(|place| {
            let (key, hash, _) = flows.at(place);
            self.0.remove(key, hash).map(drop).of(NAME)
        })
    }

    /// Rewrites the flows with their own values until stopped.
    pub fn rewrite(&self, flows: &Flows<'_>, stop: &AtomicBool) {
        for place in (0..flows.set.len()).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
            let (key, hash, value) = flows.at(place);
            // No flow is missing; if one were, the readers would detect it.
            let _ = self.0.update(key, hash, &value);
        }
    }
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
            let mut reader = self.0.reader();
            return look_up_each(queries.words, queries.hashes, answers, |key, hash| reader.get(key, hash));
        }
        let ask = |words: &[_], hashes: &[_], values: &mut [_]| self.0.get_batch(words, hashes, values);
        in_batches(mode, (queries.words, queries.hashes), answers, None, ask, exact);
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        touch_each(queries.words, queries.hashes, visit, |key, hash, visit| self.0.touched(key, hash, visit));
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
            fib.insert(&keys::flow(place as u64), hash, value).of(NAME)?;
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
            return look_up_each(queries.flows, queries.hashes, answers, |flow, hash| self.0.get(flow, hash));
        }
        let ask = |flows: &[_], hashes: &[_], values: &mut [_]| {
            self.0.lookup_batch(KeyBatch::new(flows, hashes), values);
        };
        in_batches(mode, (queries.flows, queries.hashes), answers, None, ask, exact);
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        let touched = |flow: &_, hash, visit: &mut dyn FnMut(*const u8)| self.0.touched(flow, hash, visit);
        touch_each(queries.flows, queries.hashes, visit, touched);
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
pub struct FlowMap(IdentityMap<Hashed, [u64; 2]>);

impl FlowMap {
    /// An empty map with room for `keys` keys.
    pub fn new(keys: usize) -> Self {
        Self(IdentityMap::with_capacity_and_hasher(keys, BuildHasherDefault::default()))
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
            let words = words.next().unwrap_or_default();
            look_up_each(words, hashes, answers, |&key, hash| self.0.get(&Hashed(key, hash)).copied());
        });
    }
}
