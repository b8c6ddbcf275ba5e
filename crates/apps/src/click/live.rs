//! A configuration that runs, and is replaced by others while packets flow.
//!
//! Another graph is built and opened on the thread of whoever wants it. The worker swaps it in between two turns, and an element
//! of the same name and class goes on with what its predecessor had: state, queues, devices, captures. Whatever is wrong with a
//! configuration is found before that, so the one that runs goes on.

use super::Router;
use super::control_socket::{ControlError, ControlServer, ListenAddress, Prepared};
use super::devices::{Devices, DevicesError};
use super::open_requests::{OpenRequests, wants};
use crate::directory::{Directory, GraphInfo};
use scalebricks_click::Errors;
use scalebricks_graph::{Environment, Graph, Ledger, Registry, Remote, Worker};
use scalebricks_io::{PacketBuf, PacketSource};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker may take to swap a graph in.
const SWAP: Duration = Duration::from_secs(5);

/// Elements of former configurations whose counters are kept, with those of the one that runs. With more, all are forgotten
/// that do not run.
const REMEMBERED: usize = 1 << 16;

/// How often whoever waits for that looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Why another configuration does not run.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// Something is wrong with it, by place.
    #[error("in the configuration\n{0}")]
    Wrong(#[from] Errors),
    /// One of its control sockets.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Too much waits for the worker already.
    #[error("the worker is busy: {0}")]
    Busy(String),
    /// The run came to its end before.
    #[error("the run has ended")]
    Ended,
    /// The worker did not swap it in for some seconds; it may still do so.
    #[error("the worker does not answer: it may yet take the new configuration over")]
    NoAnswer,
}

/// A configuration that has taken the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    /// Its elements.
    pub elements: usize,
    /// Its connections.
    pub connections: usize,
    /// How often the run's configuration was replaced until now.
    pub replacements: u64,
}

/// What goes with a graph once it runs.
#[derive(Debug)]
struct PendingState {
    known: Arc<GraphInfo>,
    wants: OpenRequests,
    sockets: Prepared,
}

/// What replaces configurations, one at a time.
#[derive(Debug)]
struct Replacer<P> {
    outside: Devices<P>,
    /// What the elements of the graph that runs have opened.
    wants: OpenRequests,
    sockets: ControlServer,
    /// A graph that the worker had not swapped in when its answer was waited for.
    pending: Option<(Receiver<Box<Graph<P>>>, PendingState)>,
    /// Names and classes of all elements that have run.
    ran: HashSet<(String, &'static str)>,
    /// What went wrong outside graphs that were replaced.
    faults: Vec<String>,
}

/// A run as control sees it: its configuration, its handlers, its counters.
#[derive(Debug)]
pub struct LiveRouter<P> {
    registry: Registry<P>,
    variables: Vec<(String, String)>,
    directory: Arc<Directory>,
    remote: Remote<P>,
    ledger: Arc<Mutex<Ledger>>,
    swap: Mutex<Replacer<P>>,
    replacements: AtomicU64,
    has_ended: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner) // whole between two statements that can panic
}

/// Names and classes of the elements of a graph.
fn named(known: &GraphInfo) -> impl Iterator<Item = (String, &'static str)> {
    known.elements.iter().filter_map(|element| Some((element.name.clone(), element.spec?.class)))
}

