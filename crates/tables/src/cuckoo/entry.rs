//! One slot: a key and its value, as words that readers and the writer share.
#![allow(unsafe_code)]

use crate::reclaim::sync::{AtomicU64, Ordering};

/// A key and its value. With 16 bytes each, they take half a cache line and never cross a line boundary.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct Entry<const K: usize, const V: usize> {
    key: [AtomicU64; K],
    value: [AtomicU64; V],
}

#[cfg(not(loom))]
// SAFETY: all-zero atomics are valid, and so is zero padding.
unsafe impl<const K: usize, const V: usize> crate::huge::Zeroable for Entry<K, V> {}

#[cfg(loom)]
impl<const K: usize, const V: usize> Default for Entry<K, V> {
    fn default() -> Self {
        let (key, value) =
            (std::array::from_fn(|_| AtomicU64::new(0)), std::array::from_fn(|_| AtomicU64::new(0)));
        Self { key, value }
    }
}

#[inline(always)]
fn load<const N: usize>(words: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|word| words[word].load(Ordering::Relaxed))
}

#[inline(always)]
fn store<const N: usize>(words: &[AtomicU64; N], new: &[u64; N]) {
    for (word, &new) in words.iter().zip(new) {
        word.store(new, Ordering::Relaxed);
    }
}

impl<const K: usize, const V: usize> Entry<K, V> {
    /// Whether this is the key's entry. Without branches.
    #[inline(always)]
    pub(super) fn is_of(&self, key: &[u64; K]) -> bool {
        #[cfg(all(test, not(loom)))]
        crate::touched_lines::note(self, size_of::<Self>());
        self.key.iter().zip(key).fold(0, |differ, (word, key)| differ | word.load(Ordering::Relaxed) ^ key)
            == 0
    }

    #[inline(always)]
    pub(super) fn value(&self) -> [u64; V] {
        load(&self.value)
    }

    /// Copies word by word into place: a returned array would be copied over the stack.
    #[inline(always)]
    pub(super) fn copy_value(&self, to: &mut Option<[u64; V]>) {
        for (to, word) in to.get_or_insert([0; V]).iter_mut().zip(&self.value) {
            *to = word.load(Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn key(&self) -> [u64; K] {
        load(&self.key)
    }

    #[inline(always)]
    pub(super) fn set(&self, key: &[u64; K], value: &[u64; V]) {
        store(&self.key, key);
        self.set_value(value);
    }

    #[inline(always)]
    pub(super) fn set_value(&self, value: &[u64; V]) {
        store(&self.value, value);
    }
}
