//! The query structure: what every node holds, any number of threads read, and one writer changes by deltas.

use super::arena::Line;
use super::changes::PayloadReader;
use super::face::{Effect, Face, FaceWriter};
use super::params::Params;
use super::payload::Reshaping;
use super::reader::SetSepReader;
use super::reshape;
use super::shapes::Shapes;
use crate::gpt::{Gpt, GptReader};
use crate::publish::epoch::Epochs;
use crate::publish::sync::{Arc as Shared, ArcSwap, Memory};
use scalebricks_types::{Applied, ApplyError, Delta, PartitionCount, PartitionId, Position, TableKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The query structure of a SetSep table: about 0.4 + 1.4·l bits a key in the default format.
///
/// It answers for every key that its control structure holds, and gives an arbitrary value for any other. It holds
/// no keys but those of the fallback.
#[derive(Debug)]
pub struct SetSep {
    /// What readers see: one shape, or two while the table is being reshaped.
    pub(super) shapes: Arc<ArcSwap<Shapes>>,
    pub(super) epochs: Shared<Epochs>,
    writer: Mutex<Writer>,
}

/// What only whoever applies deltas needs.
#[derive(Debug)]
pub(super) struct Writer {
    now: FaceWriter,
    next: Option<FaceWriter>,
    pub(super) positions: Vec<Position>,
}

/// Sizes of a [`SetSep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Bytes of memory held, spare slots and fallback included.
    pub table_bytes: usize,
    /// Keys that the fallback answers.
    pub fallback_keys: u64,
}

impl TableStats {
    /// Bits of memory for each of `keys` keys.
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        bits_per_key(self.table_bytes, keys)
    }
}

/// Bits of memory for each key; of an empty table, all of them.
#[expect(clippy::cast_precision_loss, reason = "a ratio to be printed; exact to 2^53 anyway")]
pub(super) fn bits_per_key(bytes: usize, keys: u64) -> f64 {
    bytes as f64 * 8.0 / keys.max(1) as f64
}

/// The fallback lists of some blocks.
type Lists = Vec<(u32, Vec<(u64, u8)>)>;

/// The blocks of one shape: their lines, and the fallback lists of some.
pub(super) type Blocks = (Vec<Line>, Lists);

/// What a payload changes, in which shapes.
struct Plan {
    shapes: Arc<Shapes>,
    /// The shape that has to be begun first.
    begun: Option<FaceWriter>,
    /// Whether it has blocks of the old shape, of the new.
    old: bool,
    new: bool,
    /// How far the partition is then.
    done: u32,
}

/// These lines in a [`Face::memory`].
fn memory_of(params: &Params, lines: Vec<Line>) -> Memory<Line> {
    let mut memory = Face::memory(params);
    memory.iter_mut().zip(lines).for_each(|(to, line)| *to = line);
    memory
}

const fn malformed<T>(what: &'static str) -> Result<T, ApplyError> {
    Err(ApplyError::Malformed(what))
}

impl SetSep {
    /// An empty table: every partition at position 0.
    pub fn new(params: Params) -> Self {
        let epochs = Shared::new(Epochs::new());
        let face = Face::empty(params, Shared::clone(&epochs));
        Self::with_face(face, epochs, vec![Position(0); params.partitions().get() as usize])
    }

    /// A table of the blocks in a [`Face::memory`], and the fallback lists of some blocks.
    pub(super) fn with_memory(
        params: Params,
        positions: Vec<Position>,
        memory: Memory<Line>,
        lists: Lists,
    ) -> Self {
        let epochs = Shared::new(Epochs::new());
        let face = Face::with_memory(params, memory, lists, Shared::clone(&epochs));
        Self::with_face(face, epochs, positions)
    }

    /// A table of what was read from a snapshot: lines and lists in one shape, or in two.
    pub(super) fn from_parts(
        params: Params,
        (lines, lists): Blocks,
        next: Option<(Params, Blocks, Vec<u32>)>,
        positions: Vec<Position>,
    ) -> Self {
        let mut table = Self::with_memory(params, positions, memory_of(&params, lines), lists);
        if let Some((to, (lines, lists), done)) = next {
            let (face, writer) =
                Face::with_memory(to, memory_of(&to, lines), lists, Shared::clone(&table.epochs));
            let now = Arc::clone(&table.shapes.load().now);
            table.shapes.store(Arc::new(Shapes::two(now, Arc::new(face), done)));
            table.writer.get_mut().unwrap_or_else(PoisonError::into_inner).next = Some(writer);
        }
        table
    }

