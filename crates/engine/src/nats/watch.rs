//! Watches: notifications, which may be lost, and reads.
//!
//! Servers republish the headers of each stored message. A watch receives them, and reads the stream from its position;
//! as notifications may be lost, it also reads every [`POLL_EVERY`], and after a reconnection. There are no consumers
//! at the servers, and nothing is fetched for a reader that does not read.

use super::jetstream_core::JetStreamCore;
use super::reading::{PAUSE, READ_BYTES};
use super::records::Change;
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

/// Time between reads without a notification.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// After so many notifications at once, some may have been dropped.
const MAX_QUEUED: usize = 1000;

/// A chunk of items for a watcher.
pub(super) type Chunk<T, E> = Result<Vec<T>, E>;

/// Receives notifications.
struct Notifier {
    subscriber: Subscriber,
    connections: watch::Receiver<u64>,
    /// The newest notified sequence.
    notified: u64,
    /// Whether a notification may have been missed.
    may_have_missed: bool,
}

impl Notifier {
    /// Subscribes. Waits while there is no connection.
    async fn subscribe(core: &JetStreamCore, subject: String) -> Option<Self> {
        let connections = core.connection.connections();
        let subscriber = core.connection.client.subscribe(subject).await.ok()?;
        Some(Self { subscriber, connections, notified: 0, may_have_missed: true })
    }

    /// Waits until it is time to read; `None`: the connection is closed.
    async fn wait(&mut self) -> Option<()> {
        let received = tokio::select! {
            message = self.subscriber.next() => message?,
            changed = self.connections.changed() => {
                self.may_have_missed = true;
                return changed.ok();
            }
            () = sleep(POLL_EVERY) => {
                self.may_have_missed = true;
                return Some(());
            }
        };
        self.note(&received);
        // One read serves all notifications so far.
        let mut count = 0;
        while let Some(Some(received)) = self.subscriber.next().now_or_never() {
            self.note(&received);
            count += 1;
        }
        self.may_have_missed |= count > MAX_QUEUED;
        Some(())
    }

    fn note(&mut self, message: &Message) {
        let sequence =
            message.headers.as_ref().and_then(|headers| headers.get("Nats-Sequence")?.as_str().parse().ok());
        self.notified = self.notified.max(sequence.unwrap_or(u64::MAX));
    }
}

/// Fetches entries for a watcher until it is dropped.
pub(super) async fn entries(
    core: Arc<JetStreamCore>,
    partition: PartitionId,
    from: Position,
    to: mpsc::Sender<Chunk<Entry, ReadError>>,
) {
    let log = core.log(partition);
    let mut next = from.0.max(1);
    // Since when the log has ended before the reader's position. Reported when a lagging server is no longer the
    // reason.
    let (mut ahead_since, losses) = (None, log.losses());
    let Some(mut news) = Notifier::subscribe(&core, core.names.log_news(partition)).await else { return };
    while let Ok(permit) = to.reserve().await {
        let fetched = core.fetch(&log, next, READ_BYTES, None, core.deadline()).await;
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
                    news.may_have_missed = false; // the leader has no further entry
                }
                if is_all || (!news.may_have_missed && news.notified < next) {
                    tokio::select! {
                        received = news.wait() => if received.is_none() { return },
                        () = to.closed() => return,
                    }
                }
            }
            Err(ReadError::Unavailable(_)) => sleep(PAUSE).await,
            Err(ReadError::Ahead { .. })
                if log.losses() == losses && since.elapsed() < core.options.lost_after =>
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

/// Fetches changes of records for a watcher until it is dropped.
pub(super) async fn records(
    core: Arc<JetStreamCore>,
    prefix: String,
    to: mpsc::Sender<Chunk<Record, EngineError>>,
) {
    let Some(mut news) = Notifier::subscribe(&core, core.names.record_news(&prefix)).await else { return };
    // Deletions up to here are skipped.
    let started = loop {
        match core.newest_revision(core.deadline()).await {
            Ok(newest) => break newest,
            Err(_) if to.is_closed() => return,
            Err(_) => sleep(PAUSE).await,
        }
    };
    let mut next = 1;
    while let Ok(permit) = to.reserve().await {
        match core.changes(&prefix, next, core.deadline()).await {
            Ok(changes) if changes.is_empty() => {
                drop(permit);
                tokio::select! {
                    received = news.wait() => if received.is_none() { return },
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

/// The stream of a watcher. Ends after an error; the end of the engine is an error.
pub(super) struct Watch<T, E> {
    from: mpsc::Receiver<Chunk<T, E>>,
    waiting: VecDeque<T>,
    closed: Option<E>,
}

impl<T, E> Watch<T, E> {
    /// `closed` is the error when the engine ends.
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
