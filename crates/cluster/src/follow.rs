//! A partition that is this node's: its snapshot, and then its log, handed to the agent.

use super::event::Event;
use super::rib::{Reading, RibError};
use futures_util::{FutureExt, StreamExt};
use scalebricks_control::engine::{BoxStream, Engine, Entry, ReadError};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Entries handed over together, at most.
const TOGETHER: usize = 256;

/// Bytes of their batches, at most; and one more.
const TOGETHER_BYTES: usize = 1 << 20;

/// Between two tries.
const PATIENCE: Duration = Duration::from_millis(100);

/// The same where something is damaged, and time alone does not help.
const LONG_PATIENCE: Duration = Duration::from_secs(10);

/// What is followed, for whom.
pub(super) struct Following {
    pub(super) reading: Reading,
    pub(super) partition: PartitionId,
    /// Which time of loading this is: what an earlier one still says is passed over.
    pub(super) load: u64,
    pub(super) events: mpsc::Sender<Event>,
}

/// Why it cannot go on.
enum Trouble {
    /// Nobody listens any more, or not to this.
    Closed,
    /// Later it may.
    Later(String),
    /// Something is damaged.
    Damaged(String),
}

impl Following {
    /// Follows, until nobody listens.
    pub(super) async fn run(self) {
        loop {
            let (error, patience) = match self.attempt().await {
                Trouble::Closed => return,
                Trouble::Later(error) => (error, PATIENCE),
                Trouble::Damaged(error) => (error, LONG_PATIENCE),
            };
            tracing::warn!(partition = self.partition.0, error, "a partition cannot be followed now");
            tokio::time::sleep(patience).await;
        }
    }

    async fn attempt(&self) -> Trouble {
        match self.load().await {
            Ok(position) => self.tail(position).await,
            Err(trouble) => trouble,
        }
    }

    /// Restores the newest snapshot.
    async fn load(&self) -> Result<Position, Trouble> {
        let last = self.reading.engine.last(self.partition).await.map_err(|error| Trouble::from(&error))?;
        let restored = self.reading.restore(self.partition).await.map_err(|error| Trouble::of(&error))?;
        let position = restored.position();
        let event = Event::Restored(self.load, Box::new(restored), last);
        self.events.send(event).await.map_err(|_| Trouble::Closed)?;
        Ok(position)
    }

    /// Hands over entry after entry.
    async fn tail(&self, mut position: Position) -> Trouble {
        loop {
            let mut entries = self.reading.engine.watch(self.partition, Position(position.0 + 1));
            while let Some(first) = entries.next().await {
                let (read, error) = together(first, &mut entries);
                position = read.last().map_or(position, |entry| entry.position);
                if !read.is_empty()
                    && self.events.send(Event::Entries(self.partition, self.load, read)).await.is_err()
                {
                    return Trouble::Closed;
                }
                match error {
                    None => {}
                    Some(ReadError::Unavailable(error)) => {
                        tracing::warn!(partition = self.partition.0, error, "the log cannot be read now");
                    }
                    Some(ReadError::Ahead { last, .. }) => return self.lost(position, last).await,
                    Some(error) => return Trouble::from(&error),
                }
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }

    /// The log ends before what was handed over. Whoever listens forgets that, and has the partition loaded by another of these.
    async fn lost(&self, position: Position, last: Position) -> Trouble {
        tracing::error!(
            partition = self.partition.0,
            applied = position.0,
            last = last.0,
            "the log lost entries that are applied here; the partition is loaded again"
        );
        let _ends = self.events.send(Event::LogLost(self.partition, self.load, last)).await;
        Trouble::Closed
    }
}

/// An entry and those that are ready behind it, as many as are handed over together; and what ended them.
fn together(
    first: Result<Entry, ReadError>,
    entries: &mut BoxStream<Result<Entry, ReadError>>,
) -> (Vec<Entry>, Option<ReadError>) {
    let (mut read, mut bytes, mut next) = (Vec::new(), 0, Some(first));
    while let Some(entry) = next {
        match entry {
            Ok(entry) => {
                bytes += entry.batch.payload.len();
                read.push(entry);
            }
            Err(error) => return (read, Some(error)),
        }
        let has_room = read.len() < TOGETHER && bytes < TOGETHER_BYTES;
        next = if has_room { entries.next().now_or_never().flatten() } else { None };
    }
    (read, None)
}

/// Finds out whether a log reaches a position that a node has reported. Without an answer it is asked again.
pub(super) async fn confirm(
    engine: Arc<dyn Engine>,
    partition: PartitionId,
    reported: Position,
    events: mpsc::Sender<Event>,
) {
    // Asked as a reader who has applied that position: an engine whose servers may lag makes sure before it says no.
    match engine.read(partition, Position(reported.0.saturating_add(1)), 0).await {
        Ok(_) | Err(ReadError::Trimmed { .. }) => {}
        Err(ReadError::Ahead { last, .. }) => {
            let (id, at, end) = (partition.0, reported.0, last.0);
            tracing::error!(
                partition = id,
                reported = at,
                last = end,
                "the log lost entries that are in tables"
            );
            let _ends = events.send(Event::LogEnds(partition, reported, last)).await;
        }
        Err(error) => tracing::warn!(partition = partition.0, %error, "the log cannot be read now"),
    }
}

impl Trouble {
    fn of(error: &RibError) -> Self {
        match error {
            RibError::Log(error) => Self::from(error),
            RibError::Snapshot { .. } => Self::Damaged(error.to_string()),
            RibError::TimedOut(_) | RibError::Stopping => Self::Later(error.to_string()),
        }
    }
}

impl From<&ReadError> for Trouble {
    fn from(error: &ReadError) -> Self {
        match error {
            ReadError::Damaged { .. } => Self::Damaged(error.to_string()),
            ReadError::Trimmed { .. } | ReadError::Unavailable(_) | ReadError::Ahead { .. } => {
                Self::Later(error.to_string())
            }
        }
    }
}
