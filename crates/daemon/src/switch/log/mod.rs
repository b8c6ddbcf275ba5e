//! Keeps the names of several switches in one log, which all of them follow.
//!
//! ```text
//! change ─▶ write: append until durable ─▶ engine ─▶ state: apply in order ─▶ names
//!     ▲                                                │
//!     └──────────────────── outcome ◀──────────────────┘
//! ```
//!
//! A change is accepted when the log holds it. Its outcome, for example a refusal because the name exists, depends only
//! on the entries before it, so all switches come to the same result. The caller gets it when its own switch has
//! applied the entry. An entry that a writer logged twice is ignored the second time. From time to time a switch stores
//! a snapshot of its names and trims the log. A log that ends before the position applied here was replaced by an older
//! one: the switch then reads the names again.

mod progress;
mod record;
mod snapshot;
mod state;

use super::config::{ControlFile, SwitchFile};
use super::running::SharedNames;
use crate::node::control_plane::{check as check_engine, open as open_engine};
use crate::runtime::thread::RuntimeThread;
pub use progress::LogProgress;
use progress::SharedProgress;
use scalebricks_admin::model::switch::ChangeView;
use scalebricks_cluster::draw_writer;
use scalebricks_control::engine::{BatchId, Engine, EngineError, MAX_BATCH_BYTES, WriterId};
use scalebricks_engine::log::{LogWriter, NotLogged, WriterOptions};
use scalebricks_types::PartitionId;
use state::{LogState, Outcome};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// All names of a switch are in one log.
const PARTITION: PartitionId = PartitionId(0);

/// The record that holds the kind of names in a log.
const KIND_RECORD: &str = "switch.names";

/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(500);

/// A refused change is not retried: the caller gets the error.
const WRITER: WriterOptions = WriterOptions { retry: RETRY, retry_refused_for: Duration::ZERO };

/// Changes that may wait to be appended.
const QUEUE: usize = 64;

/// Why the outcome of a change is not known, or why it is not in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The changes do not fit in one batch.
    #[error("{0} bytes of changes exceed the limit of {MAX_BATCH_BYTES}: send fewer changes at a time")]
    TooLarge(usize),
    /// The engine refused the changes.
    #[error("the log refused the changes: {0}")]
    Refused(String),
    /// The changes are in the log, but their outcome is lost: the switch read a snapshot instead of their entry.
    #[error(
        "the changes are in the log, but this switch skipped their entry when it read a snapshot: check the names"
    )]
    Passed,
    /// The log lost entries, perhaps those of the changes.
    #[error(
        "the log was replaced by an older one, which may lack the changes: check the names when the switch has read it"
    )]
    Lost,
    /// The changes are in the log, but this switch cannot read it now.
    #[error(
        "the changes are in the log, but this switch cannot read it now: {0}; it applies or refuses them when it can"
    )]
    Unread(String),
    /// The switch is stopping.
    #[error("the switch is stopping; it is not known whether the changes are in the log")]
    Stopped,
    /// The engine cannot be used.
    #[error("engine: {0}")]
    Engine(String),
    /// The thread did not start.
    #[error("cannot start the log's thread: {0}")]
    Thread(String),
}

/// Changes to append, and the caller that waits for the outcome.
struct ChangeRequest {
    payload: Arc<[u8]>,
    answer: Answer,
}

/// Takes the position of the changes, and their outcome.
type Answer = oneshot::Sender<Result<(u64, Outcome), LogError>>;

/// A thread that follows and writes the log of a switch, until this is dropped.
pub struct LogHandle {
    kind: &'static str,
    requests: mpsc::Sender<ChangeRequest>,
    progress: Arc<SharedProgress>,
    _thread: RuntimeThread,
}

