//! Wakers of tasks that wait for new entries or records.

use futures_util::task::AtomicWaker;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Wakers by key. Waking never blocks, so a slow listener does not delay others.
#[derive(Debug)]
pub(super) struct Listeners<K>(Mutex<HashMap<K, Vec<Weak<AtomicWaker>>>>);

impl<K> Default for Listeners<K> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash> Listeners<K> {
    /// A waker that is woken on news of this key, until it is dropped.
    pub(super) fn listen(&self, to: K) -> Arc<AtomicWaker> {
        let waker = Arc::new(AtomicWaker::new());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = all.entry(to).or_default();
        list.retain(|waker| waker.strong_count() > 0);
        list.push(Arc::downgrade(&waker));
        waker
    }

    /// Wakes the listeners of this key.
    pub(super) fn wake(&self, of: &K) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = all.get(of) {
            list.iter().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
        }
    }

    /// Wakes all listeners: nothing more will come.
    pub(super) fn wake_all(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().flatten().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
    }
}
