//! When may memory that readers might still be reading be reused?
//!
//! There is a counter, `now`, that the writer advances each time it makes something unreachable for readers,
//! and one cell per reader: 0 while it reads nothing, else the value of `now` when it began. What was retired
//! at `now = t` is free when every cell is 0 or above `t`:
//!
//! * a cell above `t` means that the reader began with an acquire load of a `now` that the writer had
//!   advanced (with a release) after making the memory unreachable, so the reader cannot reach it;
//! * a cell of 0 means that the reader has left (the scan acquires its release store), or that its pin is
//!   ordered after the scan: both sides execute a sequentially consistent fence between their store (cell;
//!   index) and their load (index; cell), so at least one of them sees the other's store.
//!
//! A reader that stores an outdated `now` only delays the writer. Readers never wait.

use super::sync::{Arc, AtomicU64, Mutex, Ordering, fence, store_before_loads};
use crossbeam_utils::CachePadded;

const IDLE: u64 = 0;
/// The reader was dropped: this is above every epoch, so it blocks nothing.
const GONE: u64 = u64::MAX;

type Cell = Arc<CachePadded<AtomicU64>>;

/// The writer's counter and the readers' cells.
#[derive(Debug)]
pub(crate) struct Epochs {
    now: CachePadded<AtomicU64>,
    cells: Mutex<Vec<Cell>>,
}

/// One reader's cell. Readers with several tables have one each.
#[derive(Debug)]
pub(crate) struct Reader(Cell);

impl Epochs {
    pub(crate) fn new() -> Self {
        Self { now: CachePadded::new(AtomicU64::new(1)), cells: Mutex::new(Vec::new()) }
    }

    fn cells(&self) -> impl std::ops::DerefMut<Target = Vec<Cell>> + '_ {
        self.cells.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Registers a cell for a new reader.
    pub(crate) fn register(&self) -> Reader {
        let cell = Arc::new(CachePadded::new(AtomicU64::new(IDLE)));
        let mut cells = self.cells();
        cells.retain(|cell| cell.load(Ordering::Acquire) != GONE);
        cells.push(Arc::clone(&cell));
        Reader(cell)
    }

    /// Number of registered cells that are not yet removed.
    pub(crate) fn readers(&self) -> usize {
        self.cells().len()
    }

    /// Returns the tag under which something is retired. Call it after the last path to it was overwritten,
    /// from one thread at a time. It is two plain instructions: an atomic addition would wait for all stores
    /// before it.
    pub(crate) fn retire(&self) -> u64 {
        let now = self.now.load(Ordering::Relaxed);
        self.now.store(now + 1, Ordering::Release);
        now
    }

    /// Memory retired under a tag below this is read by no reader.
    pub(crate) fn safe_below(&self) -> u64 {
        fence(Ordering::SeqCst);
        let mut cells = self.cells();
        cells.retain(|cell| cell.load(Ordering::Acquire) != GONE);
        let pinned = cells.iter().map(|cell| cell.load(Ordering::Acquire)).filter(|&epoch| epoch != IDLE);
        pinned.min().unwrap_or(GONE)
    }

    /// Begins reading. Cost: one fence.
    #[inline]
    pub(crate) fn pin(&self, reader: &Reader) {
        store_before_loads(&reader.0, self.now.load(Ordering::Acquire));
    }
}

impl Reader {
    /// Ends reading.
    #[inline]
    pub(crate) fn unpin(&self) {
        self.0.store(IDLE, Ordering::Release);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.store(GONE, Ordering::Release);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_reader_holds_back_what_was_retired_since() {
        let epochs = Epochs::new();
        let (early, late) = (epochs.register(), epochs.register());
        epochs.pin(&early);
        let tag = epochs.retire();
        epochs.pin(&late);
        assert!(tag >= epochs.safe_below());
        early.unpin();
        assert!(tag < epochs.safe_below());
        late.unpin();
        drop(early);
        assert_eq!(epochs.safe_below(), GONE);
        assert_eq!(epochs.readers(), 1);
    }
}
