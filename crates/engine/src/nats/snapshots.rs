//! Snapshots: chunks in one stream, and a directory entry when all chunks are stored and were read back.

use super::api::{ApiError, error_of};
use super::connection::{Connection, Failure, until};
use super::jetstream_core::JetStreamCore;
use super::message::{Stored, head};
use futures_util::{StreamExt, TryStreamExt, stream};
use scalebricks_control::engine::{EngineError, Snapshot};
use scalebricks_types::{PartitionId, Position};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

const CHUNK_BYTES: usize = 512 << 10;

/// Chunks in flight at the same time.
const CHUNKS_IN_FLIGHT: usize = 8;

/// Age after which chunks without a directory entry are removed: their writer has died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Distinguishes snapshots that begin at the same time.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Name of a directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    position: u64,
    id: String,
}

impl Listed {
    fn name(&self) -> String {
        format!("{:020}_{}", self.position, self.id)
    }

    fn parse(name: &str) -> Option<Self> {
        let (position, id) = name.split_once('_')?;
        Some(Self { position: position.parse().ok()?, id: id.to_owned() })
    }
}

/// Content of a directory entry.
struct Contents {
    bytes: usize,
    chunks: usize,
    sequences: RangeInclusive<u64>,
}

impl Contents {
    fn encode(&self) -> Vec<u8> {
        let numbers = [self.bytes as u64, self.chunks as u64, *self.sequences.start(), *self.sequences.end()];
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let (numbers, []) = body.as_chunks::<8>() else { return None };
        let &[bytes, chunks, first, last] = numbers else { return None };
        let number = u64::from_le_bytes;
        Some(Self {
            bytes: usize::try_from(number(bytes)).ok()?,
            chunks: usize::try_from(number(chunks)).ok()?,
            sequences: number(first)..=number(last),
        })
    }
}

fn unavailable(error: &ApiError) -> EngineError {
    EngineError::Unavailable(error.to_string())
}

/// A unique id: time, and random bits of process and count.
fn new_id() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let random = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), count);
    format!("{:012x}-{random:016x}", now.as_millis())
}

fn is_abandoned(id: &str) -> bool {
    let begun = id.split('-').next().and_then(|time| u64::from_str_radix(time, 16).ok());
    let begun = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(begun.unwrap_or(0)));
    begun.and_then(|begun| SystemTime::now().duration_since(begun).ok()).is_some_and(|age| age > ABANDONED)
}

impl JetStreamCore {
    /// Stores a message; returns its sequence.
    async fn store(&self, subject: &str, note: &str, body: Arc<[u8]>) -> Result<u64, EngineError> {
        let deadline = self.deadline();
        let failed = |why: String| EngineError::Unavailable(why);
        let permit = self
            .connection
            .reserve(body.len(), deadline)
            .await
            .map_err(|failure| failed(failure.to_string()))?;
        let headers = head(subject, note, &body);
        let stored = until(deadline, || async {
            let sent = Connection::body(&body, &permit);
            let answer =
                self.connection.request(subject.to_owned(), Some(headers.clone()), sent, deadline).await;
            match answer.map(|message| serde_json::from_slice::<Value>(&message.payload)) {
                Err(Failure::NoResponders) => None,
                Err(failure) => Some(Err(failed(failure.to_string()))),
                Ok(Err(error)) => Some(Err(failed(error.to_string()))),
                Ok(Ok(answer)) => match (error_of(&answer), answer.get("seq").and_then(Value::as_u64)) {
                    (None, Some(sequence)) => Some(Ok(sequence)),
                    (Some((_, why)), _) => Some(Err(failed(why))),
                    (None, None) => Some(Err(failed("an answer without a sequence".to_owned()))),
                },
            }
        });
        stored.await.unwrap_or_else(|| Err(failed(Failure::NoResponders.to_string())))
    }

    pub(super) async fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> Result<(), EngineError> {
        let listed = Listed { position: snapshot.position.0, id: new_id() };
        let subject = self.names.chunks(partition, &listed.id);
        let chunks = snapshot.bytes.len().div_ceil(CHUNK_BYTES);
        let (subject, bytes) = (subject.as_str(), &snapshot.bytes);
        let stored: Vec<u64> = stream::iter(0..chunks)
            .map(|index| async move {
                let end = bytes.len().min((index + 1) * CHUNK_BYTES);
                let chunk: Arc<[u8]> = Arc::from(&bytes[index * CHUNK_BYTES..end]);
                self.store(subject, &index.to_string(), chunk).await
            })
            .buffer_unordered(CHUNKS_IN_FLIGHT)
            .try_collect()
            .await?;
        let first = stored.iter().min().copied().unwrap_or(1);
        let last = stored.iter().max().copied().unwrap_or(0);
        let contents = Contents { bytes: bytes.len(), chunks, sequences: first..=last };
        // Read back before use, and again before older snapshots or entries are removed.
        if let Err(what) = self.chunks(partition, &listed, &contents, &mut |_, _| {}).await? {
            return Err(EngineError::Damaged(format!("the snapshot just written: {what}")));
        }
        let entry = self.names.directory(partition, &listed.name());
        self.store(&entry, "", Arc::from(contents.encode())).await?;
        // Only cleanup: a failure does not affect the stored snapshot.
        drop(self.tidy(partition, &listed).await);
        Ok(())
    }

