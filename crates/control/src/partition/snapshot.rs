//! A partition's state as bytes: one state has one form, so two of them are equal if their bytes are.
//!
//! ```text
//! magic 8 | version u16 | partition u16 | shapes u32 | position u64 | writers | sessions u64
//! each: key, node, value, position of its last change | nodes u64, each: number, position of its last update | length of the GPT's control structure u64, and it | CRC-32 u32
//! ```
//!
//! All integers little-endian; sessions in the order of their hashes. Version 2 has the verdicts of recent requests behind the writers, the
//! epoch of each key (4 octets) behind its node, and the closures behind the positions. A partition without calls, epochs and closures is
//! written as version 1, which older software reads: it has none of them before all nodes know version 2.

use super::Partition;
use super::requests::Requests;
use super::table::{Held, Sessions};
use super::windows::Writers;
use crate::record::DecodeError;
use crate::record::codec::{Reader, put_key, put_words};
use crate::record::{Closures, Epoch};
use scalebricks_tables::compact::Control;
use scalebricks_types::{KeyHasher, NodeId, PartitionId, Position};
use std::collections::BTreeMap;

const MAGIC: &[u8; 8] = b"SBRIBPRT";

/// The form without requests, epochs and closures.
const PLAIN: u16 = 1;

/// The form with them.
const FULL: u16 = 2;

const CHECKSUM_BYTES: usize = 4;

/// Why bytes are no partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Not a snapshot of a partition.
    #[error("not a snapshot of a partition")]
    NotASnapshot,
    /// Written by another version of the software.
    #[error("snapshot version {0} is not known here")]
    Version(u16),
    /// They are not what was written.
    #[error("the snapshot is damaged: its checksum does not match")]
    Checksum,
    /// What they say cannot be; says what.
    #[error("the snapshot is malformed: {0}")]
    Malformed(String),
}

impl From<DecodeError> for SnapshotError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, SnapshotError> {
    Err(SnapshotError::Malformed(what.into()))
}

/// The sessions of a snapshot of this version, taken at this position.
fn take_sessions(
    reader: &mut Reader<'_>,
    version: u16,
    hasher: KeyHasher,
    position: u64,
) -> Result<Sessions, SnapshotError> {
    let [count] = reader.words()?;
    let mut sessions = Sessions::default();
    let mut last = None;
    for _ in 0..count {
        let key = reader.key()?;
        let session = if version == FULL { reader.session_with_epoch()? } else { reader.session()? };
        let [since] = reader.words()?;
        let hash = hasher.hash(&key);
        if last.is_some_and(|last| last >= hash.get()) {
            return malformed("keys are not in order: was it written under another secret?");
        }
        if since > position {
            return malformed("a key is newer than the snapshot");
        }
        last = Some(hash.get());
        sessions.put(key, hash, session, Position(since));
    }
    Ok(sessions)
}

impl Partition {
    /// The state as bytes. Cost: all keys sorted, all blocks written.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.len() * 60);
        let sessions = self.sessions.sorted();
        let names_epochs = sessions.iter().any(|held| held.session.epoch != Epoch::UNKNOWN);
        let is_full = names_epochs || !self.closures.is_empty() || !self.requests.is_empty();
        let version = if is_full { FULL } else { PLAIN };
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&self.shapes.to_le_bytes());
        put_words(&mut out, &[self.position.0]);
        self.writers.write(&mut out);
        if is_full {
            self.requests.write(&mut out);
        }
        put_words(&mut out, &[self.sessions.len() as u64]);
        for held in sessions {
            put_key(&mut out, &held.key);
            out.push(held.session.node.get());
            if is_full {
                out.extend_from_slice(&held.session.epoch.get().to_le_bytes());
            }
            put_words(&mut out, &held.session.value);
            put_words(&mut out, &[held.since.0]);
        }
        put_words(&mut out, &[self.fib_positions.len() as u64]);
        for (node, position) in &self.fib_positions {
            put_words(&mut out, &[u64::from(node.get()), position.0]);
        }
        if is_full {
            self.closures.put(&mut out);
        }
        let mut gpt = Vec::new();
        if self.gpt.write_snapshot(&mut gpt).is_err() {
            unreachable!("writing to memory does not fail");
        }
        put_words(&mut out, &[gpt.len() as u64]);
        out.extend_from_slice(&gpt);
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The partition in these bytes. Every key is checked to be in order, in this partition, and to be answered by the bits
    /// with its node. Memory in use never exceeds a few times what was given.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn restore(bytes: &[u8], hasher: KeyHasher) -> Result<Self, SnapshotError> {
        let Some((body, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(SnapshotError::NotASnapshot);
        };
        let mut reader = Reader::new(body);
        if reader.take().ok().as_ref() != Some(MAGIC) {
            return Err(SnapshotError::NotASnapshot);
        }
        let version = u16::from_le_bytes(reader.take()?);
        if ![PLAIN, FULL].contains(&version) {
            return Err(SnapshotError::Version(version));
        }
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return Err(SnapshotError::Checksum);
        }
        let id = PartitionId(u16::from_le_bytes(reader.take()?));
        let shapes = u32::from_le_bytes(reader.take()?);
        let [position] = reader.words()?;
        let writers = Writers::read(&mut reader)?;
        let requests = if version == FULL {
            Requests::read(&mut reader, Position(position))?
        } else {
            Requests::default()
        };
        let sessions = take_sessions(&mut reader, version, hasher, position)?;
        let [nodes] = reader.words()?;
        let mut fib_positions = BTreeMap::new();
        for _ in 0..nodes.min(1 << 8) {
            let [node, at] = reader.words()?;
            let node =
                u8::try_from(node).map_err(|_| DecodeError::Malformed(0, "no node has this number"))?;
            fib_positions.insert(NodeId::new(node), Position(at));
        }
        let closures = if version == FULL { Closures::take(&mut reader)? } else { Closures::default() };
        let names_epoch = |held: &Held| held.session.epoch != Epoch::UNKNOWN;
        if version == FULL && requests.is_empty() && closures.is_empty() && !sessions.iter().any(names_epoch)
        {
            return malformed("it says that it has requests or tenures, and has none");
        }
        let [len] = reader.words()?;
        if len != reader.rest().len() as u64 {
            return malformed("the table's length is wrong");
        }
        let gpt = Control::read_snapshot(reader.rest())
            .map_err(|error| SnapshotError::Malformed(error.to_string()))?;
        let position = Position(position);
        let partition =
            Self { id, hasher, position, writers, requests, sessions, gpt, fib_positions, shapes, closures };
        partition.check()?;
        Ok(partition)
    }

    /// Whether RIB and GPT agree.
    fn check(&self) -> Result<(), SnapshotError> {
        if !self.gpt.holds(self.id) || self.gpt.position(self.id).is_none_or(|at| at > self.position) {
            return malformed("the table is not that of this partition at this position");
        }
        if self.gpt.len() != self.sessions.len() as u64 {
            return malformed("the table holds other keys");
        }
        let is_answered = |held: &Held| self.gpt.get(held.hash) == Some(held.session.node.get());
        if self.sessions.iter().all(is_answered) {
            Ok(())
        } else {
            malformed("a key and its bits name two nodes")
        }
    }
}
