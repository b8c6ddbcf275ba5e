//! The atomics of what readers and the writer share; under `--cfg loom`, those of the model checker.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// Zeroed memory of atomics: on huge pages, but not under the model checker, whose atomics are more than their bits.
#[cfg(not(loom))]
pub(crate) use crate::huge::HugeSlice as Memory;
#[cfg(loom)]
pub(crate) use modelled::Memory;

#[cfg(loom)]
mod modelled {
    #[derive(Debug)]
    pub(crate) struct Memory<T>(Box<[T]>);

    impl<T: Default> Memory<T> {
        pub(crate) fn zeroed(len: usize) -> Self {
            Self((0..len).map(|_| T::default()).collect())
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
}

/// Lets other threads run while waiting for them.
pub(crate) fn yield_now() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}
