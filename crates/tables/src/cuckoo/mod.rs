//! An exact hash table for one writer at a time and any number of lock-free readers: (2,4)-cuckoo hashing
//! with optimistic reads.
//!
//! A key has two buckets of four slots, and is in one of the eight slots. An insert that finds all eight
//! taken searches, breadth first, for a chain of keys that can each move to their other bucket, the last one
//! into an empty slot. It moves them starting from the empty slot. So the table fills to over 95 % before it
//! refuses a key.
//!
//! # Memory and cost
//!
//! A slot has a *tag*, one byte of the key's hash, zero if the slot is empty. The tags of a bucket are one
//! word. The tags of the table are a separate array that stays in the cache. A lookup reads the tags of its
//! two buckets and goes to the slot with the same tag, where key and value lie side by side. One lookup in 35
//! of a key in the table, and one in 33 of a key that is not, reads one additional slot.
//!
//! | key, value | bytes per slot | bytes per key at load 0.95 | lines a hit touches | a miss |
//! |---|---|---|---|---|
//! | 16 and 16 bytes | 32 + 1 | 34.7 | 1, and 2 of tags | 2 of tags |
//! | 40 and 16 bytes | 64 + 1 | 68.4 | 1, and 2 of tags | 2 of tags |
//!
//! A slot holds its key and value rounded up to 32 bytes. The tags of 8 M keys are 8.4 MB. In addition a
//! lookup reads the table's clock once per batch. Only while a writer is active does it also read two stamps
//! per key, from an array of at most 32 KiB.
//!
//! # What a reader may see, and wait for
//!
//! For each key, a lookup returns the value at some moment between its call and its return: never a mixture
//! of two values, never "absent" for a key that is only being moved. It takes no lock. It looks again if the
//! writer changed one of its two stripes of buckets meanwhile, which takes the writer about ten stores. If
//! the operating system stops the writer in exactly that span, the readers of these stripes (two of up to
//! 4,096) wait, and yield their core until the writer continues. ADR 3 has the numbers. While the table
//! [grows](Writer::grow_begin), readers continue, and those of keys that have moved look twice; ADR 7
//! explains why they miss no key.
//!
//! Source: Zhou et al., "Scaling Up Clustered Network Appliances with `ScaleBricks`" (SIGCOMM 2015) §5.2. The
//! optimistic reads are those of `MemC3` (NSDI 2013) and `CuckooSwitch` (`CoNEXT` 2013), with counters per
//! bucket instead of per key. Tags come from `MemC3`, here stored separately from the keys.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(test)]
mod stress_tests;
#[cfg(test)]
mod tests;

mod entry;
mod growth;
mod lookup;
mod path_search;
mod reader;
mod stages;
mod store;
mod stores;
mod tags;
mod version;
mod writer;

pub use reader::Reader;
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

/// The maximum number of buckets of a table: just below 4 Gi slots. Slot numbers and the bucket choice have 32 bits, and one
/// number is no slot.
pub const MAX_BUCKETS: usize = (1 << 30) - 1;

/// The load, in percent of the slots, that tables are intended for; a table of a million slots refuses an
/// insert at about 97.
pub const DESIGN_LOAD_PERCENT: usize = 95;

/// The hash function with which a table's keys were hashed where the packet entered. The writer needs it
/// again for each key it moves; storing the hashes would cost 8 bytes per key.
pub trait HashWords<const K: usize>: Send + Sync {
    /// The hash of the key made of these words; the same value that is passed to lookups.
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

/// A concurrent cuckoo table with keys of `K` and values of `V` 64-bit words. See the [module](self) for its
/// costs.
///
/// Every method that takes a key also takes its hash, which must be the hasher's. A lookup may not find a key
/// that was stored with another hash (debug builds check this).
pub struct CuckooTable<const K: usize, const V: usize, H = KeyHasher> {
    /// The stores that readers read.
    current: ArcSwap<Stores<K, V>>,
    /// Advanced after each store to `current`. A reader that has found nothing checks it.
    generation: CachePadded<AtomicU64>,
    /// The writer's state. The thread that holds the lock is the writer. Readers never touch it.
    state: Mutex<WriterState<K, V>>,
    /// Stored only by the writer.
    len: CachePadded<AtomicUsize>,
    hasher: H,
}

impl<const K: usize, const V: usize, H: HashWords<K>> CuckooTable<K, V, H> {
    /// An empty table of at least `slots` slots (rounded up to whole buckets, at least 2, at most
    /// [`MAX_BUCKETS`]). `seed` spreads the keys of this table independently of other tables; it is not a
    /// secret.
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

