//! The table interfaces of the data plane: [`Gpt`] answers "which node?" with a hint, [`Fib`] answers "which
//! flow?" exactly.

use scalebricks_types::{
    Applied, ApplyError, Delta, FlowKey, KeyHash, NodeHint, PartitionCount, PartitionId, Position, TableKind,
};
use std::sync::Arc;

/// A batch of keys, each hashed once where the packet enters. Keys and hashes are two slices of the same
/// length, so that a kernel reads the hashes as one dense array and only exact tables read the keys.
#[derive(Debug, Clone, Copy)]
pub struct KeyBatch<'a> {
    keys: &'a [FlowKey],
    hashes: &'a [KeyHash],
}

impl<'a> KeyBatch<'a> {
    /// A batch of these keys and their hashes.
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

    /// Whether the batch has no keys.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// A global partition table (GPT). Every node has one; it maps each flow of the cluster to the node that
/// handles it.
///
/// One writer applies deltas while any number of readers look keys up. For each key, a reader sees the value
/// before or after each delta.
pub trait Gpt: Send + Sync + std::fmt::Debug {
    /// The kind of table, as deltas name it.
    fn kind(&self) -> TableKind;

    /// How many partitions the key hash is divided into. Each partition has its own update stream.
    fn partitions(&self) -> PartitionCount;

    /// Makes a reader for one thread.
    fn reader(self: Arc<Self>) -> Box<dyn GptReader>;

    /// Applies one update.
    ///
    /// # Errors
    /// [`ApplyError`]; the table is then unchanged.
    fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError>;

    /// The position in a partition's update stream; `None` if there is no such partition.
    fn position(&self, partition: PartitionId) -> Option<Position>;

    /// Bytes of memory that the query structure uses.
    fn table_bytes(&self) -> usize;
}

/// One thread's view of a [`Gpt`]. It is not shared: `&mut self` tells the table when a reader no longer uses
/// old data.
pub trait GptReader: Send {
    /// The hint for each key of the batch. A key that was never inserted gets an arbitrary hint, or
    /// [`NodeHint::NONE`] from tables that can tell.
    ///
    /// # Panics
    /// If `hints` is shorter than the batch.
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]);
}

/// The value that a FIB stores per flow: 16 opaque bytes. The data plane defines their meaning.
pub type FibValue = [u64; 2];

/// Why a FIB update was refused. The table is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// No free slot was found for the key: grow the table.
    #[error("FIB full at {len} of {slots} slots: grow it")]
    Full {
        /// Number of keys stored.
        len: usize,
        /// Number of slots.
        slots: usize,
    },
    /// The key is already in the table.
    #[error("the key is already in the FIB")]
    Exists,
    /// The key is not in the table.
    #[error("the key is not in the FIB")]
    Missing,
    /// The all-zero key marks empty slots and cannot be stored. No [`FlowKey`] made by its constructors is
    /// all zeros.
    #[error("the all-zero key cannot be stored")]
    ZeroKey,
}

/// An exact table from flow keys to their state. Readers take no locks and run concurrently with one writer
/// at a time.
pub trait Fib: Send + Sync + std::fmt::Debug {
    /// The value of each key of the batch, or `None` if the key is not in the table. The answer is exact.
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

    /// Number of keys stored.
    fn len(&self) -> usize;

    /// Whether the table has no keys.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the table uses.
    fn table_bytes(&self) -> usize;
}
