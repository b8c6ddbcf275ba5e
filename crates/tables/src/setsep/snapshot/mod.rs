//! Tables as streams of bytes.
//!
//! A magic number that also says which structure it is, a version, the parameters, whether the table is being reshaped
//! (a byte; if so the new parameters and, for each partition, how many of its old blocks have been, 32 bits), the
//! position of every partition, the blocks in ascending order (those of the old shape that are left, then those of the
//! new that are there), and a CRC-32 of all that. Everything little-endian. A block of a query structure is its words
//! and its fallback list; of a control structure its keys, its values and its words. The bytes depend on the table's
//! contents alone, not on where a block lies in memory: equal tables, equal bytes.
//!
//! Whoever reads trusts nothing: memory grows only as data arrives (of a table that is being reshaped, the blocks not
//! yet converted take as much as there are old ones, times their ratio), and every structural rule is checked.

mod control;
mod query;

use super::geometry::GROUPS;
use super::image::Layout;
use super::params::{PARAMS_BYTES, Params, ParamsError};
use super::reshape;
use super::solver::is_clean;
use crate::summed::{Sink, Source};
use scalebricks_types::Position;
use std::io::{self, Read, Write};

const QUERY_MAGIC: [u8; 8] = *b"SBSetSep";
const CONTROL_MAGIC: [u8; 8] = *b"SBSetCtl";
const VERSION: u32 = 2;

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

impl<W: Write> Sink<W> {
    fn start(to: W, magic: [u8; 8], params: &Params) -> io::Result<Self> {
        let mut sink = Self::new(to);
        sink.put(&magic)?;
        sink.put(&VERSION.to_le_bytes())?;
        sink.put(&params.encode())?;
        Ok(sink)
    }

    fn put_reshaping(&mut self, reshaping: Option<(&Params, &[u32])>) -> io::Result<()> {
        self.put(&[reshaping.is_some().into()])?;
        let Some((to, done)) = reshaping else { return Ok(()) };
        self.put(&to.encode())?;
        done.iter().try_for_each(|done| self.put(&done.to_le_bytes()))
    }
}

impl<R: Read> Source<R> {
    fn start(from: R, magic: [u8; 8]) -> Result<(Self, Params), SnapshotError> {
        let mut source = Self::new(from);
        if source.take::<8>()? != magic {
            return Err(SnapshotError::Magic);
        }
        let version = u32::from_le_bytes(source.take()?);
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let params = source.params()?;
        Ok((source, params))
    }

    fn params(&mut self) -> Result<Params, SnapshotError> {
        let params = Params::decode(&self.take::<PARAMS_BYTES>()?);
        Ok(params.ok_or(SnapshotError::Corrupt("reserved bytes or partitions of the parameters"))??)
    }

    /// The shape the table is on its way to, and how far each partition has come.
    fn reshaping(&mut self, from: &Params) -> Result<Option<(Params, Vec<u32>)>, SnapshotError> {
        match self.take()? {
            [0] => return Ok(None),
            [1] => {}
            _ => return corrupt("neither being reshaped nor not"),
        }
        let to = self.params()?;
        if reshape::check(from, &to).is_err() {
            return corrupt("a table cannot be reshaped like that");
        }
        let mut done = Vec::new();
        for _ in 0..from.partitions().get() {
            done.push(u32::from_le_bytes(self.take()?));
        }
        if done.iter().any(|&done| done > from.blocks_per_partition()) {
            return corrupt("more blocks reshaped than there are");
        }
        Ok(Some((to, done)))
    }

    fn positions(&mut self, params: &Params) -> io::Result<Vec<Position>> {
        (0..params.partitions().get()).map(|_| Ok(Position(u64::from_le_bytes(self.take()?)))).collect()
    }

    /// The checksum is right.
    fn end(self) -> Result<(), SnapshotError> {
        let (found, expected) = self.finish()?;
        if found == expected { Ok(()) } else { Err(SnapshotError::Checksum { found, expected }) }
    }
}

const fn corrupt<T>(what: &'static str) -> Result<T, SnapshotError> {
    Err(SnapshotError::Corrupt(what))
}

/// Whether every group's bits are ones that someone could have stored.
fn clean_groups(words: &[u64], layout: &Layout) -> bool {
    (0..GROUPS).all(|group| is_clean(&layout.group(words, group), &layout.params))
}

/// Whether a block is in a shape's part of a snapshot: of the old shape those not converted, of the new the others.
fn is_in(params: &Params, block: u32, done: &[u32], is_new: bool, ratio: u32) -> bool {
    let partition = usize::from(params.partition_of_block(block).0);
    let converted = done.get(partition).map_or(0, |done| done * if is_new { ratio } else { 1 });
    (block % params.blocks_per_partition() < converted) == is_new
}

/// Counts a block's fallback lines to its partition's.
fn add_lines(used: &mut [u32], params: &Params, block: u32, keys: usize) -> Result<(), SnapshotError> {
    let used = &mut used[usize::from(params.partition_of_block(block).0)];
    *used += super::face::lines_for(keys);
    if *used > params.fallback_lines() {
        corrupt("more fallback lines than the parameters grant")
    } else {
        Ok(())
    }
}
