//! An engine whose log a test can take away and replace, as when a server is stopped and started again with a backup.

use futures_util::future::BoxFuture;
use futures_util::stream;
use scalebricks_control::engine::{
    AppendError, Batch, BoxStream, Engine, EngineError, Entry, ReadError, Record, Revision, Snapshot,
    SwapError,
};
use scalebricks_types::{PartitionId, Position};
use std::future::poll_fn;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::thread::sleep;
use std::time::Duration;

/// Why calls fail while there is no engine.
const AWAY: &str = "the engine is being replaced";

/// Passes calls on to the current engine. While there is none they fail; streams of an engine end when it is dropped.
#[derive(Debug)]
pub struct Replaceable(RwLock<Option<Arc<dyn Engine>>>);

impl Replaceable {
    /// An engine that can be replaced.
    pub fn new(engine: impl Engine + 'static) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Some(Arc::new(engine)))))
    }

    /// Takes the engine away and closes it: waits until the last call that uses it has ended.
    pub async fn remove(&self) {
        let engine = self.0.write().unwrap_or_else(PoisonError::into_inner).take();
        while engine.as_ref().is_some_and(|engine| Arc::strong_count(engine) > 1) {
            sleep(Duration::from_millis(1));
            let mut has_yielded = false;
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    /// Puts an engine in the place of the one that was removed.
    pub fn put(&self, engine: impl Engine + 'static) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(engine));
    }

    fn get(&self) -> Option<Arc<dyn Engine>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn away() -> EngineError {
    EngineError::Unavailable(AWAY.to_owned())
}

fn unreadable() -> ReadError {
    ReadError::Unavailable(AWAY.to_owned())
}

impl Engine for Replaceable {
    fn append(&self, partition: PartitionId, batch: Batch) -> BoxFuture<'_, Result<Position, AppendError>> {
        Box::pin(async move {
            // An earlier attempt may be in the log.
            let engine = self.get().ok_or_else(|| AppendError::Unknown(AWAY.to_owned()))?;
            engine.append(partition, batch).await
        })
    }

    fn last(&self, partition: PartitionId) -> BoxFuture<'_, Result<Position, ReadError>> {
        Box::pin(async move { self.get().ok_or_else(unreadable)?.last(partition).await })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, ReadError>> {
        Box::pin(async move { self.get().ok_or_else(unreadable)?.read(partition, from, max_bytes).await })
    }

    fn watch(&self, partition: PartitionId, from: Position) -> BoxStream<Result<Entry, ReadError>> {
        match self.get() {
            Some(engine) => engine.watch(partition, from),
            None => Box::pin(stream::iter([Err(unreadable())])),
        }
    }

    fn trim(&self, partition: PartitionId, below: Position) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move { self.get().ok_or_else(away)?.trim(partition, below).await })
    }

    fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move { self.get().ok_or_else(away)?.put_snapshot(partition, snapshot).await })
    }

    fn snapshot(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Snapshot>, EngineError>> {
        Box::pin(async move { self.get().ok_or_else(away)?.snapshot(partition).await })
    }

    fn record<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, EngineError>> {
        Box::pin(async move { self.get().ok_or_else(away)?.record(key).await })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<'a, Result<Revision, SwapError>> {
        Box::pin(async move {
            let engine = self.get().ok_or_else(|| SwapError::Unknown(AWAY.to_owned()))?;
            engine.swap(key, expected, value).await
        })
    }

    fn watch_records(&self, prefix: &str) -> BoxStream<Result<Record, EngineError>> {
        match self.get() {
            Some(engine) => engine.watch_records(prefix),
            None => Box::pin(stream::iter([Err(away())])),
        }
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move { self.get().ok_or_else(away)?.publish(topic, message).await })
    }

    fn subscribe(&self, topic: &str) -> BoxFuture<'_, Result<BoxStream<Arc<[u8]>>, EngineError>> {
        let topic = topic.to_owned();
        Box::pin(async move { self.get().ok_or_else(away)?.subscribe(&topic).await })
    }
}
