//! Applies the entries of a log, in order, and stores snapshots.

use super::{
    Answer, Applied, LogError, LogSpec, Newest, PARTITION, RETRY, Restored, SharedProgress, StateMachine,
    Waiter,
};
use scalebricks_control::engine::{BatchId, Engine, Entry, Snapshot, WriterId};
use scalebricks_control::replay::Replay;
use scalebricks_engine::log::{Follower, FollowerOptions, Step};
use scalebricks_types::Position;
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Results of entries that are kept for callers that ask only after the entry was applied.
const KEPT_OUTCOMES: usize = 1_024;

/// The share of the replay's limits, in thousandths, after which a process stores a snapshot although the newest entry is
/// another's. Normally the process that wrote the entry stores the snapshot, so that there is one; but it may be gone, or
/// lack a part of the state.
const SNAPSHOT_FOR_OTHERS: u64 = 1_500;

const OPTIONS: FollowerOptions =
    FollowerOptions { retry: RETRY, retry_damaged: RETRY, probe_after: Some(Duration::from_secs(2)) };

/// Consecutive failures after which callers get an error: a single one may be over at once.
const FAILURES: u32 = 2;

/// Entries below a snapshot that stay in the log, for processes that are slightly behind; and bytes of them.
const KEPT_ENTRIES: usize = 256;
const KEPT_BYTES: usize = 4 << 20;

/// A state, as far as the log was applied, and the callers that wait for entries.
pub(super) struct ReplicaState<M: StateMachine> {
    machine: M,
    spec: LogSpec,
    pub(super) progress: Arc<SharedProgress>,
    position: Position,
    /// The end of the log when it was first read.
    goal: Option<Position>,
    /// Why the log could not be read, and how many times in a row.
    fault: Option<(String, u32)>,
    /// The newest batch of each writer. A writer appends one batch after another.
    newest: Newest,
    /// The entries after the last snapshot that this process stored or read.
    replay: Replay,
    /// The lengths of the newest entries, at most [`KEPT_ENTRIES`].
    recent: VecDeque<usize>,
    /// Whether the machine still has the state of a log that was replaced.
    is_old: bool,
    /// Whether this process applied all that others may have applied. If not, it stores no snapshots.
    is_complete: bool,
    outcomes: VecDeque<(BatchId, Position, M::Outcome)>,
    waiting: HashMap<BatchId, Answer<M::Outcome>>,
}

