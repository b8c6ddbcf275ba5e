//! Snapshots of partitions: one file each, written under a temporary name and renamed, so that it is never incomplete
//! under its own name.
//!
//! Header, 36 bytes, little-endian: magic 8, version u16, partition u16, position u64, bytes u64, checksum of the bytes
//! u32, checksum of the header u32. Then the bytes.

use super::options::OpenError;
use super::storage::{Storage, StoredFile, read_exact_at, write_all_at};
use crc32fast::Hasher;
use scalebricks_control::engine::{EngineError, Snapshot};
use scalebricks_types::{PartitionId, Position};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MAGIC: [u8; 8] = *b"SBRKSNAP";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 36;
const CHUNK_BYTES: u64 = 256 << 10;
/// Whole snapshots kept per partition.
const KEPT: usize = 2;

fn name(partition: PartitionId, position: Position) -> String {
    format!("snapshot-{:05}-{:020}.snap", partition.0, position.0)
}

fn parse(file: &str) -> Option<(PartitionId, Position)> {
    let (partition, position) = file.strip_prefix("snapshot-")?.strip_suffix(".snap")?.split_once('-')?;
    let id = (PartitionId(partition.parse().ok()?), Position(position.parse().ok()?));
    (name(id.0, id.1) == file).then_some(id)
}

