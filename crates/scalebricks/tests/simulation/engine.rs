//! The log as one node reaches it: an [`Engine`] whose calls are carried out by the world, in the world's time.

use crate::simulation::hub::Hub;
use crate::simulation::log::Log;
use futures_util::future::BoxFuture;
use futures_util::stream::poll_fn;
use scalebricks_control::engine::{
    AppendError, Batch, BoxStream, Engine, EngineError, Entry, ReadError, Record, Revision, Snapshot,
    SwapError,
};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// A node's engine.
#[derive(Debug)]
pub struct SimEngine {
    pub hub: Hub,
    pub node: usize,
}

impl SimEngine {
    /// Asks; `None` if the servers do not answer.
    async fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&mut Log) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.hub.lock().log.ask(self.node, ask, |found| drop(answer.send(found)));
        answered.await.ok().flatten()
    }

    async fn used<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Log) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.ask(ask).await.ok_or_else(|| EngineError::Unavailable("no answer".to_owned()))
    }
}

fn silent() -> ReadError {
    ReadError::Unavailable("no answer".to_owned())
}

impl Engine for SimEngine {
    fn append(&self, partition: PartitionId, batch: Batch) -> BoxFuture<'_, Result<Position, AppendError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.hub.lock().log.append(self.node, partition, batch, |outcome| drop(answer.send(outcome)));
            answered.await.unwrap_or_else(|_| Err(AppendError::Unknown("gone".to_owned())))
        })
    }

    fn last(&self, partition: PartitionId) -> BoxFuture<'_, Result<Position, ReadError>> {
        Box::pin(async move {
            let asked = self.ask(move |log| log.partitions[usize::from(partition.0)].last());
            asked.await.ok_or_else(silent)
        })
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, ReadError>> {
        Box::pin(async move {
            self.ask(move |log| log.read(partition, from, max_bytes)).await.unwrap_or_else(|| Err(silent()))
        })
    }

    fn watch(&self, partition: PartitionId, from: Position) -> BoxStream<Result<Entry, ReadError>> {
        let (to, mut entries) = mpsc::unbounded_channel();
        self.hub.lock().log.watch(self.node, partition, from, to);
        Box::pin(poll_fn(move |context| entries.poll_recv(context)))
    }

    fn trim(&self, partition: PartitionId, below: Position) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move { self.used(move |log| log.trim(partition, below)).await? })
    }

    fn put_snapshot(
        &self,
        partition: PartitionId,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move { self.used(move |log| log.put_snapshot(partition, snapshot)).await })
    }

    fn snapshot(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Snapshot>, EngineError>> {
        Box::pin(async move { self.used(move |log| log.snapshot(partition)).await })
    }

    fn record<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Record>, EngineError>> {
        let key = key.to_owned();
        Box::pin(async move { self.used(move |log| log.record(&key)).await })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<Revision>,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<'a, Result<Revision, SwapError>> {
        let key = key.to_owned();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.hub.lock().log.swap(self.node, key, expected, value, |outcome| drop(answer.send(outcome)));
            answered.await.unwrap_or_else(|_| Err(SwapError::Unknown("gone".to_owned())))
        })
    }

    fn watch_records(&self, prefix: &str) -> BoxStream<Result<Record, EngineError>> {
        let (to, mut records) = mpsc::unbounded_channel();
        self.hub.lock().log.watch_records(self.node, prefix, to);
        Box::pin(poll_fn(move |context| records.poll_recv(context)))
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> BoxFuture<'a, Result<(), EngineError>> {
        let topic = topic.to_owned();
        Box::pin(async move { self.used(move |log| log.publish(&topic, &message)).await })
    }

    fn subscribe(&self, topic: &str) -> BoxFuture<'_, Result<BoxStream<Arc<[u8]>>, EngineError>> {
        let topic = topic.to_owned();
        Box::pin(async move {
            let ((to, mut messages), node) = (mpsc::unbounded_channel(), self.node);
            self.used(move |log| log.subscribe(node, &topic, to)).await?;
            let stream: BoxStream<Arc<[u8]>> = Box::pin(poll_fn(move |context| messages.poll_recv(context)));
            Ok(stream)
        })
    }
}
