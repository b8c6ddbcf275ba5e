//! Names by a log that several switches follow.
//!
//! ```text
//! change ─▶ write: append, until durable ─▶ engine ─▶ follow: in order ─▶ names
//!     ▲                                                  │
//!     └──────────────── what became of it ◀──────────────┘
//! ```
//!
//! A change is accepted when the log has it. Whether it is done, or refused because a name is there already, say, follows from what
//! stands before it: all switches come to the same result, and whoever asked hears of it when his own switch has come there.
//! Positions rise by one; a hole ends the following with an error and begins it anew behind what was applied. An entry that a writer
//! logged twice is void the second time. Now and then a switch keeps a snapshot of its names, and the log forgets what is below. A
//! log that ends before the position applied here was replaced by an older one: the names are then read again.

mod follow;
mod progress;
mod record;
mod snapshot;

use super::config::{ControlFile, SwitchFile};
use super::running::SharedNames;
use crate::node::control_plane::{check as check_engine, open as open_engine};
use follow::{Follower, Outcome};
use progress::Progress;
use scalebricks_admin::model::switch::ChangeView;
use scalebricks_cluster::draw_writer;
use scalebricks_control::engine::{
    AppendError, Batch, BatchId, Engine, EngineError, MAX_BATCH_BYTES, WriterId,
};
use scalebricks_types::PartitionId;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// All names of a switch are in one log.
const PARTITION: PartitionId = PartitionId(0);

/// The record that says what a log's names are.
const CLAIM: &str = "switch.names";

/// Time between two tries of what went wrong.
const PATIENCE: Duration = Duration::from_millis(500);

/// Changes that may wait to be appended.
const QUEUE: usize = 64;

/// Why a change is not in the log, or not known to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Too much at once.
    #[error("{0} bytes at once are more than {MAX_BATCH_BYTES}: make fewer changes at a time")]
    TooLarge(usize),
    /// The engine said no.
    #[error("the log refused the changes: {0}")]
    Refused(String),
    /// They are, and what became of them stands in no entry any more.
    #[error(
        "the changes are in the log, and were made or refused while this switch caught up by a snapshot: look at the names"
    )]
    Passed,
    /// The log lost entries, these changes perhaps among them.
    #[error(
        "the log was replaced by an older one, which may lack the changes: look at the names when the switch has read it"
    )]
    Lost,
    /// They are, and this switch cannot read on.
    #[error(
        "the changes are in the log, which this switch cannot read now: {0}; they are made, or refused, when it can"
    )]
    Unread(String),
    /// The switch stops.
    #[error("the switch stops; it is not known whether the changes are in the log")]
    Stopped,
    /// The engine.
    #[error("engine: {0}")]
    Engine(String),
    /// The thread.
    #[error("starting the log's thread: {0}")]
    Thread(String),
}

/// Changes under way, and who waits for them.
struct Asked {
    payload: Arc<[u8]>,
    answer: Answer,
}

/// Where the outcome goes: the position, and what became of the changes there.
type Answer = oneshot::Sender<Result<(u64, Outcome), LogError>>;

/// The log of a switch. Dropping it stops following.
pub struct LogHandle {
    kind: &'static str,
    asked: mpsc::Sender<Asked>,
    progress: Arc<Progress>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogHandle").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl LogHandle {
    /// Follows the log of a switch, as soon as its engine can be reached.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn start(control: &ControlFile, file: &SwitchFile, names: SharedNames) -> Result<Self, LogError> {
        let (engine, name) = (control.engine.clone(), control.name.clone());
        check_engine(&engine, &name).map_err(|error| LogError::Engine(error.to_string()))?;
        Self::start_on(async move { open_engine(&engine, &name).await }, file, names)
    }

    /// Follows the log that an engine keeps.
    ///
    /// # Errors
    /// [`LogError::Thread`].
    pub fn start_on(
        engine: impl Future<Output = Arc<dyn Engine>> + Send + 'static,
        file: &SwitchFile,
        names: SharedNames,
    ) -> Result<Self, LogError> {
        let (asked, queue) = mpsc::channel(QUEUE);
        let (stop, stopped) = oneshot::channel();
        let progress = Arc::<Progress>::default();
        let follower = Follower::new(file.clone(), names, Arc::clone(&progress));
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return tracing::error!(%error, "the log is not followed"),
            };
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = live(engine, follower, queue) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(run);
        let thread = thread.map_err(|error| LogError::Thread(error.to_string()))?;
        let kind = file.names.kind.word();
        Ok(Self { kind, asked, progress, stop: Some(stop), thread: Some(thread) })
    }

    /// The entry that was applied last.
    pub fn position(&self) -> u64 {
        self.progress.position()
    }

    /// Whether all entries were applied that the log had when it was begun to be followed.
    pub fn has_caught_up(&self) -> bool {
        self.progress.has_caught_up()
    }

    /// How often all names were read again, as the log had lost entries that were applied.
    pub fn reloads(&self) -> u64 {
        self.progress.reloads()
    }

    /// Why the log cannot be read now, if it cannot.
    pub fn fault(&self) -> Option<String> {
        self.progress.fault()
    }

    /// Appends changes; what became of them when they were applied here, and where in the log they are.
    ///
    /// # Errors
    /// [`LogError`].
    pub(super) async fn change(&self, changes: &[ChangeView]) -> Result<(u64, Outcome), LogError> {
        let payload = record::encode(self.kind, changes);
        let payload: Arc<[u8]> = payload.map_err(|error| LogError::Refused(error.to_string()))?.into();
        if payload.len() > MAX_BATCH_BYTES {
            return Err(LogError::TooLarge(payload.len()));
        }
        let (answer, answered) = oneshot::channel();
        self.asked.send(Asked { payload, answer }).await.map_err(|_| LogError::Stopped)?;
        answered.await.map_err(|_| LogError::Stopped)?
    }
}

