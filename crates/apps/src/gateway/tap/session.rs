//! One running capture: what it selects, and the queue between workers and reader.

use super::{Board, Place, QUEUE_BYTES, QUEUE_FRAMES, Selection, TapFrame};
use crossbeam_queue::ArrayQueue;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, TryLockError};
use std::time::Duration;

/// A capture, as workers see it.
pub(super) struct Session {
    selection: Selection,
    queue: ArrayQueue<TapFrame>,
    waiting_bytes: AtomicUsize,
    lost: AtomicU64,
}

impl Session {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            queue: ArrayQueue::new(QUEUE_FRAMES),
            waiting_bytes: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// A copy of the frame, if it is wanted and there is room for it.
    pub(super) fn copy(&self, at: Duration, place: Place, frame: &[u8]) -> Option<TapFrame> {
        if !self.selection.wants(place) || !self.selection.filter.matches(frame) {
            return None;
        }
        let kept = frame.get(..self.selection.snap_bytes).unwrap_or(frame);
        let waiting = self.waiting_bytes.load(Ordering::Relaxed);
        if self.queue.is_full() || waiting.saturating_add(kept.len()) > QUEUE_BYTES {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(TapFrame { at, place, original_len: frame.len(), data: kept.into() })
    }

    /// Puts a copy in line, or loses and counts it.
    pub(super) fn push(&self, frame: TapFrame) {
        let bytes = frame.data.len();
        // Counted first: the reader may take the frame, and its bytes off, at once.
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.queue.push(frame).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A worker's view of the running captures: a copy of the list, renewed when it has changed.
pub(super) struct Watch {
    board: Arc<Board>,
    seen: u64,
    running: Vec<Arc<Session>>,
}

impl Watch {
    pub(super) fn new(board: Arc<Board>) -> Self {
        // A version that never is: the first look renews the list.
        Self { board, seen: u64::MAX, running: Vec::new() }
    }

    /// The captures that run. Cost while nothing changes: one relaxed load. Never waits: if the list is being
    /// changed at this moment, the last one is good for a burst more.
    #[inline]
    pub(super) fn running(&mut self) -> &[Arc<Session>] {
        if self.board.version.load(Ordering::Relaxed) != self.seen {
            self.renew();
        }
        &self.running
    }

    /// The captures of the last [`Watch::running`].
    pub(super) fn same(&self) -> &[Arc<Session>] {
        &self.running
    }

    #[cold]
    fn renew(&mut self) {
        let running = match self.board.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.seen = self.board.version.load(Ordering::Relaxed);
        self.running.clone_from(&running);
    }

    pub(super) fn now(&self) -> Duration {
        (self.board.clock)()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

/// A running capture, as its reader sees it. Dropping it ends it.
pub struct Capture {
    board: Arc<Board>,
    session: Arc<Session>,
}

impl Capture {
    pub(super) fn new(board: Arc<Board>, session: Arc<Session>) -> Self {
        Self { board, session }
    }

    /// The oldest frame that waits. Never blocks.
    pub fn take(&mut self) -> Option<TapFrame> {
        let frame = self.session.queue.pop()?;
        self.session.waiting_bytes.fetch_sub(frame.data.len(), Ordering::Relaxed);
        Some(frame)
    }

    /// Frames that were selected, but found the queue full.
    pub fn lost(&self) -> u64 {
        self.session.lost.load(Ordering::Relaxed)
    }

    /// What was asked for.
    pub fn selection(&self) -> &Selection {
        &self.session.selection
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.board.change(|running| running.retain(|session| !Arc::ptr_eq(session, &self.session)));
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("selection", &self.session.selection)
            .field("waiting", &self.session.queue.len())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}
