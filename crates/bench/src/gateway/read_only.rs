//! Read-only tables, which two cores query without a lock. With a lock, they would wait for each other's
//! access to its cache line. Our tables need no lock, so others get none either.

use scalebricks_tables::{Fib, FibError, FibValue, KeyBatch};
use scalebricks_types::{FlowKey, KeyHash};

/// The queries that such a table answers.
pub trait Lookup: Send + Sync + std::fmt::Debug {
    /// As [`Fib::lookup_batch`].
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]);

    /// As [`Fib::len`].
    fn len(&self) -> usize;

    /// Whether it holds nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Fib::table_bytes`].
    fn table_bytes(&self) -> usize;
}

/// A table that refuses all changes.
#[derive(Debug)]
pub struct Frozen<T>(pub T);

impl<T: Lookup> Fib for Frozen<T> {
    #[inline]
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]) {
        self.0.lookup_batch(keys, values);
    }

    fn insert(&self, _: &FlowKey, _: KeyHash, _: FibValue) -> Result<(), FibError> {
        Err(FibError::Full { len: self.0.len(), slots: self.0.len() })
    }

    fn update(&self, _: &FlowKey, _: KeyHash, _: FibValue) -> Result<FibValue, FibError> {
        Err(FibError::Missing)
    }

    fn remove(&self, _: &FlowKey, _: KeyHash) -> Result<FibValue, FibError> {
        Err(FibError::Missing)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }
}