impl std::fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogHandle").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl LogHandle {
    /// Starts to follow the log of a switch, as soon as its engine can be reached.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn start(control: &ControlFile, file: &SwitchFile, names: SharedNames) -> Result<Self, LogError> {
        let (engine, name) = (control.engine.clone(), control.name.clone());
        check_engine(&engine, &name).map_err(|error| LogError::Engine(error.to_string()))?;
        Self::start_on(async move { open_engine(&engine, &name).await }, file, names)
    }

    /// Starts to follow the log of an engine.
    ///
    /// # Errors
    /// [`LogError::Thread`].
    pub fn start_on(
        engine: impl Future<Output = Arc<dyn Engine>> + Send + 'static,
        file: &SwitchFile,
        names: SharedNames,
    ) -> Result<Self, LogError> {
        let (requests, queue) = mpsc::channel(QUEUE);
        let progress = Arc::<SharedProgress>::default();
        let state = LogState::new(file.clone(), names, Arc::clone(&progress));
        let runtime = &mut tokio::runtime::Builder::new_current_thread();
        let thread = RuntimeThread::start("log", runtime, move || run(engine, state, queue));
        let thread = thread.map_err(|error| LogError::Thread(error.to_string()))?;
        let kind = file.names.kind.word();
        Ok(Self { kind, requests, progress, _thread: thread })
    }

    /// The current state.
    pub fn progress(&self) -> LogProgress {
        self.progress.lock().clone()
    }

    /// Appends changes; returns their position and their outcome, when this switch has applied them.
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
        self.requests.send(ChangeRequest { payload, answer }).await.map_err(|_| LogError::Stopped)?;
        answered.await.map_err(|_| LogError::Stopped)?
    }
}

/// Follows and writes the log; never returns.
async fn run(
    engine: impl Future<Output = Arc<dyn Engine>>,
    state: LogState,
    queue: mpsc::Receiver<ChangeRequest>,
) {
    let engine = engine.await;
    let writer = loop {
        let ready = async {
            check_kind(&*engine, state.kind()).await?;
            draw_writer(&*engine).await
        };
        match ready.await {
            Ok(writer) => break writer,
            Err(error) => {
                tracing::warn!(%error, "cannot use the engine yet; trying again");
                state.progress.lock().fault = Some(error.to_string());
            }
        }
        tokio::time::sleep(RETRY).await;
    };
    let (waiters, waiting) = mpsc::unbounded_channel();
    tokio::select! {
        () = state.run(Arc::clone(&engine), writer, waiting) => {}
        () = write(engine, writer, queue, &waiters) => {}
    }
}

/// Checks that the log holds names of this kind. The first switch writes the kind to a record, before there are
/// entries.
async fn check_kind(engine: &dyn Engine, kind: &str) -> Result<(), EngineError> {
    let refused = |what: String| Err(EngineError::Refused(what));
    if let Some(value) = engine.record(KIND_RECORD).await?.and_then(|record| record.value) {
        return if *value == *kind.as_bytes() {
            Ok(())
        } else {
            refused(format!(
                "its log holds names of kind '{}', not '{kind}'",
                String::from_utf8_lossy(&value)
            ))
        };
    }
    match engine.last(PARTITION).await {
        Ok(last) if last.0 > 0 => {
            return refused(
                "its log does not hold names of a switch: switches need an engine of their own".to_owned(),
            );
        }
        Ok(_) => {}
        Err(error) => return Err(EngineError::Unavailable(error.to_string())),
    }
    match engine.swap(KIND_RECORD, None, Some(kind.as_bytes().into())).await {
        Ok(_) => Ok(()),
        // Another switch may have been first: the next attempt reads what it wrote.
        Err(error) => Err(EngineError::Unavailable(error.to_string())),
    }
}

/// A caller that waits for the outcome of a batch.
type Waiter = (BatchId, Answer);

/// Appends one batch after another.
async fn write(
    engine: Arc<dyn Engine>,
    writer: WriterId,
    mut queue: mpsc::Receiver<ChangeRequest>,
    waiters: &mpsc::UnboundedSender<Waiter>,
) {
    let mut log = LogWriter::new(engine, PARTITION, WRITER);
    while let Some(ChangeRequest { payload, answer }) = queue.recv().await {
        let is_sent = match log.append(writer, payload).await {
            // Answered when the entry is applied, or at once if it has been.
            Ok((id, _)) => waiters.send((id, answer)).is_ok(),
            Err(NotLogged(why)) => answer.send(Err(LogError::Refused(why))).is_ok(),
        };
        if !is_sent {
            tracing::debug!("the caller of a change is gone");
        }
    }
}
