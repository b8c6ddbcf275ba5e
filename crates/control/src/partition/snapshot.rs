//! A partition's state as bytes: one state has one form, so two of them are equal if their bytes are.
//!
//! ```text
//! magic 8 | version u16 | partition u16 | shapes u32 | position u64 | writers | sessions u64
//! each: key, node, value, position of its last change | nodes u64, each: number, position of its last update | length of the GPT's control structure u64, and it | CRC-32 u32
//! ```
//!
//! All integers little-endian; sessions in the order of their hashes. Behind the writers, form 2 has the verdicts of recent
//! requests. A partition that never had a call is written in form 1, which older software reads: there are no calls before all
//! nodes know form 2.

use super::Partition;
use super::requests::Requests;
use super::table::{Held, Sessions};
use super::windows::Writers;
use crate::record::DecodeError;
use crate::record::codec::{Reader, put_key, put_words};
use scalebricks_tables::compact::Control;
use scalebricks_types::{KeyHasher, NodeId, PartitionId, Position};
use std::collections::BTreeMap;

const MAGIC: &[u8; 8] = b"SBRIBPRT";

/// Versions of the form: without and with verdicts of requests.
const FIRST: u16 = 1;
const WITH_REQUESTS: u16 = 2;

const CHECKSUM_BYTES: usize = 4;

/// Why bytes are no partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Not a snapshot of a partition.
    #[error("not a snapshot of a partition")]
    NotASnapshot,
    /// Written by another version of the software.
    #[error("snapshot version {0} is not known here: use newer software")]
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

impl Partition {
    /// The state as bytes. Cost: all keys sorted, all blocks written.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.len() * 60);
        out.extend_from_slice(MAGIC);
        let version = if self.requests.is_empty() { FIRST } else { WITH_REQUESTS };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&self.shapes.to_le_bytes());
        put_words(&mut out, &[self.position.0]);
        self.writers.write(&mut out);
        if version == WITH_REQUESTS {
            self.requests.write(&mut out);
        }
        put_words(&mut out, &[self.sessions.len() as u64]);
        for held in self.sessions.sorted() {
            put_key(&mut out, &held.key);
            out.push(held.session.node.get());
            put_words(&mut out, &held.session.value);
            put_words(&mut out, &[held.since.0]);
        }
        put_words(&mut out, &[self.fib_positions.len() as u64]);
        for (node, position) in &self.fib_positions {
            put_words(&mut out, &[u64::from(node.get()), position.0]);
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
        if version != FIRST && version != WITH_REQUESTS {
            return Err(SnapshotError::Version(version));
        }
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return Err(SnapshotError::Checksum);
        }
        let id = PartitionId(u16::from_le_bytes(reader.take()?));
        let shapes = u32::from_le_bytes(reader.take()?);
        let [position] = reader.words()?;
        let writers = Writers::read(&mut reader)?;
        let requests = match version {
            FIRST => Requests::default(),
            _ => Requests::read(&mut reader, Position(position))?,
        };
        let [count] = reader.words()?;
        let mut sessions = Sessions::default();
        let mut last = None;
        for _ in 0..count {
            let (key, session) = (reader.key()?, reader.session()?);
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
        let [nodes] = reader.words()?;
        let mut fib_positions = BTreeMap::new();
        for _ in 0..nodes.min(1 << 8) {
            let [node, at] = reader.words()?;
            let node =
                u8::try_from(node).map_err(|_| DecodeError::Malformed(0, "no node has this number"))?;
            fib_positions.insert(NodeId::new(node), Position(at));
        }
        let [len] = reader.words()?;
        if len != reader.rest().len() as u64 {
            return malformed("the table's length is wrong");
        }
        let gpt = Control::read_snapshot(reader.rest())
            .map_err(|error| SnapshotError::Malformed(error.to_string()))?;
        let position = Position(position);
        let partition =
            Self { id, hasher, position, writers, requests, sessions, gpt, fib_positions, shapes };
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