    fn with_face((face, now): (Face, FaceWriter), epochs: Shared<Epochs>, positions: Vec<Position>) -> Self {
        let shapes = Arc::new(ArcSwap::from_pointee(Shapes::one(Arc::new(face))));
        Self { shapes, epochs, writer: Mutex::new(Writer { now, next: None, positions }) }
    }

    /// The shape the table has; the old one while it is being reshaped.
    pub fn params(&self) -> Params {
        self.shapes.load().now.params
    }

    /// The shape it is on its way to, if it is being reshaped.
    pub fn reshaping(&self) -> Option<Params> {
        self.shapes.load().next.as_ref().map(|next| next.face.params)
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table in the hands of its control structure.
    pub(super) fn own(&self) -> Own<'_> {
        let writer = self.writer();
        let shapes = self.shapes.load_full();
        shapes.now.prefetch_spare(&writer.now);
        Own { shapes, writer }
    }

    /// Begins anew, without keys, in this shape: every partition at position 0. Readers find arbitrary values from now on, until
    /// they are told of keys again.
    ///
    /// # Panics
    /// If the partitions are not those it has.
    pub fn restart(&self, params: Params) {
        let mut writer = self.writer();
        assert_eq!(params.partitions().get() as usize, writer.positions.len(), "streams stay as they are");
        let (face, face_writer) = Face::empty(params, Shared::clone(&self.epochs));
        (writer.now, writer.next) = (face_writer, None);
        writer.positions.fill(Position(0));
        self.shapes.store(Arc::new(Shapes::one(Arc::new(face))));
    }

    /// Sizes, from counters; reads no block.
    pub fn stats(&self) -> TableStats {
        let writer = self.writer();
        let next = writer.next.as_ref().map_or(0, |next| next.fallback_keys);
        let fallback_keys = writer.now.fallback_keys + next;
        drop(writer);
        TableStats { table_bytes: self.table_bytes(), fallback_keys }
    }

    /// Applies one update: each changed block is copied, changed, and replaced by one store; readers do not wait.
    /// The whole payload is checked before anything is replaced.
    ///
    /// Cost: one pass over the payload; about a block's size (580 bytes at 2-bit values) copied twice for each
    /// changed block. Waits only for readers that hold the last spare slots, at most one batch each; so a thread must
    /// not apply while it holds a [`SetSepPin`](super::SetSepPin) of the same table.
    ///
    /// # Errors
    /// [`ApplyError`]; the table is then unchanged. [`ApplyError::Full`] never happens for a delta made by a control
    /// structure of the same parameters.
    pub fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        if delta.kind != TableKind::SetSep {
            return Err(ApplyError::Kind { want: TableKind::SetSep, got: delta.kind });
        }
        let partition = usize::from(delta.partition.0);
        let mut guard = self.writer();
        let writer = &mut *guard;
        let have = *writer.positions.get(partition).ok_or(ApplyError::Partition(delta.partition))?;
        if !delta.follows(have)? {
            return Ok(Applied::Stale);
        }
        let shapes = self.shapes.load_full();
        shapes.now.prefetch_spare(&writer.now);
        let (fingerprint, mut payload) =
            PayloadReader::new(delta.partition, &shapes.now.layout, &delta.payload)?;
        let reshaping = payload.reshaping()?;
        let mut plan = self.plan(shapes, fingerprint, reshaping, delta.partition)?;
        let mut effects: [Option<Effect>; 2] = [None; 2];
        if plan.old {
            effects[0] = Some(plan.shapes.now.check(&mut writer.now, delta.partition, &mut payload)?);
        }
        if let Some(next) = plan.shapes.next.as_ref().filter(|_| plan.new)
            && let Some(face_writer) = plan.begun.as_mut().or(writer.next.as_mut())
        {
            effects[1] = Some(next.face.check(face_writer, delta.partition, &mut payload)?);
        }
        payload.end()?;
        // Nothing is refused from here on.
        if let Some(begun) = plan.begun {
            writer.next = Some(begun);
            self.shapes.store(Arc::clone(&plan.shapes));
        }
        if let Some(effect) = effects[0] {
            plan.shapes.now.publish(&mut writer.now, delta.partition, effect);
        }
        if let Some((next, face_writer)) = plan.shapes.next.as_ref().zip(writer.next.as_mut()) {
            if let Some(effect) = effects[1] {
                next.face.publish(face_writer, delta.partition, effect);
            }
            next.set_done(delta.partition, plan.done);
        }
        writer.positions[partition] = delta.position;
        if let Some(next) = plan.shapes.next.as_ref().filter(|next| next.all_done(&plan.shapes.now.params))
            && let Some(next_writer) = writer.next.take()
        {
            writer.now = next_writer;
            self.shapes.store(Arc::new(Shapes::one(Arc::clone(&next.face))));
        }
        Ok(Applied::Advanced)
    }

    /// Which shapes a payload is about.
    fn plan(
        &self,
        shapes: Arc<Shapes>,
        fingerprint: u32,
        reshaping: Option<Reshaping>,
        partition: PartitionId,
    ) -> Result<Plan, ApplyError> {
        let now = &shapes.now.params;
        let each = now.blocks_per_partition();
        let done = shapes.next.as_ref().map_or(0, |next| next.done(partition));
        let plan = |shapes, begun, old, new, done| Ok(Plan { shapes, begun, old, new, done });
        // All of it in one shape, which an export names.
        let one = reshaping.is_none_or(|reshaping| reshaping.to.fingerprint() == fingerprint);
        if one && fingerprint == shapes.now.layout.fingerprint {
            return if done == 0 {
                plan(shapes, None, true, false, 0)
            } else {
                malformed("back to the old shape")
            };
        }
        if shapes.next.as_ref().is_some_and(|next| one && fingerprint == next.face.layout.fingerprint) {
            let known = done == each || reshaping.is_some();
            return if known {
                plan(shapes, None, false, true, each)
            } else {
                malformed("ahead of its reshaping")
            };
        }
        let Some(Reshaping { to, done: upto }) = reshaping else {
            return malformed("made with other parameters");
        };
        let upto = if one { each } else { upto };
        if !one && fingerprint != shapes.now.layout.fingerprint || reshape::check(now, &to).is_err() {
            return malformed("made with other parameters");
        }
        if upto < done || upto > each {
            return malformed("reshaped backwards, or beyond its end");
        }
        match &shapes.next {
            Some(next) if next.face.params != to => malformed("the last reshaping is not finished"),
            Some(_) => plan(shapes, None, !one, true, upto),
            None => {
                let done = vec![0; to.partitions().get() as usize];
                let (face, writer) = Face::empty(to, Shared::clone(&self.epochs));
                let shapes = Arc::new(Shapes::two(Arc::clone(&shapes.now), Arc::new(face), done));
                plan(shapes, Some(writer), !one, true, upto)
            }
        }
    }
}

