//! Follows the log of a partition: the newest snapshot, then entry after entry.

use super::snapshot::{LoadError, load_snapshot};
use futures_util::{FutureExt, StreamExt};
use scalebricks_control::engine::{BoxStream, Engine, Entry, ReadError, Snapshot};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The most entries of one [`Step::Entries`].
const MAX_ENTRIES: usize = 256;

/// Payload bytes after which a [`Step::Entries`] takes no further entry.
const MAX_BYTES: usize = 1 << 20;

/// How a [`Follower`] waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerOptions {
    /// Time between two attempts.
    pub retry: Duration,
    /// The same if stored data is damaged, and time alone does not help.
    pub retry_damaged: Duration,
    /// After this time without entries, and after each fault, the follower checks that the engine still answers: a dead
    /// engine need not end its streams. `None`: it never checks.
    pub probe_after: Option<Duration>,
}

/// What the follower read.
#[derive(Debug)]
pub enum Step {
    /// The state is that of this snapshot; without one it is empty. If it cannot be used, call
    /// [`Follower::reject_snapshot`]. Comes first, after [`Step::Lost`], and when the log was trimmed above the last
    /// entry read.
    Restore {
        /// The snapshot.
        snapshot: Option<Snapshot>,
        /// The position at which the log ended just now.
        last: Position,
    },
    /// The next entries, without a hole.
    Entries(Vec<Entry>),
    /// The engine answered after a fault, and there are no further entries.
    CaughtUp,
    /// The log ends before the last entry read: an older log took its place. The next step is [`Step::Restore`].
    Lost {
        /// The last entry read.
        applied: Position,
        /// The end of the log.
        last: Position,
    },
    /// The log cannot be read now. The follower waits, then tries again.
    Fault(Fault),
}

/// Why a log cannot be followed now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is no usable snapshot.
    #[error("cannot load the snapshot: {0}")]
    Load(LoadError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The engine skipped or repeated an entry.
    #[error("the engine returned entry {} after entry {}", .got.0, .applied.0)]
    Order {
        /// The last entry before.
        applied: Position,
        /// The entry that came.
        got: Position,
    },
    /// The engine ended the stream of entries.
    #[error("the engine ended the stream of entries")]
    Ended,
}

/// Follows one partition.
pub struct Follower {
    engine: Arc<dyn Engine>,
    partition: PartitionId,
    options: FollowerOptions,
    /// The last entry read; `None`: nothing was read yet.
    applied: Option<Position>,
    /// The value of `applied` before the newest snapshot.
    before_snapshot: Option<Position>,
    /// Whether to look for a snapshot before the next entry.
    needs_snapshot: bool,
    entries: Option<BoxStream<Result<Entry, ReadError>>>,
    /// What ended the entries of the last step.
    ended_by: Option<Fault>,
    /// The time to wait before the next attempt, after a fault.
    wait: Option<Duration>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("partition", &self.partition)
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// A follower that has read nothing.
    pub fn new(engine: Arc<dyn Engine>, partition: PartitionId, options: FollowerOptions) -> Self {
        Self {
            engine,
            partition,
            options,
            applied: None,
            before_snapshot: None,
            needs_snapshot: true,
            entries: None,
            ended_by: None,
            wait: None,
        }
    }

    /// The snapshot of the last step cannot be used: the follower waits, and loads it again.
    pub fn reject_snapshot(&mut self) {
        self.applied = self.before_snapshot;
        self.needs_snapshot = true;
        self.wait = Some(self.options.retry_damaged);
    }

