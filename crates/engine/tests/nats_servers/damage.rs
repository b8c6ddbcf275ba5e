//! Missing and changed messages on the servers are reported.

use crate::nats_servers::{prefix, servers};
use futures_util::{FutureExt, StreamExt};
use scalebricks_control::engine::{Batch, BatchId, Engine, EngineError, ReadError, Snapshot, WriterId};
use scalebricks_engine::nats::JetStream;
use scalebricks_types::{PartitionId, Position};
use serde_json::json;
use std::sync::Arc;

const P: PartitionId = PartitionId(5);

async fn append(engine: &JetStream, writer: u64, number: u64) {
    let id = BatchId { writer: WriterId(writer), number };
    engine.append(P, Batch { id, payload: Arc::from(number.to_le_bytes()) }).await.unwrap();
}

/// The servers lose a message from the middle, as with their known faults.
#[test]
fn a_hole_in_a_log_is_told() {
    let Some(cluster) = servers() else { return };
    let prefix = prefix();
    pollster::block_on(async {
        let engine = cluster.open(&prefix).await;
        for number in 1..=4 {
            append(&engine, 1, number).await;
        }
        append(&engine, 2, 1).await;
        append(&engine, 1, 5).await;
        let filter = json!({ "filter": format!("{prefix}.log.{}.2", P.0) });
        assert_eq!(cluster.ask(&format!("STREAM.PURGE.{prefix}-log-{}", P.0), &filter)["purged"], 1);
        let is_told = |error: &ReadError| matches!(error, ReadError::Damaged { partition: P, position: Position(5), what } if what.contains("missing"));
        let entries = engine.read(P, Position(1), usize::MAX).await.unwrap();
        assert_eq!(entries.len(), 4, "what is good is read");
        assert!(is_told(&engine.read(P, Position(5), usize::MAX).await.unwrap_err()));
        assert_eq!(engine.read(P, Position(6), usize::MAX).await.unwrap().len(), 1);
        let mut watch = engine.watch(P, Position(1));
        for n in 1..=4 {
            assert_eq!(watch.next().await.unwrap().unwrap().position, Position(n));
        }
        assert!(is_told(&watch.next().await.unwrap().unwrap_err()));
        assert!(watch.next().await.is_none());
    });
    cluster.remove_streams(&prefix);
}

#[test]
fn what_somebody_else_wrote_is_told() {
    let Some(cluster) = servers() else { return };
    let prefix = prefix();
    pollster::block_on(async {
        let engine = cluster.open(&prefix).await;
        append(&engine, 1, 1).await;
        cluster.publish(&format!("{prefix}.log.{}.1", P.0), "not ours");
        append(&engine, 1, 2).await;
        let told = engine.read(P, Position(2), usize::MAX).await.unwrap_err();
        assert!(matches!(told, ReadError::Damaged { position: Position(2), .. }), "{told}");
        let value: Option<Arc<[u8]>> = Some(Arc::from(*b"x"));
        engine.swap("a.b", None, value).await.unwrap();
        cluster.publish(&format!("{prefix}.record.a.b"), "not ours");
        let told = engine.record("a.b").await.unwrap_err();
        assert!(matches!(told, EngineError::Damaged(_)), "{told}");
        let told = engine.watch_records("a.").next().await.unwrap();
        assert!(matches!(told, Err(EngineError::Damaged(_))));
    });
    cluster.remove_streams(&prefix);
}

/// A stream that was deleted and created again is not accepted as the old one.
#[test]
fn a_log_that_became_shorter_is_not_believed() {
    let Some(cluster) = servers() else { return };
    let prefix = prefix();
    pollster::block_on(async {
        let engine = cluster.open(&prefix).await;
        append(&engine, 1, 1).await;
        cluster.ask(&format!("STREAM.DELETE.{prefix}-log-{}", P.0), &json!({}));
        let told = engine.last(P).await.unwrap_err();
        assert!(matches!(&told, ReadError::Unavailable(why) if why.contains("entry 1 was seen")), "{told}");
    });
    cluster.remove_streams(&prefix);
}

