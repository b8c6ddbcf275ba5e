//! Tables as streams of bytes, and digests of their bits.
//!
//! A snapshot consists of a magic number that also identifies the structure; a version; the parameters;
//! whether the table is being reshaped (a byte; if so, then the new parameters, and for each partition how
//! many of its old units are converted: 32 bits, or a byte that is 1 for all of them if partitions are
//! reshaped whole); the position of every partition; the units; and a CRC-32 of all that. Everything is
//! little-endian. Units are in ascending order: the remaining units of the old shape, then the existing units
//! of the new shape; or partition after partition if these are reshaped whole. [`Units::put_unit`] encodes a
//! unit for tables; control structures also write their keys. The bytes depend only on the table's contents,
//! not on where a unit lies in memory: equal tables give equal bytes.
//!
//! Readers of a snapshot trust nothing: memory grows only as data arrives, and every structural rule is
//! checked.
//!
//! A *digest* represents the bits of a partition: two nodes at the same position with different digests have
//! silently diverged. It is a CRC-32 over the shape and the partition's units in the encoding of snapshots.
//! It detects damage, not malice.

use super::generation::Generation;
use super::table::Table;
use super::{TableParams, Units, check_shapes};
use crate::checksum_io::{ChecksumReader, ChecksumWriter};
use crate::reclaim::cache_line::Line;
use crate::reclaim::epoch::Epochs;
use crate::reclaim::sync::{Arc as SyncArc, Memory};
use scalebricks_types::{PartitionId, Position};
use std::io::{self, Read, Write};
use std::ops::Range;

