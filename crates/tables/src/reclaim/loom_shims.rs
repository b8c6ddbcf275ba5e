//! Replacements, under the model checker, for memory and for atomically swapped pointers.

use super::sync::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Memory of the model checker's atomics.
#[derive(Debug)]
pub(crate) struct Memory<T>(Box<[T]>);

impl<T: Default> Memory<T> {
    pub(crate) fn zeroed(len: usize) -> Self {
        Self((0..len).map(|_| T::default()).collect())
    }

    pub(crate) fn untouched(len: usize) -> Self {
        Self::zeroed(len)
    }
}

impl<T> std::ops::Deref for Memory<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> std::ops::DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// As that of the crate `arc_swap`: loads acquire what stores release. The number of the value replaces the
/// pointer. All values are kept; the lock around them is unknown to the checker and orders nothing.
#[derive(Debug)]
pub(crate) struct ArcSwap<T> {
    at: AtomicU64,
    all: Mutex<Vec<Arc<T>>>,
}

impl<T> ArcSwap<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self { at: AtomicU64::new(0), all: Mutex::new(vec![value]) }
    }

    pub(crate) fn from_pointee(value: T) -> Self {
        Self::new(Arc::new(value))
    }

    fn numbered(&self, at: u64) -> Arc<T> {
        Arc::clone(&self.all.lock().unwrap_or_else(PoisonError::into_inner)[at as usize])
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        self.numbered(self.at.load(Ordering::Acquire))
    }

    pub(crate) fn load(&self) -> Arc<T> {
        self.load_full()
    }

    /// For one writer at a time.
    pub(crate) fn swap(&self, value: Arc<T>) -> Arc<T> {
        let before = self.load_full();
        let at = {
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(value);
            all.len() as u64 - 1
        };
        self.at.store(at, Ordering::Release);
        before
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        drop(self.swap(value));
    }
}

/// As that of `arc_swap`: checks with a relaxed load whether there is another value.
#[derive(Debug)]
pub(crate) struct Cache<S, P> {
    of: S,
    at: u64,
    value: P,
}

impl<T, S: std::ops::Deref<Target = ArcSwap<T>>> Cache<S, Arc<T>> {
    pub(crate) fn new(of: S) -> Self {
        let at = of.at.load(Ordering::Acquire);
        Self { at, value: of.numbered(at), of }
    }

    pub(crate) fn load(&mut self) -> &Arc<T> {
        if self.of.at.load(Ordering::Relaxed) != self.at {
            self.at = self.of.at.load(Ordering::Acquire);
            self.value = self.of.numbered(self.at);
        }
        &self.value
    }
}

/// Runs a model through its interleavings with at most this many preemptions. There must be many
/// interleavings, or the threads of the model never interacted.
///
/// The writer must run in the calling thread: loom remembers only the last read of a word, so the writer's
/// own read, before it writes, would hide that of a reader that ran first.
#[cfg(test)]
pub(crate) fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    use std::sync::atomic::AtomicU64;
    let tried = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&tried);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let tried = tried.load(Ordering::Relaxed);
    println!("Completed in {tried} iterations");
    assert!(tried > 20, "only {tried} interleavings");
}
