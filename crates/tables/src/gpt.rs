//! The interfaces the data plane sees: [`Gpt`] answers "which node?" with a hint, [`Fib`] answers "which flow?"
//! with a fact.

use scalebricks_types::{
    Applied, ApplyError, Delta, FlowKey, KeyHash, NodeHint, PartitionCount, PartitionId, Position, TableKind,
};
use std::sync::Arc;

/// A batch of keys, each hashed once at the edge: two slices of one length, so that a kernel reads the hashes as
/// one dense array and only exact tables touch the keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyBatch<'a> {
    keys: &'a [FlowKey],
    hashes: &'a [KeyHash],
}

impl<'a> KeyBatch<'a> {
    /// The batch of these keys with their hashes.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn new(keys: &'a [FlowKey], hashes: &'a [KeyHash]) -> Self {
        assert_eq!(keys.len(), hashes.len(), "one hash a key");
        Self { keys, hashes }
    }

    /// The keys.
    #[inline]
    pub const fn keys(&self) -> &'a [FlowKey] {
        self.keys
    }

    /// Their hashes, in the same order.
    #[inline]
    pub const fn hashes(&self) -> &'a [KeyHash] {
        self.hashes
    }

    /// Number of keys.
    #[inline]
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// A global partition table: which node handles a flow, for all flows of the cluster, at every node.
///
/// One writer applies deltas while any number of readers look keys up; per key, a reader sees the value before or
/// after each delta.
pub trait Gpt: Send + Sync + std::fmt::Debug {
    /// The structure behind it, as deltas name it.
    fn kind(&self) -> TableKind;

    /// How the key hash is cut into update streams.
    fn partitions(&self) -> PartitionCount;

    /// A reader of its own for one thread.
    fn reader(self: Arc<Self>) -> Box<dyn GptReader>;

    /// Applies one update.
    ///
    /// # Errors
    /// [`ApplyError`]; the table is then unchanged.
    fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError>;

    /// Where a partition's stream stands; `None` if there is no such partition.
    fn position(&self, partition: PartitionId) -> Option<Position>;

    /// Bytes of memory the query structure holds.
    fn table_bytes(&self) -> usize;
}

/// One thread's view of a [`Gpt`]. Not shared: `&mut self` is what lets a table know when its readers have moved on.
pub trait GptReader: Send {
    /// The hint for each key of the batch. A key that was never inserted gets an arbitrary hint, or
    /// [`NodeHint::NONE`] from tables that can tell.
    ///
    /// # Panics
    /// If `hints` is shorter than the batch.
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]);
}

/// What a FIB holds for a flow: 16 opaque bytes, whose meaning is the data plane's.
pub type FibValue = [u64; 2];

/// A refused FIB update. The table is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// No free slot was found for the key: grow the table.
    #[error("FIB full at {len} of {slots} slots: grow it")]
    Full {
        /// Keys held.
        len: usize,
        /// Slots there are.
        slots: usize,
    },
    /// The key is there already.
    #[error("the key is already in the FIB")]
    Exists,
    /// The key is not there.
    #[error("the key is not in the FIB")]
    Missing,
    /// The all-zero key marks empty slots and cannot be stored. No [`FlowKey`] made by its constructors is all zeros.
    #[error("the all-zero key cannot be stored")]
    ZeroKey,
}

/// An exact table from flow keys to their state. Readers run without locks beside one writer at a time.
pub trait Fib: Send + Sync + std::fmt::Debug {
    /// The value of each key of the batch, or `None` where it is not in the table: an exact answer.
    ///
    /// # Panics
    /// If `values` is shorter than the batch.
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]);

    /// Adds a key.
    ///
    /// # Errors
    /// [`FibError::Exists`], [`FibError::Full`], [`FibError::ZeroKey`].
    fn insert(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<(), FibError>;

    /// Replaces the value of a key and returns the old one.
    ///
    /// # Errors
    /// [`FibError::Missing`].
    fn update(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<FibValue, FibError>;

    /// Removes a key and returns its value.
    ///
    /// # Errors
    /// [`FibError::Missing`].
    fn remove(&self, key: &FlowKey, hash: KeyHash) -> Result<FibValue, FibError>;

    /// Keys held.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory the table holds.
    fn table_bytes(&self) -> usize;
}
