//! A local write-ahead log: the engine of a single process.
//!
//! One log holds all partitions and records, in segment files of one directory. Requests that arrive during an fsync
//! are written by one write and made durable by the next fsync, so the rate of fsyncs bounds the latency of an append,
//! and not the number of appends. One thread writes, another stores snapshots; no runtime is needed. Entries are read
//! from files in the caller's thread, mostly from the system's cache. `docs/adr/0013-embedded-log.md` has the format
//! and the rules of recovery.
//!
//! Limits: in a log that was not closed, damage to the newest group looks like a group that a crash left half written,
//! and is cut off like one. A closed log ends with a mark and has no such group. The log exists once: it does not
//! survive the loss of its disk.

mod check;
mod frame;
mod group_commit;
mod jobs;
mod listeners;
mod log_core;
pub mod memory;
mod options;
mod queue;
mod records;
mod recover;
mod snapshots;
mod state;
pub mod storage;
mod streams;
mod tail;
mod topics;
mod writer;

pub use check::{CheckReport, Damage, PartitionReport, SnapshotReport, check, check_on};
pub use options::{OpenError, OpenReport, Options, Torn};

use crate::keys::{check_key, check_message, check_swap, check_topic};
use crate::writers::Memory;
use futures_channel::oneshot;
use futures_core::future::BoxFuture;
use jobs::Jobs;
use log_core::LogCore;
use queue::{Rejected, Request, Stop};
use scalebricks_control::engine::{
    AppendError, Batch, BoxStream, Engine, EngineError, Entry, MAX_BATCH_BYTES, ReadError, Record, Revision,
    Snapshot, SwapError,
};
use scalebricks_types::{PartitionId, Position};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use storage::{Directory, Storage};

/// The log of one directory. Dropping it writes the waiting requests, marks the log as closed, and releases the
/// directory.
#[derive(Debug)]
pub struct EmbeddedLog {
    core: Arc<LogCore>,
    jobs: Jobs,
    writer: Option<JoinHandle<()>>,
    report: OpenReport,
    // Declared last, and separate from the directory, which streams may hold for longer.
    _lock: Option<storage::DirectoryLock>,
}

impl EmbeddedLog {
    /// Opens the log in a directory, or creates one.
    ///
    /// Reads every segment, about as fast as the disk allows; needs 12 bytes of memory per entry.
    ///
    /// # Errors
    /// [`OpenError`]: another process has the directory open, or the log is damaged before its end.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        let path = directory.display().to_string();
        let (directory, lock) = Directory::lock(directory).map_err(|error| match error {
            None => OpenError::InUse(path.clone()),
            Some(source) => OpenError::io("open", &path)(source),
        })?;
        Self::start(Arc::new(directory), options, Some(lock))
    }

    /// Opens the log in a storage that no one else uses.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: Options) -> Result<Self, OpenError> {
        Self::start(storage, options, None)
    }

    fn start(
        storage: Arc<dyn Storage>,
        options: Options,
        lock: Option<storage::DirectoryLock>,
    ) -> Result<Self, OpenError> {
        options.check()?;
        let recovered = recover::recover(&storage, &options)?;
        let mut report = recovered.report;
        let snapshots = snapshots::Snapshots::open(&storage, &mut report.removed)?;
        let core = Arc::new(LogCore::new(storage, options, recovered.state, snapshots));
        let jobs = Jobs::start().map_err(OpenError::io("start a thread for", "snapshots"))?;
        let writer = {
            let core = Arc::clone(&core);
            std::thread::Builder::new()
                .name("log-writer".to_owned())
                .spawn(move || writer::run(&core, recovered.tail))
                .map_err(OpenError::io("start a thread for", "the log"))?
        };
        Ok(Self { core, jobs, writer: Some(writer), report, _lock: lock })
    }

    /// What opening found.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// The result for a batch that the queue rejected. It is refused only if no earlier attempt can be in the log.
    fn rejected(
        &self,
        partition: PartitionId,
        batch: &Batch,
        rejected: Rejected,
    ) -> Result<Position, AppendError> {
        let state = self.core.state();
        let memory = state.partitions.get(&partition).map_or(Memory::New, |log| log.writers.find(batch.id));
        let full = || format!("{} bytes already wait for the disk", self.core.queue.limit_bytes());
        match (rejected, memory) {
            (_, Memory::Known(position)) => Ok(position),
            (Rejected::Full { is_waiting: false }, Memory::New) => Err(AppendError::Refused(full())),
            (Rejected::Full { .. }, _) => Err(AppendError::Unknown(full())),
            (Rejected::Stopped(stop), _) => Err(AppendError::Unknown(stop.to_string())),
        }
    }

    async fn append_batch(&self, partition: PartitionId, batch: Batch) -> Result<Position, AppendError> {
        if batch.payload.len() > MAX_BATCH_BYTES {
            return Err(AppendError::TooLarge(batch.payload.len()));
        }
        let (reply, answer) = oneshot::channel();
        let request = Request::Append { partition, batch: batch.clone(), reply };
        if let Err(rejected) = self.core.queue.push(request) {
            return self.rejected(partition, &batch, rejected);
        }
        answer.await.unwrap_or_else(|_| Err(AppendError::Unknown(self.stopped())))
    }

    async fn swap_record(
        &self,
        key: &str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> Result<Revision, SwapError> {
        check_swap(key, value.as_deref())?;
        let (reply, answer) = oneshot::channel();
        let request = Request::Swap { key: key.to_owned(), expected, value, reply };
        match self.core.queue.push(request) {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(SwapError::Unknown(self.stopped()))),
            Err(Rejected::Full { .. }) => Err(SwapError::Unknown("too much waits for the disk".to_owned())),
            Err(Rejected::Stopped(stop)) => Err(SwapError::Unknown(stop.to_string())),
        }
    }

    async fn trim_below(&self, partition: PartitionId, below: Position) -> Result<(), EngineError> {
        let below = {
            let state = self.core.state();
            let Some(log) = state.partitions.get(&partition) else { return Ok(()) };
            if below.0 <= log.floor() {
                return Ok(());
            }
            Position(below.0.min(log.next()))
        };
        let last = Position(below.0 - 1);
        let core = Arc::clone(&self.core);
        match self.jobs.run(move || core.snapshots.has_whole(partition, last)).await {
            Some(Ok(true)) => {}
            Some(Err(error)) => return Err(error),
            Some(Ok(false)) => {
                let why = format!("no whole snapshot of partition {} holds entry {}", partition.0, last.0);
                return Err(EngineError::Refused(why));
            }
            None => return Err(busy()),
        }
        let (reply, answer) = oneshot::channel();
        match self.core.queue.push(Request::Trim { partition, below, reply }) {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(EngineError::Unavailable(self.stopped()))),
            Err(Rejected::Full { .. }) => {
                Err(EngineError::Unavailable("too much waits for the disk".to_owned()))
            }
            Err(Rejected::Stopped(stop)) => Err(EngineError::Unavailable(stop.to_string())),
        }
    }

    fn stopped(&self) -> String {
        self.core.queue.stopped().unwrap_or(Stop::Closed).to_string()
    }
}

