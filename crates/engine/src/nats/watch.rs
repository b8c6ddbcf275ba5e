//! Watching: a doorbell that may fail to ring, and reading.
//!
//! Servers republish the head of each stored message. Whoever watches hears of it, and reads the stream from where he is;
//! as bells may be lost, he also looks now and then, and when the connection was made anew. No consumers are kept at the
//! servers, and nothing is fetched for a reader who does not read.

use super::reading::{PAUSE, READ_BYTES};
use super::records::Change;
use super::shared::Shared;
use async_nats::{Message, Subscriber};
use futures_core::Stream;
use futures_util::{FutureExt, StreamExt};
use scalebricks_control::engine::{EngineError, Entry, ReadError, Record};
use scalebricks_types::{PartitionId, Position};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

/// How often one looks without being called.
const PATROL: Duration = Duration::from_secs(5);

/// After so many bells at once one was perhaps dropped.
const MANY: usize = 1000;

/// What is handed to a watcher at once.
pub(super) type Chunk<T, E> = Result<Vec<T>, E>;

/// Hears of news.
struct Bell {
    subscriber: Subscriber,
    connections: watch::Receiver<u64>,
    /// The newest sequence heard of.
    heard: u64,
    /// Whether a bell may have been missed.
    is_deaf: bool,
}

impl Bell {
    /// Begins to listen: what comes from now on is heard. Waits while there is no connection.
    async fn hang(shared: &Shared, subject: String) -> Option<Self> {
        let connections = shared.link.connections();
        let subscriber = shared.link.client.subscribe(subject).await.ok()?;
        Some(Self { subscriber, connections, heard: 0, is_deaf: true })
    }

    /// Waits until it is time to look; `None`: there will be no news any more.
    async fn wait(&mut self) -> Option<()> {
        let rang = tokio::select! {
            message = self.subscriber.next() => message?,
            changed = self.connections.changed() => {
                self.is_deaf = true;
                return changed.ok();
            }
            () = sleep(PATROL) => {
                self.is_deaf = true;
                return Some(());
            }
        };
        self.hear(&rang);
        // All that rang meanwhile is answered by the same look.
        let mut count = 0;
        while let Some(Some(rang)) = self.subscriber.next().now_or_never() {
            self.hear(&rang);
            count += 1;
        }
        self.is_deaf |= count > MANY;
        Some(())
    }

    fn hear(&mut self, message: &Message) {
        let sequence =
            message.headers.as_ref().and_then(|headers| headers.get("Nats-Sequence")?.as_str().parse().ok());
        self.heard = self.heard.max(sequence.unwrap_or(u64::MAX));
    }
}

/// Fetches entries for a watcher until he goes away.
pub(super) async fn entries(
    shared: Arc<Shared>,
    partition: PartitionId,
    from: Position,
    to: mpsc::Sender<Chunk<Entry, ReadError>>,
) {
    let log = shared.log(partition);
    let mut next = from.0.max(1);
    // Since when the log has ended before the reader's position. He is told when that is no server that lags.
    let (mut ahead_since, losses) = (None, log.losses());
    let Some(mut bell) = Bell::hang(&shared, shared.names.log_news(partition)).await else { return };
    while let Ok(permit) = to.reserve().await {
        let fetched = shared.fetch(&log, next, READ_BYTES, None, shared.deadline()).await;
        let is_ahead = matches!(fetched, Err(ReadError::Ahead { .. }));
        let since = *ahead_since.get_or_insert_with(Instant::now);
        if !is_ahead {
            ahead_since = None;
        }
        match fetched {
            Ok(entries) => {
                let is_all = entries.is_empty();
                if let Some(entry) = entries.last() {
                    next = entry.position.0 + 1;
                    permit.send(Ok(entries));
                } else {
                    drop(permit);
                    bell.is_deaf = false; // the leader said that there is nothing
                }
                if is_all || (!bell.is_deaf && bell.heard < next) {
                    tokio::select! {
                        rang = bell.wait() => if rang.is_none() { return },
                        () = to.closed() => return,
                    }
                }
            }
            Err(ReadError::Unavailable(_)) => sleep(PAUSE).await,
            Err(ReadError::Ahead { .. })
                if log.losses() == losses && since.elapsed() < shared.options.lost_after =>
            {
                sleep(PAUSE).await;
            }
            Err(error) => {
                permit.send(Err(error));
                return;
            }
        }
    }
}

/// Fetches changes of records for a watcher until he goes away.
pub(super) async fn records(
    shared: Arc<Shared>,
    prefix: String,
    to: mpsc::Sender<Chunk<Record, EngineError>>,
) {
    let Some(mut bell) = Bell::hang(&shared, shared.names.record_news(&prefix)).await else { return };
    // Deletions up to here are of no interest.
    let started = loop {
        match shared.newest_revision(shared.deadline()).await {
            Ok(newest) => break newest,
            Err(_) if to.is_closed() => return,
            Err(_) => sleep(PAUSE).await,
        }
    };
    let mut next = 1;
    while let Ok(permit) = to.reserve().await {
        match shared.changes(&prefix, next, shared.deadline()).await {
            Ok(changes) if changes.is_empty() => {
                drop(permit);
                tokio::select! {
                    rang = bell.wait() => if rang.is_none() { return },
                    () = to.closed() => return,
                }
            }
            Ok(changes) => {
                next = changes.iter().map(Change::revision).max().unwrap_or(next) + 1;
                let is_wanted = |record: &Record| record.value.is_some() || record.revision.0 > started;
                match changes.into_iter().map(Change::into_record).collect::<Result<Vec<_>, _>>() {
                    Ok(mut records) => {
                        records.retain(is_wanted);
                        permit.send(Ok(records));
                    }
                    Err(error) => {
                        permit.send(Err(error));
                        return;
                    }
                }
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// What a watcher reads. Ends after an error; if the engine goes away, that is one.
pub(super) struct Watch<T, E> {
    from: mpsc::Receiver<Chunk<T, E>>,
    waiting: VecDeque<T>,
    closed: Option<E>,
}

impl<T, E> Watch<T, E> {
    /// `closed` is told if the engine goes away.
    pub(super) fn new(from: mpsc::Receiver<Chunk<T, E>>, closed: E) -> Self {
        Self { from, waiting: VecDeque::new(), closed: Some(closed) }
    }
}

impl<T: Unpin, E: Unpin> Stream for Watch<T, E> {
    type Item = Result<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.waiting.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            if self.closed.is_none() {
                return Poll::Ready(None);
            }
            match self.from.poll_recv(context) {
                Poll::Ready(Some(Ok(items))) => self.waiting = items.into(),
                Poll::Ready(Some(Err(error))) => {
                    self.closed = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => return Poll::Ready(self.closed.take().map(Err)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
