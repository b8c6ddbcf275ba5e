//! The query structure: what every node holds, any number of threads read, and one writer changes by deltas.

use super::changes::{Changes, PayloadReader};
use super::face::{Face, FaceWriter};
use super::image::Layout;
use super::params::Params;
use super::reader::OthelloReader;
use super::reshape;
use super::shapes::{NextFace, Shapes};
use crate::gpt::{Gpt, GptReader};
use crate::publish::epoch::Epochs;
use crate::publish::line::Line;
use crate::publish::sync::{Arc as Shared, ArcSwap, Memory};
use scalebricks_types::{Applied, ApplyError, Delta, PartitionCount, PartitionId, Position, TableKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The query structure of an Othello table: two arrays of slots for each range, 2.33 slots a name, and no names.
///
/// It answers for every name that its control structure holds, and gives an arbitrary value for any other; with
/// checksums it tells nearly all of those.
#[derive(Debug)]
pub struct Othello {
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
    /// What the payload read last changes.
    changes: Changes,
}

/// Sizes of an [`Othello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Bytes of memory held, directory and spare slots included.
    pub table_bytes: usize,
    /// Bytes of them in the ranges, each rounded up to whole cache lines.
    pub range_bytes: usize,
}

impl TableStats {
    /// Bits of memory for each of `keys` names.
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        bits_per_key(self.table_bytes, keys)
    }
}

/// Bits of memory for each name; of an empty table, all of them.
#[expect(clippy::cast_precision_loss, reason = "a ratio to be printed; exact to 2^53 anyway")]
pub(super) fn bits_per_key(bytes: usize, keys: u64) -> f64 {
    bytes as f64 * 8.0 / keys.max(1) as f64
}

/// The ranges of one shape: lines as a [`Face::memory`] begins with them, and seeds.
pub(super) type Ranges = (Vec<Line>, Vec<u8>);

/// Where a payload belongs.
enum Target {
    /// The shape that the partition is in.
    Same(Arc<Face>),
    /// The next shape, in which the partition is from then on.
    Next(Arc<Face>),
    /// A shape to be begun.
    Begin(Params),
}

const fn malformed<T>(what: &'static str) -> Result<T, ApplyError> {
    Err(ApplyError::Malformed(what))
}

impl Othello {
    /// An empty table: every partition at position 0.
    pub fn new(params: Params) -> Self {
        let epochs = Shared::new(Epochs::new());
        let face = Face::empty(params, Shared::clone(&epochs));
        Self::with_face(face, epochs, vec![Position(0); params.partitions().get() as usize])
    }

    /// A table of the ranges in a [`Face::memory`], with these seeds.
    pub(super) fn with_memory(
        params: Params,
        positions: Vec<Position>,
        memory: Memory<Line>,
        seeds: &[u8],
    ) -> Self {
        let epochs = Shared::new(Epochs::new());
        let face = Face::with_memory(params, memory, seeds, Shared::clone(&epochs));
        Self::with_face(face, epochs, positions)
    }

    /// A table of what was read from a snapshot: in one shape, or in two.
    pub(super) fn from_parts(
        params: Params,
        ranges: Ranges,
        next: Option<(Params, Ranges, Vec<bool>)>,
        positions: Vec<Position>,
    ) -> Self {
        let memory_of = |params: &Params, lines: Vec<Line>| {
            let mut memory = Face::memory(params);
            memory.iter_mut().zip(lines).for_each(|(to, line)| *to = line);
            memory
        };
        let mut table = Self::with_memory(params, positions, memory_of(&params, ranges.0), &ranges.1);
        if let Some((to, (lines, seeds), done)) = next {
            let epochs = Shared::clone(&table.epochs);
            let (face, writer) = Face::with_memory(to, memory_of(&to, lines), &seeds, epochs);
            let now = Arc::clone(&table.shapes.load().now);
            table.shapes.store(Arc::new(Shapes::two(now, Arc::new(face), &done)));
            table.writer.get_mut().unwrap_or_else(PoisonError::into_inner).next = Some(writer);
        }
        table
    }

    fn with_face((face, now): (Face, FaceWriter), epochs: Shared<Epochs>, positions: Vec<Position>) -> Self {
        let shapes = Arc::new(ArcSwap::from_pointee(Shapes::one(Arc::new(face))));
        let writer = Writer { now, next: None, positions, changes: Changes::default() };
        Self { shapes, epochs, writer: Mutex::new(writer) }
    }

    /// The shape the table has; the old one while it is being reshaped.
    pub fn params(&self) -> Params {
        self.shapes.load().now.layout.params
    }

