//! A table in one shape, and in two while it is being reshaped.
//!
//! During reshaping, the first units of each partition are looked up in the new shape, the others in the old.
//! A unit's new form is written before the count that leads to it (release, acquire). Its old form stays
//! unchanged until the last reader that may be in it has gone. So for each key a reader finds the value
//! before or after any update: it loads the generations again with every pin, and an old unit that is no
//! longer used holds the values of the moment at which it was converted.

use super::arena::{Arena, FreeSlots};
use super::{TableParams, Units};
use crate::reclaim::cache_line::Line;
use crate::reclaim::epoch::Epochs;
use crate::reclaim::sync::{Arc as SyncArc, AtomicU32, Memory, Ordering};
use scalebricks_types::{KeyHash, PartitionCount, PartitionId};
use std::sync::Arc;

/// The part of a table in one shape that readers see.
#[derive(Debug)]
pub(crate) struct Generation<S: Units> {
    pub(crate) params: S::Params,
    pub(crate) fingerprint: u32,
    pub(crate) layout: S::Layout,
    pub(crate) arena: Arena,
    pub(crate) side: S::SideData,
}

/// The state that only the writer of a [`Generation`] needs.
#[derive(Debug)]
pub(crate) struct GenerationWriter<S: Units> {
    pub(crate) spares: FreeSlots,
    pub(crate) side: S::SideDataWriter,
    /// The changes of the last parsed section.
    pub(crate) changes: S::Changes,
    /// The unit that is being changed.
    pub(crate) words: Vec<u64>,
}

/// A generation and its writer.
pub(crate) type WritableGeneration<S> = (Generation<S>, GenerationWriter<S>);

impl<S: Units> Generation<S> {
    /// A generation without keys.
    pub(crate) fn empty(params: S::Params, epochs: SyncArc<Epochs>) -> WritableGeneration<S> {
        Self::with_memory(params, Self::memory(&params), [], epochs)
    }

    /// Zeroed lines for a generation with these parameters: those of all its units, in order, followed by
    /// spare lines. The caller may fill the units before it passes the memory to
    /// [`with_memory`](Self::with_memory).
    pub(crate) fn memory(params: &S::Params) -> Memory<Line> {
        Arena::memory(params.units() as usize, params.unit_words() / 8)
    }

    /// A generation of the units in a [`memory`](Self::memory) made for the same parameters, and the
    /// additional data of some of them.
    pub(crate) fn with_memory(
        params: S::Params,
        memory: Memory<Line>,
        extras: impl IntoIterator<Item = (u32, S::Extra)>,
        epochs: SyncArc<Epochs>,
    ) -> WritableGeneration<S> {
        let (arena, spares) = Arena::new(memory, params.units() as usize, params.unit_words() / 8, epochs);
        let (side, side_writer) = S::side(&params, arena.slots());
        let (fingerprint, layout) = (params.fingerprint(), S::layout(&params));
        let generation = Self { params, fingerprint, layout, arena, side };
        let words = vec![0; params.unit_words()];
        let mut writer =
            GenerationWriter { spares, side: side_writer, changes: S::Changes::default(), words };
        for (unit, extra) in extras {
            S::place(&generation, &mut writer, unit, extra);
        }
        (generation, writer)
    }

    /// The slot of a unit. While the caller is pinned (or holds the writer's lock), the slot does not change.
    #[inline(always)]
    pub(crate) fn slot(&self, unit: u32) -> u32 {
        self.arena.word(unit) & (u32::MAX >> (u32::BITS - S::SLOT_BITS))
    }

    /// Prefetches the lines of a unit, to be copied soon.
    #[inline]
    pub(crate) fn prefetch(&self, unit: u32) {
        self.arena.prefetch(self.slot(unit), S::LINES_AHEAD);
    }

    /// Prefetches the memory that the next change will write.
    #[inline]
    pub(crate) fn prefetch_spare(&self, writer: &GenerationWriter<S>) {
        self.arena.prefetch_spare(&writer.spares, S::LINES_AHEAD);
    }

    /// A copy of one unit. The caller holds the writer's lock, so it does not change.
    pub(crate) fn state(&self, unit: u32) -> (Vec<u64>, S::Extra) {
        let mut words = vec![0; self.params.unit_words()];
        self.arena.copy(self.slot(unit), &mut words);
        (words, S::extra(self, unit))
    }

    /// Bytes of memory used.
    pub(crate) fn bytes(&self) -> usize {
        self.arena.bytes() + S::side_bytes(&self.side, &self.params)
    }
}

