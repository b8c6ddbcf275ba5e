//! The logs: one stream per partition; a sequence is a position.

use super::api::{ApiError, Extent, code, error_of};
use super::config::{self, DUPLICATE_WINDOW};
use super::connection::{Connection, Failure, until};
use super::in_doubt::{InDoubt, PriorAttempt};
use super::jetstream_core::JetStreamCore;
use super::message::head;
use super::options::OpenError;
use super::reading::READ_BYTES;
use crate::writers::{Limits, Memory, Writers};
use scalebricks_control::engine::{AppendError, Batch, BatchId, MAX_BATCH_BYTES, ReadError, WriterId};
use scalebricks_types::{PartitionId, Position};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// Batches and writers remembered per partition.
const LIMITS: Limits = Limits { batches: 256, writers: 64 };

/// Positions that are searched for batches of a writer with earlier entries.
const RECENT: u64 = 1024;

/// What this process knows about batches.
#[derive(Debug, Default)]
struct Known {
    writers: Writers,
    in_doubt: InDoubt,
    /// Number of the newest batch of each writer when this process first used it.
    newest_numbers: HashMap<WriterId, Arc<OnceCell<u64>>>,
}

/// A leader's last answer counts as current for this time.
const SAYS_STILL: Duration = Duration::from_secs(5);

/// A leader reports an end of the log before an entry that was seen: since when, and most recently when.
#[derive(Debug, Clone, Copy)]
struct Shorter {
    since: Instant,
    latest: Instant,
}

/// One partition's log as this process knows it.
#[derive(Debug)]
pub(super) struct Log {
    pub partition: PartitionId,
    pub stream: String,
    is_made: OnceCell<()>,
    /// The newest position that was seen.
    seen: AtomicU64,
    known: Mutex<Known>,
    /// Time after which a log that became shorter is accepted.
    lost_after: Duration,
    shorter: Mutex<Option<Shorter>>,
    /// How often the log became shorter.
    losses: AtomicU64,
    /// Held while batches are searched in the log.
    resolving: tokio::sync::Mutex<()>,
}