    /// The shape it is on its way to, if it is being reshaped.
    pub fn reshaping(&self) -> Option<Params> {
        self.shapes.load().next.as_ref().map(|next| next.face.layout.params)
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

    /// Begins anew, without names, in this shape: every partition at position 0. Readers find arbitrary values from now
    /// on, until they are told of names again.
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

    /// Sizes; reads no range.
    pub fn stats(&self) -> TableStats {
        let shapes = self.shapes.load();
        let ranges = |face: &Face| face.layout.words * 8 * face.layout.params.ranges() as usize;
        let range_bytes = ranges(&shapes.now) + shapes.next.as_ref().map_or(0, |next| ranges(&next.face));
        TableStats { table_bytes: self.table_bytes(), range_bytes }
    }

    /// Applies one update: each changed range is copied, changed, and replaced by one store; readers do not wait.
    /// The whole payload is checked before anything is replaced.
    ///
    /// Cost: one pass over the payload; a range (128 bytes at 2-bit values in the default sizing) copied twice for each
    /// changed one. Waits only for readers that hold the last spare slots, at most one batch each; so a thread must not
    /// apply while it holds an [`OthelloPin`](super::OthelloPin) of the same table.
    ///
    /// # Errors
    /// [`ApplyError`]; the table is then unchanged.
    pub fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        if delta.kind != TableKind::Othello {
            return Err(ApplyError::Kind { want: TableKind::Othello, got: delta.kind });
        }
        let partition = delta.partition;
        let mut guard = self.writer();
        let Writer { now, next, positions, changes } = &mut *guard;
        let position = positions.get_mut(usize::from(partition.0)).ok_or(ApplyError::Partition(partition))?;
        if !delta.follows(*position)? {
            return Ok(Applied::Stale);
        }
        let mut payload = PayloadReader::new(&delta.payload)?;
        let shapes = self.shapes.load_full();
        match target(&shapes, partition, &payload)? {
            Target::Same(face) => {
                let writer = match next {
                    Some(next) if !Arc::ptr_eq(&face, &shapes.now) => next,
                    _ => now,
                };
                face.prefetch_spare(writer);
                payload.read(&face.layout, changes)?;
                face.publish(writer, partition, changes);
            }
            Target::Next(face) => {
                payload.read(&face.layout, changes)?;
                if let Some(writer) = next.as_mut() {
                    face.publish(writer, partition, changes);
                }
                self.advance(&shapes, partition, now, next);
            }
            Target::Begin(params) => {
                payload.read(&Layout::of(&params), changes)?;
                let (face, mut writer) = Face::empty(params, Shared::clone(&self.epochs));
                face.publish(&mut writer, partition, changes);
                *next = Some(writer);
                let done = vec![false; params.partitions().get() as usize];
                let shapes = Arc::new(Shapes::two(Arc::clone(&shapes.now), Arc::new(face), &done));
                self.shapes.store(Arc::clone(&shapes));
                self.advance(&shapes, partition, now, next);
            }
        }
        *position = delta.position;
        Ok(Applied::Advanced)
    }

    /// Lets a partition answer in the next shape, which holds it; drops the old shape if it was the last.
    fn advance(
        &self,
        shapes: &Shapes,
        partition: PartitionId,
        now: &mut FaceWriter,
        writer: &mut Option<FaceWriter>,
    ) {
        let Some(next) = &shapes.next else { return };
        next.set_done(partition);
        if next.are_all_done()
            && let Some(writer) = writer.take()
        {
            *now = writer;
            self.shapes.store(Arc::new(Shapes::one(Arc::clone(&next.face))));
        }
    }
}

/// Where a payload belongs, of a table in these shapes.
fn target(
    shapes: &Shapes,
    partition: PartitionId,
    payload: &PayloadReader<'_>,
) -> Result<Target, ApplyError> {
    let in_shape = shapes.of_partition(partition);
    if payload.fingerprint == in_shape.layout.fingerprint {
        return Ok(Target::Same(Arc::clone(in_shape)));
    }
    let Some(params) = payload.whole else {
        return malformed("made with other parameters");
    };
    match &shapes.next {
        Some(next) if next.face.layout.params == params => Ok(Target::Next(Arc::clone(&next.face))),
        Some(next) if next.is_done(partition) => malformed("back to an old shape"),
        Some(_) => malformed("the last reshaping is not finished"),
        None if reshape::check(&shapes.now.layout.params, &params).is_err() => {
            malformed("made with other parameters")
        }
        None => Ok(Target::Begin(params)),
    }
}

/// A table that its own control structure changes.
pub(super) struct Own<'a> {
    shapes: Arc<Shapes>,
    writer: MutexGuard<'a, Writer>,
}

impl Own<'_> {
    /// Whether a partition is at this position, and in this shape.
    pub(super) fn is_at(&self, partition: PartitionId, at: Position, shape: &Params) -> bool {
        self.writer.positions.get(usize::from(partition.0)) == Some(&at)
            && self.shapes.of_partition(partition).layout.params == *shape
    }

    /// Replaces a range of a partition.
    pub(super) fn publish(&mut self, partition: PartitionId, range: u32, words: &[u64], seed: u8) {
        let Writer { now, next, .. } = &mut *self.writer;
        match (self.shapes.next.as_ref().filter(|next| next.is_done(partition)), next) {
            (Some(NextFace { face, .. }), Some(writer)) => face.publish_own(writer, range, words, seed),
            _ => self.shapes.now.publish_own(now, range, words, seed),
        }
    }

    /// Says where a partition is now.
    pub(super) fn advance(&mut self, partition: PartitionId, position: Position) {
        self.writer.positions[usize::from(partition.0)] = position;
    }
}

impl Gpt for Othello {
    fn kind(&self) -> TableKind {
        TableKind::Othello
    }

    fn partitions(&self) -> PartitionCount {
        self.params().partitions()
    }

    fn reader(self: Arc<Self>) -> Box<dyn GptReader> {
        Box::new(OthelloReader::new(self))
    }

    fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        Self::apply(self, delta)
    }

    fn position(&self, partition: PartitionId) -> Option<Position> {
        self.writer().positions.get(usize::from(partition.0)).copied()
    }

    fn table_bytes(&self) -> usize {
        let shapes = self.shapes.load();
        let partitions = shapes.now.layout.params.partitions().get() as usize;
        let faces = shapes.now.arena.bytes() + shapes.next.as_ref().map_or(0, |next| next.face.arena.bytes());
        faces + self.epochs.readers() * 128 + partitions * size_of::<Position>()
    }
}