/// A generation of a table whose reader is pinned.
#[derive(Debug)]
pub(crate) struct Pinned<'a, S: Units>(&'a Generation<S>);

impl<S: Units> Clone for Pinned<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Units> Copy for Pinned<'_, S> {}

impl<'a, S: Units> Pinned<'a, S> {
    /// For [`super::reader`], which pins.
    #[inline(always)]
    pub(super) const fn new(generation: &'a Generation<S>) -> Self {
        Self(generation)
    }

    #[inline(always)]
    pub(crate) const fn generation(self) -> &'a Generation<S> {
        self.0
    }
}

/// A table's generations at one time.
#[derive(Debug)]
pub(crate) struct Generations<S: Units> {
    pub(crate) now: Arc<Generation<S>>,
    pub(crate) next: Option<NextGeneration<S>>,
}

/// The generation that a table is being reshaped to.
#[derive(Debug)]
pub(crate) struct NextGeneration<S: Units> {
    pub(crate) generation: Arc<Generation<S>>,
    /// For each partition, how many of its units of the old shape are looked up in the new shape.
    done: Box<[AtomicU32]>,
}

impl<S: Units> Generations<S> {
    pub(crate) const fn one(now: Arc<Generation<S>>) -> Self {
        Self { now, next: None }
    }

    /// Two generations. For each partition, `done` says how many of its first units are looked up in the
    /// second.
    pub(crate) fn two(now: Arc<Generation<S>>, next: Generation<S>, done: Vec<u32>) -> Self {
        let done = done.into_iter().map(AtomicU32::new).collect();
        Self { now, next: Some(NextGeneration { generation: Arc::new(next), done }) }
    }

    /// The generation in which a hash is looked up.
    #[inline]
    pub(crate) fn of(&self, hash: KeyHash) -> &Generation<S> {
        match &self.next {
            Some(next) if next.boundary(&self.now.params).is_passed(hash) => &next.generation,
            _ => &self.now,
        }
    }

    /// How many units of a partition are looked up in the next shape.
    pub(crate) fn done(&self, partition: PartitionId) -> u32 {
        let done = |next: &NextGeneration<S>| next.done[usize::from(partition.0)].load(Ordering::Acquire);
        self.next.as_ref().map_or(0, done)
    }

    /// The generation that a partition is in; `None` if it is in two.
    pub(crate) fn of_partition(&self, partition: PartitionId) -> Option<&Generation<S>> {
        match (&self.next, self.done(partition)) {
            (None, _) | (_, 0) => Some(&self.now),
            (Some(next), done) if done == self.now.params.units_per_partition() => Some(&next.generation),
            _ => None,
        }
    }
}

/// Where the two shapes of a table meet, in each partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Boundary<'a> {
    pub(super) partitions: PartitionCount,
    /// Number of units of the old shape.
    pub(super) units: u32,
    pub(super) units_per_partition: u32,
    pub(super) done: &'a [AtomicU32],
}

impl Boundary<'_> {
    /// Whether a hash is looked up in the new shape.
    #[inline(always)]
    pub(crate) fn is_passed(&self, hash: KeyHash) -> bool {
        let partition = u32::from(self.partitions.of(hash).0);
        let unit = ((u128::from(hash.get()) * u128::from(self.units)) >> 64) as u32; // below `units`
        // Units are divided evenly into partitions, so the hash's unit is in the hash's partition.
        let in_partition = unit - partition * self.units_per_partition;
        in_partition < self.done[partition as usize].load(Ordering::Acquire)
    }
}

impl<S: Units> NextGeneration<S> {
    /// Where the new shape ends in each partition of a table of these old parameters.
    #[inline]
    pub(crate) fn boundary(&self, old: &S::Params) -> Boundary<'_> {
        Boundary {
            partitions: old.partitions(),
            units: old.units(),
            units_per_partition: old.units_per_partition(),
            done: &self.done,
        }
    }

    /// For each partition, how many of its units of the old shape are looked up in this shape.
    pub(crate) fn all(&self) -> Vec<u32> {
        self.done.iter().map(|done| done.load(Ordering::Acquire)).collect()
    }

    /// Lets more units of a partition be looked up in this shape; they must be complete.
    pub(crate) fn set_done(&self, partition: PartitionId, done: u32) {
        self.done[usize::from(partition.0)].store(done, Ordering::Release);
    }

    /// Whether no unit of the old shape is looked up any more.
    pub(crate) fn is_all_done(&self, old: &S::Params) -> bool {
        self.done.iter().all(|done| done.load(Ordering::Acquire) == old.units_per_partition())
    }
}
