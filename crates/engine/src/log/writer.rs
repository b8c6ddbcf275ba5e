//! Appends one batch after another to the log of a partition.
//!
//! **A number is used for one batch only, even if the log refused that batch.** [`Engine`] names a batch by its
//! [`BatchId`] and does not compare payloads:
//!
//! - A batch of unknown outcome may be in the log, or may still arrive. It is retried under its own number until the
//!   engine answers. A second attempt then gets the position of the first, or readers void it.
//! - A refused batch is not in the log, and stays out *unless it is appended again under that number*. If the next
//!   batch took the number, the engine could not tell the two apart: a late first attempt could answer for the second
//!   payload, whose changes would be acknowledged and lost.
//! - Engines remember the numbers that they were sent. Over a network, a repeated number that is refused again is
//!   reported as unknown, since the first attempt may be in the log. The writer would retry it without end.
//! - Gaps cost nothing: readers keep the numbers that they have seen, not a count.

use scalebricks_control::engine::{AppendError, Batch, BatchId, Engine, WriterId};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// When a [`LogWriter`] tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// Time between two attempts.
    pub retry: Duration,
    /// For so long, from the first attempt, a refused batch is tried again. Zero: it is tried once.
    pub retry_refused_for: Duration,
}

/// A batch is not in the log and never will be; says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotLogged(pub String);

/// Appends batches to the log of one partition, each after the outcome of the one before is known.
#[derive(Debug)]
pub struct LogWriter {
    engine: Arc<dyn Engine>,
    partition: PartitionId,
    options: WriterOptions,
    /// The number of the last batch.
    number: u64,
}

impl LogWriter {
    /// A writer whose first batch has number 1.
    pub fn new(engine: Arc<dyn Engine>, partition: PartitionId, options: WriterOptions) -> Self {
        Self { engine, partition, options, number: 0 }
    }

    /// Appends a batch; returns when its outcome is known, with its name and position.
    ///
    /// # Errors
    /// [`NotLogged`].
    pub async fn append(
        &mut self,
        writer: WriterId,
        payload: Arc<[u8]>,
    ) -> Result<(BatchId, Position), NotLogged> {
        self.number += 1;
        let id = BatchId { writer, number: self.number };
        let batch = Batch { id, payload };
        let (partition, first) = (self.partition.0, Instant::now());
        let mut is_in_doubt = false;
        loop {
            match self.engine.append(self.partition, batch.clone()).await {
                Ok(position) => return Ok((id, position)),
                Err(AppendError::Refused(why)) if first.elapsed() >= self.options.retry_refused_for => {
                    return Err(NotLogged(why));
                }
                Err(error @ AppendError::TooLarge(_)) => return Err(NotLogged(error.to_string())),
                Err(error @ AppendError::Unknown(_)) if !is_in_doubt => {
                    is_in_doubt = true;
                    tracing::warn!(partition, %error, "a batch may be in the log; appending it again");
                }
                Err(error) => tracing::debug!(partition, %error, "appending a batch again"),
            }
            tokio::time::sleep(self.options.retry).await;
        }
    }
}
