//! Captures from running workers: copies of packets at ports, on edges and where they are dropped, for whoever asks.
//!
//! A worker never waits for a capture. While none runs, a turn costs one relaxed load, and a list of packets that passes an edge or a port a
//! look at a flag; while one does, a packet that it selects costs an allocation and a copy. Packets wait in a bounded queue, and what finds it full is
//! lost and counted. Who reads polls the queue: waking a reader would be a system call in a worker.
//!
//! ```text
//! port ─▶ element ─▶ edge ─▶ element ─▶ port
//!   │         └─ drop ─┐ │               │        Watch: what this worker has to look at
//!   └────────▶ queue ◀─┴─┴───────────────┘
//!                └─▶ Capture                      by Taps::start
//! ```

mod session;
mod watch;

pub use session::Capture;
pub(crate) use watch::Watch;

use session::CaptureSession;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Captures that may run at once.
pub const MAX_CAPTURES: usize = 4;

/// Packets that may wait for a capture's reader.
pub const QUEUE_FRAMES: usize = 8_192;

/// Their bytes, about: workers that add at the same moment may exceed it by a packet each.
pub const QUEUE_BYTES: usize = 32 << 20;

/// Which way a packet passes a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received, before an element has touched it.
    Received,
    /// Sent, as it leaves.
    Sent,
}

/// Where a packet was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapturePoint {
    /// At a port of the worker, by its number.
    Port(usize, Direction),
    /// On its way from an element.
    Edge {
        /// The element's name.
        from: Arc<str>,
        /// By which output.
        output: usize,
    },
    /// As it was dropped: the reason's name.
    Dropped(&'static str),
}

/// Which drops are captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropSelection {
    /// None.
    None,
    /// All.
    All,
    /// Those for reasons of these names.
    Of(Vec<&'static str>),
}

/// A condition on a packet's bytes.
pub trait Filter: fmt::Debug + Send + Sync {
    /// Whether a packet is wanted.
    fn matches(&self, packet: &[u8]) -> bool;
}

/// What a capture wants.
#[derive(Debug)]
pub struct Selection {
    /// At ports of these numbers,
    pub ports: Vec<usize>,
    /// packets received,
    pub received: bool,
    /// packets sent,
    pub sent: bool,
    /// on edges that leave these elements by these outputs,
    pub edges: Vec<(String, usize)>,
    /// and packets dropped,
    pub drops: DropSelection,
    /// that this filter lets through, if there is one.
    pub filter: Option<Box<dyn Filter>>,
    /// Bytes kept of each.
    pub snap_bytes: usize,
}

impl Default for Selection {
    /// Nothing yet; whole packets.
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            received: true,
            sent: true,
            edges: Vec::new(),
            drops: DropSelection::None,
            filter: None,
            snap_bytes: usize::MAX,
        }
    }
}

impl Selection {
    fn wants_port(&self, port: usize, direction: Direction) -> bool {
        let wants = match direction {
            Direction::Received => self.received,
            Direction::Sent => self.sent,
        };
        wants && self.ports.contains(&port)
    }

    fn wants_drop(&self, reason: &'static str) -> bool {
        match &self.drops {
            DropSelection::None => false,
            DropSelection::All => true,
            DropSelection::Of(reasons) => reasons.contains(&reason),
        }
    }
}

/// A packet that was captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedPacket {
    /// As the clock of the [`Taps`] says.
    pub at: Duration,
    /// Where it was seen.
    pub seen: CapturePoint,
    /// Bytes it had.
    pub original_len: usize,
    /// The bytes kept.
    pub data: Box<[u8]>,
}

/// Tells the time of captured packets.
pub type Clock = fn() -> Duration;

/// The time since 1970-01-01 UTC.
fn system_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// As many captures run already as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_CAPTURES} captures run already")]
pub struct TooManyCaptures;

/// Where captures are started, and where workers are told of them. Clones share everything.
#[derive(Clone)]
pub struct Taps(Arc<CaptureBoard>);

struct CaptureBoard {
    /// Moves whenever a capture starts or ends, under the lock.
    version: AtomicU64,
    running: Mutex<Vec<Arc<CaptureSession>>>,
    clock: Clock,
}

impl CaptureBoard {
    fn running(&self) -> MutexGuard<'_, Vec<Arc<CaptureSession>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner) // a list of pointers is never half changed
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<CaptureSession>>)) {
        let mut running = self.running();
        change(&mut running);
        self.version.fetch_add(1, Ordering::Relaxed); // readers take the lock before they use what it announces
    }
}

impl Default for Taps {
    /// Packets are stamped with the time since 1970-01-01 UTC.
    fn default() -> Self {
        Self::new(system_clock)
    }
}

impl Taps {
    /// Taps whose packets are stamped by this clock.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(CaptureBoard { version: AtomicU64::new(0), running: Mutex::default(), clock }))
    }

    /// Starts a capture; workers see it with their next turn. Dropping it ends it.
    ///
    /// # Errors
    /// [`TooManyCaptures`] if [`MAX_CAPTURES`] run.
    pub fn start(&self, selection: Selection) -> Result<Capture, TooManyCaptures> {
        let session = Arc::new(CaptureSession::new(selection));
        let mut refused = false;
        self.0.change(|running| {
            refused = running.len() >= MAX_CAPTURES;
            if !refused {
                running.push(Arc::clone(&session));
            }
        });
        if refused { Err(TooManyCaptures) } else { Ok(Capture::new(Arc::clone(&self.0), session)) }
    }

    /// How many captures run.
    pub fn running(&self) -> usize {
        self.0.running().len()
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.0))
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taps").field("running", &self.running()).finish()
    }
}
