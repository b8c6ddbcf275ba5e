//! The writer's side: inserts with their search for a chain of moves, updates, removals, growth.

use super::store::{Places, SLOTS, Slot, Store};
use super::{CuckooTable, HashWords, buckets_for};
use crate::FibError;
use scalebricks_types::KeyHash;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// Most buckets an insert looks at before it gives up: enough for a load of 0.97. The interpreter
/// gets fewer, for its small tables.
const MAX_SEARCH: usize = if cfg!(miri) { 64 } else { 2048 };

/// Fresh seeds tried by one growth. A second one is needed only where a table is asked to hold nearly its slots.
const GROW_TRIES: u64 = 4;

/// "No parent" in the search: the bucket is one of the new key's own.
const ROOT: u32 = u32::MAX;

/// A bucket reached in the search: by moving the key in `slot` of the parent's bucket to its other bucket.
#[derive(Debug, Clone, Copy)]
struct Step {
    bucket: u32,
    parent: u32,
    slot: u32,
}

/// What belongs to the writer alone.
#[derive(Debug)]
pub(super) struct State<const K: usize, const V: usize> {
    store: Arc<Store<K, V>>,
    /// The search queue, kept to not allocate for each insert.
    steps: Vec<Step>,
    moves: u64,
}

impl<const K: usize, const V: usize> State<K, V> {
    pub(super) const fn new(store: Arc<Store<K, V>>) -> Self {
        Self { store, steps: Vec::new(), moves: 0 }
    }

    /// A free slot in one of these buckets, after moving other keys if need be; `None`, with nothing moved, if the
    /// search ends without.
    fn make_room(&mut self, places: Places, hasher: &impl HashWords<K>) -> Option<Slot> {
        let store = &*self.store;
        if let Some(slot) = store.free_slot(places.first).or_else(|| store.free_slot(places.second)) {
            return Some(slot);
        }
        self.steps.clear();
        for bucket in [places.first, places.second] {
            self.steps.push(Step { bucket, parent: ROOT, slot: 0 });
        }
        let mut at = 0;
        while let Some(&Step { bucket, .. }) = self.steps.get(at) {
            if let Some(free) = store.free_slot(bucket) {
                return Some(self.shift_chain(at, free));
            }
            for slot in 0..SLOTS as u32 {
                if self.steps.len() == MAX_SEARCH {
                    break;
                }
                let places = store.places(hasher.hash_words(&store.key(Slot { bucket, slot })));
                let other = places.first ^ places.second ^ bucket;
                store.prefetch_bucket(other);
                self.steps.push(Step { bucket: other, parent: at as u32, slot }); // below MAX_SEARCH
            }
            at += 1;
        }
        None
    }

    /// Moves the keys on the way to step `at` one step each, the last one first, so that every key is in the table
    /// all the time; gives the slot that this frees in one of the roots.
    ///
    /// No bucket comes twice on the way: breadth first, the way through its first visit is shorter and would have
    /// been found before. So each key is still where the search saw it.
    fn shift_chain(&mut self, mut at: usize, mut free: Slot) -> Slot {
        loop {
            let step = self.steps[at];
            if step.parent == ROOT {
                return free;
            }
            at = step.parent as usize;
            let from = Slot { bucket: self.steps[at].bucket, slot: step.slot };
            self.store.shift(from, free);
            self.moves += 1;
            free = from;
        }
    }
}

/// The writer of a [`CuckooTable`]: there is one at a time. Readers see each change as it is made.
pub struct Writer<'a, const K: usize, const V: usize, H> {
    table: &'a CuckooTable<K, V, H>,
    state: MutexGuard<'a, State<K, V>>,
}

impl<'a, const K: usize, const V: usize, H: HashWords<K>> Writer<'a, K, V, H> {
    pub(super) const fn new(table: &'a CuckooTable<K, V, H>, state: MutexGuard<'a, State<K, V>>) -> Self {
        Self { table, state }
    }

