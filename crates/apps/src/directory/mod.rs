//! The elements of a running graph and their handlers, as control code sees them.
//!
//! A data plane has one or more workers, each with its own graph of the same wiring. The scope of requests:
//!
//! | | without a worker's number | for one worker |
//! |---|---|---|
//! | counters and drop reasons | the sum over all, without asking any | its own |
//! | other read handlers | the first worker's answer | its answer |
//! | write handlers | all take the value | |
//!
//! Workers answer between two turns and never wait.

mod graph_info;

pub use graph_info::{ElementInfo, GraphInfo, PortConnection};

use scalebricks_graph::count::sum;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::mailbox::MailboxFull;
use scalebricks_graph::{CounterSnapshot, Ledger, Remote, Trace, Worker};
use scalebricks_io::PacketBuf;
use std::fmt;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long to wait for a worker's answer.
pub const ANSWER: Duration = Duration::from_secs(1);

/// Why a request to a handler failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no such element.
    #[error("no element {0:?}")]
    NoElement(String),
    /// The element has no such handler.
    #[error("element {element:?} has no handler {handler:?}")]
    NoHandler {
        /// The element.
        element: String,
        /// The handler requested.
        handler: String,
    },
    /// There is no such worker.
    #[error("no worker {worker}: there are {workers}, counted from 0")]
    NoWorker {
        /// The worker requested.
        worker: usize,
        /// The number of workers.
        workers: usize,
    },
    /// It can only be written.
    #[error("handler {0:?} is write-only")]
    WriteOnly(String),
    /// It can only be read.
    #[error("handler {0:?} is read-only")]
    ReadOnly(String),
    /// The value or parameter is invalid.
    #[error("{0}")]
    Value(String),
    /// No worker runs yet.
    #[error("no worker runs yet")]
    NotRunning,
    /// The worker's mailbox is full.
    #[error("{0}")]
    Busy(String),
    /// The worker is slow or has ended.
    #[error("worker {0} does not answer")]
    NoAnswer(usize),
    /// Some workers took a value, others did not.
    #[error("worker {worker} did not take the value, but others did: {why}")]
    InPart {
        /// The first worker that did not.
        worker: usize,
        /// Why.
        why: Box<Self>,
    },
}

impl From<HandlerError> for RequestError {
    fn from(error: HandlerError) -> Self {
        match error {
            HandlerError::NoElement(element) => Self::NoElement(element),
            HandlerError::NoHandler { element, handler } => Self::NoHandler { element, handler },
            HandlerError::Value(why) => Self::Value(why),
        }
    }
}

/// The answer of a read handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestAnswer {
    /// The value.
    pub text: String,
    /// The worker that answered, if others may have other values.
    pub worker: Option<usize>,
}

type Asked<T> = Result<Receiver<Result<T, HandlerError>>, MailboxFull>;

/// The mailbox of a worker, independent of its packet type.
trait Mailbox: Send + Sync {
    fn read(&self, element: &str, handler: &str) -> Asked<String>;
    fn write(&self, element: &str, handler: &str, value: &str) -> Asked<()>;
}

impl<P: PacketBuf + 'static> Mailbox for Remote<P> {
    fn read(&self, element: &str, handler: &str) -> Asked<String> {
        self.read(element, handler)
    }

    fn write(&self, element: &str, handler: &str, value: &str) -> Asked<()> {
        self.write(element, handler, value)
    }
}

/// A worker in the directory.
#[derive(Clone)]
struct WorkerEntry {
    number: usize,
    mailbox: Arc<dyn Mailbox>,
    ledger: Arc<Mutex<Ledger>>,
}

impl WorkerEntry {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner) // whole between two statements
    }

    /// Waits for an answer.
    fn answer<T>(&self, asked: Asked<T>, until: Instant) -> Result<T, RequestError> {
        let answer = asked.map_err(|full| RequestError::Busy(full.to_string()))?;
        let answer = answer.recv_timeout(until.saturating_duration_since(Instant::now()));
        Ok(answer.map_err(|_| RequestError::NoAnswer(self.number))??)
    }
}

/// The elements, counters and handlers of the graphs that a data plane's workers run. It is updated when graphs are
/// replaced.
#[derive(Default)]
pub struct Directory {
    known: RwLock<Arc<GraphInfo>>,
    workers: RwLock<Vec<WorkerEntry>>,
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("known", &self.known()).finish_non_exhaustive()
    }
}