impl Log {
    pub(super) fn new(partition: PartitionId, stream: String, lost_after: Duration) -> Self {
        Self {
            partition,
            stream,
            is_made: OnceCell::new(),
            seen: AtomicU64::new(0),
            known: Mutex::default(),
            lost_after,
            shorter: Mutex::default(),
            losses: AtomicU64::new(0),
            resolving: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn saw(&self, position: u64) {
        self.seen.fetch_max(position, Ordering::Relaxed);
    }

    fn note(&self, id: BatchId, position: u64) {
        self.saw(position);
        let mut known = self.known();
        known.in_doubt.remove(id);
        known.writers.note(id, Position(position), LIMITS);
    }

    /// How often the log lost entries that were seen.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Whether to accept the end that a leader reports. An end before an entry that was seen is accepted when leaders
    /// have reported it for `lost_after`; then everything known about the log is dropped.
    fn accepts_end(&self, last: u64) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        let mut shorter = self.shorter.lock().unwrap_or_else(PoisonError::into_inner);
        if last >= seen {
            *shorter = None;
            self.saw(last);
            return true;
        }
        let now = Instant::now();
        let since = shorter.filter(|said| now < said.latest + SAYS_STILL).map_or(now, |said| said.since);
        *shorter = Some(Shorter { since, latest: now });
        if now < since + self.lost_after {
            return false;
        }
        *shorter = None;
        *self.known() = Known::default();
        self.seen.store(last, Ordering::Relaxed);
        self.losses.fetch_add(1, Ordering::Release);
        let (partition, stream) = (self.partition.0, self.stream.as_str());
        tracing::error!(
            partition,
            stream,
            last,
            seen,
            "the log lost entries: it ends before an entry that was seen"
        );
        true
    }

    /// First and last position. An end before entries that were seen is not accepted at once.
    pub(super) async fn extent(&self, connection: &Connection, deadline: Instant) -> Result<Extent, String> {
        let mut why = String::new();
        loop {
            let seen = self.seen.load(Ordering::Relaxed);
            match connection.extent(&self.stream, deadline).await {
                Ok(extent) => {
                    let extent = extent.unwrap_or(Extent { first: 1, last: 0 });
                    if self.accepts_end(extent.last) {
                        return Ok(extent);
                    }
                    why = format!(
                        "the log ends at {}, though entry {seen} was seen: its leader lags behind, or the log was lost",
                        extent.last
                    );
                }
                Err(error) if why.is_empty() => why = error.to_string(),
                Err(_) => {}
            }
            if Instant::now() + Duration::from_millis(50) >= deadline {
                return Err(why);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn make(&self, core: &JetStreamCore, deadline: Instant) -> Result<(), OpenError> {
        let config = config::log(&core.names, self.partition, core.options.replicas);
        let made = self.is_made.get_or_try_init(|| async {
            let extent = core.connection.ensure(&config, deadline).await?;
            self.saw(extent.last);
            Ok(())
        });
        made.await.copied()
    }
}

impl JetStreamCore {
    pub(super) async fn make_log(&self, partition: PartitionId) -> Result<(), OpenError> {
        self.log(partition).make(self, self.deadline()).await
    }

    pub(super) async fn last(&self, partition: PartitionId) -> Result<Position, ReadError> {
        let extent = self.log(partition).extent(&self.connection, self.deadline()).await;
        extent.map(|extent| Position(extent.last)).map_err(ReadError::Unavailable)
    }

    pub(super) async fn append(&self, partition: PartitionId, batch: Batch) -> Result<Position, AppendError> {
        if batch.payload.len() > MAX_BATCH_BYTES {
            return Err(AppendError::TooLarge(batch.payload.len()));
        }
        let deadline = self.deadline();
        let log = self.log(partition);
        let is_new = match self.recall(&log, batch.id, deadline).await? {
            PriorAttempt::Known(position) => return Ok(position),
            PriorAttempt::Sent => false,
            PriorAttempt::New => true,
        };
        let permit = match self.connection.reserve(batch.payload.len(), deadline).await {
            Ok(permit) => permit,
            Err(failure) => return Err(Self::not_taken(&log, batch.id, is_new, failure.to_string())),
        };
        let subject = self.names.log_subject(partition, batch.id.writer);
        let mut headers = head(&subject, &batch.id.number.to_string(), &batch.payload);
        headers.insert("Nats-Msg-Id", format!("{:x}.{:x}", batch.id.writer.0, batch.id.number));
        let is_in_process = AtomicBool::new(false);
        let result = until(deadline, || async {
            let body = Connection::body(&batch.payload, &permit);
            let sent = self.connection.request(subject.clone(), Some(headers.clone()), body, deadline).await;
            match sent.map(|message| serde_json::from_slice::<Value>(&message.payload)) {
                Ok(Ok(answer)) => match (error_of(&answer), answer.get("seq").and_then(Value::as_u64)) {
                    (None, Some(position)) => Some(Ok(position)),
                    (None, None) => Some(Err((false, "an answer without a position".to_owned()))),
                    (Some((code::IN_PROCESS, _)), _) => {
                        is_in_process.store(true, Ordering::Relaxed);
                        None
                    }
                    (Some((code::TOO_MANY, _)), _) => None,
                    (Some((code, why)), _) => Some(Err((is_refusal(code), why))),
                },
                Ok(Err(error)) => Some(Err((false, error.to_string()))),
                Err(Failure::NoResponders) => None, // no leader: not stored
                Err(failure @ Failure::NotSent(_)) => Some(Err((true, failure.to_string()))),
                Err(failure @ Failure::NoAnswer) => Some(Err((false, failure.to_string()))),
            }
        })
        .await;
        match result {
            Some(Ok(position)) => {
                log.note(batch.id, position);
                Ok(Position(position))
            }
            Some(Err((false, why))) => Err(AppendError::Unknown(why)),
            Some(Err((true, why))) => Err(Self::not_taken(&log, batch.id, is_new, why)),
            None => {
                let is_new = is_new && !is_in_process.into_inner();
                Err(Self::not_taken(&log, batch.id, is_new, Failure::NoResponders.to_string()))
            }
        }
    }

    /// The error for a batch that was not stored; if it was sent before, that outcome is unknown.
    fn not_taken(log: &Log, id: BatchId, is_new: bool, why: String) -> AppendError {
        if !is_new {
            return AppendError::Unknown(why);
        }
        log.known().in_doubt.remove(id);
        AppendError::Refused(why)
    }

    /// What is known about a batch before it is sent. Searches the log if the batch was sent so long ago that the
    /// servers may have forgotten it.
    async fn recall(&self, log: &Log, id: BatchId, deadline: Instant) -> Result<PriorAttempt, AppendError> {
        let unknown = |error: ApiError| AppendError::Unknown(error.to_string());
        log.make(self, deadline).await.map_err(|error| match error {
            OpenError::Unavailable(why) => AppendError::Unknown(why),
            error => AppendError::Refused(error.to_string()),
        })?;
        let newest = self.newest_number(log, id.writer, deadline).await.map_err(unknown)?;
        if let Memory::Known(position) = log.known().writers.find(id) {
            return Ok(PriorAttempt::Known(position));
        }
        let half = DUPLICATE_WINDOW / 2;
        let is_old = |log: &Log| log.known().in_doubt.age(id).is_some_and(|age| age > half);
        if is_old(log) {
            let _looking = log.resolving.lock().await;
            if is_old(log) {
                self.resolve(log, deadline).await.map_err(|error| AppendError::Unknown(error.to_string()))?;
            }
        } else if id.number <= newest && !log.known().in_doubt.contains(id) {
            let _looking = log.resolving.lock().await;
            if log.known().writers.find(id) == Memory::New {
                self.load_recent(log, id.writer, deadline).await.map_err(unknown)?;
            }
        }
        let mut known = log.known();
        if let Memory::Known(position) = known.writers.find(id) {
            return Ok(PriorAttempt::Known(position));
        }
        match known.in_doubt.send(id, log.seen.load(Ordering::Relaxed)) {
            None => Err(AppendError::Unknown("too many batches have unknown outcomes".to_owned())),
            // An earlier process of this writer may have sent it.
            Some(PriorAttempt::New) if id.number <= newest => Ok(PriorAttempt::Sent),
            Some(verdict) => Ok(verdict),
        }
    }

    /// Number of the newest batch of a writer in the log when this process first used it; 0: none.
    async fn newest_number(&self, log: &Log, writer: WriterId, deadline: Instant) -> Result<u64, ApiError> {
        let cell = {
            let mut known = log.known();
            if known.newest_numbers.len() >= LIMITS.writers && !known.newest_numbers.contains_key(&writer) {
                known.newest_numbers.clear(); // they are looked up again
            }
            Arc::clone(known.newest_numbers.entry(writer).or_default())
        };
        let newest = cell.get_or_try_init(|| async {
            let what = json!({ "last_by_subj": self.names.log_subject(log.partition, writer) });
            let stored = self.connection.leader_get(&log.stream, &what, deadline).await?;
            let number = stored.and_then(|stored| stored.open().ok()?.0.parse().ok());
            Ok(number.unwrap_or(0))
        });
        newest.await.copied()
    }

    /// Loads the newest batches of a writer with earlier entries.
    async fn load_recent(&self, log: &Log, writer: WriterId, deadline: Instant) -> Result<(), ApiError> {
        let subject = self.names.log_subject(log.partition, writer);
        let newest = json!({ "last_by_subj": subject });
        let Some(newest) = self.connection.leader_get(&log.stream, &newest, deadline).await? else {
            return Ok(());
        };
        let mut from = newest.sequence.saturating_sub(RECENT).max(1);
        while from <= newest.sequence {
            let mut some =
                self.connection.direct_get(&log.stream, from, Some(&subject), READ_BYTES, deadline).await;
            if some.is_empty() {
                let what = json!({ "seq": from, "next_by_subj": subject });
                some.extend(self.connection.leader_get(&log.stream, &what, deadline).await?);
            }
            let Some(last) = some.last() else { break };
            from = last.sequence + 1;
            for stored in some {
                if let Some(number) = stored.open().ok().and_then(|(note, _)| note.parse().ok()) {
                    log.note(BatchId { writer, number }, stored.sequence);
                }
            }
        }
        Ok(())
    }

    /// Resolves batches in doubt: those found in the log are known, the others count as sent now. What is found before
    /// the deadline stays known.
    async fn resolve(&self, log: &Log, deadline: Instant) -> Result<(), ReadError> {
        let Some(floor) = log.known().in_doubt.floor() else { return Ok(()) };
        let extent = log.extent(&self.connection, deadline).await.map_err(ReadError::Unavailable)?;
        let mut next = extent.first.max(floor + 1);
        while next <= extent.last {
            let entries = self.fetch(log, next, READ_BYTES, Some(extent), deadline).await?;
            for entry in entries {
                next = entry.position.0 + 1;
                if log.known().in_doubt.contains(entry.batch.id) {
                    log.note(entry.batch.id, entry.position.0);
                }
            }
            log.known().in_doubt.raise(next - 1);
        }
        log.known().in_doubt.renew(extent.last);
        Ok(())
    }
}

/// Whether an error means that the batch was rejected before it was proposed to the replicas.
fn is_refusal(code: u64) -> bool {
    matches!(
        code,
        code::NO_PEERS
            | code::NOT_AVAILABLE
            | code::NOT_LEADER
            | code::NO_RESOURCES
            | code::NOT_ENABLED
            | code::NOT_ENABLED_FOR_ACCOUNT
            | code::NO_STORAGE
            | code::TOO_LONG
    )
}
