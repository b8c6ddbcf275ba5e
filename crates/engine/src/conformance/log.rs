//! Promises about logs.

use super::{Lab, batch, fill, range, take};
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use scalebricks_control::engine::{
    AppendError, Batch, Engine, EngineError, Entry, MAX_BATCH_BYTES, ReadError, Snapshot,
};
use scalebricks_types::{PartitionId, Position};
use std::collections::BTreeSet;
use std::sync::Arc;

const P: PartitionId = PartitionId(7);
const Q: PartitionId = PartitionId(u16::MAX);
const ALL: usize = usize::MAX;

fn numbers(entries: &[Entry]) -> Vec<(u64, u64)> {
    entries.iter().map(|entry| (entry.position.0, entry.batch.id.number)).collect()
}

/// What [`numbers`] are when a partition has one writer, which did not repeat itself.
fn pairs(first: u64, last: u64) -> Vec<(u64, u64)> {
    range(first, last).into_iter().map(|n| (n, n)).collect()
}

/// A log that never had an entry says so.
pub async fn an_empty_log_is_at_position_zero(lab: &impl Lab) {
    let engine = lab.open().await;
    assert_eq!(engine.last(P).await, Ok(Position(0)));
    assert_eq!(engine.read(P, Position(0), ALL).await, Ok(vec![]));
    assert_eq!(engine.read(P, Position(1), ALL).await, Ok(vec![]));
    assert_eq!(engine.trim(P, Position(1)).await, Ok(()));
}

/// Positions of a partition are 1, 2, 3, whatever other partitions do, and entries read as they were written.
pub async fn positions_rise_by_one_and_partitions_do_not_mix(lab: &impl Lab) {
    let engine = lab.open().await;
    let payload = |partition: PartitionId, n: u64| vec![n as u8 ^ partition.0 as u8; (n * 37 % 200) as usize];
    for n in 1..=20 {
        for partition in [P, Q] {
            let batch = batch(1, n, &payload(partition, n));
            assert_eq!(engine.append(partition, batch).await, Ok(Position(n)));
            assert_eq!(engine.last(partition).await, Ok(Position(n)));
        }
    }
    for partition in [P, Q] {
        let entries = engine.read(partition, Position(0), ALL).await.unwrap();
        let entry = |n| Entry { position: Position(n), batch: batch(1, n, &payload(partition, n)) };
        assert_eq!(entries, (1..=20).map(entry).collect::<Vec<_>>());
        let entries = engine.read(partition, Position(18), ALL).await.unwrap();
        assert_eq!(numbers(&entries), [(18, 18), (19, 19), (20, 20)]);
    }
    assert_eq!(engine.last(PartitionId(0)).await, Ok(Position(0)));
}

/// A repeated batch id is the same batch, per partition and writer.
pub async fn a_retry_has_the_position_of_the_first_attempt(lab: &impl Lab) {
    let engine = lab.open().await;
    fill(&engine, P, 1, 1, 5).await;
    assert_eq!(engine.append(P, batch(1, 3, &3u64.to_le_bytes())).await, Ok(Position(3)));
    assert_eq!(engine.append(P, batch(1, 5, &5u64.to_le_bytes())).await, Ok(Position(5)));
    assert_eq!(engine.append(P, batch(2, 3, b"another writer")).await, Ok(Position(6)));
    assert_eq!(engine.append(Q, batch(1, 3, b"another partition")).await, Ok(Position(1)));
    let twins = join_all((0..8).map(|_| engine.append(P, batch(1, 6, b"at the same time")))).await;
    assert_eq!(twins, vec![Ok(Position(7)); 8]);
    assert_eq!(engine.last(P).await, Ok(Position(7)));
}

/// Concurrent appends get different positions without holes.
pub async fn appends_at_the_same_time_have_one_order(lab: &impl Lab) {
    let engine = lab.open().await;
    let appends = (0..300).map(|i| engine.append(P, batch(i % 3, i / 3 + 1, &i.to_le_bytes())));
    let positions: Vec<Position> = join_all(appends).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(positions.iter().collect::<BTreeSet<_>>().len(), 300);
    let entries = engine.read(P, Position(1), ALL).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.position.0).collect::<Vec<_>>(), range(1, 300));
    for (i, position) in (0..300u64).zip(positions) {
        let entry = &entries[position.0 as usize - 1];
        assert_eq!(*entry.batch.payload, i.to_le_bytes(), "an entry is at its acknowledged position");
    }
}

