//! Applies the log's entries, in order, from the newest snapshot on; and makes snapshots.

use super::super::config::SwitchFile;
use super::super::running::{SharedNames, listed, op};
use super::record::{RecordError, decode};
use super::snapshot;
use super::{Answer, LogError, PARTITION, PATIENCE, Progress, Wanted};
use futures_util::StreamExt;
use scalebricks_apps::switch::file::NameList;
use scalebricks_control::engine::{BatchId, Engine, Entry, ReadError, Snapshot, WriterId};
use scalebricks_control::replay::{Limits, Replay};
use scalebricks_elements::flat::{Changes, NameError, NameOp};
use scalebricks_types::Position;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// What became of an entry.
pub(in super::super) type Outcome = Result<Changes, NameError>;

/// Entries whose outcome is remembered for who asks after them a moment too late.
const REMEMBERED: usize = 1_024;

/// What a switch that starts may have to replay: see [`scalebricks_control::replay`].
const REPLAY: Limits = Limits { entries: 1_024, bytes: 16 << 20 };

/// A switch makes a snapshot after entries of its own, so that it is made once. After those of others it does at so many
/// thousandths of what it waits for otherwise: they may be gone, or lack a part of the names.
const FOR_OTHERS: u64 = 1_500;

/// Time without entries after which the engine is asked whether it is there.
const QUIET: Duration = Duration::from_secs(2);

/// Failures in a row after which nobody is kept waiting: the first may be over at once.
const FAILURES: u32 = 2;

/// Entries below a snapshot that are kept, for switches that are a little behind; and bytes of them.
const KEPT_ENTRIES: usize = 256;
const KEPT_BYTES: usize = 4 << 20;

/// What is known of the log.
pub(super) struct Follower {
    file: SwitchFile,
    names: SharedNames,
    pub(super) progress: Arc<Progress>,
    position: Position,
    /// Where the log ended when it was first asked.
    goal: Option<Position>,
    /// Whether a snapshot is to be looked for before entries are.
    is_behind: bool,
    /// Why the log could not be read, how often in a row.
    fault: Option<(String, u32)>,
    /// The newest batch of each writer: each appends one after another.
    newest: BTreeMap<WriterId, u64>,
    /// What is behind the last snapshot that this switch made or read.
    replay: Replay,
    /// Bytes of the newest entries, of at most [`KEPT_ENTRIES`] of them.
    recent: VecDeque<usize>,
    /// Whether the names in the table are of a log that is not there any more.
    is_anew: bool,
    /// Whether nothing was passed over that other switches may have done: who lacks a part makes no snapshots.
    is_whole: bool,
    done: VecDeque<(BatchId, Position, Outcome)>,
    waiting: HashMap<BatchId, Answer>,
}

impl Follower {
    pub(super) fn new(file: SwitchFile, names: SharedNames, progress: Arc<Progress>) -> Self {
        Self {
            file,
            names,
            progress,
            position: Position(0),
            goal: None,
            is_behind: true,
            fault: None,
            newest: BTreeMap::new(),
            replay: Replay::new(REPLAY, 0),
            recent: VecDeque::new(),
            is_anew: false,
            is_whole: true,
            done: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }

    /// What names are.
    pub(super) const fn kind(&self) -> &'static str {
        self.file.names.kind.word()
    }

    /// Follows the log for ever. `writer` is who appends for this switch.
    pub(super) async fn run(
        mut self,
        engine: Arc<dyn Engine>,
        writer: WriterId,
        mut wanted: mpsc::UnboundedReceiver<Wanted>,
    ) {
        loop {
            let Err(error) = self.read_on(&*engine, writer, &mut wanted).await;
            tracing::warn!(%error, applied = self.position.0, "the log is read again from there on");
            self.fail(error);
            self.meanwhile(&mut wanted, sleep(PATIENCE)).await;
        }
    }

