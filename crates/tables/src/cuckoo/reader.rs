//! Lookups of single keys by a thread that looks up many.

use super::stores::Stores;
use super::{CuckooTable, HashWords};
use crate::reclaim::sync::{ArcSwap, Cache, Ordering};
use scalebricks_types::{KeyHash, KeyHasher};
use std::sync::Arc;

/// One thread's reader of a table, for single keys.
///
/// [`CuckooTable::get`] protects the table's memory in each call, with two atomic exchanges, and a processor does
/// not begin the next lookup before they are done. A reader holds on to the memory between calls instead. So what a
/// table leaves behind when it grows is freed by the first change that comes after the next call of each reader.
pub struct Reader<'a, const K: usize, const V: usize, H = KeyHasher> {
    table: &'a CuckooTable<K, V, H>,
    stores: Cache<&'a ArcSwap<Stores<K, V>>, Arc<Stores<K, V>>>,
}

impl<const K: usize, const V: usize, H: HashWords<K>> CuckooTable<K, V, H> {
    /// A reader for one thread, which looks up single keys faster than [`Self::get`].
    pub fn reader(&self) -> Reader<'_, K, V, H> {
        Reader { table: self, stores: Cache::new(&self.current) }
    }
}

impl<const K: usize, const V: usize, H: HashWords<K>> Reader<'_, K, V, H> {
    /// The value of a key, exactly as [`CuckooTable::get`] returns it.
    ///
    /// Cost: the [lines](super#memory-and-cost) of one lookup, and those of the list of stores, which stay cached.
    #[inline]
    pub fn get(&mut self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        loop {
            let generation = self.table.generation.load(Ordering::Acquire);
            // Not older than this generation: the list was stored before it.
            let found = self.stores.load().get(key, hash);
            if found.is_some() || self.table.generation.load(Ordering::Relaxed) == generation {
                return found;
            }
        }
    }
}

impl<const K: usize, const V: usize, H: HashWords<K>> std::fmt::Debug for Reader<'_, K, V, H> {
    /// Prints the table's size and fill.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("table", self.table).finish_non_exhaustive()
    }
}
