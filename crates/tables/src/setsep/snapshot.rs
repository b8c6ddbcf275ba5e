//! Tables as streams of bytes.
//!
//! A magic number that also says which structure it is, a version, the parameters, the position of every partition,
//! the blocks in ascending order, and a CRC-32 of all that. Everything little-endian. A block of a query structure
//! is its words and its fallback list; of a control structure its keys, its values and its words. The bytes depend
//! on the table's contents alone, not on where a block lies in memory: equal tables, equal bytes.
//!
//! Whoever reads trusts nothing: memory grows only as data arrives, and every structural rule is checked.

use super::arena::Line;
use super::block::{self, Block, Moves};
use super::control::SetSepControl;
use super::geometry::GROUPS;
use super::geometry::bucket_of;
use super::held::Held;
use super::image::{Layout, group_of};
use super::params::{PARAMS_BYTES, Params, ParamsError};
use super::query::{SetSep, lines_for};
use super::solver::{evaluate, is_clean, is_marked};
use scalebricks_types::Position;
use std::io::{self, Read, Write};

const QUERY_MAGIC: [u8; 8] = *b"SBSetSep";
const CONTROL_MAGIC: [u8; 8] = *b"SBSetCtl";
const VERSION: u32 = 1;

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

/// Passes bytes on and sums them up.
struct Sink<W> {
    to: W,
    sum: crc32fast::Hasher,
}

impl<W: Write> Sink<W> {
    fn start(to: W, magic: [u8; 8], params: &Params) -> io::Result<Self> {
        let mut sink = Self { to, sum: crc32fast::Hasher::new() };
        sink.put(&magic)?;
        sink.put(&VERSION.to_le_bytes())?;
        sink.put(&params.encode())?;
        Ok(sink)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.to.write_all(bytes)
    }

    fn put_words(&mut self, words: impl IntoIterator<Item = u64>, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        words.into_iter().for_each(|word| buffer.extend_from_slice(&word.to_le_bytes()));
        self.put(buffer)
    }

    fn finish(mut self) -> io::Result<()> {
        let sum = self.sum.finalize();
        self.to.write_all(&sum.to_le_bytes())?;
        self.to.flush()
    }
}

/// Reads bytes and sums them up.
struct Source<R> {
    from: R,
    sum: crc32fast::Hasher,
}

impl<R: Read> Source<R> {
    fn start(from: R, magic: [u8; 8]) -> Result<(Self, Params), SnapshotError> {
        let mut source = Self { from, sum: crc32fast::Hasher::new() };
        if source.take::<8>()? != magic {
            return Err(SnapshotError::Magic);
        }
        let version = u32::from_le_bytes(source.take()?);
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let params = Params::decode(&source.take::<PARAMS_BYTES>()?);
        let params =
            params.ok_or(SnapshotError::Corrupt("reserved bytes or partitions of the parameters"))??;
        Ok((source, params))
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.from.read_exact(bytes)?;
        self.sum.update(bytes);
        Ok(())
    }

    /// The next `count` words; `count` is at most a few thousand.
    fn words(&mut self, count: usize, buffer: &mut Vec<u8>) -> io::Result<Vec<u64>> {
        buffer.resize(count * 8, 0);
        self.fill(buffer)?;
        Ok(buffer.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
    }

    fn finish(mut self) -> Result<(), SnapshotError> {
        let found = self.sum.clone().finalize();
        let expected = u32::from_le_bytes(self.take()?);
        if found == expected { Ok(()) } else { Err(SnapshotError::Checksum { found, expected }) }
    }
}

const fn corrupt<T>(what: &'static str) -> Result<T, SnapshotError> {
    Err(SnapshotError::Corrupt(what))
}

/// Whether every group's bits are ones that someone could have stored.
fn clean_groups(words: &[u64], layout: Layout) -> bool {
    (0..GROUPS).all(|group| is_clean(&layout.group(words, group), &layout.params))
}

impl SetSep {
    /// Writes the table to a stream. Waits for a running [`apply`](Self::apply) and holds back others meanwhile;
    /// readers go on. Writes one block at a time: give it a buffered stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        let writer = self.writer();
        let mut sink = Sink::start(to, QUERY_MAGIC, &self.params)?;
        let mut buffer = Vec::new();
        sink.put_words(writer.positions.iter().map(|position| position.0), &mut buffer)?;
        for block in 0..self.params.blocks() {
            let (words, fallback) = self.block_state(block);
            sink.put_words(words, &mut buffer)?;
            sink.put(&(fallback.len() as u16).to_le_bytes())?; // at most a block's keys
            for (hash, value) in fallback {
                sink.put(&hash.to_le_bytes())?;
                sink.put(&[value])?;
            }
        }
        sink.finish()
    }