    /// Asks for the buckets of a key that is written soon. A run of inserts that asks eight or so keys ahead does
    /// not wait for memory.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        let store = &self.state.store;
        store.prefetch(store.places(hash));
    }

    /// The value of a key.
    pub fn get(&self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        let store = &self.state.store;
        store.find(key, store.places(hash)).map(|at| store.value(at))
    }

    /// Adds a key.
    ///
    /// # Errors
    /// [`FibError::Exists`], [`FibError::Full`], [`FibError::ZeroKey`]; nothing has moved then.
    pub fn insert(&mut self, key: &[u64; K], hash: KeyHash, value: &[u64; V]) -> Result<(), FibError> {
        if *key == [0; K] {
            return Err(FibError::ZeroKey);
        }
        debug_assert_eq!(hash, self.table.hasher.hash_words(key), "the hash is the table's hasher's");
        let places = self.state.store.places(hash);
        if self.state.store.find(key, places).is_some() {
            return Err(FibError::Exists);
        }
        let Some(slot) = self.state.make_room(places, &self.table.hasher) else {
            return Err(self.full());
        };
        self.state.store.put(slot, key, value);
        self.table.len.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Adds a key, growing the table by half as often as it takes.
    ///
    /// # Errors
    /// [`FibError::Exists`], [`FibError::ZeroKey`]; [`FibError::Full`] at [`MAX_BUCKETS`](super::MAX_BUCKETS).
    pub fn insert_growing(
        &mut self,
        key: &[u64; K],
        hash: KeyHash,
        value: &[u64; V],
    ) -> Result<(), FibError> {
        loop {
            match self.insert(key, hash, value) {
                Err(full @ FibError::Full { slots, .. }) => {
                    self.grow(slots + slots / 2)?;
                    if self.state.store.slots() <= slots {
                        return Err(full);
                    }
                }
                done => return done,
            }
        }
    }

    /// Replaces the value of a key and returns the old one.
    ///
    /// # Errors
    /// [`FibError::Missing`].
    pub fn update(&mut self, key: &[u64; K], hash: KeyHash, value: &[u64; V]) -> Result<[u64; V], FibError> {
        let store = &self.state.store;
        let at = store.find(key, store.places(hash)).ok_or(FibError::Missing)?;
        let old = store.value(at);
        store.put_value(at, value);
        Ok(old)
    }

    /// Removes a key and returns its value.
    ///
    /// # Errors
    /// [`FibError::Missing`].
    pub fn remove(&mut self, key: &[u64; K], hash: KeyHash) -> Result<[u64; V], FibError> {
        let store = &self.state.store;
        let at = store.find(key, store.places(hash)).ok_or(FibError::Missing)?;
        let old = store.value(at);
        store.clear(at);
        self.table.len.fetch_sub(1, Ordering::Relaxed);
        Ok(old)
    }

    /// Moves all keys to a table of at least `slots` slots (which may be fewer than there are) and lets readers go
    /// over to it, batch by batch; none waits. Then waits for the last batch on the old table and frees that, so the
    /// memory is never freed by a reader.
    ///
    /// Cost: one insert a key, and at the peak the memory of both tables.
    ///
    /// # Errors
    /// [`FibError::Full`] if the keys do not fit that many slots; the table is then as it was.
    pub fn grow(&mut self, slots: usize) -> Result<(), FibError> {
        let buckets = buckets_for(slots);
        if buckets * SLOTS < self.len() {
            return Err(FibError::Full { len: self.len(), slots: buckets * SLOTS });
        }
        for attempt in 1..=GROW_TRIES {
            let seed = self.state.store.seed().wrapping_add(attempt.wrapping_mul(0xD1B5_4A32_D192_ED03));
            if let Some(store) = self.copy_to(buckets, seed) {
                self.publish(store);
                return Ok(());
            }
        }
        Err(FibError::Full { len: self.len(), slots: buckets * SLOTS })
    }

    /// A new store with all keys in it, which nobody else knows yet; `None` if one found no place.
    fn copy_to(&self, buckets: usize, seed: u64) -> Option<Arc<Store<K, V>>> {
        let mut next = State::new(Arc::new(Store::new(buckets, seed)));
        for (key, value) in self.state.store.entries() {
            let places = next.store.places(self.table.hasher.hash_words(&key));
            let slot = next.make_room(places, &self.table.hasher)?;
            next.store.put(slot, &key, &value);
        }
        Some(next.store)
    }

    fn publish(&mut self, store: Arc<Store<K, V>>) {
        let old = std::mem::replace(&mut self.state.store, Arc::clone(&store));
        drop(self.table.current.swap(store));
        // `swap` has turned every reader's hold on the old store into a counted one, and no new ones are made.
        while Arc::strong_count(&old) > 1 {
            std::thread::yield_now();
        }
    }

    /// Calls `visit` with each key and value, in no order that means anything.
    pub fn for_each(&self, mut visit: impl FnMut([u64; K], [u64; V])) {
        for (key, value) in self.state.store.entries() {
            visit(key, value);
        }
    }

    /// Keys held.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys moved to make room, since the table was made (not counting growth).
    pub fn moves(&self) -> u64 {
        self.state.moves
    }

    fn full(&self) -> FibError {
        FibError::Full { len: self.len(), slots: self.state.store.slots() }
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
