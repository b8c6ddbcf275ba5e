//! A running capture: its selection, and the queue between workers and reader.

use super::{CaptureBoard, CapturePoint, CapturedPacket, QUEUE_BYTES, QUEUE_FRAMES, Selection};
use crossbeam_queue::ArrayQueue;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The workers' side of a capture.
pub(super) struct CaptureSession {
    pub(super) selection: Selection,
    queue: ArrayQueue<CapturedPacket>,
    waiting_bytes: AtomicUsize,
    lost: AtomicU64,
}

impl CaptureSession {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            queue: ArrayQueue::new(QUEUE_FRAMES),
            waiting_bytes: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// A copy of a selected packet, if the filter accepts it and there is room.
    pub(super) fn copy(
        &self,
        at: Duration,
        seen: impl FnOnce() -> CapturePoint,
        packet: &[u8],
    ) -> Option<CapturedPacket> {
        if self.selection.filter.as_ref().is_some_and(|filter| !filter.matches(packet)) {
            return None;
        }
        let kept = packet.get(..self.selection.snap_bytes).unwrap_or(packet);
        let waiting = self.waiting_bytes.load(Ordering::Relaxed);
        if self.queue.is_full() || waiting.saturating_add(kept.len()) > QUEUE_BYTES {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(CapturedPacket { at, seen: seen(), original_len: packet.len(), data: kept.into() })
    }

    /// Queues a copy; if the queue is full, counts it as lost.
    pub(super) fn push(&self, frame: CapturedPacket) {
        let bytes = frame.data.len();
        // Counted first, as the reader may take the frame and subtract its bytes at once.
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.queue.push(frame).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The reader's side of a running capture. Dropping it ends it.
pub struct Capture {
    board: Arc<CaptureBoard>,
    session: Arc<CaptureSession>,
}

impl Capture {
    pub(super) fn new(board: Arc<CaptureBoard>, session: Arc<CaptureSession>) -> Self {
        Self { board, session }
    }

    /// The oldest waiting frame. Never blocks.
    pub fn take(&mut self) -> Option<CapturedPacket> {
        let frame = self.session.queue.pop()?;
        self.session.waiting_bytes.fetch_sub(frame.data.len(), Ordering::Relaxed);
        Some(frame)
    }

    /// Selected frames that were lost because the queue was full.
    pub fn lost(&self) -> u64 {
        self.session.lost.load(Ordering::Relaxed)
    }

    /// The capture's selection.
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
