//! The logs: a stream for each partition, whose sequence is the position.

use super::api::{ApiError, Extent, code, error_of};
use super::config::{self, DUPLICATE_WINDOW};
use super::link::{Failure, Link, until};
use super::message::head;
use super::options::OpenError;
use super::reading::READ_BYTES;
use super::shared::Shared;
use super::unsettled::{Unsettled, Verdict};
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

/// Batches and writers of each partition that are remembered.
const LIMITS: Limits = Limits { batches: 256, writers: 64 };

/// Entries of a writer that is met again are looked up so far back.
const LOOK_BACK: u64 = 1024;

/// What is known here of a writer's batches.
#[derive(Debug, Default)]
struct Known {
    writers: Writers,
    unsettled: Unsettled,
    /// The number of the newest batch that each writer had in the log when it was met first.
    met: HashMap<WriterId, Arc<OnceCell<u64>>>,
}

/// For so long the last word of a leader counts as what it still says.
const SAYS_STILL: Duration = Duration::from_secs(5);

/// A leader says that the log ends before an entry that was seen.
#[derive(Debug, Clone, Copy)]
struct Shorter {
    since: Instant,
    latest: Instant,
}

/// One partition's log, as this process knows it.
#[derive(Debug)]
pub(super) struct Log {
    pub partition: PartitionId,
    pub stream: String,
    is_made: OnceCell<()>,
    /// The log was seen to reach at least here.
    seen: AtomicU64,
    known: Mutex<Known>,
    /// A log that is shorter than it was is believed after this time.
    lost_after: Duration,
    shorter: Mutex<Option<Shorter>>,
    /// How often the log became shorter.
    losses: AtomicU64,
    /// Held by who looks for batches in the log.
    looking: tokio::sync::Mutex<()>,
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
            looking: tokio::sync::Mutex::default(),
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
        known.unsettled.remove(id);
        known.writers.note(id, Position(position), LIMITS);
    }

    /// How often the log was found to have lost entries that were seen.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// A leader says where the log ends. Whether that is to be believed: a leader that is behind what was seen is, once it has
    /// said so long enough, and then what was known of the log is forgotten.
    fn believes(&self, last: u64) -> bool {
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
            "the log lost entries: it ends before one that was seen"
        );
        true
    }

    /// What the log has. A leader that is behind what was seen before is not believed at once.
    pub(super) async fn extent(&self, link: &Link, deadline: Instant) -> Result<Extent, String> {
        let mut why = String::new();
        loop {
            let seen = self.seen.load(Ordering::Relaxed);
            match link.extent(&self.stream, deadline).await {
                Ok(extent) => {
                    let extent = extent.unwrap_or(Extent { first: 1, last: 0 });
                    if self.believes(extent.last) {
                        return Ok(extent);
                    }
                    why = format!(
                        "the log ends at {}, though entry {seen} was seen: its leader is behind, or the log was lost",
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

    async fn make(&self, shared: &Shared, deadline: Instant) -> Result<(), OpenError> {
        let config = config::log(&shared.names, self.partition, shared.options.replicas);
        let made = self.is_made.get_or_try_init(|| async {
            let extent = shared.link.ensure(&config, deadline).await?;
            self.saw(extent.last);
            Ok(())
        });
        made.await.copied()
    }
}

impl Shared {
    pub(super) async fn make_log(&self, partition: PartitionId) -> Result<(), OpenError> {
        self.log(partition).make(self, self.deadline()).await
    }

    pub(super) async fn last(&self, partition: PartitionId) -> Result<Position, ReadError> {
        let extent = self.log(partition).extent(&self.link, self.deadline()).await;
        extent.map(|extent| Position(extent.last)).map_err(ReadError::Unavailable)
    }

    pub(super) async fn append(&self, partition: PartitionId, batch: Batch) -> Result<Position, AppendError> {
        if batch.payload.len() > MAX_BATCH_BYTES {
            return Err(AppendError::TooLarge(batch.payload.len()));
        }
        let deadline = self.deadline();
        let log = self.log(partition);
        let is_new = match self.recall(&log, batch.id, deadline).await? {
            Verdict::Known(position) => return Ok(position),
            Verdict::Sent => false,
            Verdict::New => true,
        };
        let share = match self.link.share(batch.payload.len(), deadline).await {
            Ok(share) => share,
            Err(failure) => return Err(Self::give_up(&log, batch.id, is_new, failure.to_string())),
        };
        let subject = self.names.log_subject(partition, batch.id.writer);
        let mut headers = head(&subject, &batch.id.number.to_string(), &batch.payload);
        headers.insert("Nats-Msg-Id", format!("{:x}.{:x}", batch.id.writer.0, batch.id.number));
        let is_in_process = AtomicBool::new(false);
        let result = until(deadline, || async {
            let body = Link::body(&batch.payload, &share);
            let sent = self.link.request(subject.clone(), Some(headers.clone()), body, deadline).await;
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
                Err(Failure::NoResponders) => None, // no leader now: nobody took it
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
            Some(Err((true, why))) => Err(Self::give_up(&log, batch.id, is_new, why)),
            None => {
                let is_new = is_new && !is_in_process.into_inner();
                Err(Self::give_up(&log, batch.id, is_new, Failure::NoResponders.to_string()))
            }
        }
    }

    /// A batch that was not taken; if it was sent before, nothing is known of that attempt.
    fn give_up(log: &Log, id: BatchId, is_new: bool, why: String) -> AppendError {
        if !is_new {
            return AppendError::Unknown(why);
        }
        log.known().unsettled.remove(id);
        AppendError::Refused(why)
    }

    /// What is known of a batch before it is sent. Looks into the log if it was sent so long ago that the servers may
    /// have forgotten it.
    async fn recall(&self, log: &Log, id: BatchId, deadline: Instant) -> Result<Verdict, AppendError> {
        let unknown = |error: ApiError| AppendError::Unknown(error.to_string());
        log.make(self, deadline).await.map_err(|error| match error {
            OpenError::Unavailable(why) => AppendError::Unknown(why),
            error => AppendError::Refused(error.to_string()),
        })?;
        let newest = self.meet(log, id.writer, deadline).await.map_err(unknown)?;
        if let Memory::Known(position) = log.known().writers.find(id) {
            return Ok(Verdict::Known(position));
        }
        let half = DUPLICATE_WINDOW / 2;
        let is_old = |log: &Log| log.known().unsettled.age(id).is_some_and(|age| age > half);
        if is_old(log) {
            let _looking = log.looking.lock().await;
            if is_old(log) {
                self.look(log, deadline).await.map_err(|error| AppendError::Unknown(error.to_string()))?;
            }
        } else if id.number <= newest && !log.known().unsettled.contains(id) {
            let _looking = log.looking.lock().await;
            if log.known().writers.find(id) == Memory::New {
                self.look_back(log, id.writer, deadline).await.map_err(unknown)?;
            }
        }
        let mut known = log.known();
        if let Memory::Known(position) = known.writers.find(id) {
            return Ok(Verdict::Known(position));
        }
        match known.unsettled.send(id, log.seen.load(Ordering::Relaxed)) {
            None => Err(AppendError::Unknown("the outcome of too many batches is not known".to_owned())),
            // Somebody else may have sent it, in an earlier life of this writer's process.
            Some(Verdict::New) if id.number <= newest => Ok(Verdict::Sent),
            Some(verdict) => Ok(verdict),
        }
    }

    /// The number of the newest batch of a writer that the log had when we met it; 0 if there was none.
    async fn meet(&self, log: &Log, writer: WriterId, deadline: Instant) -> Result<u64, ApiError> {
        let cell = {
            let mut known = log.known();
            if known.met.len() >= LIMITS.writers && !known.met.contains_key(&writer) {
                known.met.clear(); // they are met again
            }
            Arc::clone(known.met.entry(writer).or_default())
        };
        let newest = cell.get_or_try_init(|| async {
            let what = json!({ "last_by_subj": self.names.log_subject(log.partition, writer) });
            let stored = self.link.leader_get(&log.stream, &what, deadline).await?;
            let number = stored.and_then(|stored| stored.open().ok()?.0.parse().ok());
            Ok(number.unwrap_or(0))
        });
        newest.await.copied()
    }

    /// Finds the newest batches of a writer that has some in the log from before.
    async fn look_back(&self, log: &Log, writer: WriterId, deadline: Instant) -> Result<(), ApiError> {
        let subject = self.names.log_subject(log.partition, writer);
        let newest = json!({ "last_by_subj": subject });
        let Some(newest) = self.link.leader_get(&log.stream, &newest, deadline).await? else { return Ok(()) };
        let mut from = newest.sequence.saturating_sub(LOOK_BACK).max(1);
        while from <= newest.sequence {
            let mut some =
                self.link.direct_get(&log.stream, from, Some(&subject), READ_BYTES, deadline).await;
            if some.is_empty() {
                let what = json!({ "seq": from, "next_by_subj": subject });
                some.extend(self.link.leader_get(&log.stream, &what, deadline).await?);
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

    /// Settles what became of batches that were sent long ago: those that are in the log by now are known, the others
    /// count as sent now. What is found stays found if the time is over before the end is reached.
    async fn look(&self, log: &Log, deadline: Instant) -> Result<(), ReadError> {
        let Some(floor) = log.known().unsettled.floor() else { return Ok(()) };
        let extent = log.extent(&self.link, deadline).await.map_err(ReadError::Unavailable)?;
        let mut next = extent.first.max(floor + 1);
        while next <= extent.last {
            let entries = self.fetch(log, next, READ_BYTES, Some(extent), deadline).await?;
            for entry in entries {
                next = entry.position.0 + 1;
                if log.known().unsettled.contains(entry.batch.id) {
                    log.note(entry.batch.id, entry.position.0);
                }
            }
            log.known().unsettled.raise(next - 1);
        }
        log.known().unsettled.renew(extent.last);
        Ok(())
    }
}

/// Whether an error says that the batch was turned away before it was proposed to the replicas.
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