/// Why a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Reading failed; a premature end gives [`io::ErrorKind::UnexpectedEof`].
    #[error("cannot read the snapshot: {0}")]
    Io(#[from] io::Error),
    /// Not a snapshot of this structure.
    #[error("not a snapshot of this structure")]
    Magic,
    /// Made by another version of the software.
    #[error("snapshot version {found} is not {expected}")]
    Version {
        /// The version in the stream.
        found: u32,
        /// The version that this software reads.
        expected: u32,
    },
    /// The parameters are invalid: the `ParamsError` of the structure.
    #[error("snapshot with impossible parameters: {0}")]
    Params(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A rule of the format is violated; the text says which.
    #[error("corrupt snapshot: {0}")]
    Corrupt(&'static str),
    /// The checksum does not match.
    #[error("corrupt snapshot: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// The checksum of the bytes read.
        found: u32,
        /// The checksum in the stream.
        expected: u32,
    },
}

pub(crate) const fn corrupt<T>(what: &'static str) -> Result<T, SnapshotError> {
    Err(SnapshotError::Corrupt(what))
}

/// The part of a snapshot before the units.
#[derive(Debug)]
pub(crate) struct SnapshotHeader<S: Units> {
    pub(crate) params: S::Params,
    /// The shape that the table is being reshaped to, and how many units of each partition are looked up in
    /// it.
    pub(crate) next: Option<(S::Params, Vec<u32>)>,
    pub(crate) positions: Vec<Position>,
}

impl<S: Units> SnapshotHeader<S> {
    /// Begins a snapshot.
    pub(crate) fn put<W: Write>(&self, to: W, magic: [u8; 8]) -> io::Result<ChecksumWriter<W>> {
        let mut sink = ChecksumWriter::new(to);
        sink.put(&magic)?;
        sink.put(&S::SNAPSHOT_VERSION.to_le_bytes())?;
        sink.put(self.params.encode().as_ref())?;
        sink.put(&[self.next.is_some().into()])?;
        if let Some((to, done)) = &self.next {
            sink.put(to.encode().as_ref())?;
            for done in done {
                let (is_done, done) = ([(*done > 0).into()], done.to_le_bytes());
                sink.put(if S::WHOLE_PARTITIONS { &is_done } else { &done })?;
            }
        }
        self.positions.iter().try_for_each(|position| sink.put(&position.0.to_le_bytes()))?;
        Ok(sink)
    }

    /// Reads the beginning of a snapshot.
    pub(crate) fn take<R: Read>(from: R, magic: [u8; 8]) -> Result<(Self, ChecksumReader<R>), SnapshotError> {
        let mut source = ChecksumReader::new(from);
        if source.take::<8>()? != magic {
            return Err(SnapshotError::Magic);
        }
        let (found, expected) = (u32::from_le_bytes(source.take()?), S::SNAPSHOT_VERSION);
        if found != expected {
            return Err(SnapshotError::Version { found, expected });
        }
        let params = take_params::<S, R>(&mut source)?;
        let (partitions, each) = (params.partitions().get(), params.units_per_partition());
        let mut next = None;
        if take_flag(&mut source)? {
            let to = take_params::<S, R>(&mut source)?;
            if check_shapes::<S>(&params, &to).is_err() {
                return corrupt("a table cannot be reshaped like that");
            }
            let mut done = Vec::new();
            for _ in 0..partitions {
                done.push(if S::WHOLE_PARTITIONS {
                    u32::from(take_flag(&mut source)?) * each
                } else {
                    u32::from_le_bytes(source.take()?)
                });
            }
            if done.iter().any(|&done| done > each) {
                return corrupt("more units reshaped than there are");
            }
            next = Some((to, done));
        }
        let position = |_| Ok(Position(u64::from_le_bytes(source.take()?)));
        let positions = (0..partitions).map(position).collect::<io::Result<_>>()?;
        Ok((Self { params, next, positions }, source))
    }

    /// The new shape if `is_new`, else the old shape.
    pub(crate) fn shape(&self, is_new: bool) -> &S::Params {
        self.next.as_ref().filter(|_| is_new).map_or(&self.params, |next| &next.0)
    }

    /// Units in the order of the snapshot. Each run has its partition, whether its units are in the new
    /// shape, and their numbers in the partition.
    pub(crate) fn runs(&self) -> Vec<(PartitionId, bool, Range<u32>)> {
        let (mut runs, each) = (Vec::new(), self.params.units_per_partition());
        for at in 0..self.positions.len() {
            let partition = PartitionId(at as u16); // at most 2^16 partitions
            let done = self.next.as_ref().map_or(0, |(_, done)| done[at]);
            runs.push((partition, false, done..each));
            if let Some((to, _)) = &self.next {
                let new = u64::from(done) * u64::from(to.units_per_partition()) / u64::from(each);
                runs.push((partition, true, 0..new as u32)); // at most all of the new
            }
        }
        if !S::WHOLE_PARTITIONS {
            runs.sort_by_key(|run| run.1);
        }
        runs
    }
}

/// Reads parameters.
fn take_params<S: Units, R: Read>(source: &mut ChecksumReader<R>) -> Result<S::Params, SnapshotError> {
    let mut encoded = <S::Params as TableParams>::Bytes::default();
    source.fill(encoded.as_mut())?;
    let params = S::Params::decode(&encoded);
    let params = params.ok_or(SnapshotError::Corrupt("reserved bytes or partitions of the parameters"))?;
    params.map_err(|error| SnapshotError::Params(error.into()))
}

/// Reads a byte that is 0 or 1.
pub(crate) fn take_flag<R: Read>(source: &mut ChecksumReader<R>) -> Result<bool, SnapshotError> {
    match source.take()? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => corrupt("neither yes nor no"),
    }
}

/// Checks the final checksum.
pub(crate) fn end<R: Read>(source: ChecksumReader<R>) -> Result<(), SnapshotError> {
    let (found, expected) = source.finish()?;
    if found == expected { Ok(()) } else { Err(SnapshotError::Checksum { found, expected }) }
}