/// The largest batch is accepted, a larger one refused.
pub async fn a_batch_over_the_limit_is_refused(lab: &impl Lab) {
    let engine = lab.open().await;
    let payload = |len| Arc::<[u8]>::from(vec![0xa5; len]);
    let large = Batch { payload: payload(MAX_BATCH_BYTES + 1), ..batch(1, 1, b"") };
    assert_eq!(engine.append(P, large).await, Err(AppendError::TooLarge(MAX_BATCH_BYTES + 1)));
    assert_eq!(engine.last(P).await, Ok(Position(0)));
    let fits = Batch { payload: payload(MAX_BATCH_BYTES), ..batch(1, 1, b"") };
    assert_eq!(engine.append(P, fits.clone()).await, Ok(Position(1)));
    assert_eq!(engine.append(P, batch(1, 2, b"")).await, Ok(Position(2)), "and an empty one");
    let entries = engine.read(P, Position(1), ALL).await.unwrap();
    assert_eq!((&entries[0].batch, entries[1].batch.payload.len()), (&fits, 0));
}

/// A read returns about the requested bytes, and at least one entry.
pub async fn a_read_is_bounded_and_never_empty_handed(lab: &impl Lab) {
    let engine = lab.open().await;
    for n in 1..=100 {
        engine.append(P, batch(1, n, &[7; 1000])).await.unwrap();
    }
    assert_eq!(engine.read(P, Position(5), 0).await.unwrap().len(), 1);
    let some = engine.read(P, Position(5), 10_000).await.unwrap();
    assert!((5..=15).contains(&some.len()), "{} entries of 1,000 bytes in about 10,000", some.len());
    let (mut next, mut seen) = (1, 0);
    while next <= 100 {
        let some = engine.read(P, Position(next), 3000).await.unwrap();
        assert_eq!(some[0].position, Position(next));
        seen += some.len();
        next = some[some.len() - 1].position.0 + 1;
    }
    assert_eq!(seen, 100);
}

/// Each watch continues from existing entries to new ones without a gap.
pub async fn a_watch_reads_what_is_there_and_what_comes(lab: &impl Lab) {
    let engine = lab.open().await;
    fill(&engine, P, 1, 1, 10).await;
    let mut all = engine.watch(P, Position(0));
    let mut late = engine.watch(P, Position(8));
    let first: Vec<Entry> = take(&mut all, 10).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers(&first), pairs(1, 10));
    assert!(all.next().now_or_never().is_none(), "nothing more yet");
    engine.append(Q, batch(1, 1, b"not theirs")).await.unwrap();
    let (more, ()) = futures_util::future::join(take(&mut all, 5), fill(&engine, P, 1, 11, 15)).await;
    let more: Vec<Entry> = more.into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers(&more), pairs(11, 15));
    let late: Vec<Entry> = take(&mut late, 8).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers(&late), pairs(8, 15));
}

/// A watch from the next position gets only new entries.
pub async fn a_watch_may_begin_at_the_next_position(lab: &impl Lab) {
    let engine = lab.open().await;
    fill(&engine, P, 1, 1, 3).await;
    let mut watch = engine.watch(P, Position(4));
    assert!(watch.next().now_or_never().is_none());
    let (got, ()) = futures_util::future::join(take(&mut watch, 2), fill(&engine, P, 1, 4, 5)).await;
    let got: Vec<Entry> = got.into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers(&got), [(4, 4), (5, 5)]);
}