impl<M: StateMachine> ReplicaState<M> {
    pub(super) fn new(machine: M, spec: LogSpec, progress: Arc<SharedProgress>) -> Self {
        Self {
            machine,
            spec,
            progress,
            position: Position(0),
            goal: None,
            fault: None,
            newest: Newest::new(),
            replay: Replay::new(spec.replay, 0),
            recent: VecDeque::new(),
            is_old: false,
            is_complete: true,
            outcomes: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }

    /// The kind of contents.
    pub(super) fn kind(&self) -> &str {
        self.machine.kind()
    }

    /// Follows the log, and never returns. `writer` is the number under which this process appends.
    pub(super) async fn run(
        mut self,
        engine: Arc<dyn Engine>,
        writer: WriterId,
        mut waiters: mpsc::UnboundedReceiver<Waiter<M::Outcome>>,
    ) {
        let mut follower = Follower::new(Arc::clone(&engine), PARTITION, OPTIONS);
        loop {
            match self.while_taking(&mut waiters, follower.next()).await {
                Step::Restore { snapshot, last } => {
                    self.goal.get_or_insert(last);
                    if let Err(error) = self.restore(snapshot) {
                        self.fail(format!("cannot restore the snapshot of the {}: {error}", M::WHAT));
                        follower.reject_snapshot();
                    } else if self.position >= last {
                        self.was_read();
                    }
                }
                Step::Entries(entries) => {
                    for entry in entries {
                        self.apply(&entry);
                        self.was_read();
                        if self.is_snapshot_due(entry.batch.id.writer == writer) {
                            self.store_snapshot(&*engine, &mut waiters).await;
                        }
                    }
                }
                Step::CaughtUp => self.was_read(),
                Step::Lost { applied, last } => {
                    self.begin_again();
                    self.fail(format!("the log ends at position {}, but {} was applied", last.0, applied.0));
                }
                Step::Fault(fault) => self.fail(fault.to_string()),
            }
        }
    }

    /// Completes a future; registers callers meanwhile.
    async fn while_taking<T>(
        &mut self,
        waiters: &mut mpsc::UnboundedReceiver<Waiter<M::Outcome>>,
        future: impl Future<Output = T>,
    ) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                done = &mut future => return done,
                Some((id, answer)) = waiters.recv() => self.wait_for(id, answer),
            }
        }
    }

    /// The log could not be read. After [`FAILURES`] in a row, callers get the error.
    fn fail(&mut self, error: String) {
        tracing::warn!(error, applied = self.position.0, "cannot read the log; trying again");
        let failures = self.fault.take().map_or(1, |(_, failures)| failures.saturating_add(1));
        self.progress.lock().fault = Some(error.clone());
        if failures >= FAILURES {
            for (_, answer) in self.waiting.drain() {
                let _gone = answer.send(Err(LogError::Unread(error.clone())));
            }
        }
        self.fault = Some((error, failures));
    }

    /// The log was read up to the current position.
    fn was_read(&mut self) {
        self.fault = None;
        let mut progress = self.progress.lock();
        (progress.fault, progress.position) = (None, self.position.0);
        progress.has_caught_up |= self.goal.is_some_and(|goal| self.position >= goal);
    }

    /// The log lost entries that were applied: the state is read again, from the snapshot and the entries that are left.
    /// Until then the machine keeps the state it has.
    fn begin_again(&mut self) {
        tracing::error!(
            applied = self.position.0,
            "the log lost entries that were applied; reading the {} again",
            M::WHAT
        );
        {
            let mut progress = self.progress.lock();
            (progress.reloads, progress.has_caught_up, progress.position) = (progress.reloads + 1, false, 0);
        }
        (self.position, self.goal, self.is_complete, self.is_old) = (Position(0), None, true, true);
        self.newest.clear();
        self.outcomes.clear();
        self.recent.clear();
        self.replay = Replay::new(self.spec.replay, 0);
        for (_, answer) in self.waiting.drain() {
            let _gone = answer.send(Err(LogError::Lost(M::WHAT)));
        }
    }

    /// Brings the machine to a snapshot.
    fn restore(&mut self, snapshot: Option<Snapshot>) -> Result<(), String> {
        let Some(snapshot) = snapshot else {
            if self.is_old {
                self.machine.clear()?;
                self.is_old = false;
            }
            return Ok(());
        };
        let Restored { newest, is_complete } = self.machine.restore(&snapshot.bytes)?;
        self.is_old = false;
        self.is_complete = is_complete;
        (self.position, self.newest) = (snapshot.position, newest);
        self.replay = Replay::new(self.spec.replay, snapshot.bytes.len() as u64);
        let passed: Vec<BatchId> = self.waiting.keys().copied().filter(|&id| self.is_past(id)).collect();
        for answer in passed.iter().filter_map(|id| self.waiting.remove(id)) {
            let _gone = answer.send(Err(LogError::Passed(M::WHAT)));
        }
        tracing::info!(position = self.position.0, "restored the {} from a snapshot", M::WHAT);
        self.was_read();
        Ok(())
    }

    /// Whether to store a snapshot after an entry. `is_own`: this process wrote the entry.
    fn is_snapshot_due(&self, is_own: bool) -> bool {
        self.is_complete
            && self.replay.is_due()
            && (is_own || self.replay.thousandths() >= SNAPSHOT_FOR_OTHERS)
    }

    /// The number of newest entries that stay in the log.
    fn kept_entries(&self) -> u64 {
        let mut bytes = 0;
        let fits = |len: &&usize| {
            bytes += **len;
            bytes <= KEPT_BYTES
        };
        self.recent.iter().rev().take_while(fits).count() as u64
    }

    /// Stores a snapshot of the current state, and trims the log well below it. After a failure, it is tried again a few
    /// entries later.
    async fn store_snapshot(
        &mut self,
        engine: &dyn Engine,
        waiters: &mut mpsc::UnboundedReceiver<Waiter<M::Outcome>>,
    ) {
        let bytes: Arc<[u8]> = match self.machine.encode(&self.newest) {
            Ok(bytes) => bytes.into(),
            Err(error) => return tracing::error!(error, "cannot encode a snapshot of the {}", M::WHAT),
        };
        let size = bytes.len();
        let position = self.position;
        self.replay.storing(bytes.len());
        let stored = engine.put_snapshot(PARTITION, Snapshot { position, bytes });
        let stored = self.while_taking(waiters, stored).await;
        self.replay.stored(stored.is_ok());
        let below = Position(position.0.saturating_sub(self.kept_entries()));
        let trimmed = match stored {
            Ok(()) => self.while_taking(waiters, engine.trim(PARTITION, below)).await,
            Err(error) => Err(error),
        };
        match trimmed {
            Ok(()) => {
                tracing::info!(position = position.0, bytes = size, "stored a snapshot of the {}", M::WHAT);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot store a snapshot of the {}, or trim the log", M::WHAT);
            }
        }
    }

    /// Whether a batch is among those applied, or was overtaken by one of its writer.
    fn is_past(&self, id: BatchId) -> bool {
        self.newest.get(&id.writer).is_some_and(|&newest| id.number <= newest)
    }

    /// Answers a caller as soon as the outcome of a batch is known.
    fn wait_for(&mut self, id: BatchId, answer: Answer<M::Outcome>) {
        if let Some((_, position, outcome)) = self.outcomes.iter().find(|(done, ..)| *done == id) {
            let _gone = answer.send(Ok((position.0, outcome.clone())));
        } else if self.is_past(id) {
            let _gone = answer.send(Err(LogError::Passed(M::WHAT)));
        } else if let Some((error, FAILURES..)) = &self.fault {
            let _gone = answer.send(Err(LogError::Unread(error.clone())));
        } else {
            self.waiting.insert(id, answer);
        }
    }

    fn apply(&mut self, entry: &Entry) {
        self.position = entry.position;
        self.replay.applied(entry.batch.payload.len());
        self.recent.push_back(entry.batch.payload.len());
        if self.recent.len() > KEPT_ENTRIES {
            self.recent.pop_front();
        }
        let id = entry.batch.id;
        let newest = self.newest.entry(id.writer).or_default();
        if id.number <= *newest {
            return; // logged twice
        }
        *newest = id.number;
        let outcome = match self.machine.apply(&entry.batch.payload) {
            Applied::Done(outcome) => outcome,
            Applied::Ignored(why) => {
                tracing::error!(position = self.position.0, why, "ignoring an entry of the log");
                return;
            }
            Applied::Foreign(why) => {
                tracing::error!(
                    position = self.position.0,
                    why,
                    "cannot apply an entry of the log; ignoring it"
                );
                self.is_complete = false;
                return;
            }
        };
        if let Some(answer) = self.waiting.remove(&id) {
            let _gone = answer.send(Ok((self.position.0, outcome)));
            return;
        }
        if self.outcomes.len() == KEPT_OUTCOMES {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back((id, self.position, outcome));
    }
}
