//! Guarantees for snapshots.

use super::Lab;
use scalebricks_control::engine::{Engine, Snapshot};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;

const P: PartitionId = PartitionId(3);

fn snapshot(position: u64, bytes: &[u8]) -> Snapshot {
    Snapshot { position: Position(position), bytes: Arc::from(bytes) }
}

/// The newest by position, not by time of storing; of the requested partition.
pub async fn the_newest_snapshot_is_returned(lab: &impl Lab) {
    let engine = lab.open().await;
    assert_eq!(engine.snapshot(P).await, Ok(None));
    for position in [5, 9, 7, 12, 3] {
        engine.put_snapshot(P, snapshot(position, &position.to_le_bytes())).await.unwrap();
    }
    engine.put_snapshot(PartitionId(4), snapshot(99, b"another's")).await.unwrap();
    assert_eq!(engine.snapshot(P).await, Ok(Some(snapshot(12, &12u64.to_le_bytes()))));
    assert_eq!(engine.snapshot(PartitionId(2)).await, Ok(None));
    engine.put_snapshot(P, snapshot(12, b"again")).await.unwrap();
    assert_eq!(engine.snapshot(P).await.unwrap().unwrap().position, Position(12));
}

/// From empty to larger than any message.
pub async fn a_snapshot_may_be_empty_or_large(lab: &impl Lab) {
    let engine = lab.open().await;
    engine.put_snapshot(P, snapshot(0, b"")).await.unwrap();
    assert_eq!(engine.snapshot(P).await, Ok(Some(snapshot(0, b""))));
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i ^ (i >> 11)) as u8).collect();
    engine.put_snapshot(P, snapshot(1, &bytes)).await.unwrap();
    assert!(engine.snapshot(P).await == Ok(Some(snapshot(1, &bytes))));
}

/// Snapshots survive reopening the engine.
pub async fn snapshots_outlive_the_engine(lab: &impl Lab) {
    for position in 1..=4 {
        let engine = lab.open().await;
        engine.put_snapshot(P, snapshot(position, b"state")).await.unwrap();
        drop(engine);
        assert_eq!(lab.open().await.snapshot(P).await, Ok(Some(snapshot(position, b"state"))));
    }
}
