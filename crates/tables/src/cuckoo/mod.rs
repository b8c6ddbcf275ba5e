//! An exact hash table for one writer at a time and any number of readers that take no lock: (2,4)-cuckoo hashing
//! with optimistic reads.
//!
//! A key has two buckets of four slots, and is in one of the eight. An insert that finds all eight taken searches,
//! breadth first, for a chain of keys that can each step into their other bucket, the last one into an empty slot,
//! and moves them from the empty slot backwards. So the table fills to over 95 % before it refuses a key.
//!
//! # Memory and cost
//!
//! A slot has a *tag*, one byte of the key's hash, zero if the slot is empty. The tags of a bucket are one word, those of
//! the table an array of their own that stays in the cache. A lookup reads the tags of its two buckets and goes to the
//! slot whose tag agrees, where key and value lie side by side; one lookup in 35 of a key that is there, and one in 33 of
//! one that is not, goes to a slot more in vain.
//!
//! | key, value | bytes a slot | bytes a key at load 0.95 | lines a hit touches | a miss |
//! |---|---|---|---|---|
//! | 16 and 16 bytes | 32 + 1 | 34.7 | 1, and 2 of tags | 2 of tags |
//! | 40 and 16 bytes | 64 + 1 | 68.4 | 1, and 2 of tags | 2 of tags |
//!
//! A slot takes its key and value rounded up to 32 bytes. The tags of 8 M keys are 8.4 MB. Beside that a lookup reads
//! the table's clock once a batch; only beside a writer, two stamps a key of an array of at most 32 KiB.
//!
//! # What a reader may see, and wait for
//!
//! Per key, a lookup returns the value at some moment between its call and its return: never a mixture of two
//! values, never "absent" for a key that is only being moved. It takes no lock. It looks again if the writer changed
//! one of its two stripes of buckets meanwhile, which takes the writer some ten stores; a writer that the operating
//! system stops in just that span holds up the readers of these stripes (two of up to 4,096), which give their core
//! away until it goes on. ADR 3 has the numbers. While the table [grows](Writer::grow_begin), readers go on, and those of
//! keys that have moved look twice; ADR 7 says why they miss none.
//!
//! Source: Zhou et al., "Scaling Up Clustered Network Appliances with `ScaleBricks`" (SIGCOMM 2015) §5.2; the optimistic
//! reads are those of `MemC3` (NSDI 2013) and `CuckooSwitch` (`CoNEXT` 2013), with counters by bucket instead of by
//! key; tags are `MemC3`'s, kept apart from the keys.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;

mod entry;
mod growth;
mod lookup;
mod path_search;
mod store;
mod stores;
mod tags;
mod version;
mod writer;

pub use writer::{RunError, Writer};

use crate::FibError;
use crate::reclaim::sync::{ArcSwap, AtomicU64, Ordering};
use crate::touched_lines::LineRecorder;
use crossbeam_utils::CachePadded;
use lookup::UNIT;
use scalebricks_types::{FlowKey, Key16, Key40, KeyHash, KeyHasher};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use store::{SLOTS, Store};
use stores::Stores;
use writer::WriterState;

/// Most buckets of a table: 4 Gi slots. Slot numbers and the bucket choice work on 32 bits.
pub const MAX_BUCKETS: usize = 1 << 30;

/// The load, in percent of the slots, that tables are made for; a table of a million slots refuses an insert at about 97.
pub const DESIGN_LOAD_PERCENT: usize = 95;

/// The hash that a table's keys were hashed with at the edge. The writer needs it once more for each key it moves;
/// storing the hashes would cost 8 bytes a key.
pub trait HashWords<const K: usize>: Send + Sync {
    /// The hash of the key made of these words; the same value that lookups are given.
    fn hash_words(&self, key: &[u64; K]) -> KeyHash;
}

impl HashWords<2> for KeyHasher {
    #[inline]
    fn hash_words(&self, key: &[u64; 2]) -> KeyHash {
        self.hash(&FlowKey::Short(Key16::from_words(*key)))
    }
}

impl HashWords<5> for KeyHasher {
    #[inline]
    fn hash_words(&self, key: &[u64; 5]) -> KeyHash {
        self.hash(&FlowKey::Long(Key40::from_words(*key)))
    }
}

