//! Streams that follow the log and the records. They buffer little: a slow reader reads from the disk, or from the
//! records, when it continues.

use super::log_core::LogCore;
use super::queue::Stop;
use crate::keys::check_prefix;
use futures_core::Stream;
use futures_util::task::AtomicWaker;
use scalebricks_control::engine::{EngineError, Entry, ReadError, Record, Revision};
use scalebricks_types::{PartitionId, Position};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Maximum bytes that a reader of entries buffers, plus one entry.
const READ_BYTES: usize = 256 << 10;
/// Records that a reader buffers.
const READ_RECORDS: usize = 64;

/// The data that a stream follows.
pub(super) trait Source {
    /// An item of the stream.
    type Item;
    /// The error that ends the stream.
    type Error;

    /// The items since the last call.
    fn more(&mut self) -> Result<VecDeque<Self::Item>, Self::Error>;

    /// The error of a stopped log.
    fn stopped(stop: &Stop) -> Self::Error;
}

/// A stream of all existing and future items of a source. Ends after an error.
#[derive(Debug)]
pub(super) struct Following<S: Source> {
    core: Arc<LogCore>,
    source: S,
    buffer: VecDeque<S::Item>,
    waker: Arc<AtomicWaker>,
    is_over: bool,
}

impl<S: Source> Following<S> {
    fn new(core: Arc<LogCore>, waker: Arc<AtomicWaker>, source: S) -> Self {
        Self { core, source, buffer: VecDeque::new(), waker, is_over: false }
    }

    fn fill(&mut self) -> Result<(), S::Error> {
        // Read first: after the stop no items come, and those before it are still to be read.
        let stopped = self.core.queue.stopped();
        self.buffer = self.source.more()?;
        match stopped {
            Some(stop) if self.buffer.is_empty() => Err(S::stopped(&stop)),
            _ => Ok(()),
        }
    }
}

impl<S: Source<Item: Unpin> + Unpin> Stream for Following<S> {
    type Item = Result<S::Item, S::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.buffer.is_empty() && !self.is_over {
            self.waker.register(context.waker());
            if let Err(error) = self.fill() {
                self.is_over = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
        match self.buffer.pop_front() {
            Some(item) => Poll::Ready(Some(Ok(item))),
            None if self.is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Source of the entries of a partition.
#[derive(Debug)]
pub(super) struct Entries {
    core: Arc<LogCore>,
    partition: PartitionId,
    next: u64,
}

/// All entries of a partition from a position on.
pub(super) fn watch(core: Arc<LogCore>, partition: PartitionId, from: Position) -> Following<Entries> {
    let waker = core.entry_listeners.listen(partition);
    let entries = Entries { core: Arc::clone(&core), partition, next: from.0.max(1) };
    Following::new(core, waker, entries)
}

impl Source for Entries {
    type Item = Entry;
    type Error = ReadError;

    fn more(&mut self) -> Result<VecDeque<Entry>, ReadError> {
        let entries = self.core.read(self.partition, Position(self.next), READ_BYTES)?;
        if let Some(last) = entries.last() {
            self.next = last.position.0 + 1;
        }
        Ok(entries.into())
    }

    fn stopped(stop: &Stop) -> ReadError {
        ReadError::Unavailable(stop.to_string())
    }
}

/// Source of the records below a prefix, and their changes.
#[derive(Debug)]
pub(super) struct Changes {
    core: Arc<LogCore>,
    prefix: String,
    /// The newest revision at the start: deletions up to here are skipped.
    started: Revision,
    /// Changes up to here were returned; shared with the writer, which keeps deletions until all watchers have them.
    at: Arc<AtomicU64>,
}

/// All records below a prefix, and their changes.
pub(super) fn watch_records(core: Arc<LogCore>, prefix: &str) -> Following<Changes> {
    let at = core.add_record_watcher();
    let waker = core.record_listeners.listen(());
    let started = core.state().records.newest();
    let changes = Changes { core: Arc::clone(&core), prefix: prefix.to_owned(), started, at };
    Following::new(core, waker, changes)
}

impl Source for Changes {
    type Item = Record;
    type Error = EngineError;

    fn more(&mut self) -> Result<VecDeque<Record>, EngineError> {
        check_prefix(&self.prefix)?;
        let at = Revision(self.at.load(Ordering::Relaxed));
        let state = self.core.state();
        let (changes, up_to) = state.records.changes(&self.prefix, at, self.started, READ_RECORDS);
        self.at.store(up_to.0, Ordering::Relaxed);
        Ok(changes.into())
    }

    fn stopped(stop: &Stop) -> EngineError {
        EngineError::Unavailable(stop.to_string())
    }
}
