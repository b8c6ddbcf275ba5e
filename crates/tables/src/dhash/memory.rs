//! How large a table is.

use super::compare::{Line, SLOTS};
use super::key::FlowKey;
use super::pool::Entry;
use super::table::{Counters, DHash};

/// Bytes of a table, by part. Those of growing tables count what is used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The signatures: 64 bytes per bucket.
    pub table_bytes: usize,
    /// The heads of the lists: 4 bytes per bucket. The paper has 8.
    pub heads_bytes: usize,
    /// The conflict entries: 12 bytes each, free ones included.
    pub pool_bytes: usize,
    /// The keys: 16 or 40 bytes per slot and entry.
    pub keys_bytes: usize,
    /// The arrays of the records.
    pub columns_bytes: usize,
    /// Address space for the maximum size, all parts together.
    pub reserved_bytes: usize,
}

impl Memory {
    /// What a lookup may read before it compares a key: signatures, heads and entries. The paper's "memory".
    pub const fn lookup_bytes(&self) -> usize {
        self.table_bytes + self.heads_bytes + self.pool_bytes
    }

    /// All memory used.
    pub const fn total_bytes(&self) -> usize {
        self.lookup_bytes() + self.keys_bytes + self.columns_bytes
    }
}

impl<K> DHash<K> {
    /// Number of sessions.
    #[inline]
    pub fn len(&self) -> usize {
        self.in_slots + self.pool.used()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sessions in conflict lists.
    pub fn in_lists(&self) -> usize {
        self.pool.used()
    }

    /// Number of buckets now.
    #[inline(always)]
    pub fn buckets(&self) -> usize {
        self.place.buckets() as usize
    }

    /// Records there are now: slots, and entries of the pool. A table refuses sessions earlier, when a bucket, its
    /// list or the pool is full.
    pub fn capacity(&self) -> usize {
        self.buckets() * SLOTS + self.pool.len()
    }

    /// The maximum of [`Self::capacity`]: all record indices are below it.
    pub fn max_capacity(&self) -> usize {
        self.lines.len() * SLOTS + self.pool.max_entries() as usize
    }

    /// Events since the table was made.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl<K: FlowKey> DHash<K> {
    /// Bytes of the table, by part.
    pub fn memory(&self) -> Memory {
        let reserved = size_of_val(&*self.lines)
            + size_of_val(&*self.heads)
            + size_of_val(&*self.keys)
            + self.pool.capacity() * size_of::<Entry>();
        Memory {
            table_bytes: self.buckets() * size_of::<Line>(),
            heads_bytes: self.buckets() * size_of::<u32>(),
            pool_bytes: self.pool.len() * size_of::<Entry>(),
            keys_bytes: self.capacity() * size_of::<K>(),
            columns_bytes: self.records.bytes(),
            reserved_bytes: reserved + self.records.reserved_bytes(),
        }
    }
}
