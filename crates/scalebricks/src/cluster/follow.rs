//! A partition that is this node's: its snapshot, and then its log, handed to the agent.

use super::event::Event;
use super::rib::{Reading, RibError};
use futures_util::StreamExt;
use scalebricks_control::engine::ReadError;
use scalebricks_types::{PartitionId, Position};
use std::time::Duration;
use tokio::sync::mpsc;

/// Entries handed over together, at most.
const TOGETHER: usize = 256;

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
    /// Nobody listens any more.
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
            let entries = self.reading.engine.watch(self.partition, Position(position.0 + 1));
            let mut entries = entries.ready_chunks(TOGETHER);
            while let Some(chunk) = entries.next().await {
                let mut error = None;
                let mut read = Vec::with_capacity(chunk.len());
                for entry in chunk {
                    match entry {
                        Ok(entry) => read.push(entry),
                        Err(other) => error = Some(other),
                    }
                }
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
                    Some(error) => return Trouble::from(&error),
                }
            }
            tokio::time::sleep(PATIENCE).await;
        }
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
            ReadError::Trimmed { .. } | ReadError::Unavailable(_) => Self::Later(error.to_string()),
        }
    }
}