/// A reader beyond the next position has seen entries that are not in this log, and gets an error.
pub async fn a_reader_ahead_of_the_log_is_refused(lab: &impl Lab) {
    let ahead = |last| ReadError::Ahead { partition: P, last: Position(last) };
    let engine = lab.open().await;
    assert_eq!(engine.read(P, Position(2), ALL).await, Err(ahead(0)), "a log that never had an entry");
    fill(&engine, P, 1, 1, 3).await;
    assert_eq!(engine.read(P, Position(4), ALL).await, Ok(vec![]), "the next position");
    assert_eq!(engine.read(P, Position(u64::MAX), ALL).await, Err(ahead(3)));
    let mut watch = engine.watch(P, Position(5));
    assert_eq!(watch.next().await, Some(Err(ahead(3))));
    assert_eq!(watch.next().await, None, "an error ends a watch");
    // The same with all entries trimmed.
    put(&engine, P, 3).await;
    assert_eq!(engine.trim(P, Position(4)).await, Ok(()));
    assert_eq!(engine.read(P, Position(4), ALL).await, Ok(vec![]));
    assert_eq!(engine.read(P, Position(5), ALL).await, Err(ahead(3)));
    fill(&engine, P, 1, 4, 4).await;
    assert_eq!(engine.read(P, Position(5), ALL).await, Ok(vec![]));
}

/// A watcher that does not read does not delay appends, and later gets all entries.
pub async fn a_watcher_that_does_not_read_holds_nobody_up(lab: &impl Lab) {
    let engine = lab.open().await;
    let mut watch = engine.watch(P, Position(1));
    for n in 1..=100 {
        engine.append(P, batch(1, n, &[n as u8; 10_000])).await.unwrap();
    }
    let got: Vec<Entry> = take(&mut watch, 100).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers(&got), pairs(1, 100));
}

/// Acknowledged entries and their ids survive reopening the engine.
pub async fn the_log_outlives_the_engine(lab: &impl Lab) {
    for life in 0..3 {
        let engine = lab.open().await;
        assert_eq!(engine.last(P).await, Ok(Position(life * 10)));
        fill(&engine, P, 1, life * 10 + 1, life * 10 + 10).await;
    }
    let engine = lab.open().await;
    let entries = engine.read(P, Position(1), ALL).await.unwrap();
    assert_eq!(numbers(&entries), pairs(1, 30));
    assert_eq!(engine.append(P, batch(1, 29, &29u64.to_le_bytes())).await, Ok(Position(29)));
}

async fn put(engine: &impl Engine, partition: PartitionId, position: u64) {
    let snapshot = Snapshot { position: Position(position), bytes: Arc::from(position.to_le_bytes()) };
    assert_eq!(engine.put_snapshot(partition, snapshot).await, Ok(()));
}

/// An entry is trimmed only if a snapshot contains it.
pub async fn trimming_needs_a_snapshot(lab: &impl Lab) {
    let engine = lab.open().await;
    fill(&engine, P, 1, 1, 10).await;
    let is_refused = |result| matches!(result, Err(EngineError::Refused(_)));
    assert!(is_refused(engine.trim(P, Position(5)).await), "no snapshot");
    put(&engine, Q, 9).await;
    assert!(is_refused(engine.trim(P, Position(5)).await), "another partition's");
    put(&engine, P, 3).await;
    assert!(is_refused(engine.trim(P, Position(5)).await), "entry 4 is in none");
    assert_eq!(engine.trim(P, Position(4)).await, Ok(()));
    assert_eq!(engine.read(P, Position(4), 0).await.unwrap()[0].position, Position(4));
    assert!(is_refused(engine.trim(P, Position(5)).await));
    assert_eq!(engine.trim(P, Position(2)).await, Ok(()), "gone already");
}

