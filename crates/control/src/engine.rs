//! The interface of an *engine*, which stores the control plane's logs.
//!
//! The log of a partition is the truth about its flows: an update counts as accepted when the partition's log holds it durably,
//! and everything else, RIB and GPT alike, is computed from a prefix of that log. An engine guarantees exactly this:
//!
//! 1. **Durable when acknowledged.** [`Engine::append`] resolves to a position when the batch survives the loss of power
//!    at the engine, or of a minority of its servers.
//! 2. **One order.** All readers of a partition see the same entries at the same positions, which rise by one, without
//!    holes, from 1 or from where the log was trimmed.
//! 3. **Retries do no harm.** An append whose outcome is unknown ([`AppendError::Unknown`]) may be repeated with the same
//!    [`BatchId`]. An engine that still knows it answers with the position it has. One that no longer does may log it twice.
//!    Readers ignore the second by the writers' windows in their state, so nothing depends on how far back an engine remembers.
//! 4. **Damage is reported.** Bytes that are not what was written end in [`ReadError::Damaged`] with the place.
//! 5. **Trimming is reported.** Reading below the oldest entry kept ends in [`ReadError::Trimmed`], not with a later entry.
//! 6. **A lost end is reported.** Reading from a position more than one behind the newest entry ends in [`ReadError::Ahead`]: a
//!    reader that has applied the entry before that position follows another log, for example because an old backup replaced
//!    it. An engine whose servers may lag asks until the answer cannot be that of a server that is only behind.
//!
//! Besides logs, an engine stores small records that are changed by compare-and-set, stores snapshots of partitions, and carries
//! messages that may be lost. It does not interpret payloads.

use borsh::{BorshDeserialize, BorshSerialize};
use futures_core::Stream;
use futures_core::future::BoxFuture;
use scalebricks_types::{PartitionId, Position};
use std::pin::Pin;
use std::sync::Arc;

/// Most bytes of one batch: what a message server accepts with its default settings.
pub const MAX_BATCH_BYTES: usize = 1 << 20;

/// Most bytes of a record that is changed by compare-and-set.
pub const MAX_RECORD_BYTES: usize = 64 << 10;

/// Most bytes of a record's key. Keys consist of `a` to `z`, `0` to `9`, `-` and `_`, in levels separated by `.`.
pub const MAX_KEY_BYTES: usize = 128;

/// Most bytes of a published message.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// A process that appends, in one of its lives. A later start has a higher number, drawn from a record that all processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct WriterId(pub u64);

/// The name of one batch, for all time. The numbers of a writer's batches to a partition rise, from 1. A number is not used for
/// another batch, even if the log refused the first one, so there may be gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId {
    /// The writer.
    pub writer: WriterId,
    /// Which of the writer's batches to this partition it is.
    pub number: u64,
}

/// A unit of appending: logged as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its name.
    pub id: BatchId,
    /// The contents; at most [`MAX_BATCH_BYTES`].
    pub payload: Arc<[u8]>,
}

/// A batch in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where.
    pub position: Position,
    /// The batch.
    pub batch: Batch,
}

/// A stream that is owned and may move between threads.
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send>>;

/// Why a batch has no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// It is not in the log and never will be, unless it is appended again.
    #[error("the log refused the batch: {0}")]
    Refused(String),
    /// The log may have it now or later: append it again under the same name to find out.
    #[error("it is not known whether the log has the batch: {0}")]
    Unknown(String),
    /// It is longer than [`MAX_BATCH_BYTES`].
    #[error("a batch of {0} bytes is over the limit of {MAX_BATCH_BYTES}")]
    TooLarge(usize),
}

/// Why entries cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The entry is gone; load a snapshot.
    #[error("the log of partition {} begins at position {}, above the requested one", .partition.0, .first.0)]
    Trimmed {
        /// Whose log.
        partition: PartitionId,
        /// The oldest position there is.
        first: Position,
    },
    /// The stored entry is damaged or missing.
    #[error("the log of partition {} is damaged at position {}: {what}", .partition.0, .position.0)]
    Damaged {
        /// Whose log.
        partition: PartitionId,
        /// The first position that cannot be read.
        position: Position,
        /// What is wrong, and where.
        what: String,
    },
    /// The engine cannot be reached or is broken; later it may do.
    #[error("cannot read the log: {0}")]
    Unavailable(String),
    /// The log ends before the entry that precedes the position asked for. The reader's state comes from entries that this log
    /// does not have: drop it, and load the snapshot and the log again.
    #[error("the log of partition {} ends at position {}, before the reader's position", .partition.0, .last.0)]
    Ahead {
        /// Whose log.
        partition: PartitionId,
        /// The newest position there is; 0 if there is none.
        last: Position,
    },
}

