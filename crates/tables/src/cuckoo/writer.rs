//! The writer: inserts, updates, removals. Growth is in [`super::growth`].

use super::path_search::PathSearch;
use super::store::{Slot, Store};
use super::stores::Stores;
use super::{CuckooTable, DESIGN_LOAD_PERCENT, HashWords};
use crate::FibError;
use scalebricks_types::KeyHash;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// In a run of inserts, how many keys ahead of the current one the tags are prefetched.
const AHEAD: usize = 16;

/// How many keys ahead the entries are prefetched.
const ENTRIES_AHEAD: usize = 8;

/// State that belongs to the writer alone.
#[derive(Debug)]
pub(super) struct WriterState<const K: usize, const V: usize> {
    /// The list that readers see.
    pub(super) stores: Arc<Stores<K, V>>,
    /// Number of buckets of the oldest store that were moved to the newest.
    pub(super) moved_buckets: usize,
    /// Lists that readers may still hold.
    pub(super) retired: Vec<Arc<Stores<K, V>>>,
    pub(super) room: PathSearch,
    /// If the table grows automatically, it grows above this load.
    pub(super) load_limit_percent: usize,
}

impl<const K: usize, const V: usize> WriterState<K, V> {
    pub(super) fn new(stores: Arc<Stores<K, V>>) -> Self {
        Self {
            stores,
            moved_buckets: 0,
            retired: Vec::new(),
            room: PathSearch::default(),
            load_limit_percent: DESIGN_LOAD_PERCENT,
        }
    }
}

/// A key of a run that was not added, and why. The keys before it were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("key {at} of the run: {error}")]
pub struct RunError {
    /// Its index in the run.
    pub at: usize,
    /// Why it was not added.
    #[source]
    pub error: FibError,
}

/// The writer of a [`CuckooTable`]. There is one at a time. Readers see each change as it is made.
pub struct Writer<'a, const K: usize, const V: usize, H> {
    pub(super) table: &'a CuckooTable<K, V, H>,
    pub(super) state: MutexGuard<'a, WriterState<K, V>>,
}

impl<'a, const K: usize, const V: usize, H: HashWords<K>> Writer<'a, K, V, H> {
    pub(super) fn new(table: &'a CuckooTable<K, V, H>, state: MutexGuard<'a, WriterState<K, V>>) -> Self {
        let mut writer = Self { table, state };
        if !writer.state.retired.is_empty() {
            writer.free_retired();
        }
        writer
    }