/// A concurrent cuckoo table of keys of `K` and values of `V` 64-bit words. See the [module](self) for its costs.
///
/// Every call that names a key takes its hash as well, which must be the hasher's: of a key stored under another
/// hash, no lookup is sure to find it (debug builds check).
pub struct CuckooTable<const K: usize, const V: usize, H = KeyHasher> {
    /// What readers read.
    current: ArcSwap<Stores<K, V>>,
    /// Advanced after each store to `current`: what a reader that has found nothing looks at.
    generation: CachePadded<AtomicU64>,
    /// The writer's state; holding it is being the writer. Readers never touch it.
    state: Mutex<WriterState<K, V>>,
    /// Stored by the writer only.
    len: CachePadded<AtomicUsize>,
    hasher: H,
}

impl<const K: usize, const V: usize, H: HashWords<K>> CuckooTable<K, V, H> {
    /// An empty table of at least `slots` slots (rounded up to whole buckets, at least 2, at most [`MAX_BUCKETS`]).
    /// `seed` spreads the keys of this table independently of other tables; it is no secret.
    ///
    /// Cost: zeroes all of [`Self::table_bytes`].
    pub fn new(slots: usize, seed: u64, hasher: H) -> Self {
        let stores = Arc::new(Stores::of(Arc::new(Store::new(buckets_for(slots), seed))));
        Self {
            current: ArcSwap::new(Arc::clone(&stores)),
            generation: CachePadded::new(AtomicU64::new(0)),
            state: Mutex::new(WriterState::new(stores)),
            len: CachePadded::new(AtomicUsize::new(0)),
            hasher,
        }
    }

    /// The slots to ask for to hold `keys` keys at [`DESIGN_LOAD_PERCENT`]. Small tables get a few more, for their load varies
    /// more.
    pub fn slots_for(keys: usize) -> usize {
        let spare = if keys == 0 { 0 } else { 4 * SLOTS };
        let surplus = keys as u128 * (100 - DESIGN_LOAD_PERCENT) as u128 / DESIGN_LOAD_PERCENT as u128;
        keys.saturating_add(surplus as usize + spare) // the surplus is a nineteenth of `keys`
    }

    /// The most slots a table may have that takes at most `bytes` of memory; 0 if none does.
    pub fn slots_within(bytes: usize) -> usize {
        let fits = |buckets: usize| {
            buckets >= 2 && Store::<K, V>::bytes_for(buckets) + version::bytes_for(buckets) <= bytes
        };
        let mut buckets = (bytes / Store::<K, V>::bytes_for(1)).min(MAX_BUCKETS);
        while buckets > 0 && !fits(buckets) {
            buckets -= 1; // at most 32 KiB / bucket size steps: the stamps
        }
        buckets * SLOTS
    }