impl Drop for LogHandle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Follows and writes, for ever.
async fn live(
    engine: impl Future<Output = Arc<dyn Engine>>,
    follower: Follower,
    queue: mpsc::Receiver<Asked>,
) {
    let engine = engine.await;
    let writer = loop {
        let drawn = async {
            claim(&*engine, follower.kind()).await?;
            draw_writer(&*engine).await
        };
        match drawn.await {
            Ok(writer) => break writer,
            Err(error) => {
                tracing::warn!(%error, "the engine cannot be used yet");
                follower.progress.set_fault(Some(error.to_string()));
            }
        }
        tokio::time::sleep(PATIENCE).await;
    };
    let (wanted, wanting) = mpsc::unbounded_channel();
    tokio::select! {
        () = follower.run(Arc::clone(&engine), writer, wanting) => {}
        () = write(&*engine, writer, queue, &wanted) => {}
    }
}

/// Sees that the log is one of names of this kind: the first switch says so in a record, before there are entries.
async fn claim(engine: &dyn Engine, kind: &str) -> Result<(), EngineError> {
    let refused = |what: String| Err(EngineError::Refused(what));
    if let Some(value) = engine.record(CLAIM).await?.and_then(|record| record.value) {
        return if *value == *kind.as_bytes() {
            Ok(())
        } else {
            refused(format!("its log is of names of the kind '{}'", String::from_utf8_lossy(&value)))
        };
    }
    match engine.last(PARTITION).await {
        Ok(last) if last.0 > 0 => {
            return refused("its log is not one of names: switches need an engine of their own".to_owned());
        }
        Ok(_) => {}
        Err(error) => return Err(EngineError::Unavailable(error.to_string())),
    }
    match engine.swap(CLAIM, None, Some(kind.as_bytes().into())).await {
        Ok(_) => Ok(()),
        // Another was first, perhaps: the next try reads what it said.
        Err(error) => Err(EngineError::Unavailable(error.to_string())),
    }
}

/// Somebody waits for what becomes of a batch.
type Wanted = (BatchId, Answer);

/// Appends one batch after another, each until it is known to be in the log.
async fn write(
    engine: &dyn Engine,
    writer: WriterId,
    mut queue: mpsc::Receiver<Asked>,
    wanted: &mpsc::UnboundedSender<Wanted>,
) {
    let mut number = 0;
    while let Some(Asked { payload, answer }) = queue.recv().await {
        number += 1;
        let id = BatchId { writer, number };
        let batch = Batch { id, payload };
        let refused = loop {
            match engine.append(PARTITION, batch.clone()).await {
                Ok(_) => break None,
                Err(AppendError::Unknown(error)) => {
                    // Again under the same name: were it logged twice, the second would be void.
                    tracing::warn!(%error, "a change may be in the log; appending it again");
                    tokio::time::sleep(PATIENCE).await;
                }
                Err(error @ (AppendError::Refused(_) | AppendError::TooLarge(_))) => break Some(error),
            }
        };
        let sent = match refused {
            // The follower answers when it has come there, or at once if it has been there.
            None => wanted.send((id, answer)).is_ok(),
            Some(error) => {
                number -= 1; // it is not in the log and never will be: the next batch has its number
                answer.send(Err(LogError::Refused(error.to_string()))).is_ok()
            }
        };
        if !sent {
            tracing::debug!("nobody waits for a change any more");
        }
    }
}