/// Why a record was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// It is at another revision than expected; `None`: it does not exist.
    #[error("the record is at revision {0:?}")]
    Conflict(Option<Revision>),
    /// It may have been changed: read it.
    #[error("it is not known whether the record was changed: {0}")]
    Unknown(String),
    /// The key or the value is not allowed, for this reason.
    #[error("invalid record: {0}")]
    Invalid(&'static str),
}

/// Why the engine did not do something that can be tried again without harm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// It cannot be reached or is broken; later it may do.
    #[error("cannot use the engine: {0}")]
    Unavailable(String),
    /// The engine never does this.
    #[error("the engine refused: {0}")]
    Refused(String),
    /// What is stored under this name is damaged.
    #[error("damaged: {0}")]
    Damaged(String),
}

/// The version of a record: rises with every change of it, and never returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: String,
    /// Its version.
    pub revision: Revision,
    /// Its value; `None`: it was deleted.
    pub value: Option<Arc<[u8]>>,
}

/// A partition's state, as it was at a position of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The position.
    pub position: Position,
    /// The state.
    pub bytes: Arc<[u8]>,
}

/// Keeps logs, records and snapshots. All methods may be called from any thread, at the same time.
pub trait Engine: Send + Sync + std::fmt::Debug {
    /// Appends a batch to a partition's log; resolves to its position when it is durable.
    ///
    /// Batches of one caller to one partition that are appended concurrently may be logged in any order.
    fn append(&self, partition: PartitionId, batch: Batch) -> BoxFuture<'_, Result<Position, AppendError>>;

    /// The position of the newest entry of a log; 0 if it never had one.
    fn last(&self, partition: PartitionId) -> BoxFuture<'_, Result<Position, ReadError>>;

    /// Entries from `from` on, in order, as many as are there and fit in about `max_bytes`, at least one; none if `from` is the
    /// position that the next entry will have. `from` 0 means the first position, 1.
    ///
    /// # Errors
    /// [`ReadError::Ahead`] if `from` is further behind the newest entry than that.
    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, ReadError>>;

    /// All entries from `from` on, those to come included. Ends after an error; the same errors as [`Self::read`].
    fn watch(&self, partition: PartitionId, from: Position) -> BoxStream<Result<Entry, ReadError>>;

    /// Drops a log's entries below a position, if the last of them is covered by a snapshot that was read back and found whole.
    /// Entries that were dropped before are no error.
    ///
    /// # Errors
    /// [`EngineError::Refused`] without such a snapshot.
    fn trim(&self, partition: PartitionId, below: Position) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Keeps a snapshot of a partition; resolves when it is durable. Older ones may go, but never the newest that is whole.
    fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<(), EngineError>>;

    /// The newest snapshot of a partition that is whole.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if there are only damaged ones.
    fn snapshot(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Snapshot>, EngineError>>;

    /// A record; `None` if there is none.
    fn record<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, EngineError>>;

    /// Sets a record to a value, or deletes it, if it is at this revision, or, for `None`, does not exist. Resolves to
    /// the new revision when that is durable.
    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<'a, Result<Revision, SwapError>>;

    /// All records whose keys begin with `prefix`, which is empty or ends with a `.`; then every change of them, in the
    /// order of their revisions, deletions included. A reader that falls behind may miss changes between two values of a
    /// record, never its newest.
    fn watch_records(&self, prefix: &str) -> BoxStream<Result<Record, EngineError>>;

    /// Sends a message to all subscribers of a topic. It may be lost, and is never changed or duplicated. Topics are named like keys.
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> BoxFuture<'a, Result<(), EngineError>>;

    /// The messages of a topic from now on. A reader that falls far behind misses some.
    fn subscribe(&self, topic: &str) -> BoxFuture<'_, Result<BoxStream<Arc<[u8]>>, EngineError>>;
}