    /// Follows the log from where it has come to.
    ///
    /// # Errors
    /// What went wrong.
    async fn read_on(
        &mut self,
        engine: &dyn Engine,
        writer: WriterId,
        wanted: &mut mpsc::UnboundedReceiver<Wanted>,
    ) -> Result<Infallible, String> {
        let last = self.meanwhile(wanted, engine.last(PARTITION)).await.map_err(|error| error.to_string())?;
        self.goal.get_or_insert(last);
        if self.is_behind {
            let unread = |error: &dyn std::fmt::Display| format!("the snapshot of the names: {error}");
            let snapshot = self.meanwhile(wanted, engine.snapshot(PARTITION)).await;
            let snapshot = snapshot.map_err(|error| unread(&error))?;
            // Asked behind it: the log may have grown, and the snapshot with it.
            let last = self.meanwhile(wanted, engine.last(PARTITION)).await;
            let last = last.map_err(|error| error.to_string())?;
            if let Some(kept) = snapshot.as_ref().map(|kept| kept.position).filter(|kept| *kept > last) {
                return Err(unread(&format!(
                    "it is of position {}, and the log ends at {}: it is not of this log; remove it, or restore both from one backup",
                    kept.0, last.0
                )));
            }
            self.restore(snapshot).map_err(|error| unread(&error))?;
            self.is_behind = false;
        }
        if self.position >= last {
            self.has_read();
        }
        let mut entries = engine.watch(PARTITION, Position(self.position.0 + 1));
        loop {
            let Ok(next) = self.meanwhile(wanted, timeout(QUIET, entries.next())).await else {
                // An engine that is gone ends no stream: it may come back.
                let last = self.meanwhile(wanted, engine.last(PARTITION)).await;
                last.map_err(|error| error.to_string())?;
                continue;
            };
            match next {
                Some(Ok(entry)) if entry.position.0 == self.position.0 + 1 => {
                    self.apply(&entry);
                    self.has_read();
                    if self.is_due(entry.batch.id.writer == writer) {
                        self.keep(engine, wanted).await;
                    }
                }
                Some(Ok(entry)) => {
                    return Err(format!("entry {} comes behind {}", entry.position.0, self.position.0));
                }
                Some(Err(error)) => {
                    if matches!(error, ReadError::Ahead { .. }) {
                        self.begin_anew();
                    } else {
                        self.is_behind = matches!(error, ReadError::Trimmed { .. });
                    }
                    return Err(error.to_string());
                }
                None => return Err("the engine ended the stream".to_owned()),
            }
        }
    }

    /// Does something of the engine's or the clock's, and takes callers in as long as it lasts.
    async fn meanwhile<T>(
        &mut self,
        wanted: &mut mpsc::UnboundedReceiver<Wanted>,
        doing: impl Future<Output = T>,
    ) -> T {
        let mut doing = pin!(doing);
        loop {
            tokio::select! {
                done = &mut doing => return done,
                Some((id, answer)) = wanted.recv() => self.want(id, answer),
            }
        }
    }

    /// The log could not be read. Who waits for what it says is told, unless that may be over soon.
    fn fail(&mut self, error: String) {
        let failures = self.fault.take().map_or(1, |(_, failures)| failures.saturating_add(1));
        self.progress.set_fault(Some(error.clone()));
        if failures >= FAILURES {
            for (_, answer) in self.waiting.drain() {
                let _gone = answer.send(Err(LogError::Unread(error.clone())));
            }
        }
        self.fault = Some((error, failures));
    }

    /// The log was read up to the position.
    fn has_read(&mut self) {
        self.fault = None;
        self.progress.set_fault(None);
        self.progress.come_to(self.position);
        if self.goal.is_some_and(|goal| self.position >= goal) {
            self.progress.caught_up();
        }
    }

    /// The log lost entries that are applied here: names are read again, from the snapshot and the entries there are. The table
    /// keeps what it has until then.
    fn begin_anew(&mut self) {
        tracing::error!(
            applied = self.position.0,
            "the log lost entries that are applied; the names are read again"
        );
        self.progress.reload();
        (self.position, self.goal, self.is_behind, self.is_whole) = (Position(0), None, true, true);
        self.is_anew = true;
        self.newest.clear();
        self.done.clear();
        self.recent.clear();
        self.replay = Replay::new(REPLAY, 0);
        for (_, answer) in self.waiting.drain() {
            let _gone = answer.send(Err(LogError::Lost));
        }
    }

