//! Captures from running workers: copies of packets at ports, on edges and where they are dropped.
//!
//! A worker never waits for a capture. Without a capture, a turn costs one relaxed load, and each list of packets that
//! passes an edge or port one flag check. A selected packet costs an allocation and a copy. Packets wait in a bounded
//! queue; those that find it full are lost and counted. The reader polls the queue, since waking it would be a system
//! call in a worker.
//!
//! ```text
//! port ─▶ element ─▶ edge ─▶ element ─▶ port
//!   │         └─ drop ─┐ │               │        Watch: what this worker must observe
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

/// Most captures at once.
pub const MAX_CAPTURES: usize = 4;

/// Most packets that may wait for a capture's reader.
pub const QUEUE_FRAMES: usize = 8_192;

/// Most bytes that may wait, approximately: concurrent workers may exceed it by a packet each.
pub const QUEUE_BYTES: usize = 32 << 20;

/// Which way a packet passes a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received, before an element has processed it.
    Received,
    /// Sent.
    Sent,
}

/// Where a packet was captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapturePoint {
    /// At a port of the worker, by its number.
    Port(usize, Direction),
    /// On an edge from an element.
    Edge {
        /// The element's name.
        from: Arc<str>,
        /// Its output.
        output: usize,
    },
    /// When it was dropped, with the reason's name.
    Dropped(&'static str),
}

/// Which drops are captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropSelection {
    /// None.
    None,
    /// All.
    All,
    /// Those with these reasons.
    Of(Vec<&'static str>),
}

/// A predicate on a packet's bytes.
pub trait Filter: fmt::Debug + Send + Sync {
    /// Whether a packet is wanted.
    fn matches(&self, packet: &[u8]) -> bool;
}

/// What a capture selects.
#[derive(Debug)]
pub struct Selection {
    /// Ports by number,
    pub ports: Vec<usize>,
    /// with received packets,
    pub received: bool,
    /// with sent packets,
    pub sent: bool,
    /// edges, by element and output,
    pub edges: Vec<(String, usize)>,
    /// dropped packets,
    pub drops: DropSelection,
    /// all subject to this filter,
    pub filter: Option<Box<dyn Filter>>,
    /// and the bytes kept of each packet.
    pub snap_bytes: usize,
}

impl Default for Selection {
    /// Selects nothing; keeps whole packets.
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
    /// Time of capture, by the clock of the [`Taps`].
    pub at: Duration,
    /// Where it was captured.
    pub seen: CapturePoint,
    /// Original length in bytes.
    pub original_len: usize,
    /// The bytes kept.
    pub data: Box<[u8]>,
}

/// A clock for time stamps.
pub type Clock = fn() -> Duration;

/// The time since 1970-01-01 UTC.
fn system_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The maximum number of captures is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("already running the maximum of {MAX_CAPTURES} captures")]
pub struct TooManyCaptures;

/// Starts captures and announces them to workers. Clones share their state.
#[derive(Clone)]
pub struct Taps(Arc<CaptureBoard>);

struct CaptureBoard {
    /// Incremented whenever a capture starts or ends, under the lock.
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
    /// Time stamps since 1970-01-01 UTC.
    fn default() -> Self {
        Self::new(system_clock)
    }
}

impl Taps {
    /// Taps with this clock.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(CaptureBoard { version: AtomicU64::new(0), running: Mutex::default(), clock }))
    }

    /// Starts a capture; workers see it in their next turn. Dropping it ends it.
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

    /// Number of running captures.
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