    /// Prefetches the tags of a key that will be written soon. A run of changes that prefetches about sixteen
    /// keys ahead does not wait for memory.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        for store in self.state.stores.all() {
            store.view().prefetch_tags(store.places(hash));
        }
    }

    /// Prefetches the memory that a change of this key will read and write. Call it when the tags that
    /// [`Self::prefetch`] fetched have arrived, about eight keys ahead.
    #[inline]
    pub fn prefetch_entry(&self, hash: KeyHash) {
        for store in self.state.stores.all() {
            let (view, places) = (store.view(), store.places(hash));
            let candidates = view.candidates(places);
            if !candidates.none() {
                view.prefetch_entry(places.slot(candidates.lowest()).number());
            }
        }
        let store = self.state.stores.newest();
        let (view, places) = (store.view(), store.places(hash));
        match store.free_slot(places) {
            Some(slot) => view.prefetch_entry(slot.number()),
            // The search for a free slot will hash these keys.
            None => [places.first, places.second].into_iter().for_each(|b| view.prefetch_entries_of(b)),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        self.find(key, hash).map(|(store, at)| store.value(at))
    }

    /// The store and slot that hold a key.
    #[inline]
    fn find(&self, key: &[u64; K], hash: KeyHash) -> Option<(&Store<K, V>, Slot)> {
        self.state
            .stores
            .all()
            .find_map(|store| Some((&**store, store.view().find(key, store.places(hash))?)))
    }

    /// Adds a key.
    ///
    /// # Errors
    /// [`FibError::Exists`], [`FibError::Full`], [`FibError::ZeroKey`]; then nothing was moved.
    #[inline]
    pub fn insert(&mut self, key: &[u64; K], hash: KeyHash, value: &[u64; V]) -> Result<(), FibError> {
        if *key == [0; K] {
            return Err(FibError::ZeroKey);
        }
        debug_assert_eq!(hash, self.table.hasher.hash_words(key), "the hash is the table's hasher's");
        if self.find(key, hash).is_some() {
            return Err(FibError::Exists);
        }
        let state = &mut *self.state;
        let store = state.stores.newest();
        let places = store.places(hash);
        let Some(slot) = state.room.make(store, places, &self.table.hasher) else {
            return Err(self.full());
        };
        store.put(slot, places.tag, key, value);
        // Only the writer changes it, so no atomic read-modify-write is needed.
        self.table.len.store(self.table.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Adds a key to a table that grows automatically: by half, a few buckets with each added key, whenever
    /// its load exceeds [`DESIGN_LOAD_PERCENT`], or exceeds 0.9 if its size is the result of such growth.
    ///
    /// Cost: in addition to the insert, while the table grows, up to 16 key moves. One of some thousand moves
    /// touches a fresh huge page (0.1 to 0.2 ms).
    ///
    /// # Errors
    /// [`FibError::Exists`], [`FibError::ZeroKey`]; [`FibError::Full`] at
    /// [`MAX_BUCKETS`](super::MAX_BUCKETS).
    pub fn insert_growing(
        &mut self,
        key: &[u64; K],
        hash: KeyHash,
        value: &[u64; V],
    ) -> Result<(), FibError> {
        loop {
            match self.insert(key, hash, value) {
                Ok(()) => {
                    self.grow_along();
                    return Ok(());
                }
                Err(full @ FibError::Full { slots, .. }) => {
                    if !self.grow_by_half(slots) {
                        return Err(full);
                    }
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Adds a run of keys, in order, and prefetches for the keys to come: several times as fast as single
    /// calls on a table larger than the cache.
    ///
    /// # Errors
    /// [`RunError`] for the first key that [`Self::insert`] refuses; keys before it were added, keys after it
    /// were not.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn insert_all(
        &mut self,
        keys: &[[u64; K]],
        hashes: &[KeyHash],
        values: &[[u64; V]],
    ) -> Result<(), RunError> {
        self.run(keys, hashes, values, Self::insert)
    }

    /// [`Self::insert_all`] for a table that grows automatically, as in [`Self::insert_growing`].
    ///
    /// # Errors
    /// [`RunError`] for the first key that [`Self::insert_growing`] refuses.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn insert_all_growing(
        &mut self,
        keys: &[[u64; K]],
        hashes: &[KeyHash],
        values: &[[u64; V]],
    ) -> Result<(), RunError> {
        self.run(keys, hashes, values, Self::insert_growing)
    }

    #[inline(always)]
    fn run(
        &mut self,
        keys: &[[u64; K]],
        hashes: &[KeyHash],
        values: &[[u64; V]],
        insert: impl Fn(&mut Self, &[u64; K], KeyHash, &[u64; V]) -> Result<(), FibError>,
    ) -> Result<(), RunError> {
        assert_eq!(keys.len(), hashes.len(), "one hash a key");
        assert_eq!(keys.len(), values.len(), "one value a key");
        hashes.iter().take(AHEAD).for_each(|&hash| self.prefetch(hash));
        for (at, ((key, &hash), value)) in keys.iter().zip(hashes).zip(values).enumerate() {
            if let Some(&ahead) = hashes.get(at + AHEAD) {
                self.prefetch(ahead);
            }
            if let Some(&ahead) = hashes.get(at + ENTRIES_AHEAD) {
                self.prefetch_entry(ahead);
            }
            insert(self, key, hash, value).map_err(|error| RunError { at, error })?;
        }
        Ok(())
    }

    /// Replaces the value of a key and returns the old one.
    ///
    /// # Errors
    /// [`FibError::Missing`].
    pub fn update(&mut self, key: &[u64; K], hash: KeyHash, value: &[u64; V]) -> Result<[u64; V], FibError> {
        let (store, at) = self.find(key, hash).ok_or(FibError::Missing)?;
        let old = store.value(at);
        store.put_value(at, value);
        Ok(old)
    }

    /// Removes a key and returns its value.
    ///
    /// # Errors
    /// [`FibError::Missing`].
    pub fn remove(&mut self, key: &[u64; K], hash: KeyHash) -> Result<[u64; V], FibError> {
        let (store, at) = self.find(key, hash).ok_or(FibError::Missing)?;
        let old = store.value(at);
        store.clear(at);
        self.table.len.store(self.table.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Ok(old)
    }

    /// Calls `visit` with each key and value, in no particular order.
    pub fn for_each(&self, mut visit: impl FnMut([u64; K], [u64; V])) {
        for store in self.state.stores.all() {
            store.entries().for_each(|(key, value)| visit(key, value));
        }
    }

    /// Number of keys stored.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the table has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys moved to make room since the table was made (not counting growth).
    pub fn moves(&self) -> u64 {
        self.state.room.moves
    }

    pub(super) fn full(&self) -> FibError {
        FibError::Full { len: self.len(), slots: self.state.stores.newest().slots() }
    }
}

impl<const K: usize, const V: usize, H: HashWords<K>> std::fmt::Debug for Writer<'_, K, V, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("table", self.table)
            .field("moves", &self.moves())
            .finish_non_exhaustive()
    }
}