    /// The table in a stream, which is read up to its checksum and no further.
    ///
    /// # Errors
    /// [`SnapshotError`]. Memory in use never exceeds about twice what was read.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let (mut source, params) = Source::start(from, QUERY_MAGIC)?;
        let layout = Layout::of(&params);
        let positions = read_positions(&mut source, &params)?;
        let (mut lines, mut lists, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        let mut lines_used = vec![0; positions.len()];
        for block in 0..params.blocks() {
            let words = source.words(layout.words, &mut buffer)?;
            let count = usize::from(u16::from_le_bytes(source.take()?));
            if count > params.format().block_capacity() {
                return corrupt("more fallback keys than a block can hold");
            }
            let mut fallback: Vec<(u64, u8)> = Vec::new();
            for _ in 0..count {
                let (hash, [value]) = (u64::from_le_bytes(source.take()?), source.take()?);
                let ascends = fallback.last().is_none_or(|&(last, _)| last < hash);
                if !ascends || !params.is_value(value) || bucket_of(hash, params.blocks()).0 != block {
                    return corrupt(
                        "a fallback key that is out of order, out of its block, or of too many bits",
                    );
                }
                fallback.push((hash, value));
            }
            let listed = fallback
                .iter()
                .fold(0u64, |marks, pair| marks | 1 << group_of(&words, pair.0, params.blocks()));
            if !clean_groups(&words, layout) || listed != layout.marks(&words) {
                return corrupt(
                    "a group that no one stores, or a fallback list that does not match the groups",
                );
            }
            add_lines(&mut lines_used, &params, block, count)?;
            lines.extend(words.as_chunks().0.iter().map(|&words| Line::new(words)));
            if count > 0 {
                lists.push((block, fallback));
            }
        }
        source.finish()?;
        Ok(Self::with_lines(params, positions, lines, lists))
    }
}

fn read_positions<R: Read>(source: &mut Source<R>, params: &Params) -> io::Result<Vec<Position>> {
    (0..params.partitions().get()).map(|_| Ok(Position(u64::from_le_bytes(source.take()?)))).collect()
}

/// Counts a block's fallback lines to its partition's.
fn add_lines(used: &mut [u32], params: &Params, block: u32, keys: usize) -> Result<(), SnapshotError> {
    let used = &mut used[usize::from(params.partition_of_block(block).0)];
    *used += lines_for(keys);
    if *used > params.fallback_lines() {
        corrupt("more fallback lines than the parameters grant")
    } else {
        Ok(())
    }
}

