//! Tables as streams of bytes.
//!
//! A magic number that also says which structure it is, a version, the parameters, whether the table is being reshaped
//! (a byte; if so the new parameters and a byte for each partition, 1 where it is in the new shape), the position of every
//! partition, then partition after partition its ranges, and a CRC-32 of all that. Everything little-endian. A range of
//! a query structure is its seed and its words. Of a control structure it is its seed, its names (32 bits of count; hash
//! and value each, ascending), and its words, which follow from these and are there to be compared. A partition held elsewhere has no ranges; a byte for each
//! says so. The bytes depend on the table's contents alone: equal tables, equal bytes.
//!
//! Whoever reads trusts nothing: memory grows only as data arrives, a partition at a time at most (under 64 MiB of bits),
//! and every structural rule is checked.

use super::colour::Colouring;
use super::control::OthelloControl;
use super::image::Layout;
use super::params::{PARAMS_BYTES, Params, ParamsError};
use super::query::{Othello, Ranges};
use super::reshape;
use super::store::Store;
use crate::publish::line::Line;
use crate::summed::{Sink, Source};
use scalebricks_types::{KeyHash, PartitionId, Position};
use std::io::{self, Read, Write};

const QUERY_MAGIC: [u8; 8] = *b"SBOthelo";
pub(crate) const CONTROL_MAGIC: [u8; 8] = *b"SBOthCtl";
const VERSION: u32 = 1;

/// Words read at a time.
const WORDS_AT_ONCE: usize = 4096;

/// Why a stream is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Reading failed; at a premature end with [`io::ErrorKind::UnexpectedEof`].
    #[error("cannot read the snapshot: {0}")]
    Io(#[from] io::Error),
    /// Not a snapshot of this structure.
    #[error("not a snapshot of this structure")]
    Magic,
    /// Made by another version of the software.
    #[error("snapshot version {0} is not {VERSION}")]
    Version(u32),
    /// Parameters that make no table.
    #[error("snapshot with impossible parameters: {0}")]
    Params(#[from] ParamsError),
    /// A rule of the format is broken; says which.
    #[error("corrupt snapshot: {0}")]
    Corrupt(&'static str),
    /// The checksum does not match.
    #[error("corrupt snapshot: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Of what was read.
        found: u32,
        /// What the stream says.
        expected: u32,
    },
}

const fn corrupt<T>(what: &'static str) -> Result<T, SnapshotError> {
    Err(SnapshotError::Corrupt(what))
}

/// What stands before the ranges.
struct Header {
    params: Params,
    /// The shape the table is on its way to, and which partitions are in it.
    next: Option<(Params, Vec<bool>)>,
    positions: Vec<Position>,
}

impl Header {
    fn put<W: Write>(&self, to: W, magic: [u8; 8]) -> io::Result<Sink<W>> {
        let mut sink = Sink::new(to);
        sink.put(&magic)?;
        sink.put(&VERSION.to_le_bytes())?;
        sink.put(&self.params.encode())?;
        sink.put(&[self.next.is_some().into()])?;
        if let Some((to, done)) = &self.next {
            sink.put(&to.encode())?;
            done.iter().try_for_each(|&done| sink.put(&[done.into()]))?;
        }
        self.positions.iter().try_for_each(|position| sink.put(&position.0.to_le_bytes()))?;
        Ok(sink)
    }

    fn take<R: Read>(from: R, magic: [u8; 8]) -> Result<(Self, Source<R>), SnapshotError> {
        let mut source = Source::new(from);
        if source.take::<8>()? != magic {
            return Err(SnapshotError::Magic);
        }
        let version = u32::from_le_bytes(source.take()?);
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let params = take_params(&mut source)?;
        let partitions = params.partitions().get();
        let next = if take_flag(&mut source)? {
            let to = take_params(&mut source)?;
            if reshape::check(&params, &to).is_err() {
                return corrupt("a table cannot be reshaped like that");
            }
            let done: Vec<bool> =
                (0..partitions).map(|_| take_flag(&mut source)).collect::<Result<_, _>>()?;
            Some((to, done))
        } else {
            None
        };
        let position = |_| Ok(Position(u64::from_le_bytes(source.take()?)));
        let positions = (0..partitions).map(position).collect::<io::Result<_>>()?;
        Ok((Self { params, next, positions }, source))
    }

    /// The shape that a partition is in, and whether it is the new one.
    fn shape(&self, partition: usize) -> (&Params, bool) {
        match &self.next {
            Some((to, done)) if done[partition] => (to, true),
            _ => (&self.params, false),
        }
    }
}

fn take_params<R: Read>(source: &mut Source<R>) -> Result<Params, SnapshotError> {
    let params = Params::decode(&source.take::<PARAMS_BYTES>()?);
    Ok(params.ok_or(SnapshotError::Corrupt("reserved bytes or partitions of the parameters"))??)
}

fn take_flag<R: Read>(source: &mut Source<R>) -> Result<bool, SnapshotError> {
    match source.take()? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => corrupt("neither yes nor no"),
    }
}

