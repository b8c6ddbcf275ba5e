//! Follows the log of a partition that this node owns, for the agent.

use super::event::Event;
use super::rib::LogReader;
use scalebricks_control::engine::{Engine, ReadError};
use scalebricks_engine::log::{Follower, FollowerOptions, Step};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const OPTIONS: FollowerOptions = FollowerOptions {
    retry: Duration::from_millis(100),
    retry_damaged: Duration::from_secs(10),
    probe_after: None,
};

/// Follows one partition, and reports to the actor.
pub(super) struct PartitionFollower {
    pub(super) reading: LogReader,
    pub(super) partition: PartitionId,
    /// Counts the loads of all partitions: the actor ignores events of an earlier load of the same partition.
    pub(super) load: u64,
    pub(super) events: mpsc::Sender<Event>,
}

impl PartitionFollower {
    /// Runs until the log lost entries, or the actor ended.
    pub(super) async fn run(self) {
        let partition = self.partition;
        let mut follower = Follower::new(Arc::clone(&self.reading.engine), partition, OPTIONS);
        loop {
            let event = match follower.next().await {
                Step::Restore { snapshot, last } => match self.reading.build(partition, snapshot).await {
                    Ok(restored) => Event::Restored(self.load, Box::new(restored), last),
                    Err(error) => {
                        tracing::warn!(partition = partition.0, %error, "cannot restore the partition");
                        follower.reject_snapshot();
                        continue;
                    }
                },
                Step::Entries(entries) => Event::Entries(partition, self.load, entries),
                Step::Lost { applied, last } => {
                    tracing::error!(
                        partition = partition.0,
                        applied = applied.0,
                        last = last.0,
                        "the log lost entries that this node has applied; loading the partition again"
                    );
                    // The actor discards its state and starts another follower.
                    let _closed = self.events.send(Event::LogLost(partition, self.load, last)).await;
                    return;
                }
                Step::Fault(error) => {
                    tracing::warn!(partition = partition.0, %error, "cannot follow the partition now");
                    continue;
                }
                Step::CaughtUp => continue,
            };
            if self.events.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// Checks that a log reaches a position that a node has reported. If the engine does not answer, the agent asks again.
pub(super) async fn confirm(
    engine: Arc<dyn Engine>,
    partition: PartitionId,
    reported: Position,
    events: mpsc::Sender<Event>,
) {
    // Reads as a client that has applied that position: an engine whose servers may lag makes sure before it answers `Ahead`.
    match engine.read(partition, Position(reported.0.saturating_add(1)), 0).await {
        Ok(_) | Err(ReadError::Trimmed { .. }) => {}
        Err(ReadError::Ahead { last, .. }) => {
            let (id, at, end) = (partition.0, reported.0, last.0);
            tracing::error!(
                partition = id,
                reported = at,
                last = end,
                "the log lost entries that tables hold"
            );
            let _ends = events.send(Event::LogEnds(partition, reported, last)).await;
        }
        Err(error) => tracing::warn!(partition = partition.0, %error, "cannot check the end of the log"),
    }
}
