//! A running configuration that can be replaced while packets flow.
//!
//! The caller's thread builds and opens the new graph. The worker swaps it in between two turns, and an element with
//! the same name and class takes over its predecessor's state, queues, devices and captures. All errors in a
//! configuration are found before the swap, so the running one continues.

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

/// How long to wait for a worker's swap.
const SWAP: Duration = Duration::from_secs(5);

/// Most elements of former configurations whose counters are kept. Beyond it, all that are not running are forgotten.
const REMEMBERED: usize = 1 << 16;

/// How often a waiting caller checks whether the run has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Why another configuration could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// It has errors.
    #[error("in the configuration\n{0}")]
    Wrong(#[from] Errors),
    /// A control socket failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The worker's mailbox is full.
    #[error("the worker is busy: {0}")]
    Busy(String),
    /// The run has already ended.
    #[error("the run has ended")]
    Ended,
    /// The worker did not swap in time; it may still do so.
    #[error("the worker does not answer: it may yet take the new configuration over")]
    NoAnswer,
}

/// A completed replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    /// Number of elements.
    pub elements: usize,
    /// Number of connections.
    pub connections: usize,
    /// Number of replacements in this run so far.
    pub replacements: u64,
}

/// State that becomes current once a graph runs.
#[derive(Debug)]
struct PendingState {
    known: Arc<GraphInfo>,
    wants: OpenRequests,
    sockets: Prepared,
}

/// Replaces configurations, one at a time.
#[derive(Debug)]
struct Replacer<P> {
    outside: Devices<P>,
    /// What the running graph's elements have opened.
    wants: OpenRequests,
    sockets: ControlServer,
    /// A graph that the worker had not swapped in when the wait ended.
    pending: Option<(Receiver<Box<Graph<P>>>, PendingState)>,
    /// Names and classes of all elements that have run.
    ran: HashSet<(String, &'static str)>,
    /// External errors of replaced graphs.
    faults: Vec<String>,
}

/// The control side of a run: its configuration, handlers and counters.
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

/// Names and classes of a graph's elements.
fn named(known: &GraphInfo) -> impl Iterator<Item = (String, &'static str)> {
    known.elements.iter().filter_map(|element| Some((element.name.clone(), element.spec?.class)))
}

impl<P: PacketBuf + 'static> LiveRouter<P> {
    /// Starts a run of a configuration that was read with these variables, and creates its worker, which allocates
    /// packets from `buffers`. All elements are open, and control sockets are listening.
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

    /// Counters and handlers of the running configuration.
    pub const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// A handle to the worker.
    pub const fn remote(&self) -> &Remote<P> {
        &self.remote
    }

    /// How often the configuration was replaced.
    pub fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::Relaxed) // a count, nothing is published with it
    }

    /// Addresses of the control sockets.
    pub fn control_sockets(&self) -> Vec<ListenAddress> {
        lock(&self.swap).sockets.places().cloned().collect()
    }

    /// Device bindings that no element used, as text.
    pub fn unused(&self) -> Vec<String> {
        lock(&self.swap).outside.unused()
    }

    /// Runs another configuration from the worker's next turn on; `file` names it in errors.
    ///
    /// # Errors
    /// [`ReplaceError`]. The running configuration continues.
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

    /// Builds and opens a graph.
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

    /// Discards a configuration that will not run.
    fn give_up(&self, swap: &mut Replacer<P>) {
        swap.outside.give_up();
        lock(&self.ledger).retain(|name, class| swap.ran.contains(&(name.to_owned(), class)));
    }

    /// Waits for a pending swap, if any.
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

    /// Makes the new graph's state current; `old` is the replaced graph.
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

    /// Ends the run: the worker will run no more turns, and waiting requests are refused.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        let mut swap = lock(&self.swap);
        let Some((answer, next)) = swap.pending.take() else { return };
        // The last turn may have swapped it in.
        match answer.try_recv() {
            Ok(old) => self.adopt(&mut swap, &old, next),
            Err(_) => self.give_up(&mut swap),
        }
    }

    /// External errors of replaced graphs.
    pub fn faults(&self) -> Vec<String> {
        lock(&self.swap).faults.clone()
    }

    /// Closes control sockets, completes all captures, renames them and returns their names.
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
