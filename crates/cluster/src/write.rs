//! Logs one partition at its owner: calls, batched by load, and the owner's own changes.
//!
//! One batch of this process is appended at a time, so the log has calls in the order in which they were accepted, whatever the
//! engine does with concurrent batches; calls that arrive meanwhile form the next batch. Many partitions together keep an
//! engine busy. Applying the log yields the verdicts of the calls.

use super::event::Event;
use super::identity::Identity;
use scalebricks_control::calls::{MESSAGE_CHANGES, Refusal};
use scalebricks_control::engine::Engine;
use scalebricks_control::record::{Call, CallId, Change, encode, encode_calls};
use scalebricks_engine::log::{LogWriter, WriterOptions};
use scalebricks_types::PartitionId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Most messages with calls that wait for a partition's log.
pub(super) const WAITING: usize = 8_192;

const OPTIONS: WriterOptions =
    WriterOptions { retry: Duration::from_millis(50), retry_refused_for: Duration::from_secs(5) };

/// Work for the log.
pub(super) enum Work {
    /// Calls; their verdicts answer the callers.
    Calls(Vec<Call>),
    /// The owner's own changes, and the channel that is notified after the attempt.
    Own(Vec<Change>, oneshot::Sender<()>),
}

/// The task of one partition.
pub(super) struct LogTask {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) partition: PartitionId,
    pub(super) identity: Arc<Identity>,
    pub(super) work: mpsc::Receiver<Work>,
    pub(super) events: mpsc::Sender<Event>,
}

impl LogTask {
    /// Runs until all senders of work are gone.
    pub(super) async fn run(mut self) {
        let mut log = LogWriter::new(Arc::clone(&self.engine), self.partition, OPTIONS);
        let mut spare = None;
        loop {
            let next = match spare.take() {
                Some(work) => Some(work),
                None => self.work.recv().await,
            };
            let (payload, calls, own) = match next {
                None => return,
                Some(Work::Own(changes, done)) => (encode(&changes), Vec::new(), Some(done)),
                Some(Work::Calls(first)) => {
                    let (calls, other) = self.gather(first);
                    spare = other;
                    (encode_calls(&calls), calls.into_iter().map(|call| call.id).collect(), None)
                }
            };
            let refused = match payload {
                Ok(payload) => {
                    let appended = log.append(self.identity.get(), payload.into()).await;
                    appended.err().map(|error| error.to_string())
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = refused {
                self.refused(calls, why).await;
            }
            let _gone = own.map(|done| done.send(()));
        }
    }

    /// The calls of the next batch, and the work after them.
    fn gather(&mut self, mut calls: Vec<Call>) -> (Vec<Call>, Option<Work>) {
        let changes = |calls: &[Call]| calls.iter().map(|call| call.changes.len()).sum::<usize>();
        let mut all = changes(&calls);
        while let Ok(next) = self.work.try_recv() {
            match next {
                Work::Calls(next) if all + changes(&next) <= MESSAGE_CHANGES => {
                    all += changes(&next);
                    calls.extend(next);
                }
                other => return (calls, Some(other)),
            }
        }
        (calls, None)
    }

    async fn refused(&self, calls: Vec<CallId>, why: String) {
        tracing::warn!(partition = self.partition.0, why, "cannot append a batch to the log");
        if !calls.is_empty() {
            let _ends = self.events.send(Event::NotLogged(self.partition, calls, Refusal::Log(why))).await;
        }
    }
}
