//! The query structure: every node holds one, any number of threads read it, and one writer changes it by
//! deltas.

use super::generation::{Generation, GenerationWriter, Generations, WritableGeneration};
use super::payload::{PayloadHeader, malformed};
use super::reader::Reader;
use super::{TableParams, Units};
use crate::gpt::{Gpt, GptReader};
use crate::reclaim::cache_line::Line;
use crate::reclaim::epoch::Epochs;
use crate::reclaim::sync::{Arc as SyncArc, ArcSwap, Memory};
use scalebricks_types::{Applied, ApplyError, Delta, PartitionCount, PartitionId, Position, TableKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The query structure of a table, which every node holds.
///
/// It returns the value of every key that its control structure holds, and an arbitrary value for any other
/// key.
#[derive(Debug)]
pub struct Table<S: Units> {
    /// The part that readers see: one shape, or two while the table is being reshaped.
    pub(crate) generations: Arc<ArcSwap<Generations<S>>>,
    pub(crate) epochs: SyncArc<Epochs>,
    writer: Mutex<Writer<S>>,
}

/// The state that only the thread that applies deltas needs.
#[derive(Debug)]
pub(crate) struct Writer<S: Units> {
    pub(crate) now: GenerationWriter<S>,
    pub(crate) next: Option<GenerationWriter<S>>,
    pub(crate) positions: Vec<Position>,
}

impl<S: Units> Table<S> {
    /// An empty table: every partition at position 0.
    pub fn new(params: S::Params) -> Self {
        let positions = vec![Position(0); params.partitions().get() as usize];
        Self::with_memory(params, positions, Generation::<S>::memory(&params), [])
    }

    /// A table of the units in a [`Generation::memory`], and the additional data of some of them.
    pub(crate) fn with_memory(
        params: S::Params,
        positions: Vec<Position>,
        memory: Memory<Line>,
        extras: impl IntoIterator<Item = (u32, S::Extra)>,
    ) -> Self {
        let epochs = SyncArc::new(Epochs::new());
        let now = Generation::with_memory(params, memory, extras, SyncArc::clone(&epochs));
        Self::with_generations(now, None, epochs, positions)
    }

    /// A table of one generation, or of two with the number of units of each partition that are looked up in
    /// the second.
    pub(super) fn with_generations(
        (generation, now): WritableGeneration<S>,
        next: Option<(WritableGeneration<S>, Vec<u32>)>,
        epochs: SyncArc<Epochs>,
        positions: Vec<Position>,
    ) -> Self {
        let generation = Arc::new(generation);
        let (generations, next) = match next {
            None => (Generations::one(generation), None),
            Some(((new, writer), done)) => (Generations::two(generation, new, done), Some(writer)),
        };
        let generations = Arc::new(ArcSwap::from_pointee(generations));
        Self { generations, epochs, writer: Mutex::new(Writer { now, next, positions }) }
    }

    /// The shape the table has; the old one while it is being reshaped.
    pub fn params(&self) -> S::Params {
        self.generations.load().now.params
    }

    /// The shape that the table is being reshaped to, if any.
    pub fn reshaping(&self) -> Option<S::Params> {
        self.generations.load().next.as_ref().map(|next| next.generation.params)
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer<S>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts again without keys in this shape: every partition at position 0. From now on readers find
    /// arbitrary values, until deltas add keys again.
    ///
    /// # Panics
    /// If the partitions are not those it has.
    pub fn restart(&self, params: S::Params) {
        let mut writer = self.writer();
        assert_eq!(params.partitions().get() as usize, writer.positions.len(), "streams stay as they are");
        let (generation, now) = Generation::empty(params, SyncArc::clone(&self.epochs));
        (writer.now, writer.next) = (now, None);
        writer.positions.fill(Position(0));
        self.generations.store(Arc::new(Generations::one(Arc::new(generation))));
    }

    /// Forgets the position of a partition: lookups in its bits continue, and the next delta must contain all
    /// of them, from position 0. For a node that found the bits to be wrong.
    pub fn forget(&self, partition: PartitionId) {
        if let Some(position) = self.writer().positions.get_mut(usize::from(partition.0)) {
            *position = Position(0);
        }
    }

    /// Applies one update: each changed block or range is copied, changed, and replaced by one store; readers
    /// do not wait. The whole payload is checked before anything is replaced.
    ///
    /// Cost: one pass over the payload; two copies of each changed block (580 bytes at 2-bit values) or range
    /// (128 bytes at 2-bit values in the default sizing). Waits only for readers that hold the last spare
    /// slots, at most one batch each; so a thread must not call this while it holds a [`Pin`](super::Pin) of
    /// the same table.
    ///
    /// # Errors
    /// [`ApplyError`]; the table is then unchanged. [`ApplyError::Full`] never occurs for a delta made by a
    /// control structure with the same parameters.
    pub fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        if delta.kind != S::KIND {
            return Err(ApplyError::Kind { want: S::KIND, got: delta.kind });
        }
        let partition = delta.partition;
        let mut guard = self.writer();
        let Writer { now, next, positions } = &mut *guard;
        let position = positions.get_mut(usize::from(partition.0)).ok_or(ApplyError::Partition(partition))?;
        if !delta.follows(*position)? {
            return Ok(Applied::Stale);
        }
        let mut generations = self.generations.load_full();
        generations.now.prefetch_spare(now);
        let PayloadHeader { fingerprint, reshaping, mut bits } = PayloadHeader::read::<S>(&delta.payload)?;
        let has_params = reshaping.is_some();
        let plan = generations.plan(fingerprint, reshaping, partition)?;
        let (mut old_effect, mut new_effect) = (None, None);
        if plan.old {
            S::section(&mut bits, partition, has_params, &generations.now.layout, &mut now.changes)?;
            old_effect = Some(S::check(&generations.now, now, partition)?);
        }
        let mut begun = None;
        if let Some(to) = plan.begin {
            // Parsed before memory is allocated for what it declares.
            let mut changes = S::Changes::default();
            S::section(&mut bits, partition, has_params, &S::layout(&to), &mut changes)?;
            let (generation, writer) = Generation::empty(to, SyncArc::clone(&self.epochs));
            begun = Some(GenerationWriter { changes, ..writer });
            let done = vec![0; positions_of(&to)];
            generations = Arc::new(Generations::two(Arc::clone(&generations.now), generation, done));
        } else if let Some((new, writer)) = generations.next.as_ref().zip(next.as_mut()).filter(|_| plan.new)
        {
            S::section(&mut bits, partition, has_params, &new.generation.layout, &mut writer.changes)?;
        }
        if !bits.is_at_end() {
            return malformed("bits behind the end");
        }
        let new = generations.next.as_ref().zip(begun.as_mut().or(next.as_mut()));
        if let Some((new, writer)) = new.filter(|_| plan.new) {
            new_effect = Some(S::check(&new.generation, writer, partition)?);
        }
        // From here on nothing can be refused.
        if let Some(begun) = begun {
            *next = Some(begun);
            self.generations.store(Arc::clone(&generations));
        }
        if let Some(effect) = old_effect {
            S::publish(&generations.now, now, partition, effect);
        }
        *position = delta.position;
        let Some((new, writer)) = generations.next.as_ref().zip(next.as_mut()) else {
            return Ok(Applied::Advanced);
        };
        if let Some(effect) = new_effect {
            S::publish(&new.generation, writer, partition, effect);
        }
        new.set_done(partition, plan.done);
        if new.is_all_done(&generations.now.params)
            && let Some(writer) = next.take()
        {
            *now = writer;
            self.generations.store(Arc::new(Generations::one(Arc::clone(&new.generation))));
        }
        Ok(Applied::Advanced)
    }
}

/// Number of partitions.
fn positions_of(params: &impl TableParams) -> usize {
    params.partitions().get() as usize
}

impl<S: Units> Gpt for Table<S> {
    fn kind(&self) -> TableKind {
        S::KIND
    }

    fn partitions(&self) -> PartitionCount {
        self.params().partitions()
    }

    fn reader(self: Arc<Self>) -> Box<dyn GptReader> {
        Box::new(Reader::new(self))
    }

    fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        Self::apply(self, delta)
    }

    fn position(&self, partition: PartitionId) -> Option<Position> {
        self.writer().positions.get(usize::from(partition.0)).copied()
    }

    fn table_bytes(&self) -> usize {
        let generations = self.generations.load();
        let next = generations.next.as_ref().map_or(0, |next| next.generation.bytes());
        let positions = positions_of(&generations.now.params) * size_of::<Position>();
        generations.now.bytes() + next + self.epochs.readers() * 128 + positions
    }
}
