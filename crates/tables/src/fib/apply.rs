//! Applies deltas to a FIB, each completely or not at all.

use super::ops::{KeyOps, Ops, decode_ops};
use super::{PartialFib, Table};
use crate::cuckoo::{HashWords, Writer};
use crate::{FibError, FibValue};
use scalebricks_types::{
    Applied, ApplyError, Delta, KeyHash, KeyHasher, PartitionCount, PartitionId, Position, TableKind,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const NO_ROOM: ApplyError = ApplyError::Full("the exact table cannot hold the delta's keys: grow it");

/// How many keys ahead of the current one the tags are prefetched.
const AHEAD: usize = 16;

/// How many keys ahead the entries are prefetched.
const ENTRIES_AHEAD: usize = 8;

/// The position of each partition's stream, and the lock under which deltas are applied one after the other.
#[derive(Debug)]
pub(super) struct Positions {
    partitions: PartitionCount,
    at: Box<[AtomicU64]>,
    applying: Mutex<()>,
}

impl Positions {
    pub(super) fn new(partitions: PartitionCount) -> Self {
        let at = (0..partitions.get()).map(|_| AtomicU64::new(0)).collect();
        Self { partitions, at, applying: Mutex::new(()) }
    }
}

/// The state of one key before the delta, for undoing it.
enum PriorState<const K: usize> {
    Absent([u64; K], KeyHash),
    Present([u64; K], KeyHash, FibValue),
}

impl PartialFib {
    /// How many partitions the key hash is divided into. Each partition has its own update stream.
    pub const fn partitions(&self) -> PartitionCount {
        self.positions.partitions
    }

    /// The position of a partition's stream; `None` if there is no such partition.
    pub fn position(&self, partition: PartitionId) -> Option<Position> {
        let at = self.positions.at.get(usize::from(partition.0))?;
        Some(Position(at.load(Ordering::Acquire)))
    }

    /// Applies one update of this node's FIB stream; the payload is that of
    /// [`encode_ops`](super::encode_ops). Direct inserts and removals do not change the positions.
    ///
    /// For each key, readers see the value before or after the delta. If a delta turns out not to fit, they
    /// may see the value after it, and then the value before it again.
    ///
    /// # Errors
    /// [`ApplyError`]; keys, values and positions are then unchanged. `Full` occurs only if the FIB was not
    /// configured to grow.
    pub fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        self.apply_as(TableKind::Fib, delta)
    }

    /// [`Self::apply`] for a delta of this kind: the full copy of all flows has its own kind.
    pub(crate) fn apply_as(&self, want: TableKind, delta: &Delta) -> Result<Applied, ApplyError> {
        if delta.kind != want {
            return Err(ApplyError::Kind { want, got: delta.kind });
        }
        let no_partition = ApplyError::Partition(delta.partition);
        let at = self.positions.at.get(usize::from(delta.partition.0)).ok_or(no_partition)?;
        let _one_at_a_time = self.positions.applying.lock().unwrap_or_else(PoisonError::into_inner);
        if !delta.follows(Position(at.load(Ordering::Relaxed)))? {
            return Ok(Applied::Stale);
        }
        let ops = decode_ops(&delta.payload)?;
        if ops.keys().any(|key| self.partitions().of(self.hasher.hash(&key)) != delta.partition) {
            return Err(ApplyError::Malformed("a key of another partition"));
        }
        self.apply_ops(&ops)?;
        at.store(delta.position.0, Ordering::Release);
        Ok(Applied::Advanced)
    }

    fn apply_ops(&self, ops: &Ops) -> Result<(), ApplyError> {
        let mut short = self.short.write();
        let undo = self.apply_to(&mut short, &ops.short)?;
        let long = if ops.long.set.is_empty() { self.long.get() } else { self.long_or_none() };
        let done = match long {
            Some(table) => self.apply_to(&mut table.write(), &ops.long).map(drop),
            None if ops.long.set.is_empty() => Ok(()),
            None => Err(NO_ROOM),
        };
        if done.is_err() {
            take_back(&mut short, undo);
        }
        done
    }

    fn long_or_none(&self) -> Option<&Table<5>> {
        self.long_for_insert().ok()
    }

    /// Deletes, then sets, so that a nearly full table can exchange keys. Returns the undo log; if a key does
    /// not fit, undoes everything at once.
    fn apply_to<const K: usize>(
        &self,
        writer: &mut Writer<'_, K, 2, KeyHasher>,
        ops: &KeyOps<K>,
    ) -> Result<Vec<PriorState<K>>, ApplyError>
    where
        KeyHasher: HashWords<K>,
    {
        let mut undo = Vec::with_capacity(ops.deleted.len() + ops.set.len());
        for key in &ops.deleted {
            let hash = self.hasher.hash_words(key);
            if let Ok(old) = writer.remove(key, hash) {
                undo.push(PriorState::Present(*key, hash, old));
            }
        }
        let hashes: Vec<KeyHash> = ops.set.iter().map(|(key, _)| self.hasher.hash_words(key)).collect();
        for (i, ((key, value), &hash)) in ops.set.iter().zip(&hashes).enumerate() {
            if let Some(&ahead) = hashes.get(i + AHEAD) {
                writer.prefetch(ahead);
            }
            if let Some(&ahead) = hashes.get(i + ENTRIES_AHEAD) {
                writer.prefetch_entry(ahead);
            }
            if let Ok(old) = writer.update(key, hash, value) {
                undo.push(PriorState::Present(*key, hash, old));
            } else if self.insert_words(writer, key, hash, value).is_ok() {
                undo.push(PriorState::Absent(*key, hash));
            } else {
                take_back(writer, undo);
                return Err(NO_ROOM);
            }
        }
        Ok(undo)
    }
}

/// Restores every key, the last change first. If keys have moved meanwhile into the slot of a deleted key,
/// the table grows, even one that was not configured to: a refused delta must not lose a key.
fn take_back<const K: usize>(writer: &mut Writer<'_, K, 2, KeyHasher>, undo: Vec<PriorState<K>>)
where
    KeyHasher: HashWords<K>,
{
    for before in undo.into_iter().rev() {
        let done = match before {
            PriorState::Absent(key, hash) => writer.remove(&key, hash).map(drop),
            PriorState::Present(key, hash, value) => match writer.update(&key, hash, &value) {
                Ok(_) => Ok(()),
                Err(_) => writer.insert_growing(&key, hash, &value),
            },
        };
        match done {
            Ok(()) => {}
            Err(FibError::Full { .. }) => unreachable!("the keys fitted this table before"),
            Err(error) => unreachable!("undoing a change under the writer's lock: {error}"),
        }
    }
}