/// Reads of trimmed entries return an error; positions continue, even if all entries are trimmed.
pub async fn what_is_trimmed_is_told_and_positions_go_on(lab: &impl Lab) {
    let trimmed = |first| ReadError::Trimmed { partition: P, first: Position(first) };
    {
        let engine = lab.open().await;
        fill(&engine, P, 1, 1, 10).await;
        put(&engine, P, 10).await;
        assert_eq!(engine.trim(P, Position(6)).await, Ok(()));
        assert_eq!(engine.read(P, Position(5), ALL).await, Err(trimmed(6)));
        assert_eq!(engine.read(P, Position(0), ALL).await, Err(trimmed(6)));
        let mut watch = engine.watch(P, Position(1));
        assert_eq!(watch.next().await, Some(Err(trimmed(6))));
        assert_eq!(watch.next().await, None, "an error ends a watch");
        assert_eq!(numbers(&engine.read(P, Position(6), ALL).await.unwrap())[0], (6, 6));
        assert_eq!(engine.trim(P, Position(11)).await, Ok(()));
        assert_eq!(engine.last(P).await, Ok(Position(10)));
        assert_eq!(engine.read(P, Position(10), ALL).await, Err(trimmed(11)));
        assert_eq!(engine.read(P, Position(11), ALL).await, Ok(vec![]));
    }
    let engine = lab.open().await;
    assert_eq!(engine.last(P).await, Ok(Position(10)));
    assert_eq!(engine.read(P, Position(10), ALL).await, Err(trimmed(11)));
    fill(&engine, P, 1, 11, 12).await;
    assert_eq!(numbers(&engine.read(P, Position(11), ALL).await.unwrap()), [(11, 11), (12, 12)]);
}

/// Records and their revisions survive the trimming of all entries around them.
pub async fn trimming_loses_no_record(lab: &impl Lab) {
    let newest = {
        let engine = lab.open().await;
        let kept = engine.swap("kept", None, Some(Arc::from(*b"value"))).await.unwrap();
        let gone = engine.swap("gone", None, Some(Arc::from(*b"value"))).await.unwrap();
        let newest = engine.swap("gone", Some(gone), None).await.unwrap();
        for n in 1..=100 {
            engine.append(P, batch(1, n, &[1; 10_000])).await.unwrap();
        }
        put(&engine, P, 100).await;
        assert_eq!(engine.trim(P, Position(101)).await, Ok(()));
        assert_eq!(engine.record("kept").await.unwrap().unwrap().revision, kept);
        newest
    };
    let engine = lab.open().await;
    assert_eq!(engine.record("kept").await.unwrap().unwrap().value.as_deref(), Some(&b"value"[..]));
    assert_eq!(engine.record("gone").await, Ok(None));
    let next = engine.swap("new", None, Some(Arc::from(*b"value"))).await.unwrap();
    assert!(next > newest, "{next:?} after {newest:?}");
}

/// A wholly trimmed partition keeps its position while others fill the log and are trimmed.
pub async fn an_idle_partition_keeps_its_position(lab: &impl Lab) {
    {
        let engine = lab.open().await;
        fill(&engine, P, 1, 1, 10).await;
        put(&engine, P, 10).await;
        assert_eq!(engine.trim(P, Position(11)).await, Ok(()));
        for last in [100, 200] {
            for n in last - 99..=last {
                engine.append(Q, batch(1, n, &[1; 1000])).await.unwrap();
            }
            put(&engine, Q, last).await;
            assert_eq!(engine.trim(Q, Position(last)).await, Ok(()));
        }
    }
    let engine = lab.open().await;
    assert_eq!(engine.last(P).await, Ok(Position(10)));
    fill(&engine, P, 1, 11, 11).await;
    assert_eq!(numbers(&engine.read(Q, Position(200), ALL).await.unwrap()), [(200, 200)]);
}

/// A watcher overtaken by trimming gets an error, and no entry after a gap.
pub async fn a_watch_that_is_overtaken_by_trimming_is_told(lab: &impl Lab) {
    let engine = lab.open().await;
    for n in 1..=100 {
        engine.append(P, batch(1, n, &[n as u8; 10_000])).await.unwrap();
    }
    let mut watch = engine.watch(P, Position(1));
    assert_eq!(watch.next().await.unwrap().unwrap().position, Position(1));
    put(&engine, P, 100).await;
    assert_eq!(engine.trim(P, Position(101)).await, Ok(()));
    // An engine may have fetched some or all of them before.
    for n in 2..=100 {
        match watch.next().await {
            Some(Ok(entry)) => assert_eq!(entry.position, Position(n)),
            told => {
                assert_eq!(told, Some(Err(ReadError::Trimmed { partition: P, first: Position(101) })));
                assert_eq!(watch.next().await, None);
                break;
            }
        }
    }
}
