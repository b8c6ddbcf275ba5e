//! Applies the log's entries, in order.

use super::super::config::SwitchFile;
use super::super::running::{SharedNames, op};
use super::record::decode;
use super::{Answer, PARTITION, PATIENCE, Progress, Wanted};
use futures_util::StreamExt;
use scalebricks_control::engine::{BatchId, Engine, Entry, WriterId};
use scalebricks_dataplane::flat::{Changes, NameError, NameOp};
use scalebricks_types::Position;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

/// What became of an entry.
pub(in super::super) type Outcome = Result<Changes, NameError>;

/// Entries whose outcome is remembered for who asks after them a moment too late.
const REMEMBERED: usize = 1_024;

/// What is known of the log.
pub(super) struct Follower {
    file: SwitchFile,
    names: SharedNames,
    progress: Arc<Progress>,
    position: Position,
    /// The newest batch of each writer: each appends one after another.
    newest: BTreeMap<WriterId, u64>,
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
            newest: BTreeMap::new(),
            done: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }

    /// What names are.
    pub(super) const fn kind(&self) -> &'static str {
        self.file.names.kind.word()
    }

    /// Follows the log for ever.
    pub(super) async fn run(mut self, engine: Arc<dyn Engine>, mut wanted: mpsc::UnboundedReceiver<Wanted>) {
        let goal = loop {
            match engine.last(PARTITION).await {
                Ok(last) => break last,
                Err(error) => tracing::warn!(%error, "the log cannot be read yet"),
            }
            tokio::time::sleep(PATIENCE).await;
        };
        loop {
            self.tell(goal);
            let mut entries = engine.watch(PARTITION, Position(self.position.0 + 1));
            let error = loop {
                tokio::select! {
                    entry = entries.next() => match entry {
                        Some(Ok(entry)) if entry.position.0 == self.position.0 + 1 => {
                            self.apply(&entry);
                            self.tell(goal);
                        }
                        Some(Ok(entry)) => {
                            break format!("entry {} comes behind {}", entry.position.0, self.position.0);
                        }
                        Some(Err(error)) => break error.to_string(),
                        None => break "the engine ended the stream".to_owned(),
                    },
                    Some((id, answer)) = wanted.recv() => self.want(id, answer),
                }
            };
            tracing::warn!(%error, applied = self.position.0, "the log is read again from there on");
            tokio::time::sleep(PATIENCE).await;
        }
    }

    fn tell(&self, goal: Position) {
        self.progress.position.store(self.position.0, Ordering::Release);
        if self.position >= goal {
            self.progress.has_caught_up.store(true, Ordering::Release);
        }
    }

    fn want(&mut self, id: BatchId, answer: Answer) {
        if let Some((_, position, outcome)) = self.done.iter().find(|(done, ..)| *done == id) {
            let _gone = answer.send(Ok((position.0, outcome.clone())));
        } else {
            self.waiting.insert(id, answer);
        }
    }

    fn apply(&mut self, entry: &Entry) {
        self.position = entry.position;
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
    fn ops(&self, entry: &Entry) -> Option<Vec<NameOp>> {
        let position = entry.position.0;
        let changes = match decode(self.file.names.kind.word(), &entry.batch.payload) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::error!(position, %error, "an entry of the log is passed over");
                return None;
            }
        };
        let ops: Result<Vec<NameOp>, String> = changes.iter().map(|change| op(change, &self.file)).collect();
        ops.map_err(|error| tracing::error!(position, %error, "an entry of the log is passed over")).ok()
    }
}
