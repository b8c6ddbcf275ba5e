//! NATS JetStream: the engine of several processes, on one machine or on several.
//!
//! Each partition has a stream, `PREFIX-log-N`, created at the first append; a sequence is a position. Records are the
//! newest messages of one stream, snapshots are chunks in another. Three servers store them in files, unless configured
//! otherwise. An append is acknowledged when most servers have it; that it is *on their disks* requires `sync_interval:
//! always` in their configuration, which a client can neither set nor see. `docs/engines.md` describes the operation of
//! servers, `docs/adr/0015-jetstream-engine.md` the design.
//!
//! Calls may be made from any thread and any runtime: a thread of the engine communicates with the servers and
//! reconnects. While no server can be reached, or a stream has no leader, calls return *unknown* or *unavailable* after
//! [`Options::timeout`], watches wait, and all continue when the servers are back. A call whose future is dropped may
//! still be executed.
//!
//! Limits: when a stream's leader dies, its partition stalls until another is elected, 4 to 9 seconds. A leader that
//! was cut off may report an older end of a log for that long, but never one before what this engine has seen. A batch
//! that is sent twice while leaders change may be logged twice.

mod api;
mod config;
mod connection;
mod in_doubt;
mod jetstream_core;
mod log;
mod message;
mod names;
mod options;
mod reading;
mod records;
mod runtime;
mod snapshots;
mod topics;
mod watch;

pub use options::{Auth, OpenError, Options, Tls, check_server, is_prefix_name};

use crate::keys::check_prefix;
use futures_core::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use jetstream_core::JetStreamCore;
use runtime::Runtime;
use scalebricks_control::engine::{
    AppendError, Batch, BoxStream, Engine, EngineError, Entry, ReadError, Record, Revision, Snapshot,
    SwapError,
};
use scalebricks_types::{PartitionId, Position};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc;
use watch::Watch;

/// Error of watchers that outlive the engine.
const CLOSED: &str = "the engine was closed";

/// Logs stored by NATS servers.
#[derive(Debug)]
pub struct JetStream {
    core: Arc<JetStreamCore>,
    runtime: Runtime,
}

impl JetStream {
    /// Connects to servers, checks that they are usable, and creates the streams for records and snapshots if they do
    /// not exist.
    ///
    /// # Errors
    /// [`OpenError`]: they cannot be reached or used, or have such streams with other configurations.
    pub async fn connect(options: Options) -> Result<Self, OpenError> {
        let runtime = Runtime::start()?;
        let handle = runtime.handle().clone();
        let core = runtime.run(async move { JetStreamCore::connect(options, &handle).await }).await;
        let core = core.unwrap_or_else(|| Err(OpenError::Thread("it ended".to_owned())))?;
        Ok(Self { core: Arc::new(core), runtime })
    }

    /// Creates the streams of these partitions if they do not exist; otherwise the first append of each creates it.
    ///
    /// # Errors
    /// [`OpenError`]: a stream cannot be created, or exists with another configuration.
    pub async fn prepare(&self, partitions: impl IntoIterator<Item = PartitionId>) -> Result<(), OpenError> {
        let make = |partition| async move {
            let made = self.run(|core| async move { core.make_log(partition).await }).await;
            made.unwrap_or_else(|| Err(OpenError::Unavailable(CLOSED.to_owned())))
        };
        stream::iter(partitions).map(make).buffer_unordered(8).try_collect().await
    }

    async fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        task: impl FnOnce(Arc<JetStreamCore>) -> F,
    ) -> Option<T> {
        self.runtime.run(task(Arc::clone(&self.core))).await
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
            let done = self.run(|core| async move { core.append(partition, batch).await }).await;
            done.unwrap_or_else(|| Err(AppendError::Unknown(CLOSED.to_owned())))
        })
    }

    fn last(&self, partition: PartitionId) -> BoxFuture<'_, Result<Position, ReadError>> {
        Box::pin(async move {
            self.run(|core| async move { core.last(partition).await }).await.unwrap_or_else(no_log)
        })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, ReadError>> {
        Box::pin(async move {
            let done = self.run(|core| async move { core.read(partition, from, max_bytes).await }).await;
            done.unwrap_or_else(no_log)
        })
    }

    fn watch(&self, partition: PartitionId, from: Position) -> BoxStream<Result<Entry, ReadError>> {
        let (sender, receiver) = mpsc::channel(1);
        self.runtime.handle().spawn(watch::entries(Arc::clone(&self.core), partition, from, sender));
        Box::pin(Watch::new(receiver, ReadError::Unavailable(CLOSED.to_owned())))
    }

    fn trim(&self, partition: PartitionId, below: Position) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            self.run(|core| async move { core.trim(partition, below).await }).await.unwrap_or_else(closed)
        })
    }

    fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let done = self.run(|core| async move { core.put_snapshot(partition, snapshot).await }).await;
            done.unwrap_or_else(closed)
        })
    }

    fn snapshot(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Snapshot>, EngineError>> {
        Box::pin(async move {
            self.run(|core| async move { core.snapshot(partition).await }).await.unwrap_or_else(closed)
        })
    }

    fn record<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, EngineError>> {
        Box::pin(async move {
            let key = key.to_owned();
            self.run(|core| async move { core.record(&key).await }).await.unwrap_or_else(closed)
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
            let done = self.run(|core| async move { core.swap(&key, expected, value).await }).await;
            done.unwrap_or_else(|| Err(SwapError::Unknown(CLOSED.to_owned())))
        })
    }

    fn watch_records(&self, prefix: &str) -> BoxStream<Result<Record, EngineError>> {
        if let Err(error) = check_prefix(prefix) {
            return Box::pin(stream::iter([Err(error)]));
        }
        let (sender, receiver) = mpsc::channel(1);
        let core = Arc::clone(&self.core);
        self.runtime.handle().spawn(watch::records(core, prefix.to_owned(), sender));
        Box::pin(Watch::new(receiver, EngineError::Unavailable(CLOSED.to_owned())))
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let topic = topic.to_owned();
            self.run(|core| async move { core.publish(&topic, message).await }).await.unwrap_or_else(closed)
        })
    }

    fn subscribe(&self, topic: &str) -> BoxFuture<'_, Result<BoxStream<Arc<[u8]>>, EngineError>> {
        let topic = topic.to_owned();
        Box::pin(async move {
            self.run(|core| async move { core.subscribe(&topic).await }).await.unwrap_or_else(closed)
        })
    }
}
