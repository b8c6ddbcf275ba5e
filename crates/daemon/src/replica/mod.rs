//! A state that several processes compute from one log: the names of switches, the routes of a cluster router.
//!
//! ```text
//! change ─▶ write: append until durable ─▶ engine ─▶ state: apply in order ─▶ the machine
//!     ▲                                                │
//!     └──────────────────── outcome ◀──────────────────┘
//! ```
//!
//! A change is accepted when the log holds it. Its outcome depends only on the entries before it, so all processes come
//! to the same result. The caller gets it when its own process has applied the entry. An entry that a writer logged
//! twice is ignored the second time. From time to time a process stores a snapshot of its state and trims the log. A log
//! that ends before the position applied here was replaced by an older one: the process then reads the state again.
//!
//! What an entry and a snapshot contain is the affair of a [`StateMachine`].

mod progress;
mod state;

use crate::node::config::EngineAt;
use crate::node::control_plane::{check as check_engine, open as open_engine};
pub use progress::LogProgress;
use progress::SharedProgress;
use scalebricks_admin::runtime_thread::RuntimeThread;
use scalebricks_cluster::draw_writer;
use scalebricks_control::engine::{BatchId, Engine, EngineError, MAX_BATCH_BYTES, WriterId};
use scalebricks_control::replay::Limits;
use scalebricks_engine::log::{LogWriter, NotLogged, WriterOptions};
use scalebricks_types::PartitionId;
use state::ReplicaState;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The whole state is in one log.
pub(crate) const PARTITION: PartitionId = PartitionId(0);

/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(500);

/// A refused change is not retried: the caller gets the error.
const WRITER: WriterOptions = WriterOptions { retry: RETRY, retry_refused_for: Duration::ZERO };

/// Changes that may wait to be appended.
const QUEUE: usize = 64;

/// The newest batch of each writer: entries up to it are ignored.
pub(crate) type Newest = BTreeMap<WriterId, u64>;

/// A state that the entries of a log change.
pub(crate) trait StateMachine: Send + 'static {
    /// What the changes of an entry did.
    type Outcome: Clone + Send + 'static;

    /// What the state consists of, in messages: "names".
    const WHAT: &'static str;

    /// The kind of contents of its log. A log with others is not touched.
    fn kind(&self) -> &str;

    /// Applies an entry.
    fn apply(&mut self, payload: &[u8]) -> Applied<Self::Outcome>;

    /// Encodes the state for a snapshot.
    ///
    /// # Errors
    /// Why it cannot be encoded.
    fn encode(&self, newest: &Newest) -> Result<Vec<u8>, String>;

    /// Replaces the state by that of a snapshot. If it cannot, the state is as before.
    ///
    /// # Errors
    /// Why the snapshot cannot be used.
    fn restore(&mut self, bytes: &[u8]) -> Result<Restored, String>;

    /// Empties the state.
    ///
    /// # Errors
    /// Why it cannot be emptied.
    fn clear(&mut self) -> Result<(), String>;
}

/// What became of an entry.
#[derive(Debug)]
pub(crate) enum Applied<O> {
    /// It was applied, or refused as all processes refuse it.
    Done(O),
    /// It is no entry; all processes ignore it. Says why.
    Ignored(String),
    /// This process cannot apply it, though others may. Says why.
    Foreign(String),
}

/// A restored snapshot.
#[derive(Debug)]
pub(crate) struct Restored {
    /// The newest batch of each writer.
    pub(crate) newest: Newest,
    /// Whether this process has all that the snapshot has.
    pub(crate) is_complete: bool,
}

/// The log of a state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSpec {
    /// The record in the engine that holds the kind of contents.
    pub(crate) kind_record: &'static str,
    /// The bound on what a process replays when it starts.
    pub(crate) replay: Limits,
}

/// Why the outcome of a change is not known, or why it is not in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The changes do not fit in one batch.
    #[error("{0} bytes of changes exceed the limit of {MAX_BATCH_BYTES}: send fewer changes at a time")]
    TooLarge(usize),
    /// The engine refused the changes.
    #[error("the log refused the changes: {0}")]
    Refused(String),
    /// The changes are in the log, but their outcome is lost: the process read a snapshot instead of their entry.
    #[error(
        "the changes are in the log, but this process skipped their entry when it read a snapshot: check the {0}"
    )]
    Passed(&'static str),
    /// The log lost entries, perhaps those of the changes.
    #[error(
        "the log was replaced by an older one, which may lack the changes: check the {0} when they have been read"
    )]
    Lost(&'static str),
    /// The changes are in the log, but this process cannot read it now.
    #[error(
        "the changes are in the log, but this process cannot read it now: {0}; it applies or refuses them when it can"
    )]
    Unread(String),
    /// The process is stopping.
    #[error("the process is stopping; it is not known whether the changes are in the log")]
    Stopped,
    /// The engine cannot be used.
    #[error("engine: {0}")]
    Engine(String),
    /// The thread did not start.
    #[error("cannot start the log's thread: {0}")]
    Thread(String),
}

/// Changes to append, and the caller that waits for the outcome.
struct ChangeRequest<O> {
    payload: Arc<[u8]>,
    answer: Answer<O>,
}

/// Takes the position of the changes, and their outcome.
type Answer<O> = oneshot::Sender<Result<(u64, O), LogError>>;