    /// Names below a subject in the stream of snapshots.
    async fn list(&self, below: &str) -> Result<Vec<String>, EngineError> {
        let stream = self.names.snapshot_stream();
        let what = json!({ "subjects_filter": format!("{below}*") });
        let answer = self.connection.api(&format!("STREAM.INFO.{stream}"), &what, self.deadline()).await;
        let answer = answer.map_err(|error| unavailable(&error))?;
        let subjects = answer.get("state").and_then(|state| state.get("subjects")).and_then(Value::as_object);
        let names = subjects.into_iter().flat_map(|subjects| subjects.keys());
        Ok(names.filter_map(|subject| subject.strip_prefix(below)).map(str::to_owned).collect())
    }

    /// The directory entries of a partition, newest first.
    async fn directory(&self, partition: PartitionId) -> Result<Vec<Listed>, EngineError> {
        let mut names = self.list(&self.names.directory(partition, "")).await?;
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names.iter().filter_map(|name| Listed::parse(name)).collect())
    }

    /// Removes what a whole snapshot replaces: all older ones but one, others at its position, and abandoned chunks.
    async fn tidy(&self, partition: PartitionId, whole: &Listed) -> Result<(), EngineError> {
        let all = self.directory(partition).await?;
        let older = all.iter().filter(|listed| listed.position < whole.position).skip(1);
        let same = all.iter().filter(|listed| listed.position == whole.position && listed.id < whole.id);
        for listed in older.chain(same) {
            // First the entry: a concurrent reader takes missing chunks for damage, and reads the next older snapshot.
            self.purge(&self.names.directory(partition, &listed.name())).await?;
            self.purge(&self.names.chunks(partition, &listed.id)).await?;
        }
        for id in self.list(&self.names.chunks(partition, "")).await? {
            if is_abandoned(&id) && all.iter().all(|listed| listed.id != id) {
                self.purge(&self.names.chunks(partition, &id)).await?;
            }
        }
        Ok(())
    }

    async fn purge(&self, subject: &str) -> Result<(), EngineError> {
        let stream = self.names.snapshot_stream();
        let what = json!({ "filter": subject });
        let answer = self.connection.api(&format!("STREAM.PURGE.{stream}"), &what, self.deadline()).await;
        answer.map(drop).map_err(|error| unavailable(&error))
    }

    /// Passes each chunk of a snapshot to `take`, in any order, perhaps more than once; returns damage.
    async fn chunks(
        &self,
        partition: PartitionId,
        listed: &Listed,
        contents: &Contents,
        take: &mut (dyn FnMut(usize, &[u8]) + Send),
    ) -> Result<Result<(), String>, EngineError> {
        let (stream, subject) = (self.names.snapshot_stream(), self.names.chunks(partition, &listed.id));
        let mut is_there = vec![false; contents.chunks.min(contents.bytes)];
        // Asks the leader for what replicas do not return.
        for asks_leader in [false, true] {
            let mut next = *contents.sequences.start();
            while next <= *contents.sequences.end() && !is_there.iter().all(|&is_there| is_there) {
                let deadline: Instant = self.deadline();
                let mut some = Vec::new();
                if !asks_leader {
                    some = self
                        .connection
                        .direct_get(&stream, next, Some(&subject), 2 * CHUNK_BYTES, deadline)
                        .await;
                }
                if some.is_empty() {
                    let what = json!({ "seq": next, "next_by_subj": subject });
                    let stored = self.connection.leader_get(&stream, &what, deadline).await;
                    some.extend(stored.map_err(|error| unavailable(&error))?);
                }
                let Some(last) = some.last() else { break };
                next = last.sequence + 1;
                for stored in &some {
                    if let Some((index, body)) = chunk(stored, contents) {
                        is_there[index] = true;
                        take(index, body);
                    }
                }
            }
        }
        let missing = is_there.iter().position(|is_there| !is_there);
        Ok(missing.map_or(Ok(()), |index| {
            Err(format!(
                "chunk {index} of snapshot {} of partition {} is missing or changed",
                listed.name(),
                partition.0
            ))
        }))
    }

    /// Content of a directory entry, or its damage.
    async fn contents(
        &self,
        partition: PartitionId,
        listed: &Listed,
    ) -> Result<Result<Contents, String>, EngineError> {
        let what = json!({ "last_by_subj": self.names.directory(partition, &listed.name()) });
        let stored = self.connection.leader_get(&self.names.snapshot_stream(), &what, self.deadline()).await;
        let stored = stored.map_err(|error| unavailable(&error))?;
        let contents = stored.and_then(|stored| Contents::decode(stored.open().ok()?.1));
        let fits = |contents: &Contents| contents.bytes.div_ceil(CHUNK_BYTES) == contents.chunks;
        let name = listed.name();
        Ok(contents.filter(fits).ok_or_else(|| {
            format!("the entry of snapshot {name} of partition {} is missing or changed", partition.0)
        }))
    }

    pub(super) async fn snapshot(&self, partition: PartitionId) -> Result<Option<Snapshot>, EngineError> {
        let mut damage = None;
        for listed in self.directory(partition).await? {
            let contents = match self.contents(partition, &listed).await? {
                Ok(contents) => contents,
                Err(what) => {
                    damage.get_or_insert(what);
                    continue;
                }
            };
            let mut bytes = vec![0; contents.bytes];
            let mut take = |index: usize, body: &[u8]| {
                bytes[index * CHUNK_BYTES..][..body.len()].copy_from_slice(body);
            };
            match self.chunks(partition, &listed, &contents, &mut take).await? {
                Ok(()) => {
                    let position = Position(listed.position);
                    return Ok(Some(Snapshot { position, bytes: Arc::from(bytes) }));
                }
                Err(what) => drop(damage.get_or_insert(what)),
            }
        }
        damage.map_or(Ok(None), |what| Err(EngineError::Damaged(what)))
    }

    /// Whether there is a whole snapshot at or above a position; reads it.
    async fn has_whole(&self, partition: PartitionId, at_least: u64) -> Result<bool, EngineError> {
        for listed in self.directory(partition).await? {
            if listed.position < at_least {
                break;
            }
            let Ok(contents) = self.contents(partition, &listed).await? else { continue };
            if self.chunks(partition, &listed, &contents, &mut |_, _| {}).await?.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) async fn trim(&self, partition: PartitionId, below: Position) -> Result<(), EngineError> {
        let log = self.log(partition);
        let extent = log.extent(&self.connection, self.deadline()).await.map_err(EngineError::Unavailable)?;
        let below = below.0.min(extent.last + 1);
        if below <= extent.first {
            return Ok(());
        }
        let last = below - 1;
        if !self.has_whole(partition, last).await? {
            let why = format!("no whole snapshot of partition {} holds entry {last}", partition.0);
            return Err(EngineError::Refused(why));
        }
        let what = format!("STREAM.PURGE.{}", log.stream);
        let answer = self.connection.api(&what, &json!({ "seq": below }), self.deadline()).await;
        answer.map(drop).map_err(|error| unavailable(&error))
    }
}

