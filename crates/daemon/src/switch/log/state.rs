//! Applies the entries of the log to the names, in order, and stores snapshots.

use super::super::config::SwitchFile;
use super::super::running::{SharedNames, listed, op};
use super::record::{RecordError, decode};
use super::snapshot;
use super::{Answer, LogError, PARTITION, RETRY, SharedProgress, Waiter};
use scalebricks_apps::switch::file::NameList;
use scalebricks_control::engine::{BatchId, Engine, Entry, Snapshot, WriterId};
use scalebricks_control::replay::{Limits, Replay};
use scalebricks_elements::flat::{Changes, NameError, NameOp};
use scalebricks_engine::log::{Follower, FollowerOptions, Step};
use scalebricks_types::Position;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The result of an entry's changes.
pub(in super::super) type Outcome = Result<Changes, NameError>;

/// Results of entries that are kept for callers that ask only after the entry was applied.
const KEPT_OUTCOMES: usize = 1_024;

/// The bound on what a switch replays when it starts: see [`scalebricks_control::replay`].
const REPLAY: Limits = Limits { entries: 1_024, bytes: 16 << 20 };

/// The share of [`REPLAY`], in thousandths, after which a switch stores a snapshot although the newest entry is another
/// switch's. Normally the switch that wrote the entry stores the snapshot, so that there is one; but that switch may be
/// gone, or lack some of the names.
const SNAPSHOT_FOR_OTHERS: u64 = 1_500;

const OPTIONS: FollowerOptions =
    FollowerOptions { retry: RETRY, retry_damaged: RETRY, probe_after: Some(Duration::from_secs(2)) };

/// Consecutive failures after which callers get an error: a single one may be over at once.
const FAILURES: u32 = 2;

/// Entries below a snapshot that stay in the log, for switches that are slightly behind; and bytes of them.
const KEPT_ENTRIES: usize = 256;
const KEPT_BYTES: usize = 4 << 20;

/// The names of a switch, as far as the log was applied, and the callers that wait for entries.
pub(super) struct LogState {
    file: SwitchFile,
    names: SharedNames,
    pub(super) progress: Arc<SharedProgress>,
    position: Position,
    /// The end of the log when it was first read.
    goal: Option<Position>,
    /// Why the log could not be read, and how many times in a row.
    fault: Option<(String, u32)>,
    /// The newest batch of each writer. A writer appends one batch after another.
    newest: BTreeMap<WriterId, u64>,
    /// The entries after the last snapshot that this switch stored or read.
    replay: Replay,
    /// The lengths of the newest entries, at most [`KEPT_ENTRIES`].
    recent: VecDeque<usize>,
    /// Whether the table still holds the names of a log that was replaced.
    has_old_names: bool,
    /// Whether this switch applied all that others may have applied. If not, it stores no snapshots.
    is_complete: bool,
    outcomes: VecDeque<(BatchId, Position, Outcome)>,
    waiting: HashMap<BatchId, Answer>,
}

impl LogState {
    pub(super) fn new(file: SwitchFile, names: SharedNames, progress: Arc<SharedProgress>) -> Self {
        Self {
            file,
            names,
            progress,
            position: Position(0),
            goal: None,
            fault: None,
            newest: BTreeMap::new(),
            replay: Replay::new(REPLAY, 0),
            recent: VecDeque::new(),
            has_old_names: false,
            is_complete: true,
            outcomes: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }

    /// The kind of names.
    pub(super) const fn kind(&self) -> &'static str {
        self.file.names.kind.word()
    }