fn end<R: Read>(source: Source<R>) -> Result<(), SnapshotError> {
    let (found, expected) = source.finish()?;
    if found == expected { Ok(()) } else { Err(SnapshotError::Checksum { found, expected }) }
}

impl Othello {
    /// Writes the table to a stream. Waits for a running [`apply`](Self::apply) and holds back others meanwhile;
    /// readers go on. Writes one range at a time: give it a buffered stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        let writer = self.writer();
        let shapes = self.shapes.load_full();
        let next = shapes.next.as_ref().map(|next| (next.face.layout.params, next.all()));
        let header = Header { params: shapes.now.layout.params, next, positions: writer.positions.clone() };
        let mut sink = header.put(to, QUERY_MAGIC)?;
        let (mut words, mut buffer) = (Vec::new(), Vec::new());
        for partition in 0..header.positions.len() {
            let face = shapes.of_partition(PartitionId(partition as u16)); // fewer than 2^16
            let each = face.layout.params.ranges_per_partition();
            for range in partition as u32 * each..(partition as u32 + 1) * each {
                let seed = face.state(range, &mut words);
                sink.put(&[seed])?;
                sink.put_words(words.iter().copied(), &mut buffer)?;
            }
        }
        sink.finish()
    }

    /// The table in a stream, which is read up to its checksum and no further.
    ///
    /// # Errors
    /// [`SnapshotError`]. Memory in use never exceeds about twice what was read; of a table that is being reshaped, that
    /// and the empty ranges of both shapes.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let (header, mut source) = Header::take(from, QUERY_MAGIC)?;
        let mut parts: Vec<Ranges> = Vec::new();
        let mut buffer = Vec::new();
        for partition in 0..header.positions.len() {
            parts.push(take_ranges(&mut source, header.shape(partition).0, &mut buffer)?);
        }
        end(source)?;
        let now = gather(&header, &mut parts, false);
        let next =
            header.next.as_ref().map(|(to, done)| (*to, gather(&header, &mut parts, true), done.clone()));
        Ok(Self::from_parts(header.params, now, next, header.positions))
    }
}

/// The ranges of a partition.
fn take_ranges<R: Read>(
    source: &mut Source<R>,
    params: &Params,
    buffer: &mut Vec<u8>,
) -> Result<Ranges, SnapshotError> {
    let layout = Layout::of(params);
    let (mut lines, mut seeds) = (Vec::new(), Vec::new());
    for _ in 0..params.ranges_per_partition() {
        let [seed] = source.take()?;
        seeds.push(seed);
        let words = take_words(source, &layout, buffer)?;
        if !layout.is_clean(&words) {
            return corrupt("bits behind the last slot");
        }
        lines.extend(words.as_chunks().0.iter().map(|&words| Line::new(words)));
    }
    Ok((lines, seeds))
}