    /// The value of a key, or `None` if it is not in the table (an exact answer). The all-zero key never is.
    ///
    /// Cost: the [lines](self#memory-and-cost) of one lookup, one after the other; for many keys use
    /// [`Self::get_batch`].
    #[inline]
    pub fn get(&self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let stores = self.current.load();
            let found = stores.all().find_map(|store| store.get(key, store.places(hash)));
            if found.is_some() || self.generation.load(Ordering::Relaxed) == generation {
                return found;
            }
        }
    }

    /// Tells the cache lines that a lookup of this key reads, in its order, each once: the tags of its two buckets, and
    /// entries with its tag up to its own. For benchmarks that replay lookups.
    pub fn touched(&self, key: &[u64; K], hash: KeyHash, tell: &mut dyn FnMut(*const u8)) {
        let mut lines = LineRecorder::new(tell);
        let _ = self.current.load().all().any(|store| store.view().touched(key, hash, &mut lines));
    }

    /// The value of each key of a batch of any length, with the memory accesses of many keys under way at once: batches
    /// of 32 hide most of the wait for memory, those of 64 and more nearly all.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn get_batch(&self, keys: &[[u64; K]], hashes: &[KeyHash], values: &mut [Option<[u64; V]>]) {
        assert_eq!(keys.len(), hashes.len(), "one hash a key");
        assert_eq!(keys.len(), values.len(), "one answer a key");
        let generation = self.generation.load(Ordering::Acquire);
        let stores = self.current.load();
        let units = keys.chunks(UNIT).zip(hashes.chunks(UNIT)).zip(values.chunks_mut(UNIT));
        for ((keys, hashes), values) in units {
            let missed = stores.oldest.get_unit(keys, hashes, values);
            if missed && (stores.growing() || self.generation.load(Ordering::Relaxed) != generation) {
                self.get_moved(generation, &stores, keys, hashes, values);
            }
        }
    }

    /// Looks for the keys that were not in the oldest store: in the newer ones, and while the list of stores changes, in
    /// the list of now. Why that misses none is said in [`growth`].
    #[cold]
    fn get_moved(
        &self,
        mut generation: u64,
        stores: &Stores<K, V>,
        keys: &[[u64; K]],
        hashes: &[KeyHash],
        values: &mut [Option<[u64; V]>],
    ) {
        let mut missed = stores.newer.iter().all(|store| store.get_missing(keys, hashes, values));
        while missed && self.generation.load(Ordering::Relaxed) != generation {
            generation = self.generation.load(Ordering::Acquire);
            missed = self.current.load().all().all(|store| store.get_missing(keys, hashes, values));
        }
    }

    /// Becomes the writer for as long as the guard lives, waiting for the one before. For several changes in a row.
    pub fn write(&self) -> Writer<'_, K, V, H> {
        // No state is left half changed by a panic: only the caller's own closures can panic under this lock.
        Writer::new(self, self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a key. Cost: the tags of two buckets, one slot; near full also a search over some buckets more. For a run of
    /// keys, [`Writer::insert_all`] is several times as fast.
    ///
    /// # Errors
    /// [`FibError::Exists`], [`FibError::Full`], [`FibError::ZeroKey`]; the table is then as it was.
    pub fn insert(&self, key: &[u64; K], hash: KeyHash, value: &[u64; V]) -> Result<(), FibError> {
        self.write().insert(key, hash, value)
    }

    /// Replaces the value of a key and returns the old one.
    ///
    /// # Errors
    /// [`FibError::Missing`].
    pub fn update(&self, key: &[u64; K], hash: KeyHash, value: &[u64; V]) -> Result<[u64; V], FibError> {
        self.write().update(key, hash, value)
    }

    /// Removes a key and returns its value.
    ///
    /// # Errors
    /// [`FibError::Missing`].
    pub fn remove(&self, key: &[u64; K], hash: KeyHash) -> Result<[u64; V], FibError> {
        self.write().remove(key, hash)
    }

    /// Moves all keys to a table of at least `slots` slots while readers go on: see [`Writer::grow`], and
    /// [`Writer::grow_begin`] for doing so step by step.
    ///
    /// # Errors
    /// [`FibError::Full`] if that is fewer slots than keys; the table is then as it was.
    pub fn grow(&self, slots: usize) -> Result<(), FibError> {
        self.write().grow(slots)
    }

    /// Calls `visit` with each key and value, in no order that means anything. Holds writers off, so that what it
    /// visits is the table of one moment; readers go on. `visit` must not write to this table: it would wait for
    /// itself.
    pub fn for_each(&self, visit: impl FnMut([u64; K], [u64; V])) {
        self.write().for_each(visit);
    }

    /// Keys held.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots there are; of a table that grows, those it is to have.
    pub fn slots(&self) -> usize {
        self.current.load().newest().slots()
    }

    /// Bytes of memory of keys, values and stamps; while the table grows, of the old and the new one.
    pub fn table_bytes(&self) -> usize {
        self.current.load().all().map(|store| store.bytes()).sum()
    }
}

impl<const K: usize, const V: usize, H: HashWords<K>> std::fmt::Debug for CuckooTable<K, V, H> {
    /// Size and fill, not the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CuckooTable")
            .field("key_words", &K)
            .field("value_words", &V)
            .field("len", &self.len())
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}

/// The buckets of a table that was asked for `slots` slots.
fn buckets_for(slots: usize) -> usize {
    slots.div_ceil(SLOTS).clamp(2, MAX_BUCKETS)
}