impl Directory {
    /// Adds a running worker. All have graphs of the same wiring; the first one's is described. The ledger must be the
    /// one that its graph was built with, or a clone.
    pub fn add<P: PacketBuf + 'static, T: Trace<P>>(
        &self,
        worker: &Worker<P, T>,
        ledger: Arc<Mutex<Ledger>>,
    ) {
        let mut workers = self.workers.write().unwrap_or_else(PoisonError::into_inner); // all or nothing
        if workers.is_empty() {
            self.follow(Arc::new(GraphInfo::of(worker.graph())));
        }
        let (number, mailbox) = (workers.len(), Arc::new(worker.remote()));
        workers.push(WorkerEntry { number, mailbox, ledger });
    }

    /// Information that needs no worker.
    pub fn known(&self) -> Arc<GraphInfo> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner)) // it is replaced whole
    }

    /// Replaces the description after the workers' graphs changed.
    pub fn follow(&self, known: Arc<GraphInfo>) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.members().len()
    }

    fn members(&self) -> Vec<WorkerEntry> {
        self.workers.read().unwrap_or_else(PoisonError::into_inner).clone() // as above
    }

    /// One worker, or all; at least one.
    fn chosen(&self, worker: Option<usize>) -> Result<Vec<WorkerEntry>, RequestError> {
        let mut members = self.members();
        let workers = members.len();
        match worker {
            _ if workers == 0 => Err(RequestError::NotRunning),
            None => Ok(members),
            Some(worker) if worker < workers => Ok(vec![members.swap_remove(worker)]),
            Some(worker) => Err(RequestError::NoWorker { worker, workers }),
        }
    }

    /// Counters of elements, for one worker or summed: of running graphs, and of replaced ones.
    ///
    /// # Errors
    /// [`RequestError::NotRunning`], [`RequestError::NoWorker`].
    pub fn counted(&self, worker: Option<usize>) -> Result<Vec<CounterSnapshot>, RequestError> {
        let members = self.chosen(worker)?;
        let ledgers: Vec<_> = members.iter().map(WorkerEntry::ledger).collect();
        Ok(sum(ledgers.iter().map(|ledger| &**ledger)))
    }

    /// Reads a handler of an element; for `worker` see the [table](self).
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn read(
        &self,
        element: &str,
        handler: &str,
        parameter: &str,
        worker: Option<usize>,
    ) -> Result<RequestAnswer, RequestError> {
        let members = self.chosen(worker)?;
        let known = self.known();
        let element = known.element(element)?;
        if let Some(text) = element.told(handler) {
            return Ok(RequestAnswer { text, worker: None });
        }
        if let (false, _) = element.access(handler)? {
            return Err(RequestError::WriteOnly(handler.to_owned()));
        }
        let is_one_of_several = |member: &WorkerEntry| (self.workers() > 1).then_some(member.number);
        if let Some(class) = element.class_that_counts(handler) {
            let value = |member: &WorkerEntry| member.ledger().counted(&element.name, class)?.get(handler);
            let sum = members.iter().filter_map(value).fold(0, u64::wrapping_add);
            let worker = worker.and_then(|_| members.first().and_then(is_one_of_several));
            return Ok(RequestAnswer { text: sum.to_string(), worker });
        }
        let member = members.first().ok_or(RequestError::NotRunning)?;
        let handler = format!("{handler} {}", parameter.trim());
        let asked = member.mailbox.read(&element.name, handler.trim_end());
        let text = member.answer(asked, Instant::now() + ANSWER)?;
        Ok(RequestAnswer { text, worker: is_one_of_several(member) })
    }

    /// Writes a handler of an element, on all workers.
    ///
    /// # Errors
    /// [`RequestError`]; [`RequestError::InPart`] if only some workers took it.
    pub fn write(&self, element: &str, handler: &str, value: &str) -> Result<(), RequestError> {
        let members = self.chosen(None)?;
        let known = self.known();
        let element = known.element(element)?;
        if let (_, false) = element.access(handler)? {
            return Err(RequestError::ReadOnly(handler.to_owned()));
        }
        // All are asked before any is waited for.
        let asked: Vec<_> =
            members.iter().map(|member| member.mailbox.write(&element.name, handler, value)).collect();
        let until = Instant::now() + ANSWER;
        let answers = members.iter().zip(asked).map(|(member, asked)| member.answer(asked, until));
        let answers: Vec<Result<(), RequestError>> = answers.collect();
        let is_taken = answers.iter().any(Result::is_ok);
        match answers.into_iter().enumerate().find_map(|(worker, answer)| Some((worker, answer.err()?))) {
            None => Ok(()),
            Some((worker, why)) if is_taken => Err(RequestError::InPart { worker, why: Box::new(why) }),
            Some((_, why)) => Err(why),
        }
    }
}
