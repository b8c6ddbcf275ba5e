//! Stores snapshots of partitions for the agent.

use super::event::Event;
use scalebricks_control::engine::{Engine, Snapshot};
use scalebricks_types::PartitionId;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Stores a snapshot, and trims the log below it when the engine has read it back.
pub(super) async fn keep(
    engine: Arc<dyn Engine>,
    partition: PartitionId,
    snapshot: Snapshot,
    events: mpsc::Sender<Event>,
) {
    let position = snapshot.position;
    let kept = engine.put_snapshot(partition, snapshot).await;
    match &kept {
        Ok(()) => tracing::debug!(partition = partition.0, position = position.0, "snapshot kept"),
        Err(error) => tracing::warn!(partition = partition.0, %error, "cannot store a snapshot"),
    }
    if kept.is_ok()
        && let Err(error) = engine.trim(partition, position).await
    {
        // The next snapshot trims more.
        tracing::warn!(partition = partition.0, %error, "cannot trim the log");
    }
    let _ends = events.send(Event::Kept(partition, kept.is_ok())).await;
}