impl SetSepControl {
    /// Writes keys, values and bits to a stream, one block at a time: give it a buffered one.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        let mut sink = Sink::start(to, CONTROL_MAGIC, self.params())?;
        let mut buffer = Vec::new();
        sink.put_words(self.positions.iter().map(|position| position.0), &mut buffer)?;
        let mine: Vec<u8> = self.now.held.mine().into_iter().map(u8::from).collect();
        sink.put(&mine)?;
        let moves = [self.moves.single, self.moves.double, self.moves.rebalanced];
        sink.put_words(moves, &mut buffer)?;
        for slot in 0..self.now.held.store.len() {
            let view = self.now.held.store.view(slot);
            let keys = block::sorted_keys(&view, self.now.held.store.slots());
            sink.put(&(keys.len() as u16).to_le_bytes())?; // at most a block's capacity
            sink.put_words(keys.iter().map(|key| key.0), &mut buffer)?;
            sink.put(&keys.iter().map(|key| key.1).collect::<Vec<_>>())?;
            sink.put_words(view.words.iter().copied(), &mut buffer)?;
        }
        sink.finish()
    }

    /// The control structure in a stream, which is read up to its checksum and no further. Every key is checked to be in
    /// order, in its block, and answered by the bits.
    ///
    /// # Errors
    /// [`SnapshotError`]. Memory in use never exceeds about twice what was read.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let (mut source, params) = Source::start(from, CONTROL_MAGIC)?;
        let positions = read_positions(&mut source, &params)?;
        let mut mine = Vec::new();
        for _ in &positions {
            mine.push(match source.take()? {
                [0] => false,
                [1] => true,
                _ => return corrupt("neither held nor not held"),
            });
        }
        let mut buffer = Vec::new();
        let moves = source.words(3, &mut buffer)?;
        let moves = Moves { single: moves[0], double: moves[1], rebalanced: moves[2] };
        let mut held = Held::new(params, &mine, false);
        for slot in 0..held.store.len() {
            let keys = read_block(&mut source, &params, held.number_of_slot(slot), &mut buffer)?;
            held.store.make(slot);
            fill(&mut held.block(slot), &keys);
            let used = &mut held.lines_used;
            add_lines(used, &params, keys.number, block::fallback_keys(held.store.view(slot).head))?;
        }
        source.finish()?;
        Ok(Self::with_held(held, positions, moves))
    }
}

/// A block as it was read, and found consistent.
struct ReadBlock {
    number: u32,
    keys: Vec<u64>,
    values: Vec<u8>,
    words: Vec<u64>,
}

/// Puts keys and bits into an empty block.
fn fill(block: &mut Block<'_>, read: &ReadBlock) {
    block.view.words.copy_from_slice(&read.words);
    for (&hash, &value) in read.keys.iter().zip(&read.values) {
        let (_, bucket) = bucket_of(hash, block.params.blocks());
        block.append(block::group_in(&read.words, bucket), hash, value);
        block.view.head.counts[bucket] += 1;
    }
    block.view.head.keys = read.keys.len() as u32; // at most a block's capacity
    block.view.head.marks = Layout::of(block.params).marks(&read.words);
}

fn read_block<R: Read>(
    source: &mut Source<R>,
    params: &Params,
    number: u32,
    buffer: &mut Vec<u8>,
) -> Result<ReadBlock, SnapshotError> {
    let count = usize::from(u16::from_le_bytes(source.take()?));
    if count > params.format().block_capacity() {
        return corrupt("more keys than a block can hold");
    }
    let keys = source.words(count, buffer)?;
    let mut values = vec![0; count];
    source.fill(&mut values)?;
    let layout = Layout::of(params);
    let words = source.words(layout.words, buffer)?;
    let in_place = |&key: &u64| bucket_of(key, params.blocks()).0 == number;
    if !keys.is_sorted_by(|a, b| a < b) || !keys.iter().all(in_place) {
        return corrupt("keys out of order or out of their block");
    }
    if !clean_groups(&words, layout) {
        return corrupt("a group that no one stores");
    }
    let mut used = 0u64;
    for (&key, &value) in keys.iter().zip(&values) {
        let group = group_of(&words, key, params.blocks());
        used |= 1 << group;
        let fields = layout.group(&words, group);
        if !params.is_value(value) || !is_marked(&fields, params) && evaluate(&fields, key, params) != value {
            return corrupt("a key that its bits do not answer");
        }
    }
    if (0..GROUPS).any(|group| used >> group & 1 == 0 && layout.group(&words, group) != [0; 8]) {
        return corrupt("bits in a group without keys");
    }
    Ok(ReadBlock { number, keys, values, words })
}
