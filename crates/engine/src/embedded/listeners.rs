//! Tasks that wait for something new.

use futures_util::task::AtomicWaker;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Wakers by what they wait for. They are woken, never waited for: how fast a listener is makes no difference to others.
#[derive(Debug)]
pub(super) struct Listeners<K>(Mutex<HashMap<K, Vec<Weak<AtomicWaker>>>>);

impl<K> Default for Listeners<K> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash> Listeners<K> {
    /// A waker that is woken when there is news of this, until it is dropped.
    pub(super) fn listen(&self, to: K) -> Arc<AtomicWaker> {
        let waker = Arc::new(AtomicWaker::new());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = all.entry(to).or_default();
        list.retain(|waker| waker.strong_count() > 0);
        list.push(Arc::downgrade(&waker));
        waker
    }

    /// There is news of this.
    pub(super) fn wake(&self, of: &K) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = all.get(of) {
            list.iter().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
        }
    }

    /// There will be no more news.
    pub(super) fn wake_all(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().flatten().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
    }
}