impl<S: Units> Table<S> {
    /// Writes the table to a stream. Waits for a running [`apply`](Self::apply) and blocks others meanwhile;
    /// readers continue. Writes one block or range at a time: use a buffered stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        let writer = self.writer();
        let generations = self.generations.load_full();
        let (now, next) = (&generations.now, generations.next.as_ref());
        let header = SnapshotHeader::<S> {
            params: now.params,
            next: next.map(|next| (next.generation.params, next.all())),
            positions: writer.positions.clone(),
        };
        let mut sink = header.put(to, S::TABLE_MAGIC)?;
        let mut bytes = Vec::new();
        for (partition, is_new, units) in header.runs() {
            let generation = next.filter(|_| is_new).map_or(now, |next| &next.generation);
            let first = u32::from(partition.0) * generation.params.units_per_partition();
            for unit in units {
                let (words, extra) = generation.state(first + unit);
                bytes.clear();
                S::put_unit(&words, &extra, &mut bytes);
                sink.put(&bytes)?;
            }
        }
        sink.finish()
    }

    /// Reads a table from a stream, up to its checksum and no further.
    ///
    /// # Errors
    /// [`SnapshotError`]. Memory use never exceeds about twice what was read; for a table that is being
    /// reshaped, add the empty blocks or ranges of both shapes.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let (header, mut source) = SnapshotHeader::<S>::take(from, S::TABLE_MAGIC)?;
        let layouts = [false, true].map(|is_new| S::layout(header.shape(is_new)));
        let (mut lines, mut extras, mut buffer) = (Vec::new(), [Vec::new(), Vec::new()], Vec::new());
        for (partition, is_new, units) in header.runs() {
            let of = usize::from(is_new);
            let first = u32::from(partition.0) * header.shape(is_new).units_per_partition();
            let mut read = Vec::new();
            for unit in units.clone() {
                let (words, extra) = S::take_unit(&mut source, &layouts[of], first + unit, &mut buffer)?;
                read.extend(words.as_chunks().0.iter().map(|&words| Line::new(words)));
                if extra != S::Extra::default() {
                    extras[of].push((first + unit, extra));
                }
            }
            lines.push((is_new, first + units.start, read));
        }
        end(source)?;
        let has_room = |is_new| S::has_room(header.shape(is_new), &extras[usize::from(is_new)]);
        if !has_room(false) || !has_room(true) {
            return corrupt("more fallback lines than the parameters grant");
        }
        let mut memories = [Generation::<S>::memory(&header.params), Memory::zeroed(0)];
        if let Some((to, _)) = &header.next {
            memories[1] = Generation::<S>::memory(to);
        }
        for (is_new, first, lines) in lines {
            let at = first as usize * (header.shape(is_new).unit_words() / 8);
            memories[usize::from(is_new)][at..].iter_mut().zip(lines).for_each(|(to, line)| *to = line);
        }
        let (epochs, [old, new], [memory, new_memory]) = (SyncArc::new(Epochs::new()), extras, memories);
        let now = Generation::with_memory(header.params, memory, old, SyncArc::clone(&epochs));
        let next = header
            .next
            .map(|(to, done)| (Generation::with_memory(to, new_memory, new, SyncArc::clone(&epochs)), done));
        Ok(Self::with_generations(now, next, epochs, header.positions))
    }

    /// The position and the digest of a partition's bits. `None` if there is no such partition, or it is in
    /// two shapes. Blocks updates meanwhile, not readers. Cost: reads its bits.
    pub fn digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        let writer = self.writer();
        let position = *writer.positions.get(usize::from(partition.0))?;
        let generations = self.generations.load_full();
        let generation = generations.of_partition(partition)?;
        let each = generation.params.units_per_partition();
        let first = u32::from(partition.0) * each;
        let mut digest = Digest::<S>::of(&generation.params);
        for unit in first..first + each {
            let (words, extra) = generation.state(unit);
            digest.unit(&words, &extra);
        }
        Some((position, digest.finish()))
    }
}

/// Computes the digest of a partition unit by unit.
pub(crate) struct Digest<S> {
    crc: crc32fast::Hasher,
    bytes: Vec<u8>,
    of: std::marker::PhantomData<S>,
}

impl<S: Units> Digest<S> {
    pub(crate) fn of(params: &S::Params) -> Self {
        let mut crc = crc32fast::Hasher::new();
        crc.update(params.encode().as_ref());
        Self { crc, bytes: Vec::new(), of: std::marker::PhantomData }
    }

    pub(crate) fn unit(&mut self, words: &[u64], extra: &S::Extra) {
        self.bytes.clear();
        S::put_unit(words, extra, &mut self.bytes);
        self.crc.update(&self.bytes);
    }

    pub(crate) fn finish(self) -> u32 {
        self.crc.finalize()
    }
}