    /// What comes next. A call that is dropped before it returns may lose entries.
    pub async fn next(&mut self) -> Step {
        if let Some(fault) = self.ended_by.take() {
            return self.failed(fault);
        }
        let waited = self.wait.take();
        if let Some(wait) = waited {
            sleep(wait).await;
        }
        if self.needs_snapshot {
            match self.load().await {
                Ok(Some(restore)) => return restore,
                Ok(None) => {}
                Err(error) => return self.failed(Fault::Load(error)),
            }
        }
        let applied = self.applied.unwrap_or_default();
        if self.entries.is_none() {
            if waited.is_some() && self.options.probe_after.is_some() {
                match self.engine.last(self.partition).await {
                    Ok(last) if last <= applied => {
                        self.watch(applied);
                        return Step::CaughtUp;
                    }
                    Ok(_) => {}
                    Err(error) => return self.failed(error.into()),
                }
            }
            self.watch(applied);
        }
        match self.first_entry().await {
            Ok(first) => self.more_entries(applied, first),
            Err(fault) => self.failed(fault),
        }
    }

    /// Loads the newest snapshot; `None` if it is not ahead of the last entry read.
    async fn load(&mut self) -> Result<Option<Step>, LoadError> {
        let (snapshot, last) = load_snapshot(&*self.engine, self.partition).await?;
        self.needs_snapshot = false;
        let position = snapshot.as_ref().map_or(Position(0), |snapshot| snapshot.position);
        if self.applied.is_some_and(|applied| applied >= position) {
            return Ok(None);
        }
        self.before_snapshot = self.applied.replace(position);
        Ok(Some(Step::Restore { snapshot, last }))
    }

    fn watch(&mut self, applied: Position) {
        self.entries = Some(self.engine.watch(self.partition, Position(applied.0 + 1)));
    }

    /// The next result of the stream, however long it takes.
    async fn first_entry(&mut self) -> Result<Entry, Fault> {
        loop {
            let Some(entries) = &mut self.entries else { return Err(Fault::Ended) };
            let next = match self.options.probe_after {
                None => Ok(entries.next().await),
                Some(quiet) => timeout(quiet, entries.next()).await,
            };
            match next {
                Ok(next) => return next.ok_or(Fault::Ended)?.map_err(Fault::Read),
                Err(_) => self.engine.last(self.partition).await.map(drop)?,
            }
        }
    }

    /// An entry, and those after it that are ready.
    fn more_entries(&mut self, mut applied: Position, first: Entry) -> Step {
        let (mut read, mut bytes) = (Vec::new(), 0);
        let mut next = Some(Ok(first));
        while let Some(result) = next.take() {
            match result {
                Ok(entry) if entry.position.0 == applied.0 + 1 => {
                    applied = entry.position;
                    bytes += entry.batch.payload.len();
                    read.push(entry);
                }
                Ok(entry) => self.ended_by = Some(Fault::Order { applied, got: entry.position }),
                Err(error) => self.ended_by = Some(Fault::Read(error)),
            }
            if self.ended_by.is_none() && read.len() < MAX_ENTRIES && bytes < MAX_BYTES {
                next = self.entries.as_mut().and_then(|entries| entries.next().now_or_never().flatten());
            }
        }
        self.applied = Some(applied);
        match self.ended_by.take() {
            Some(fault) if read.is_empty() => self.failed(fault),
            ended_by => {
                self.ended_by = ended_by;
                Step::Entries(read)
            }
        }
    }

    fn failed(&mut self, fault: Fault) -> Step {
        self.entries = None;
        let is_damage = match &fault {
            Fault::Load(error) => error.is_damage(),
            Fault::Read(error) => matches!(error, ReadError::Damaged { .. }),
            Fault::Order { .. } | Fault::Ended => false,
        };
        self.wait = Some(if is_damage { self.options.retry_damaged } else { self.options.retry });
        match fault {
            Fault::Read(ReadError::Ahead { last, .. }) => {
                self.needs_snapshot = true;
                Step::Lost { applied: self.applied.take().unwrap_or_default(), last }
            }
            fault => {
                // A snapshot may reach beyond the entries that are gone or damaged.
                self.needs_snapshot |=
                    matches!(fault, Fault::Read(ReadError::Trimmed { .. } | ReadError::Damaged { .. }));
                Step::Fault(fault)
            }
        }
    }
}