/// The words of a range.
fn take_words<R: Read>(
    source: &mut Source<R>,
    layout: &Layout,
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<u64>> {
    let mut words = Vec::new();
    while words.len() < layout.words {
        words.extend(source.words((layout.words - words.len()).min(WORDS_AT_ONCE), buffer)?);
    }
    Ok(words)
}

/// The ranges of all partitions in a shape; empty ones for partitions in the other.
fn gather(header: &Header, parts: &mut [Ranges], is_new: bool) -> Ranges {
    let params = header.next.as_ref().filter(|_| is_new).map_or(&header.params, |next| &next.0);
    let lines_each = Layout::of(params).words / 8 * params.ranges_per_partition() as usize;
    let (mut lines, mut seeds) = (Vec::new(), Vec::new());
    for (partition, part) in parts.iter_mut().enumerate() {
        if header.shape(partition).1 == is_new {
            lines.append(&mut part.0);
            seeds.append(&mut part.1);
        } else {
            lines.extend((0..lines_each).map(|_| Line::default()));
            seeds.extend((0..params.ranges_per_partition()).map(|_| 0));
        }
    }
    (lines, seeds)
}

impl OthelloControl {
    /// Writes names, values and seeds to a stream, one range at a time: give it a buffered one.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        let next = self.next.map(|to| (to, self.done()));
        let header = Header { params: *self.params(), next, positions: self.positions.clone() };
        let mut sink = header.put(to, CONTROL_MAGIC)?;
        let mut buffer = Vec::new();
        for part in &self.parts {
            sink.put(&[part.is_some().into()])?;
            let Some(store) = part else { continue };
            for (range, head) in (0..).zip(store.heads()) {
                let mut names: Vec<(u64, u16)> = store.names(range).collect();
                names.sort_unstable();
                buffer.clear();
                buffer.push(head.seed);
                buffer.extend_from_slice(&head.names.to_le_bytes());
                for (hash, value) in names {
                    buffer.extend_from_slice(&hash.to_le_bytes());
                    buffer.extend_from_slice(&value.to_le_bytes());
                }
                sink.put(&buffer)?;
                sink.put_words(store.words(range).iter().copied(), &mut buffer)?;
            }
        }
        sink.finish()
    }

    /// The control structure in a stream, which is read up to its checksum and no further. Every name is checked to be in
    /// order and in its range, and every range's graph to have no cycle.
    ///
    /// # Errors
    /// [`SnapshotError`]. Memory in use follows what was read: at most 64 times as much, where slots have one bit and hardly
    /// any names.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let (header, mut source) = Header::take(from, CONTROL_MAGIC)?;
        let (mut parts, mut colouring, mut buffer) = (Vec::new(), Colouring::default(), Vec::new());
        for partition in 0..header.positions.len() {
            if !take_flag(&mut source)? {
                parts.push(None);
                continue;
            }
            let params = header.shape(partition).0;
            let mut store = None;
            for range in 0..params.ranges_per_partition() {
                let [seed] = source.take()?;
                let names = take_names(&mut source, params, (partition, range))?;
                let words = take_words(&mut source, &Layout::of(params), &mut buffer)?;
                // Made when the first range has come: a header alone must not cost what it promises.
                let store: &mut Store = store.get_or_insert_with(|| Store::new(params));
                if !store.restore(range, seed, &names, &mut colouring) {
                    return corrupt("names whose graph has a cycle");
                }
                if store.words(range) != words {
                    return corrupt("bits that do not follow from their names");
                }
            }
            parts.push(store);
        }
        end(source)?;
        let next = header.next.as_ref().map(|(to, _)| *to);
        let held = |partition: usize| parts[partition].is_some();
        if header.next.as_ref().is_some_and(|(_, done)| (0..done.len()).any(|at| done[at] && !held(at))) {
            return corrupt("a partition reshaped that is not held");
        }
        Ok(Self::from_parts(header.params, next, parts, header.positions))
    }
}

/// The names of a range.
fn take_names<R: Read>(
    source: &mut Source<R>,
    params: &Params,
    (partition, range): (usize, u32),
) -> Result<Vec<(u64, u16)>, SnapshotError> {
    let count = u32::from_le_bytes(source.take()?) as usize;
    if count > params.capacity() {
        return corrupt("more names than a range can hold");
    }
    let mut names: Vec<(u64, u16)> = Vec::new();
    for _ in 0..count {
        let (hash, value) = (u64::from_le_bytes(source.take()?), u16::from_le_bytes(source.take()?));
        if names.last().is_some_and(|&(last, _)| last >= hash)
            || params.locate(KeyHash::new(hash)) != (PartitionId(partition as u16), range)
            || !params.is_value(value)
        {
            return corrupt("a name that is out of order, out of its range, or of too many bits");
        }
        names.push((hash, value));
    }
    Ok(names)
}