    /// Follows the log, and never returns. `writer` is the number under which this switch appends.
    pub(super) async fn run(
        mut self,
        engine: Arc<dyn Engine>,
        writer: WriterId,
        mut waiters: mpsc::UnboundedReceiver<Waiter>,
    ) {
        let mut follower = Follower::new(Arc::clone(&engine), PARTITION, OPTIONS);
        loop {
            match self.while_taking(&mut waiters, follower.next()).await {
                Step::Restore { snapshot, last } => {
                    self.goal.get_or_insert(last);
                    if let Err(error) = self.restore(snapshot) {
                        self.fail(format!("cannot restore the snapshot of the names: {error}"));
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
        waiters: &mut mpsc::UnboundedReceiver<Waiter>,
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

    /// The log lost entries that were applied: the names are read again, from the snapshot and the entries that are
    /// left. Until then the table keeps the names it has.
    fn begin_again(&mut self) {
        tracing::error!(
            applied = self.position.0,
            "the log lost entries that were applied; reading the names again"
        );
        {
            let mut progress = self.progress.lock();
            (progress.reloads, progress.has_caught_up, progress.position) = (progress.reloads + 1, false, 0);
        }
        (self.position, self.goal, self.is_complete, self.has_old_names) = (Position(0), None, true, true);
        self.newest.clear();
        self.outcomes.clear();
        self.recent.clear();
        self.replay = Replay::new(REPLAY, 0);
        for (_, answer) in self.waiting.drain() {
            let _gone = answer.send(Err(LogError::Lost));
        }
    }

    /// Brings the names to a snapshot.
    fn restore(&mut self, snapshot: Option<Snapshot>) -> Result<(), String> {
        let Some(snapshot) = snapshot else {
            if self.has_old_names {
                self.names.lock().change_to(&NameList::new()).map_err(|error| error.to_string())?;
                self.has_old_names = false;
            }
            return Ok(());
        };
        let names = snapshot::decode(&self.file, &snapshot.bytes).map_err(|error| error.to_string())?;
        self.names.lock().change_to(&names.list).map_err(|error| error.to_string())?;
        if let Some((count, first)) = &names.foreign {
            tracing::error!(count, first, "ignoring names of the snapshot");
        }
        self.has_old_names = false;
        self.is_complete = names.foreign.is_none();
        (self.position, self.newest) = (snapshot.position, names.newest);
        self.replay = Replay::new(REPLAY, snapshot.bytes.len() as u64);
        let passed: Vec<BatchId> = self.waiting.keys().copied().filter(|&id| self.is_past(id)).collect();
        for answer in passed.iter().filter_map(|id| self.waiting.remove(id)) {
            let _gone = answer.send(Err(LogError::Passed));
        }
        tracing::info!(
            position = self.position.0,
            names = names.list.len(),
            "restored the names from a snapshot"
        );
        self.was_read();
        Ok(())
    }

    /// Whether to store a snapshot after an entry. `is_own`: this switch wrote the entry.
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

    /// Stores a snapshot of the current names, and trims the log well below it. After a failure, it is tried again a
    /// few entries later.
    async fn store_snapshot(&mut self, engine: &dyn Engine, waiters: &mut mpsc::UnboundedReceiver<Waiter>) {
        let lines = listed(&self.names, &self.file.port_names);
        let bytes: Arc<[u8]> = match snapshot::encode(self.kind(), &self.newest, &lines) {
            Ok(bytes) => bytes.into(),
            Err(error) => return tracing::error!(%error, "cannot encode a snapshot of the names"),
        };
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
                tracing::info!(position = position.0, names = lines.len(), "stored a snapshot of the names");
            }
            Err(error) => tracing::warn!(%error, "cannot store a snapshot of the names, or trim the log"),
        }
    }

    /// Whether a batch is among those applied, or was overtaken by one of its writer.
    fn is_past(&self, id: BatchId) -> bool {
        self.newest.get(&id.writer).is_some_and(|&newest| id.number <= newest)
    }

    /// Answers a caller as soon as the outcome of a batch is known.
    fn wait_for(&mut self, id: BatchId, answer: Answer) {
        if let Some((_, position, outcome)) = self.outcomes.iter().find(|(done, ..)| *done == id) {
            let _gone = answer.send(Ok((position.0, outcome.clone())));
        } else if self.is_past(id) {
            let _gone = answer.send(Err(LogError::Passed));
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
        let Some(ops) = self.ops(entry) else { return };
        let outcome = self.names.lock().apply(&ops);
        if let Some(answer) = self.waiting.remove(&id) {
            let _gone = answer.send(Ok((self.position.0, outcome)));
            return;
        }
        if self.outcomes.len() == KEPT_OUTCOMES {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back((id, self.position, outcome));
    }

    /// The operations of an entry; `None` if this switch cannot apply it.
    fn ops(&mut self, entry: &Entry) -> Option<Vec<NameOp>> {
        let position = entry.position.0;
        let changes = match decode(self.file.names.kind.word(), &entry.batch.payload) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::error!(position, %error, "cannot decode an entry of the log; ignoring it");
                // Other switches know a newer version, perhaps; all ignore what is not an entry.
                self.is_complete &= !matches!(error, RecordError::Version(_));
                return None;
            }
        };
        let ops: Result<Vec<NameOp>, String> = changes.iter().map(|change| op(change, &self.file)).collect();
        if let Err(error) = &ops {
            tracing::error!(position, error, "cannot apply an entry of the log; ignoring it");
            self.is_complete = false;
        }
        ops.ok()
    }
}
