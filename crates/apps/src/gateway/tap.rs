//! Captures from running nodes: copies of frames at ports and of dropped packets, for whoever asks.
//!
//! A worker never waits for a capture. While none runs, a burst costs one relaxed load; while one does, a frame it
//! selects costs an allocation and a copy. Frames wait in a bounded queue, and what finds it full is lost and
//! counted. Who reads polls the queue: waking a reader would be a system call in a worker.
//!
//! ```text
//! port ─▶ Tapped ─▶ Node ─▶ Tapped ─▶ port
//!           │         └─ DropTap ─┐       by Taps::port and Taps::drops
//!           └────▶ queue ◀────────┘
//!                    └─▶ Capture          by Taps::start
//! ```

mod filter;
mod port;
mod session;

pub use filter::Filter;
pub use port::{DropTap, Tapped};
pub use session::Capture;

use scalebricks_elements::gateway::reason::DropReason;
use scalebricks_elements::gateway::role::PortRole;
use session::{Session, Watch};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Captures that may run at once.
pub const MAX_CAPTURES: usize = 4;

/// Frames that may wait for a capture's reader.
pub const QUEUE_FRAMES: usize = 8_192;

/// Their bytes, about: workers that add at the same moment may exceed it by a frame each.
pub const QUEUE_BYTES: usize = 32 << 20;

/// Which way a frame passes a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received, before the node has touched it.
    Received,
    /// Sent, as it leaves.
    Sent,
}

/// Where a frame was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// At a port.
    Port(PortRole, Direction),
    /// Where it was dropped, as it was then.
    Dropped(DropReason),
}

/// Which drops are captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropSelection {
    /// None.
    None,
    /// All.
    All,
    /// Those for these reasons.
    Of(Vec<DropReason>),
}

/// What a capture wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// At these ports,
    pub ports: Vec<PortRole>,
    /// frames received,
    pub received: bool,
    /// frames sent,
    pub sent: bool,
    /// and packets dropped,
    pub drops: DropSelection,
    /// that this filter lets through.
    pub filter: Filter,
    /// Bytes kept of each.
    pub snap_bytes: usize,
}

impl Selection {
    /// Everything.
    pub fn all() -> Self {
        Self {
            ports: PortRole::ALL.to_vec(),
            received: true,
            sent: true,
            drops: DropSelection::All,
            filter: Filter::default(),
            snap_bytes: usize::MAX,
        }
    }

    fn wants(&self, place: Place) -> bool {
        match place {
            Place::Port(role, Direction::Received) => self.received && self.ports.contains(&role),
            Place::Port(role, Direction::Sent) => self.sent && self.ports.contains(&role),
            Place::Dropped(reason) => match &self.drops {
                DropSelection::None => false,
                DropSelection::All => true,
                DropSelection::Of(reasons) => reasons.contains(&reason),
            },
        }
    }
}

/// A captured frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapFrame {
    /// Time since 1970-01-01 UTC.
    pub at: Duration,
    /// Where it was seen.
    pub place: Place,
    /// Bytes it had.
    pub original_len: usize,
    /// The bytes kept.
    pub data: Box<[u8]>,
}

/// Tells the time since 1970-01-01 UTC.
pub type Clock = fn() -> Duration;

fn system_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// As many captures run already as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_CAPTURES} captures run already")]
pub struct TooManyCaptures;

/// Where captures are started, and where ports and nodes are told of them. Clones share everything.
#[derive(Clone)]
pub struct Taps(Arc<Board>);

struct Board {
    /// Moves whenever a capture starts or ends, under the lock.
    version: AtomicU64,
    running: Mutex<Vec<Arc<Session>>>,
    clock: Clock,
}

impl Board {
    fn running(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner) // a list of pointers is never half changed
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Session>>)) {
        let mut running = self.running();
        change(&mut running);
        self.version.fetch_add(1, Ordering::Relaxed); // readers take the lock before they use what it announces
    }
}

impl Default for Taps {
    fn default() -> Self {
        Self::new(system_clock)
    }
}

impl Taps {
    /// Taps whose frames are stamped by this clock.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Board { version: AtomicU64::new(0), running: Mutex::default(), clock }))
    }

    /// Starts a capture. Dropping it ends it.
    ///
    /// # Errors
    /// [`TooManyCaptures`] if [`MAX_CAPTURES`] run.
    pub fn start(&self, selection: Selection) -> Result<Capture, TooManyCaptures> {
        let session = Arc::new(Session::new(selection));
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

    /// A port whose frames captures see. Each worker wraps its own.
    pub fn port<T>(&self, role: PortRole, port: T) -> Tapped<T> {
        Tapped::new(port, role, self.watch())
    }

    /// What a node is given, so that captures see what it drops: [`Node::watch_drops`](crate::gateway::Node::watch_drops).
    pub fn drops(&self) -> DropTap {
        DropTap::new(self.watch())
    }

    fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.0))
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taps").field("running", &self.running()).finish()
    }
}
