//! Readers that follow the log and the records. They hold no copy of what they have still to read: one that is slow reads
//! it from the disk, or from the records, when it comes to it.

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

/// All entries of a partition.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    partition: PartitionId,
    next: u64,
    buffer: VecDeque<Entry>,
    waker: Arc<AtomicWaker>,
    is_over: bool,
}

impl Watch {
    pub(super) fn new(shared: Arc<Shared>, partition: PartitionId, from: Position) -> Self {
        let waker = shared.entry_listeners.listen(partition);
        Self { shared, partition, next: from.0.max(1), buffer: VecDeque::new(), waker, is_over: false }
    }

    fn fill(&mut self) -> Result<(), ReadError> {
        // Asked first: once it is stopped nothing comes, and what came before is still to be read.
        let stopped = self.shared.queue.stopped();
        self.buffer = self.shared.read(self.partition, Position(self.next), READ_BYTES)?.into();
        match stopped {
            Some(stop) if self.buffer.is_empty() => Err(ReadError::Unavailable(stop.to_string())),
            _ => Ok(()),
        }
    }
}

impl Stream for Watch {
    type Item = Result<Entry, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.buffer.is_empty() && !self.is_over {
            self.waker.register(context.waker());
            if let Err(error) = self.fill() {
                self.is_over = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
        match self.buffer.pop_front() {
            Some(entry) => {
                self.next = entry.position.0 + 1;
                Poll::Ready(Some(Ok(entry)))
            }
            None if self.is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// All records below a prefix, and their changes.
#[derive(Debug)]
pub(super) struct WatchRecords {
    shared: Arc<Shared>,
    prefix: String,
    /// What was there when it began: deletions up to here are of no interest.
    started: Revision,
    /// Everything up to here was taken into the buffer; shared with the writer, which keeps deletions until all know.
    at: Arc<AtomicU64>,
    buffer: VecDeque<Record>,
    waker: Arc<AtomicWaker>,
    is_over: bool,
}

impl WatchRecords {
    pub(super) fn new(shared: Arc<Shared>, prefix: &str) -> Self {
        let at = shared.add_record_watcher();
        let waker = shared.record_listeners.listen(());
        let started = shared.state().records.newest();
        let prefix = prefix.to_owned();
        Self { shared, prefix, started, at, buffer: VecDeque::new(), waker, is_over: false }
    }

    fn fill(&mut self) -> Result<(), EngineError> {
        if !is_prefix(&self.prefix) {
            return Err(EngineError::Refused(format!("a prefix is empty or ends in a dot; {NO_KEY}")));
        }
        let stopped = self.shared.queue.stopped();
        let at = Revision(self.at.load(Ordering::Relaxed));
        {
            let state = self.shared.state();
            let (changes, up_to) = state.records.changes(&self.prefix, at, self.started, READ_RECORDS);
            self.buffer = changes.into();
            self.at.store(up_to.0, Ordering::Relaxed);
        }
        match stopped {
            Some(stop) if self.buffer.is_empty() => Err(EngineError::Unavailable(stop.to_string())),
            _ => Ok(()),
        }
    }
}

impl Stream for WatchRecords {
    type Item = Result<Record, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.buffer.is_empty() && !self.is_over {
            self.waker.register(context.waker());
            if let Err(error) = self.fill() {
                self.is_over = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
        match self.buffer.pop_front() {
            Some(record) => Poll::Ready(Some(Ok(record))),
            None if self.is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
