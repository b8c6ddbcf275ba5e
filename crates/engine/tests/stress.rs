//! Many threads on a real directory see one order without holes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use futures_util::StreamExt;
use pollster::block_on;
use scalebricks_control::engine::{Batch, BatchId, Engine, Entry, Revision, Snapshot, SwapError, WriterId};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_types::{PartitionId, Position};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const WRITERS: u64 = 8;
const BATCHES: u64 = 300;
const PARTITIONS: u16 = 2;

fn batch(writer: u64, number: u64) -> Batch {
    let payload = Arc::from(vec![(writer * 31 + number) as u8; (number * 13 % 900) as usize]);
    Batch { id: BatchId { writer: WriterId(writer), number }, payload }
}

#[test]
fn one_order_for_all() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    let engine = EmbeddedLog::open(directory.path(), options).unwrap();
    let total = WRITERS * BATCHES;
    let (seen, counted) = thread::scope(|scope| {
        let engine = &engine;
        let watchers: Vec<_> = (0..PARTITIONS)
            .flat_map(|partition| [1, 2, total / 2].map(|from| (PartitionId(partition), from)))
            .map(|(partition, from)| {
                scope.spawn(move || {
                    // No reader begins more than one entry after the newest.
                    while block_on(engine.last(partition)).unwrap().0 + 1 < from {
                        thread::yield_now();
                    }
                    let watch = engine.watch(partition, Position(from)).take((total + 1 - from) as usize);
                    let entries: Vec<Entry> = block_on(watch.map(Result::unwrap).collect());
                    (partition, from, entries)
                })
            })
            .collect();
        let appended: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut positions = Vec::new();
                    for number in 1..=BATCHES {
                        for partition in (0..PARTITIONS).map(PartitionId) {
                            let position = block_on(engine.append(partition, batch(writer, number))).unwrap();
                            if number % 7 == 0 {
                                let again = block_on(engine.append(partition, batch(writer, number)));
                                assert_eq!(again, Ok(position));
                            }
                            positions.push((partition, position, number));
                        }
                    }
                    (writer, positions)
                })
            })
            .collect();
        let counter = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        count(engine);
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let mut log = BTreeMap::new();
        for (writer, positions) in appended.into_iter().map(|thread| thread.join().unwrap()) {
            for (partition, position, number) in positions {
                assert_eq!(log.insert((partition, position), batch(writer, number)), None);
            }
        }
        assert_eq!(log.len() as u64, total * u64::from(PARTITIONS));
        let seen: Vec<_> = watchers.into_iter().map(|thread| thread.join().unwrap()).collect();
        for (partition, from, entries) in &seen {
            for (position, entry) in (*from..).map(Position).zip(entries) {
                assert_eq!(entry.position, position);
                assert_eq!(entry.batch, log[&(*partition, position)]);
            }
        }
        (seen, counter.into_inner())
    });
    let record = block_on(engine.record("counter")).unwrap().unwrap();
    assert_eq!(record.value.as_deref(), Some(&counted.to_le_bytes()[..]), "no increment is lost");
    for partition in (0..PARTITIONS).map(PartitionId) {
        let snapshot = Snapshot { position: Position(total), bytes: Arc::from([]) };
        block_on(engine.put_snapshot(partition, snapshot)).unwrap();
        block_on(engine.trim(partition, Position(total / 2))).unwrap();
    }
    drop(engine);
    let engine = EmbeddedLog::open(directory.path(), options).unwrap();
    for (partition, _, entries) in seen.iter().filter(|(_, from, _)| *from == total / 2) {
        let read = block_on(engine.read(*partition, Position(total / 2), usize::MAX)).unwrap();
        assert!(read == *entries, "what is read again is what was watched");
    }
    assert_eq!(block_on(engine.record("counter")).unwrap().unwrap(), record);
}

/// Increments a record that other threads increment, too.
fn count(engine: &EmbeddedLog) {
    let record = block_on(engine.record("counter")).unwrap();
    let (mut at, mut value): (Option<Revision>, u64) = (None, 0);
    if let Some(record) = record {
        at = Some(record.revision);
        value = u64::from_le_bytes(record.value.unwrap()[..].try_into().unwrap());
    }
    match block_on(engine.swap("counter", at, Some(Arc::from((value + 1).to_le_bytes())))) {
        Ok(_) => {}
        Err(SwapError::Conflict(_)) => count(engine),
        Err(error) => panic!("{error}"),
    }
}