/// Index and bytes of a chunk, if it is valid.
fn chunk<'a>(stored: &'a Stored, contents: &Contents) -> Option<(usize, &'a [u8])> {
    let (note, body) = stored.open().ok()?;
    let index: usize = note.parse().ok().filter(|&index| index < contents.chunks)?;
    let len = CHUNK_BYTES.min(contents.bytes - index * CHUNK_BYTES);
    (body.len() == len).then_some((index, &body[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_sorted_by_position() {
        let listed = |position| Listed { position, id: new_id() };
        let (two, ten) = (listed(2), listed(10));
        assert!(two.name() < ten.name());
        assert_eq!(Listed::parse(&ten.name()), Some(ten));
        assert_ne!(two.id, listed(2).id);
    }

    #[test]
    fn only_old_chunks_are_abandoned() {
        assert!(!is_abandoned(&new_id()));
        assert!(is_abandoned("000000000001-0000000000000000"));
    }

    #[test]
    fn an_entry_reads_as_it_was_written() {
        let contents = Contents { bytes: 5, chunks: 1, sequences: 7..=9 };
        let read = Contents::decode(&contents.encode()).unwrap();
        assert_eq!((read.bytes, read.chunks, read.sequences), (5, 1, 7..=9));
        assert!(Contents::decode(&contents.encode()[1..]).is_none());
    }
}
