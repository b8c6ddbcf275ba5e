//! Changes, batched by load into the log of one partition.
//!
//! One batch of this process is under way at a time, so the log has changes in the order in which they were accepted, whatever
//! the engine does with batches that run together; what comes meanwhile is the next batch. With many partitions enough are
//! under way to keep an engine busy.

use super::event::Event;
use scalebricks_control::engine::{AppendError, Batch, BatchId, Engine, WriterId};
use scalebricks_control::record::{Change, encode};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Submissions that wait for a partition's log, at most; who comes then is turned away.
pub(super) const WAITING: usize = 8_192;

/// Changes of one batch, at most: below the engine's limit whatever keys they have.
const BATCH_CHANGES: usize = 8_192;

/// Between two tries.
const PATIENCE: Duration = Duration::from_millis(50);

/// For so long a refused batch is tried again.
const ENDURANCE: Duration = Duration::from_secs(5);

/// Changes that go together, and who waits for them.
pub(super) struct Submission {
    pub(super) changes: Vec<Change>,
    pub(super) answer: oneshot::Sender<Result<Position, String>>,
}

/// Changes that one submission may have.
pub(super) const SUBMISSION_CHANGES: usize = BATCH_CHANGES / 2;

/// Writes one partition.
pub(super) struct Writing {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) partition: PartitionId,
    pub(super) writer: WriterId,
    pub(super) submissions: mpsc::Receiver<Submission>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Writing {
    /// Writes, until nobody can submit any more.
    pub(super) async fn run(mut self) {
        let mut number = 0;
        let mut spare: Option<Submission> = None;
        loop {
            let first = match spare.take() {
                Some(submission) => submission,
                None => match self.submissions.recv().await {
                    Some(submission) => submission,
                    None => return,
                },
            };
            let (mut changes, mut waiting) = (first.changes, vec![first.answer]);
            let is_alone = changes.iter().any(Change::is_alone);
            while let Ok(next) = self.submissions.try_recv() {
                let is_apart = is_alone || next.changes.iter().any(Change::is_alone);
                if is_apart || changes.len() + next.changes.len() > BATCH_CHANGES {
                    spare = Some(next);
                    break;
                }
                changes.extend(next.changes);
                waiting.push(next.answer);
            }
            let Ok(payload) = encode(&changes) else {
                // A batch of the largest keys is half of what a log takes.
                tell(waiting, &Err("the changes are too many for a batch".to_owned()));
                continue;
            };
            number += 1;
            let id = BatchId { writer: self.writer, number };
            let logged = self.append(&Batch { id, payload: payload.into() }).await;
            // What is not in the log waits for nothing.
            let position = logged.as_ref().map_or(Position(0), |position| *position);
            let _ends = self.events.send(Event::Logged(self.partition, position, upserts(&changes))).await;
            tell(waiting, &logged);
        }
    }

    /// Appends a batch; not before its fate is known.
    async fn append(&self, batch: &Batch) -> Result<Position, String> {
        let began = Instant::now();
        loop {
            match self.engine.append(self.partition, batch.clone()).await {
                Ok(position) => return Ok(position),
                Err(AppendError::TooLarge(bytes)) => {
                    return Err(format!("a batch of {bytes} bytes is too large"));
                }
                Err(AppendError::Refused(error)) if began.elapsed() > ENDURANCE => return Err(error),
                Err(error) => tracing::debug!(partition = self.partition.0, %error, "appending once more"),
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }
}

/// Changes that may bring a key.
pub(super) fn upserts(changes: &[Change]) -> u64 {
    changes.iter().filter(|change| matches!(change, Change::Upsert(..))).count() as u64
}

fn tell(waiting: Vec<oneshot::Sender<Result<Position, String>>>, outcome: &Result<Position, String>) {
    for answer in waiting {
        let _gone = answer.send(outcome.clone());
    }
}