    /// Brings the names to a snapshot, if it is ahead of them.
    fn restore(&mut self, snapshot: Option<Snapshot>) -> Result<(), String> {
        if snapshot.is_none() && self.is_anew {
            // The log is all there is.
            self.names.lock().change_to(&NameList::new()).map_err(|error| error.to_string())?;
        }
        self.is_anew = false;
        let Some(snapshot) = snapshot.filter(|snapshot| snapshot.position > self.position) else {
            return Ok(());
        };
        let names = snapshot::decode(&self.file, &snapshot.bytes).map_err(|error| error.to_string())?;
        self.names.lock().change_to(&names.list).map_err(|error| error.to_string())?;
        if let Some((count, first)) = &names.foreign {
            tracing::error!(count, first, "names of the snapshot are passed over");
        }
        self.is_whole = names.foreign.is_none();
        (self.position, self.newest) = (snapshot.position, names.newest);
        self.replay = Replay::new(REPLAY, snapshot.bytes.len() as u64);
        let passed: Vec<BatchId> = self.waiting.keys().copied().filter(|&id| self.is_past(id)).collect();
        for answer in passed.iter().filter_map(|id| self.waiting.remove(id)) {
            let _gone = answer.send(Err(LogError::Passed));
        }
        tracing::info!(position = self.position.0, names = names.list.len(), "names come from a snapshot");
        self.has_read();
        Ok(())
    }

    /// Whether a snapshot is to be made behind an entry, of this switch or of another.
    fn is_due(&self, is_own: bool) -> bool {
        self.is_whole && self.replay.is_due() && (is_own || self.replay.thousandths() >= FOR_OTHERS)
    }

    /// How many of the newest entries stay in the log.
    fn kept_entries(&self) -> u64 {
        let mut bytes = 0;
        let fits = |len: &&usize| {
            bytes += **len;
            bytes <= KEPT_BYTES
        };
        self.recent.iter().rev().take_while(fits).count() as u64
    }

    /// Makes a snapshot of the names as they are, and lets the log forget what is well below it. What fails is tried again a few
    /// entries later.
    async fn keep(&mut self, engine: &dyn Engine, wanted: &mut mpsc::UnboundedReceiver<Wanted>) {
        let lines = listed(&self.names, &self.file.port_names);
        let bytes: Arc<[u8]> = match snapshot::encode(self.kind(), &self.newest, &lines) {
            Ok(bytes) => bytes.into(),
            Err(error) => return tracing::error!(%error, "no snapshot of the names"),
        };
        let position = self.position;
        self.replay.storing(bytes.len());
        let stored = engine.put_snapshot(PARTITION, Snapshot { position, bytes });
        let stored = self.meanwhile(wanted, stored).await;
        self.replay.stored(stored.is_ok());
        let below = Position(position.0.saturating_sub(self.kept_entries()));
        let kept = match stored {
            Ok(()) => self.meanwhile(wanted, engine.trim(PARTITION, below)).await,
            Err(error) => Err(error),
        };
        match kept {
            Ok(()) => {
                tracing::info!(position = position.0, names = lines.len(), "a snapshot of the names is kept");
            }
            Err(error) => tracing::warn!(%error, "no snapshot of the names, or the log is as long as before"),
        }
    }

    /// Whether a batch is below what was applied.
    fn is_past(&self, id: BatchId) -> bool {
        self.newest.get(&id.writer).is_some_and(|&newest| id.number <= newest)
    }

    fn want(&mut self, id: BatchId, answer: Answer) {
        if let Some((_, position, outcome)) = self.done.iter().find(|(done, ..)| *done == id) {
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
        if self.done.len() == REMEMBERED {
            self.done.pop_front();
        }
        self.done.push_back((id, self.position, outcome));
    }

    /// The operations of an entry; `None` if this switch cannot do them.
    fn ops(&mut self, entry: &Entry) -> Option<Vec<NameOp>> {
        let position = entry.position.0;
        let changes = match decode(self.file.names.kind.word(), &entry.batch.payload) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::error!(position, %error, "an entry of the log is passed over");
                // What is none all pass over alike.
                self.is_whole &= !matches!(error, RecordError::Version(_));
                return None;
            }
        };
        let ops: Result<Vec<NameOp>, String> = changes.iter().map(|change| op(change, &self.file)).collect();
        if let Err(error) = &ops {
            tracing::error!(position, error, "an entry of the log is passed over");
            self.is_whole = false;
        }
        ops.ok()
    }
}
