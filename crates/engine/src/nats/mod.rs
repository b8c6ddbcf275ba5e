//! NATS JetStream: the engine of several machines.
//!
//! Each partition has a stream, whose sequence is the position: `PREFIX-log-N`, made when the partition is appended to
//! first. Records are the newest messages of a stream of theirs, snapshots are chunks in a third. All of them are kept in
//! files by three servers, unless set otherwise, and an append is acknowledged when most of these have it; that they have
//! it *on disk* needs `sync_interval: always` in their configuration, which cannot be asked for or seen from here.
//! `docs/engines.md` says how servers are run, `docs/adr/0015-jetstream-engine.md` why it is built this way.
//!
//! All calls may be made from any thread and any runtime: a thread of the engine's own talks to the servers. It connects
//! again by itself. While no server can be reached, or a stream has no leader, calls end with *unknown* or *unavailable*
//! after [`Options::timeout`], watches wait, and everything goes on when the servers are back. A call whose future is
//! dropped may be carried out all the same.
//!
//! What is *not* promised: a stream's leader that dies stalls its partition until another is elected, 4 to 9 seconds. A
//! leader that was cut off and does not know yet may for that long tell an older end of a log than others have seen,
//! though never one that is before what this engine saw. A batch that is sent twice while leaders change may be logged
//! twice.

mod api;
mod config;
mod link;
mod log;
mod message;
mod names;
mod options;
mod reading;
mod records;
mod runtime;
mod shared;
mod snapshots;
mod topics;
mod unsettled;
mod watch;

pub use options::{Auth, OpenError, Options, Tls, check_server, is_prefix_name};

use crate::keys::{NO_KEY, is_prefix};
use futures_core::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use runtime::Runtime;
use scalebricks_control::engine::{
    AppendError, Batch, BoxStream, Engine, EngineError, Entry, ReadError, Record, Revision, Snapshot,
    SwapError,
};
use scalebricks_types::{PartitionId, Position};
use shared::Shared;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc;
use watch::Watch;

/// What a watcher is told when the engine is dropped before he is.
const CLOSED: &str = "the engine was closed";

/// Logs kept by NATS servers.
#[derive(Debug)]
pub struct JetStream {
    shared: Arc<Shared>,
    runtime: Runtime,
}

impl JetStream {
    /// Connects to servers, checks that they are of use, and makes the streams for records and snapshots if they are not
    /// there.
    ///
    /// # Errors
    /// [`OpenError`]: they cannot be reached or used, or have streams of these names that are of another make.
    pub async fn connect(options: Options) -> Result<Self, OpenError> {
        let runtime = Runtime::start()?;
        let handle = runtime.handle().clone();
        let shared = runtime.run(async move { Shared::connect(options, &handle).await }).await;
        let shared = shared.unwrap_or_else(|| Err(OpenError::Thread("it ended".to_owned())))?;
        Ok(Self { shared: Arc::new(shared), runtime })
    }

    /// Makes the streams of these partitions if they are not there; without this each is made at its first append.
    ///
    /// # Errors
    /// [`OpenError`]: a stream cannot be made, or is there and of another make.
    pub async fn prepare(&self, partitions: impl IntoIterator<Item = PartitionId>) -> Result<(), OpenError> {
        let make = |partition| async move {
            let made = self.run(|shared| async move { shared.make_log(partition).await }).await;
            made.unwrap_or_else(|| Err(OpenError::Unavailable(CLOSED.to_owned())))
        };
        stream::iter(partitions).map(make).buffer_unordered(8).try_collect().await
    }

    async fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        task: impl FnOnce(Arc<Shared>) -> F,
    ) -> Option<T> {
        self.runtime.run(task(Arc::clone(&self.shared))).await
    }
}

fn closed<T>() -> Result<T, EngineError> {
    Err(EngineError::Unavailable(CLOSED.to_owned()))
}

fn no_log<T>() -> Result<T, ReadError> {
    Err(ReadError::Unavailable(CLOSED.to_owned()))
}

impl Engine for JetStream {
    fn append(&self, partition: PartitionId, batch: Batch) -> BoxFuture<'_, Result<Position, AppendError>> {
        Box::pin(async move {
            let done = self.run(|shared| async move { shared.append(partition, batch).await }).await;
            done.unwrap_or_else(|| Err(AppendError::Unknown(CLOSED.to_owned())))
        })
    }

    fn last(&self, partition: PartitionId) -> BoxFuture<'_, Result<Position, ReadError>> {
        Box::pin(async move {
            self.run(|shared| async move { shared.last(partition).await }).await.unwrap_or_else(no_log)
        })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, ReadError>> {
        Box::pin(async move {
            let done = self.run(|shared| async move { shared.read(partition, from, max_bytes).await }).await;
            done.unwrap_or_else(no_log)
        })
    }

    fn watch(&self, partition: PartitionId, from: Position) -> BoxStream<Result<Entry, ReadError>> {
        let (sender, receiver) = mpsc::channel(1);
        self.runtime.handle().spawn(watch::entries(Arc::clone(&self.shared), partition, from, sender));
        Box::pin(Watch::new(receiver, ReadError::Unavailable(CLOSED.to_owned())))
    }

    fn trim(&self, partition: PartitionId, below: Position) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            self.run(|shared| async move { shared.trim(partition, below).await }).await.unwrap_or_else(closed)
        })
    }

    fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let done = self.run(|shared| async move { shared.put_snapshot(partition, snapshot).await }).await;
            done.unwrap_or_else(closed)
        })
    }

    fn snapshot(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Snapshot>, EngineError>> {
        Box::pin(async move {
            self.run(|shared| async move { shared.snapshot(partition).await }).await.unwrap_or_else(closed)
        })
    }

    fn record<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, EngineError>> {
        Box::pin(async move {
            let key = key.to_owned();
            self.run(|shared| async move { shared.record(&key).await }).await.unwrap_or_else(closed)
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<'a, Result<Revision, SwapError>> {
        Box::pin(async move {
            let key = key.to_owned();
            let done = self.run(|shared| async move { shared.swap(&key, expected, value).await }).await;
            done.unwrap_or_else(|| Err(SwapError::Unknown(CLOSED.to_owned())))
        })
    }

    fn watch_records(&self, prefix: &str) -> BoxStream<Result<Record, EngineError>> {
        if !is_prefix(prefix) {
            let why = format!("a prefix is empty or ends in a dot; {NO_KEY}");
            return Box::pin(stream::iter([Err(EngineError::Refused(why))]));
        }
        let (sender, receiver) = mpsc::channel(1);
        let shared = Arc::clone(&self.shared);
        self.runtime.handle().spawn(watch::records(shared, prefix.to_owned(), sender));
        Box::pin(Watch::new(receiver, EngineError::Unavailable(CLOSED.to_owned())))
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let topic = topic.to_owned();
            self.run(|shared| async move { shared.publish(&topic, message).await })
                .await
                .unwrap_or_else(closed)
        })
    }

    fn subscribe(&self, topic: &str) -> BoxFuture<'_, Result<BoxStream<Arc<[u8]>>, EngineError>> {
        let topic = topic.to_owned();
        Box::pin(async move {
            self.run(|shared| async move { shared.subscribe(&topic).await }).await.unwrap_or_else(closed)
        })
    }
}