fn busy() -> EngineError {
    EngineError::Unavailable("too many snapshots wait to be written or read".to_owned())
}

impl Drop for EmbeddedLog {
    fn drop(&mut self) {
        self.jobs.finish();
        self.core.stop(Stop::Closed);
        if let Some(writer) = self.writer.take() {
            drop(writer.join()); // after a panic all waiting callers have their errors
        }
        // Wakes streams that were pending while the last entries were written.
        self.core.stop(Stop::Closed);
        self.core.topics.close();
    }
}

impl Engine for EmbeddedLog {
    fn append(&self, partition: PartitionId, batch: Batch) -> BoxFuture<'_, Result<Position, AppendError>> {
        Box::pin(self.append_batch(partition, batch))
    }

    fn last(&self, partition: PartitionId) -> BoxFuture<'_, Result<Position, ReadError>> {
        Box::pin(async move {
            let state = self.core.state();
            Ok(Position(state.partitions.get(&partition).map_or(0, |log| log.next() - 1)))
        })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, ReadError>> {
        Box::pin(async move { self.core.read(partition, from, max_bytes) })
    }

    fn watch(&self, partition: PartitionId, from: Position) -> BoxStream<Result<Entry, ReadError>> {
        Box::pin(streams::watch(Arc::clone(&self.core), partition, from))
    }

    fn trim(&self, partition: PartitionId, below: Position) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.trim_below(partition, below))
    }

    fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let core = Arc::clone(&self.core);
            self.jobs.run(move || core.snapshots.put(partition, &snapshot)).await.ok_or_else(busy)?
        })
    }

    fn snapshot(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Snapshot>, EngineError>> {
        Box::pin(async move {
            let core = Arc::clone(&self.core);
            self.jobs.run(move || core.snapshots.newest(partition)).await.ok_or_else(busy)?
        })
    }

    fn record<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, EngineError>> {
        Box::pin(async move {
            check_key(key)?;
            Ok(self.core.state().records.get(key))
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<'a, Result<Revision, SwapError>> {
        Box::pin(self.swap_record(key, expected, value))
    }

    fn watch_records(&self, prefix: &str) -> BoxStream<Result<Record, EngineError>> {
        Box::pin(streams::watch_records(Arc::clone(&self.core), prefix))
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            check_message(topic, &message)?;
            self.core.topics.publish(topic, &message);
            Ok(())
        })
    }

    fn subscribe(&self, topic: &str) -> BoxFuture<'_, Result<BoxStream<Arc<[u8]>>, EngineError>> {
        // Subscribed at the call, so that no later message is missed.
        let subscription = check_topic(topic).map(|()| self.core.topics.subscribe(topic));
        Box::pin(async move { Ok(Box::pin(subscription?) as BoxStream<Arc<[u8]>>) })
    }
}
