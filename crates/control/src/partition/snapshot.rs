//! A partition's state as bytes: one state has one encoding, so two states are equal if their bytes are.
//!
//! ```text
//! magic 8 | version u16 | contents in borsh | CRC-32 u32
//! ```

use super::Partition;
use super::requests::Requests;
use super::table::{Held, Sessions};
use super::windows::Writers;
use crate::codec::{self, DecodeError, Encoded};
use crate::record::{Closures, Session};
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_tables::compact::Control;
use scalebricks_types::{FlowKey, KeyHasher, NodeId, PartitionId, Position};
use std::collections::BTreeMap;
use std::io::{self, Write};

const MAGIC: &[u8; 8] = b"SBRIBPRT";

const CHECKSUM_BYTES: usize = 4;

/// Room for what is neither sessions nor table. It need not suffice.
const OTHERS_BYTES: usize = 64 << 10;

/// A key with its session and the position of its last change.
type Entry = (FlowKey, Session, Position);

/// The contents of a snapshot. It is encoded from the sessions in the partition, not from a copy: the owner does nothing else
/// meanwhile.
#[derive(BorshSerialize, BorshDeserialize)]
struct Contents<S = Vec<Entry>> {
    id: PartitionId,
    position: Position,
    shapes: u32,
    writers: Writers,
    requests: Requests,
    closures: Closures,
    /// By node, the position of its last FIB update.
    fib_positions: BTreeMap<NodeId, Position>,
    /// In the order of their hashes: a vector of [`Entry`].
    sessions: S,
    /// The GPT's control structure.
    gpt: Vec<u8>,
}

/// Sessions of a partition, written as a vector of [`Entry`].
struct Borrowed<'a>(Vec<(u64, &'a Held)>);

impl BorshSerialize for Borrowed<'_> {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        let Ok(count) = u32::try_from(self.0.len()) else { return Err(io::ErrorKind::InvalidData.into()) };
        count.serialize(writer)?;
        self.0.iter().try_for_each(|(_, held)| (held.key, held.session, held.since).serialize(writer))
    }
}

impl Encoded for Contents {
    const NAME: &'static str = "snapshot of a partition";
}

/// Bytes that are no valid snapshot of a partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Not a snapshot of a partition.
    #[error("not a snapshot of a partition")]
    NotASnapshot,
    /// The checksum does not match.
    #[error("the snapshot is damaged: its checksum does not match")]
    Checksum,
    /// The contents do not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The contents contradict each other.
    #[error("the snapshot is malformed: {0}")]
    Malformed(String),
}

fn malformed<T>(what: impl Into<String>) -> Result<T, SnapshotError> {
    Err(SnapshotError::Malformed(what.into()))
}

impl Partition {
    /// The state as bytes. Cost: all keys sorted, all blocks written.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut gpt = Vec::new();
        if self.gpt.write_snapshot(&mut gpt).is_err() {
            unreachable!("writing to memory does not fail");
        }
        let sessions = Borrowed(self.sessions.sorted());
        let room = MAGIC.len() + gpt.len() + sessions.0.len() * size_of::<Entry>() + OTHERS_BYTES;
        let contents = Contents {
            id: self.id,
            position: self.position,
            shapes: self.shapes,
            writers: self.writers.clone(),
            requests: self.requests.clone(),
            closures: self.closures.clone(),
            fib_positions: self.fib_positions.clone(),
            sessions,
            gpt,
        };
        let mut out = Vec::with_capacity(room);
        out.extend_from_slice(MAGIC);
        if codec::encode_onto(&mut out, &contents).is_err() {
            unreachable!("a partition has fewer than 2^32 keys");
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The partition in these bytes. Checks that every key is in order and in this partition, and that the bits answer it with
    /// its node. Memory in use never exceeds a few times what was given.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn restore(bytes: &[u8], hasher: KeyHasher) -> Result<Self, SnapshotError> {
        let (body, checksum) =
            bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(SnapshotError::NotASnapshot)?;
        let contents = body.strip_prefix(MAGIC).ok_or(SnapshotError::NotASnapshot)?;
        let is_damaged = crc32fast::hash(body) != u32::from_le_bytes(*checksum);
        let contents = match Contents::decode(contents) {
            Err(error @ DecodeError::Version { .. }) => return Err(error.into()),
            _ if is_damaged => return Err(SnapshotError::Checksum),
            contents => contents?,
        };
        let Contents { id, position, shapes, writers, requests, closures, fib_positions, .. } = contents;
        if !writers.is_valid() || !requests.is_valid(position) {
            return malformed("no log leads to its calls or batches");
        }
        let sessions = restore_sessions(contents.sessions, hasher, position)?;
        let gpt = Control::read_snapshot(&contents.gpt)
            .map_err(|error| SnapshotError::Malformed(error.to_string()))?;
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

/// The sessions of a snapshot that was taken at this position.
fn restore_sessions(
    entries: Vec<Entry>,
    hasher: KeyHasher,
    position: Position,
) -> Result<Sessions, SnapshotError> {
    let mut sessions = Sessions::default();
    let mut last = None;
    for (key, session, since) in entries {
        let hash = hasher.hash(&key);
        if last.is_some_and(|last| last >= hash) {
            return malformed("keys are not in order: was it written under another secret?");
        }
        if since > position {
            return malformed("a key is newer than the snapshot");
        }
        last = Some(hash);
        sessions.put(key, hash, session, since);
    }
    Ok(sessions)
}