/// A thread that follows and writes a log, until this is dropped.
pub(crate) struct Replica<M: StateMachine> {
    requests: mpsc::Sender<ChangeRequest<M::Outcome>>,
    progress: Arc<SharedProgress>,
    _thread: RuntimeThread,
}

impl<M: StateMachine> std::fmt::Debug for Replica<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// Opens an engine; retries until it can be reached.
///
/// # Errors
/// [`LogError::Engine`] if its options are wrong.
pub(crate) fn engine(
    at: &EngineAt,
    name: &str,
) -> Result<impl Future<Output = Arc<dyn Engine>> + Send + use<>, LogError> {
    let (at, name) = (at.clone(), name.to_owned());
    check_engine(&at, &name).map_err(|error| LogError::Engine(error.to_string()))?;
    Ok(async move { open_engine(&at, &name).await })
}

impl<M: StateMachine> Replica<M> {
    /// Starts to follow the log of an engine, as soon as it can be reached.
    ///
    /// # Errors
    /// [`LogError::Thread`].
    pub(crate) fn start(
        engine: impl Future<Output = Arc<dyn Engine>> + Send + 'static,
        spec: LogSpec,
        machine: M,
    ) -> Result<Self, LogError> {
        let (requests, queue) = mpsc::channel(QUEUE);
        let progress = Arc::<SharedProgress>::default();
        let state = ReplicaState::new(machine, spec, Arc::clone(&progress));
        let runtime = &mut tokio::runtime::Builder::new_current_thread();
        let thread = RuntimeThread::start("log", runtime, move || run(engine, spec, state, queue));
        let thread = thread.map_err(|error| LogError::Thread(error.to_string()))?;
        Ok(Self { requests, progress, _thread: thread })
    }

    /// The current state of the log.
    pub(crate) fn progress(&self) -> LogProgress {
        self.progress.lock().clone()
    }

    /// Appends a batch of changes; returns its position and its outcome, when this process has applied it.
    ///
    /// # Errors
    /// [`LogError`].
    pub(crate) async fn append(&self, payload: Arc<[u8]>) -> Result<(u64, M::Outcome), LogError> {
        self.appender().append(payload).await
    }

    /// Appends from other threads, as long as this runs.
    pub(crate) fn appender(&self) -> Appender<M::Outcome> {
        Appender(self.requests.clone())
    }
}

/// Appends to a log.
pub(crate) struct Appender<O>(mpsc::Sender<ChangeRequest<O>>);

impl<O> Clone for Appender<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<O> std::fmt::Debug for Appender<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Appender").finish_non_exhaustive()
    }
}

impl<O> Appender<O> {
    /// As [`Replica::append`].
    ///
    /// # Errors
    /// [`LogError`].
    pub(crate) async fn append(&self, payload: Arc<[u8]>) -> Result<(u64, O), LogError> {
        if payload.len() > MAX_BATCH_BYTES {
            return Err(LogError::TooLarge(payload.len()));
        }
        let (answer, answered) = oneshot::channel();
        self.0.send(ChangeRequest { payload, answer }).await.map_err(|_| LogError::Stopped)?;
        answered.await.map_err(|_| LogError::Stopped)?
    }
}

/// Follows and writes the log; never returns.
async fn run<M: StateMachine>(
    engine: impl Future<Output = Arc<dyn Engine>>,
    spec: LogSpec,
    state: ReplicaState<M>,
    queue: mpsc::Receiver<ChangeRequest<M::Outcome>>,
) {
    let engine = engine.await;
    let writer = loop {
        let ready = async {
            check_kind(&*engine, spec.kind_record, state.kind(), M::WHAT).await?;
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

/// Checks that the log has contents of this kind. The first process writes the kind to a record, before there are
/// entries.
async fn check_kind(engine: &dyn Engine, record: &str, kind: &str, what: &str) -> Result<(), EngineError> {
    let refused = |what: String| Err(EngineError::Refused(what));
    if let Some(value) = engine.record(record).await?.and_then(|record| record.value) {
        return if *value == *kind.as_bytes() {
            Ok(())
        } else {
            refused(format!(
                "its log holds {what} of kind '{}', not '{kind}'",
                String::from_utf8_lossy(&value)
            ))
        };
    }
    match engine.last(PARTITION).await {
        Ok(last) if last.0 > 0 => {
            return refused(format!("its log does not hold {what}: they need an engine of their own"));
        }
        Ok(_) => {}
        Err(error) => return Err(EngineError::Unavailable(error.to_string())),
    }
    match engine.swap(record, None, Some(kind.as_bytes().into())).await {
        Ok(_) => Ok(()),
        // Another process may have been first: the next attempt reads what it wrote.
        Err(error) => Err(EngineError::Unavailable(error.to_string())),
    }
}

/// A caller that waits for the outcome of a batch.
type Waiter<O> = (BatchId, Answer<O>);

/// Appends one batch after another.
async fn write<O>(
    engine: Arc<dyn Engine>,
    writer: WriterId,
    mut queue: mpsc::Receiver<ChangeRequest<O>>,
    waiters: &mpsc::UnboundedSender<Waiter<O>>,
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
    // The queue is closed only while the process stops.
    std::future::pending::<()>().await;
}