    /// The number of slots needed to hold `keys` keys at [`DESIGN_LOAD_PERCENT`]. Small tables get a few
    /// more, because their load varies more.
    pub fn slots_for(keys: usize) -> usize {
        let spare = if keys == 0 { 0 } else { 4 * SLOTS };
        let surplus = keys as u128 * (100 - DESIGN_LOAD_PERCENT) as u128 / DESIGN_LOAD_PERCENT as u128;
        keys.saturating_add(surplus as usize + spare) // the surplus is a nineteenth of `keys`
    }

    /// The maximum number of slots of a table that uses at most `bytes` of memory; 0 if no table does.
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

    /// The value of a key, or `None` if it is not in the table (an exact answer). The all-zero key is never
    /// in the table.
    ///
    /// Cost: the [lines](self#memory-and-cost) of one lookup, one after the other, and two atomic exchanges. For many
    /// keys use [`Self::get_batch`], or [`Self::reader`] if they come one by one.
    #[inline]
    pub fn get(&self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let found = self.current.load().get(key, hash);
            if found.is_some() || self.generation.load(Ordering::Relaxed) == generation {
                return found;
            }
        }
    }

    /// Calls `tell` for each cache line that a lookup of this key reads, in order, each once: the tags of its
    /// two buckets, and the entries with its tag up to its own. For benchmarks that replay lookups.
    pub fn touched(&self, key: &[u64; K], hash: KeyHash, tell: &mut dyn FnMut(*const u8)) {
        let mut lines = LineRecorder::new(tell);
        let _ = self.current.load().all().any(|store| store.view().touched(key, hash, &mut lines));
    }

    /// Looks up each key of a batch of any length, with the memory accesses of many keys in flight at once:
    /// batches of 32 hide most of the memory latency, those of 64 and more nearly all.
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

    /// Looks up the keys that were not in the oldest store: in the newer stores, and while the list of stores
    /// changes, in the current list. [`growth`] explains why this misses no key.
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

    /// Becomes the writer until the guard is dropped; waits for the previous writer. Use it for several
    /// changes in a row.
    pub fn write(&self) -> Writer<'_, K, V, H> {
        // A panic leaves no state half changed: only the caller's own closures can panic while this lock is
        // held.
        Writer::new(self, self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a key. Cost: the tags of two buckets, and one slot; near full also a search over some more
    /// buckets. For a run of keys, [`Writer::insert_all`] is several times as fast.
    ///
    /// # Errors
    /// [`FibError::Exists`], [`FibError::Full`], [`FibError::ZeroKey`]; the table is then unchanged.
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

    /// Moves all keys to a table of at least `slots` slots while readers continue: see [`Writer::grow`], and
    /// [`Writer::grow_begin`] for incremental growth.
    ///
    /// # Errors
    /// [`FibError::Full`] if `slots` is less than the number of keys; the table is then unchanged.
    pub fn grow(&self, slots: usize) -> Result<(), FibError> {
        self.write().grow(slots)
    }

    /// Calls `visit` with each key and value, in no particular order. Blocks writers, so that it visits the
    /// table of one moment; readers continue. `visit` must not write to this table: it would deadlock.
    pub fn for_each(&self, visit: impl FnMut([u64; K], [u64; V])) {
        self.write().for_each(visit);
    }

    /// Number of keys stored.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether the table has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of slots; for a growing table, the number that it will have.
    pub fn slots(&self) -> usize {
        self.current.load().newest().slots()
    }

    /// Bytes of memory used by keys, values and stamps; while the table grows, of the old and the new table.
    pub fn table_bytes(&self) -> usize {
        self.current.load().all().map(|store| store.bytes()).sum()
    }
}

impl<const K: usize, const V: usize, H: HashWords<K>> std::fmt::Debug for CuckooTable<K, V, H> {
    /// Prints size and fill, not the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CuckooTable")
            .field("key_words", &K)
            .field("value_words", &V)
            .field("len", &self.len())
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}

/// The number of buckets for `slots` requested slots.
fn buckets_for(slots: usize) -> usize {
    slots.div_ceil(SLOTS).clamp(2, MAX_BUCKETS)
}