fn header(partition: PartitionId, position: Position, len: u64, sum: u32) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_le_bytes());
    out[10..12].copy_from_slice(&partition.0.to_le_bytes());
    out[12..20].copy_from_slice(&position.0.to_le_bytes());
    out[20..28].copy_from_slice(&len.to_le_bytes());
    out[28..32].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32fast::hash(&out[..32]);
    out[32..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Why a file is not a usable snapshot.
enum Bad {
    Damaged(String),
    Io(io::Error),
}

impl From<io::Error> for Bad {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The snapshots in a directory. Their names are in memory; each use reads and checks the file.
#[derive(Debug)]
pub(super) struct Snapshots {
    storage: Arc<dyn Storage>,
    known: Mutex<BTreeSet<(PartitionId, Position)>>,
}

impl Snapshots {
    /// Lists the snapshots, and removes unfinished files.
    pub(super) fn open(storage: &Arc<dyn Storage>, removed: &mut Vec<String>) -> Result<Self, OpenError> {
        let (snapshots, unfinished) = Self::list(storage)?;
        for file in unfinished {
            storage.remove(&file).map_err(OpenError::io("remove", &file))?;
            removed.push(file);
        }
        Ok(snapshots)
    }

    /// Lists the snapshots and the unfinished files.
    pub(super) fn list(storage: &Arc<dyn Storage>) -> Result<(Self, Vec<String>), OpenError> {
        let names = storage.names().map_err(OpenError::io("list the files of", "the directory"))?;
        let known = Mutex::new(names.iter().filter_map(|file| parse(file)).collect());
        let is_unfinished = |file: &String| file.strip_suffix(".tmp").and_then(parse).is_some();
        let unfinished = names.into_iter().filter(is_unfinished).collect();
        Ok((Self { storage: Arc::clone(storage), known }, unfinished))
    }

    /// Reads all snapshots: partition, position, and damage. O(bytes).
    pub(super) fn check_all(&self) -> Vec<(PartitionId, Position, Option<String>)> {
        let all: Vec<_> = self.known().iter().copied().collect();
        let check = |(partition, position)| {
            let problem = match self.check(partition, position, None) {
                Ok(()) => None,
                Err(Bad::Damaged(what)) => Some(what),
                Err(Bad::Io(error)) => Some(format!("{}: {error}", name(partition, position))),
            };
            (partition, position, problem)
        };
        all.into_iter().map(check).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<(PartitionId, Position)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Positions of a partition's snapshots, newest first.
    fn positions(&self, partition: PartitionId) -> Vec<Position> {
        let range = (partition, Position(0))..=(partition, Position(u64::MAX));
        self.known().range(range).rev().map(|&(_, position)| position).collect()
    }

    /// Stores a snapshot, reads it back, and removes those older than the two newest whole ones.
    pub(super) fn put(&self, partition: PartitionId, snapshot: &Snapshot) -> Result<(), EngineError> {
        let position = snapshot.position;
        let unavailable =
            |error: io::Error| EngineError::Unavailable(format!("{}: {error}", name(partition, position)));
        self.store(partition, snapshot).map_err(unavailable)?;
        self.known().insert((partition, position));
        match self.check(partition, position, None) {
            Ok(()) => {}
            Err(Bad::Damaged(what)) => return Err(EngineError::Damaged(what)),
            Err(Bad::Io(error)) => return Err(unavailable(error)),
        }
        let mut whole = 0;
        for older in self.positions(partition) {
            if whole < KEPT {
                whole += usize::from(self.check(partition, older, None).is_ok());
            } else if self.storage.remove(&name(partition, older)).is_ok() {
                // One that cannot be removed takes space until the next snapshot, and is otherwise harmless.
                self.known().remove(&(partition, older));
            }
        }
        Ok(())
    }

    fn store(&self, partition: PartitionId, snapshot: &Snapshot) -> io::Result<()> {
        let name = name(partition, snapshot.position);
        let aside = format!("{name}.tmp");
        let written = (|| {
            let file = self.storage.create(&aside)?;
            let sum = crc32fast::hash(&snapshot.bytes);
            let header = header(partition, snapshot.position, snapshot.bytes.len() as u64, sum);
            write_all_at(file.as_ref(), &header, 0)?;
            write_all_at(file.as_ref(), &snapshot.bytes, HEADER_BYTES as u64)?;
            file.sync()?;
            self.storage.rename(&aside, &name)
        })();
        if written.is_err() {
            drop(self.storage.remove(&aside)); // otherwise recovery removes it
            return written;
        }
        self.storage.sync_names()
    }

    /// Reads a snapshot, checks every byte, and appends the bytes to `out`.
    fn check(
        &self,
        partition: PartitionId,
        position: Position,
        out: Option<&mut Vec<u8>>,
    ) -> Result<(), Bad> {
        let name = name(partition, position);
        let damaged = |what: &str| Bad::Damaged(format!("{name}: {what}"));
        let file = self.storage.open(&name)?;
        let mut head = [0; HEADER_BYTES];
        if !read_exact_at(file.as_ref(), &mut head, 0)? {
            return Err(damaged("shorter than its header"));
        }
        let len = u64::from_le_bytes(std::array::from_fn(|i| head[20 + i]));
        let sum = u32::from_le_bytes(std::array::from_fn(|i| head[28 + i]));
        if head != header(partition, position, len, sum) {
            return Err(damaged("the header is damaged"));
        }
        if file.size()? != len.saturating_add(HEADER_BYTES as u64) {
            return Err(damaged("the length is wrong"));
        }
        if sum_of(file.as_ref(), len, out)? != Some(sum) {
            return Err(damaged("the checksum is wrong"));
        }
        Ok(())
    }

    /// The newest whole snapshot of a partition.
    pub(super) fn newest(&self, partition: PartitionId) -> Result<Option<Snapshot>, EngineError> {
        let mut problem = None;
        for position in self.positions(partition) {
            let mut bytes = Vec::new();
            match self.check(partition, position, Some(&mut bytes)) {
                Ok(()) => return Ok(Some(Snapshot { position, bytes: bytes.into() })),
                // A read error has precedence over damage: the file may be whole.
                Err(Bad::Io(error)) => {
                    problem =
                        Some(EngineError::Unavailable(format!("{}: {error}", name(partition, position))));
                }
                Err(Bad::Damaged(what)) => problem = problem.or(Some(EngineError::Damaged(what))),
            }
        }
        problem.map_or(Ok(None), Err)
    }

    /// Whether there is a whole snapshot at or above a position.
    pub(super) fn has_whole(&self, partition: PartitionId, from: Position) -> Result<bool, EngineError> {
        let mut problem = Ok(false);
        for position in self.positions(partition).into_iter().take_while(|&position| position >= from) {
            match self.check(partition, position, None) {
                Ok(()) => return Ok(true),
                Err(Bad::Io(error)) => {
                    problem =
                        Err(EngineError::Unavailable(format!("{}: {error}", name(partition, position))));
                }
                Err(Bad::Damaged(_)) => {}
            }
        }
        problem
    }
}

/// The checksum of a file's bytes after the header; `None` if it is too short.
fn sum_of(file: &dyn StoredFile, len: u64, mut out: Option<&mut Vec<u8>>) -> io::Result<Option<u32>> {
    let mut hasher = Hasher::new();
    let mut chunk = Vec::new();
    let mut at = 0;
    while at < len {
        chunk.resize(CHUNK_BYTES.min(len - at) as usize, 0);
        if !read_exact_at(file, &mut chunk, HEADER_BYTES as u64 + at)? {
            return Ok(None);
        }
        hasher.update(&chunk);
        if let Some(out) = &mut out {
            out.extend_from_slice(&chunk);
        }
        at += chunk.len() as u64;
    }
    Ok(Some(hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let id = (PartitionId(7), Position(1 << 40));
        assert_eq!(parse(&name(id.0, id.1)), Some(id));
        for other in
            ["snapshot-7-1.snap", "snapshot-00007-00000000000000000001.snap.tmp", "log-0000000001.seg"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
