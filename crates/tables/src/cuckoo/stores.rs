//! The stores of a table: one, or, while it grows, the old ones and the new one.

use super::store::Store;
use scalebricks_types::KeyHash;
use std::sync::Arc;

/// The stores that readers read, oldest first. Keys move only to the newest.
#[derive(Debug)]
pub(super) struct Stores<const K: usize, const V: usize> {
    pub(super) oldest: Arc<Store<K, V>>,
    /// Empty unless the table grows. There is a second store only if the first turned out too small.
    pub(super) newer: Vec<Arc<Store<K, V>>>,
}

impl<const K: usize, const V: usize> Stores<K, V> {
    pub(super) const fn of(store: Arc<Store<K, V>>) -> Self {
        Self { oldest: store, newer: Vec::new() }
    }

    /// The store that new keys go to.
    #[inline]
    pub(super) fn newest(&self) -> &Arc<Store<K, V>> {
        self.newer.last().unwrap_or(&self.oldest)
    }

    pub(super) const fn growing(&self) -> bool {
        !self.newer.is_empty()
    }

    /// All stores, oldest first.
    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Store<K, V>>> {
        std::iter::once(&self.oldest).chain(&self.newer)
    }

    /// The value of a key in the first store that has it.
    #[inline(always)]
    pub(super) fn get(&self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        let found = self.oldest.get(key, self.oldest.places(hash));
        if found.is_some() || !self.growing() {
            return found;
        }
        self.get_in_newer(key, hash)
    }

    #[cold]
    fn get_in_newer(&self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        self.newer.iter().find_map(|store| store.get(key, store.places(hash)))
    }

    /// These stores and a new one.
    pub(super) fn with(&self, store: Arc<Store<K, V>>) -> Self {
        let newer = self.newer.iter().cloned().chain([store]).collect();
        Self { oldest: Arc::clone(&self.oldest), newer }
    }

    /// These stores without the oldest; `None` if it is the only one.
    pub(super) fn without_oldest(&self) -> Option<Self> {
        let (oldest, newer) = self.newer.split_first()?;
        Some(Self { oldest: Arc::clone(oldest), newer: newer.to_vec() })
    }
}