impl<P: PacketBuf + 'static> LiveRouter<P> {
    /// A run of a configuration that was read with these variables, and its worker, which makes new packets in `buffers`.
    /// All elements are open, and control sockets are listened to.
    ///
    /// # Errors
    /// [`ReplaceError::Wrong`], [`ReplaceError::Control`].
    pub fn start(
        router: &Router,
        variables: Vec<(String, String)>,
        registry: Registry<P>,
        mut outside: Devices<P>,
        buffers: Box<dyn PacketSource<P> + Send>,
    ) -> Result<(Self, Worker<P>), ReplaceError> {
        let mut ledger = Ledger::new();
        let mut graph = router.graph(&registry, &mut ledger)?;
        let wants = wants(&mut graph, outside.clock());
        router.open(&mut graph, &mut outside)?;
        outside.settle();
        let worker = Worker::new(graph, buffers, ());
        let (directory, ledger) = (Arc::<Directory>::default(), Arc::new(Mutex::new(ledger)));
        directory.add(&worker, Arc::clone(&ledger));
        directory.follow(Arc::new(router.describe(worker.graph())));
        let ran = named(&directory.known()).collect();
        let sockets = ControlServer::start(router, &directory)?;
        let swap = Replacer { outside, wants, sockets, pending: None, ran, faults: Vec::new() };
        let live = Self {
            registry,
            variables,
            directory,
            remote: worker.remote(),
            ledger,
            swap: Mutex::new(swap),
            replacements: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        };
        Ok((live, worker))
    }

    /// Counters and handlers of the configuration that runs.
    pub const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// How to speak to the worker.
    pub const fn remote(&self) -> &Remote<P> {
        &self.remote
    }

    /// How often the configuration was replaced.
    pub fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::Relaxed) // a count, nothing is published with it
    }

    /// Where control sockets are listened to.
    pub fn control_sockets(&self) -> Vec<ListenAddress> {
        lock(&self.swap).sockets.places().cloned().collect()
    }

    /// What is bound to names of devices and no element asked for, in words.
    pub fn unused(&self) -> Vec<String> {
        lock(&self.swap).outside.unused()
    }

    /// Runs another configuration from the worker's next turn on; `file` names it in errors.
    ///
    /// # Errors
    /// [`ReplaceError`]. The configuration that runs goes on.
    pub fn replace(&self, file: &str, text: &[u8]) -> Result<Replacement, ReplaceError> {
        let mut swap = lock(&self.swap);
        self.take_pending(&mut swap)?;
        let router = Router::read(file, text, &self.variables, &self.registry)?;
        let (graph, next) = match self.prepare(&router, &mut swap) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.give_up(&mut swap);
                return Err(error);
            }
        };
        match self.remote.replace(Box::new(graph)) {
            Ok(answer) => swap.pending = Some((answer, next)),
            Err(refused) => {
                self.give_up(&mut swap);
                return Err(ReplaceError::Busy(refused.to_string()));
            }
        }
        self.take_pending(&mut swap)?;
        let known = self.directory.known();
        let connections = known.elements.iter().map(|element| element.outputs.len()).sum();
        Ok(Replacement { elements: known.elements.len(), connections, replacements: self.replacements() })
    }

    /// A graph that is ready to run, and what goes with it.
    fn prepare(
        &self,
        router: &Router,
        swap: &mut Replacer<P>,
    ) -> Result<(Graph<P>, PendingState), ReplaceError> {
        let mut graph = router.graph(&self.registry, &mut lock(&self.ledger))?;
        let wants = wants(&mut graph, swap.outside.clock());
        let before = &swap.wants;
        let keeps = |name: &str| wants.get(name).is_some_and(|want| before.get(name) == Some(want));
        let kept = wants.iter().filter(|(name, _)| keeps(name)).flat_map(|(_, (_, wants))| wants);
        swap.outside.begin(kept);
        router.open_but(&mut graph, &mut swap.outside, keeps)?;
        let sockets = swap.sockets.prepare(router, &self.directory)?;
        let known = Arc::new(router.describe(&graph));
        Ok((graph, PendingState { known, wants, sockets }))
    }

    /// A configuration is not going to run.
    fn give_up(&self, swap: &mut Replacer<P>) {
        swap.outside.give_up();
        lock(&self.ledger).retain(|name, class| swap.ran.contains(&(name.to_owned(), class)));
    }

    /// Waits for the worker to swap in what it was given, if it has not yet.
    fn take_pending(&self, swap: &mut Replacer<P>) -> Result<(), ReplaceError> {
        let until = Instant::now() + SWAP;
        let Some((answer, next)) = swap.pending.take() else { return Ok(()) };
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(old) => {
                    self.adopt(swap, &old, next);
                    return Ok(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ReplaceError::Ended),
            }
            if self.has_ended.load(Ordering::Acquire) || Instant::now() >= until {
                swap.pending = Some((answer, next));
                return Err(if self.has_ended.load(Ordering::Acquire) {
                    ReplaceError::Ended
                } else {
                    ReplaceError::NoAnswer
                });
            }
        }
    }

    /// The worker runs another graph; this is the old one.
    fn adopt(&self, swap: &mut Replacer<P>, old: &Graph<P>, next: PendingState) {
        swap.faults.extend(old.faults().map(|(element, fault)| format!("{element}: {fault}")));
        swap.outside.settle();
        swap.wants = next.wants;
        swap.sockets.adopt(next.sockets);
        swap.ran.extend(named(&next.known));
        if swap.ran.len() > REMEMBERED {
            swap.ran = named(&next.known).collect();
            lock(&self.ledger).retain(|name, class| swap.ran.contains(&(name.to_owned(), class)));
        }
        self.directory.follow(next.known);
        self.replacements.fetch_add(1, Ordering::Relaxed);
    }

    /// The worker turns no more. What waits for it is refused from now on.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        let mut swap = lock(&self.swap);
        let Some((answer, next)) = swap.pending.take() else { return };
        // It may have been swapped in by the last turn.
        match answer.try_recv() {
            Ok(old) => self.adopt(&mut swap, &old, next),
            Err(_) => self.give_up(&mut swap),
        }
    }

    /// What went wrong outside the graphs that were replaced.
    pub fn faults(&self) -> Vec<String> {
        lock(&self.swap).faults.clone()
    }

    /// Closes control sockets, completes all captures and gives them their names; returns those.
    ///
    /// # Errors
    /// [`DevicesError`]. Captures that are not renamed yet are removed.
    pub fn finish(&self) -> Result<Vec<PathBuf>, DevicesError> {
        let mut swap = lock(&self.swap);
        swap.sockets = ControlServer::default();
        let outside = Devices::new(swap.outside.clock());
        std::mem::replace(&mut swap.outside, outside).finish()
    }
}