/// When its leader keeps reporting that, readers ahead of the log are refused.
#[test]
fn a_log_that_stays_shorter_is_believed_and_readers_ahead_of_it_are_told() {
    let Some(cluster) = servers() else { return };
    let prefix = prefix();
    pollster::block_on(async {
        let engine = cluster.open_credulous(&prefix).await;
        for number in 1..=3 {
            append(&engine, 1, number).await;
        }
        let mut watch = engine.watch(P, Position(4));
        assert!(watch.next().now_or_never().is_none());
        cluster.ask(&format!("STREAM.DELETE.{prefix}-log-{}", P.0), &json!({}));
        let other = cluster.open_credulous(&prefix).await;
        append(&other, 2, 1).await;
        let ahead = ReadError::Ahead { partition: P, last: Position(1) };
        assert_eq!(watch.next().await, Some(Err(ahead)));
        assert_eq!(watch.next().await, None);
        assert_eq!(engine.last(P).await, Ok(Position(1)));
        let entries = engine.read(P, Position(1), usize::MAX).await.unwrap();
        assert_eq!((entries.len(), entries[0].batch.id.writer.0), (1, 2), "the log as it is now");
        // A batch of the lost log is appended, not taken for a stored one.
        let again = Batch { id: BatchId { writer: WriterId(1), number: 3 }, payload: Arc::from(*b"again") };
        assert_eq!(engine.append(P, again).await, Ok(Position(2)));
    });
    cluster.remove_streams(&prefix);
}

/// A reader of trimmed entries gets an error, whichever client trimmed them.
#[test]
fn what_was_trimmed_past_the_engine_is_told() {
    let Some(cluster) = servers() else { return };
    let prefix = prefix();
    pollster::block_on(async {
        let engine = cluster.open(&prefix).await;
        for number in 1..=5 {
            append(&engine, 1, number).await;
        }
        let mut watch = engine.watch(P, Position(5));
        assert!(watch.next().await.unwrap().is_ok());
        cluster.ask(&format!("STREAM.PURGE.{prefix}-log-{}", P.0), &json!({ "seq": 4 }));
        let trimmed = ReadError::Trimmed { partition: P, first: Position(4) };
        assert_eq!(engine.read(P, Position(3), usize::MAX).await, Err(trimmed.clone()));
        assert_eq!(engine.watch(P, Position(1)).next().await, Some(Err(trimmed)));
        append(&engine, 1, 6).await;
        assert_eq!(watch.next().await.unwrap().unwrap().position, Position(6), "others do not notice");
    });
    cluster.remove_streams(&prefix);
}

#[test]
fn a_damaged_snapshot_gives_way_to_an_older_one() {
    let Some(cluster) = servers() else { return };
    let prefix = prefix();
    pollster::block_on(async {
        let engine = cluster.open(&prefix).await;
        for number in 1..=3 {
            append(&engine, 1, number).await;
        }
        let snapshot = |position| Snapshot {
            position: Position(position),
            bytes: Arc::from(vec![position as u8; 1_200_000]),
        };
        engine.put_snapshot(P, snapshot(2)).await.unwrap();
        engine.put_snapshot(P, snapshot(3)).await.unwrap();
        let purge = |filter: String| {
            let what = format!("STREAM.PURGE.{prefix}-snapshots");
            cluster.ask(&what, &json!({ "filter": filter, "keep": 1 }));
        };
        // Keeps one chunk of the newest.
        let what = json!({ "subjects_filter": format!("{prefix}.chunk.{}.>", P.0) });
        let info = cluster.ask(&format!("STREAM.INFO.{prefix}-snapshots"), &what);
        let mut chunks: Vec<_> = info["state"]["subjects"].as_object().unwrap().keys().cloned().collect();
        chunks.sort_unstable();
        assert_eq!(chunks.len(), 2);
        purge(chunks.pop().unwrap());
        assert_eq!(engine.snapshot(P).await, Ok(Some(snapshot(2))));
        assert!(matches!(engine.trim(P, Position(4)).await, Err(EngineError::Refused(_))));
        assert_eq!(engine.trim(P, Position(3)).await, Ok(()));
        purge(chunks.pop().unwrap());
        let told = engine.snapshot(P).await.unwrap_err();
        assert!(matches!(&told, EngineError::Damaged(what) if what.contains("missing or changed")), "{told}");
        engine.put_snapshot(P, snapshot(3)).await.unwrap();
        assert_eq!(engine.snapshot(P).await, Ok(Some(snapshot(3))));
    });
    cluster.remove_streams(&prefix);
}
