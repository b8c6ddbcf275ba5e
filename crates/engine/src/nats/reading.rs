//! Reads logs: from any replica, and from the leader where a replica's answer ends.

use super::api::{ApiError, Extent};
use super::jetstream_core::JetStreamCore;
use super::log::Log;
use super::message::Stored;
use scalebricks_control::engine::{Batch, BatchId, Entry, ReadError};
use scalebricks_types::{PartitionId, Position};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Bytes per request.
pub(super) const READ_BYTES: usize = 1 << 20;

/// Pause before a leader is asked again whose log ends before the reader's position.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// Number of requests to replicas before an entry counts as damaged.
const REPLICAS_ASKED: usize = 8;

impl JetStreamCore {
    /// Entries from `from` on, in order and without holes, about `max_bytes`, at least one if there is one. Without an
    /// extent, the result of one request; the leader is asked only if that is empty.
    pub(super) async fn fetch(
        &self,
        log: &Log,
        from: u64,
        max_bytes: usize,
        extent: Option<Extent>,
        deadline: Instant,
    ) -> Result<Vec<Entry>, ReadError> {
        let partition = log.partition;
        let trimmed = |first| ReadError::Trimmed { partition, first: Position(first) };
        let is_open = extent.is_none();
        let mut extent = extent.unwrap_or(Extent { first: 0, last: u64::MAX });
        let ahead = |last| ReadError::Ahead { partition, last: Position(last) };
        if from < extent.first {
            return Err(trimmed(extent.first));
        }
        if from - 1 > extent.last {
            return Err(ahead(extent.last));
        }
        let (mut entries, mut bytes, mut next) = (Vec::new(), 0usize, from);
        while next <= extent.last && (entries.is_empty() || bytes < max_bytes) {
            let budget = max_bytes.saturating_sub(bytes).min(READ_BYTES);
            let some = self.connection.direct_get(&log.stream, next, None, budget, deadline).await;
            let before = next;
            for stored in some {
                match (stored.sequence == next).then(|| self.entry(partition, &stored)) {
                    Some(Ok(entry)) => {
                        bytes = bytes.saturating_add(entry.batch.payload.len());
                        if bytes > max_bytes && !entries.is_empty() {
                            return Ok(entries);
                        }
                        entries.push(entry);
                        next += 1;
                    }
                    _ => break, // perhaps only this replica lags or is damaged
                }
            }
            if next > before {
                log.saw(next - 1);
                if is_open {
                    return Ok(entries);
                }
                continue;
            }
            extent = log.extent(&self.connection, deadline).await.map_err(ReadError::Unavailable)?;
            if next < extent.first && entries.is_empty() {
                return Err(trimmed(extent.first));
            }
            if next - 1 > extent.last && entries.is_empty() {
                return Err(ahead(extent.last));
            }
            if next < extent.first || next > extent.last {
                return Ok(entries);
            }
            match self.leaders_entry(log, next, deadline).await {
                Ok(Some(entry)) => {
                    bytes = bytes.saturating_add(entry.batch.payload.len());
                    entries.push(entry);
                    next += 1;
                }
                Ok(None) => {} // trimmed meanwhile
                Err(_) if !entries.is_empty() => return Ok(entries),
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// An entry that a replica did not return: asks the leader, then other replicas. `None` if it is trimmed.
    async fn leaders_entry(
        &self,
        log: &Log,
        position: u64,
        deadline: Instant,
    ) -> Result<Option<Entry>, ReadError> {
        let partition = log.partition;
        let damaged = |what: String| {
            let what = format!("{what}, in stream {}", log.stream);
            ReadError::Damaged { partition, position: Position(position), what }
        };
        let unavailable = |error: ApiError| ReadError::Unavailable(error.to_string());
        let stored = self.connection.leader_get(&log.stream, &json!({ "seq": position }), deadline).await;
        let what = match stored.map_err(unavailable)?.map(|stored| self.entry(partition, &stored)) {
            Some(Ok(entry)) => return Ok(Some(entry)),
            Some(Err(what)) => what.to_owned(),
            None => {
                let extent = log.extent(&self.connection, deadline).await.map_err(ReadError::Unavailable)?;
                if extent.first > position {
                    return Ok(None);
                }
                format!("it is missing between {} and {}", extent.first, extent.last)
            }
        };
        // Other replicas may have what the leader lost; any of them may answer.
        for _ in 0..REPLICAS_ASKED {
            let some = self.connection.direct_get(&log.stream, position, None, 1, deadline).await;
            let stored = some.into_iter().next().filter(|stored| stored.sequence == position);
            if let Some(Ok(entry)) = stored.map(|stored| self.entry(partition, &stored)) {
                return Ok(Some(entry));
            }
        }
        Err(damaged(what))
    }

    fn entry(&self, partition: PartitionId, stored: &Stored) -> Result<Entry, &'static str> {
        let (note, body) = stored.open()?;
        let writer = self.names.writer(partition, &stored.subject).ok_or("its subject is unknown")?;
        let number = note.parse().map_err(|_| "its number is invalid")?;
        let batch = Batch { id: BatchId { writer, number }, payload: Arc::from(&body[..]) };
        Ok(Entry { position: Position(stored.sequence), batch })
    }

    pub(super) async fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let (log, deadline) = (self.log(partition), self.deadline());
        let from = from.0.max(1);
        loop {
            let extent = log.extent(&self.connection, deadline).await.map_err(ReadError::Unavailable)?;
            match self.fetch(&log, from, max_bytes, Some(extent), deadline).await {
                // The reader may know an entry that this leader does not have yet.
                Err(ReadError::Ahead { .. }) if Instant::now() + PAUSE < deadline => sleep(PAUSE).await,
                done => return done,
            }
        }
    }
}
