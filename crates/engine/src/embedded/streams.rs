//! Readers that follow the log and the records. They hold no copy of what they have still to read: one that is slow reads
//! it from the disk, or from the records, when it comes to it.

use super::queue::Stop;
use super::shared::Shared;
use crate::keys::{NO_KEY, is_prefix};
use futures_core::Stream;
use futures_util::task::AtomicWaker;
use scalebricks_control::engine::{EngineError, Entry, ReadError, Record, Revision};
use scalebricks_types::{PartitionId, Position};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// What a reader of entries holds at the most, and one entry more.
const READ_BYTES: usize = 256 << 10;
/// Records a reader of them holds.
const READ_RECORDS: usize = 64;

/// What a reader follows.
pub(super) trait Source {
    /// A piece of it.
    type Item;
    /// Why there is no more.
    type Error;

    /// What has come since the last call; none if nothing has.
    fn more(&mut self) -> Result<VecDeque<Self::Item>, Self::Error>;

    /// That nothing will come.
    fn stopped(stop: &Stop) -> Self::Error;
}

/// A reader: all that a source has, and what comes. Ends after an error.
#[derive(Debug)]
pub(super) struct Following<S: Source> {
    shared: Arc<Shared>,
    source: S,
    buffer: VecDeque<S::Item>,
    waker: Arc<AtomicWaker>,
    is_over: bool,
}

impl<S: Source> Following<S> {
    fn new(shared: Arc<Shared>, waker: Arc<AtomicWaker>, source: S) -> Self {
        Self { shared, source, buffer: VecDeque::new(), waker, is_over: false }
    }

    fn fill(&mut self) -> Result<(), S::Error> {
        // Asked first: once it is stopped nothing comes, and what came before is still to be read.
        let stopped = self.shared.queue.stopped();
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

/// All entries of a partition.
#[derive(Debug)]
pub(super) struct Entries {
    shared: Arc<Shared>,
    partition: PartitionId,
    next: u64,
}

/// All entries of a partition from a position on.
pub(super) fn watch(shared: Arc<Shared>, partition: PartitionId, from: Position) -> Following<Entries> {
    let waker = shared.entry_listeners.listen(partition);
    let entries = Entries { shared: Arc::clone(&shared), partition, next: from.0.max(1) };
    Following::new(shared, waker, entries)
}

impl Source for Entries {
    type Item = Entry;
    type Error = ReadError;

    fn more(&mut self) -> Result<VecDeque<Entry>, ReadError> {
        let entries = self.shared.read(self.partition, Position(self.next), READ_BYTES)?;
        if let Some(last) = entries.last() {
            self.next = last.position.0 + 1;
        }
        Ok(entries.into())
    }

    fn stopped(stop: &Stop) -> ReadError {
        ReadError::Unavailable(stop.to_string())
    }
}

/// All records below a prefix, and their changes.
#[derive(Debug)]
pub(super) struct Changes {
    shared: Arc<Shared>,
    prefix: String,
    /// What was there when it began: deletions up to here are of no interest.
    started: Revision,
    /// Everything up to here was handed out; shared with the writer, which keeps deletions until all know.
    at: Arc<AtomicU64>,
}

/// All records below a prefix, and their changes.
pub(super) fn watch_records(shared: Arc<Shared>, prefix: &str) -> Following<Changes> {
    let at = shared.add_record_watcher();
    let waker = shared.record_listeners.listen(());
    let started = shared.state().records.newest();
    let changes = Changes { shared: Arc::clone(&shared), prefix: prefix.to_owned(), started, at };
    Following::new(shared, waker, changes)
}

impl Source for Changes {
    type Item = Record;
    type Error = EngineError;

    fn more(&mut self) -> Result<VecDeque<Record>, EngineError> {
        if !is_prefix(&self.prefix) {
            return Err(EngineError::Refused(format!("a prefix is empty or ends in a dot; {NO_KEY}")));
        }
        let at = Revision(self.at.load(Ordering::Relaxed));
        let state = self.shared.state();
        let (changes, up_to) = state.records.changes(&self.prefix, at, self.started, READ_RECORDS);
        self.at.store(up_to.0, Ordering::Relaxed);
        Ok(changes.into())
    }

    fn stopped(stop: &Stop) -> EngineError {
        EngineError::Unavailable(stop.to_string())
    }
}