/// A table that its own control structure changes.
pub(super) struct Own<'a> {
    shapes: Arc<Shapes>,
    writer: MutexGuard<'a, Writer>,
}

impl Own<'_> {
    /// Whether a partition is at this position, and the table in these shapes.
    pub(super) fn is_at(
        &self,
        partition: PartitionId,
        at: Position,
        shapes: (Params, Option<Params>),
    ) -> bool {
        let own = (self.shapes.now.params, self.shapes.next.as_ref().map(|next| next.face.params));
        self.writer.positions.get(usize::from(partition.0)) == Some(&at) && own == shapes
    }

    /// Replaces a block of the old or the new shape.
    pub(super) fn publish(
        &mut self,
        is_new: bool,
        partition: PartitionId,
        block: u32,
        words: &[u64],
        list: Option<&[(u64, u8)]>,
    ) {
        let Writer { now, next, .. } = &mut *self.writer;
        match (is_new, &self.shapes.next, next) {
            (true, Some(face), Some(writer)) => face.face.publish_own(writer, partition, block, words, list),
            _ => self.shapes.now.publish_own(now, partition, block, words, list),
        }
    }

    /// Says where a partition is now.
    pub(super) fn advance(&mut self, partition: PartitionId, position: Position) {
        self.writer.positions[usize::from(partition.0)] = position;
    }
}

impl Gpt for SetSep {
    fn kind(&self) -> TableKind {
        TableKind::SetSep
    }

    fn partitions(&self) -> PartitionCount {
        self.params().partitions()
    }

    fn reader(self: Arc<Self>) -> Box<dyn GptReader> {
        Box::new(SetSepReader::new(self))
    }

    fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        Self::apply(self, delta)
    }

    fn position(&self, partition: PartitionId) -> Option<Position> {
        self.writer().positions.get(usize::from(partition.0)).copied()
    }

    fn table_bytes(&self) -> usize {
        let shapes = self.shapes.load();
        let partitions = shapes.now.params.partitions().get() as usize;
        let faces = shapes.now.arena.bytes() + shapes.next.as_ref().map_or(0, |next| next.face.arena.bytes());
        faces + self.epochs.readers() * 128 + partitions * (size_of::<Position>() + size_of::<u32>())
    }
}
