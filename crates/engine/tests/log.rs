//! The follower and the writer of a log, over engines that fail or are replaced.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use crate::replaceable::Replaceable;
use scalebricks_control::engine::{BatchId, Engine, MAX_BATCH_BYTES, Snapshot, WriterId};
use scalebricks_engine::embedded::memory::MemoryDisk;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::log::{
    Fault, Follower, FollowerOptions, LoadError, LogWriter, NotLogged, Step, WriterOptions,
};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use std::time::Duration;

const P: PartitionId = PartitionId(3);
const WRITER: WriterId = WriterId(9);

const TRIED_ONCE: WriterOptions =
    WriterOptions { retry: Duration::from_millis(1), retry_refused_for: Duration::ZERO };

const OPTIONS: FollowerOptions = FollowerOptions {
    retry: Duration::from_millis(1),
    retry_damaged: Duration::from_millis(1),
    probe_after: None,
};

fn embedded(disk: &MemoryDisk) -> EmbeddedLog {
    EmbeddedLog::open_on(disk.storage(), Options::default()).unwrap()
}

fn open(disk: &MemoryDisk) -> Arc<dyn Engine> {
    Arc::new(embedded(disk))
}

fn payload(n: u8) -> Arc<[u8]> {
    Arc::from(vec![n; 100])
}

fn id(number: u64) -> BatchId {
    BatchId { writer: WRITER, number }
}

#[tokio::test]
async fn the_number_of_a_refused_batch_is_not_used_again() {
    let disk = MemoryDisk::default();
    let engine = open(&disk);
    let mut writer = LogWriter::new(Arc::clone(&engine), P, TRIED_ONCE);
    assert_eq!(writer.append(WRITER, payload(1)).await, Ok((id(1), Position(1))));
    disk.set_capacity(Some(0));
    for n in 2..4 {
        let refused = tokio::time::timeout(Duration::from_secs(60), writer.append(WRITER, payload(n))).await;
        assert!(matches!(refused, Ok(Err(NotLogged(_)))), "{refused:?}");
    }
    disk.set_capacity(None);
    assert_eq!(writer.append(WRITER, payload(4)).await, Ok((id(4), Position(2))));
    let too_large = writer.append(WRITER, vec![0; MAX_BATCH_BYTES + 1].into()).await;
    assert!(too_large.is_err_and(|NotLogged(why)| why.contains("over the limit")));
    assert_eq!(writer.append(WRITER, payload(6)).await, Ok((id(6), Position(3))));
    let entries = engine.read(P, Position(1), usize::MAX).await.unwrap();
    let logged: Vec<_> = entries.iter().map(|entry| (entry.batch.id, entry.batch.payload.clone())).collect();
    assert_eq!(logged, [1, 4, 6].map(|n: u8| (id(n.into()), payload(n))));
}

#[tokio::test]
async fn a_refused_batch_is_tried_for_a_while_under_its_number() {
    let disk = MemoryDisk::default();
    let engine = open(&disk);
    let options = WriterOptions { retry_refused_for: Duration::from_secs(60), ..TRIED_ONCE };
    let mut writer = LogWriter::new(engine, P, options);
    disk.set_capacity(Some(0));
    let room = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        disk.set_capacity(None);
    };
    let (appended, ()) = tokio::join!(writer.append(WRITER, payload(1)), room);
    assert_eq!(appended, Ok((id(1), Position(1))));
}

async fn entries(follower: &mut Follower) -> Vec<u64> {
    match follower.next().await {
        Step::Entries(entries) => entries.iter().map(|entry| entry.position.0).collect(),
        step => panic!("{step:?}"),
    }
}

async fn restored(follower: &mut Follower) -> (Option<u64>, u64) {
    match follower.next().await {
        Step::Restore { snapshot, last } => (snapshot.map(|snapshot| snapshot.position.0), last.0),
        step => panic!("{step:?}"),
    }
}

#[tokio::test]
async fn a_follower_begins_with_the_snapshot_and_goes_on_with_entries() {
    let engine = open(&MemoryDisk::default());
    let mut writer = LogWriter::new(Arc::clone(&engine), P, TRIED_ONCE);
    let mut early = Follower::new(Arc::clone(&engine), P, OPTIONS);
    assert_eq!(restored(&mut early).await, (None, 0));
    for n in 0..5 {
        writer.append(WRITER, payload(n)).await.unwrap();
    }
    assert_eq!(entries(&mut early).await, [1, 2, 3, 4, 5]);
    let snapshot = Snapshot { position: Position(4), bytes: payload(7) };
    engine.put_snapshot(P, snapshot).await.unwrap();
    engine.trim(P, Position(4)).await.unwrap();
    let mut late = Follower::new(Arc::clone(&engine), P, OPTIONS);
    assert_eq!(restored(&mut late).await, (Some(4), 5));
    // The rejected snapshot is loaded again.
    late.reject_snapshot();
    assert_eq!(restored(&mut late).await, (Some(4), 5));
    assert_eq!(entries(&mut late).await, [5]);
    writer.append(WRITER, payload(6)).await.unwrap();
    assert_eq!((entries(&mut early).await, entries(&mut late).await), (vec![6], vec![6]));
}

/// The log is trimmed above the position of a follower that has read nothing.
#[tokio::test]
async fn a_follower_that_fell_behind_a_trimmed_log_takes_the_newer_snapshot() {
    let engine = open(&MemoryDisk::default());
    let mut writer = LogWriter::new(Arc::clone(&engine), P, TRIED_ONCE);
    let mut follower = Follower::new(Arc::clone(&engine), P, OPTIONS);
    assert_eq!(restored(&mut follower).await, (None, 0));
    for n in 0..5 {
        writer.append(WRITER, payload(n)).await.unwrap();
    }
    engine.put_snapshot(P, Snapshot { position: Position(3), bytes: payload(7) }).await.unwrap();
    engine.trim(P, Position(4)).await.unwrap();
    let step = follower.next().await;
    assert!(matches!(step, Step::Fault(Fault::Read(_))), "{step:?}");
    assert_eq!(restored(&mut follower).await, (Some(3), 5));
    assert_eq!(entries(&mut follower).await, [4, 5]);
}

/// The engine is replaced by one with an older log, as when a backup is restored.
#[tokio::test]
async fn a_follower_of_a_log_that_became_shorter_begins_again() {
    let (full_disk, older_disk) = (MemoryDisk::default(), MemoryDisk::default());
    let older = open(&older_disk);
    let engine = Replaceable::new(embedded(&full_disk));
    let full: Arc<dyn Engine> = Arc::<Replaceable>::clone(&engine);
    for engine in [&full, &older] {
        let mut writer = LogWriter::new(Arc::clone(engine), P, TRIED_ONCE);
        writer.append(WRITER, payload(1)).await.unwrap();
    }
    let probing = FollowerOptions { probe_after: Some(Duration::from_millis(1)), ..OPTIONS };
    let mut follower = Follower::new(Arc::clone(&full), P, probing);
    assert_eq!(restored(&mut follower).await, (None, 1));
    assert_eq!(entries(&mut follower).await, [1]);
    let mut writer = LogWriter::new(full, P, TRIED_ONCE);
    for number in 1..4 {
        let appended = writer.append(WriterId(10), payload(2)).await;
        assert_eq!(appended.map(|(_, position)| position), Ok(Position(number + 1)));
    }
    let mut read = Vec::new();
    while read.last() != Some(&4) {
        read.extend(entries(&mut follower).await);
    }
    assert_eq!(read, [2, 3, 4]);
    engine.remove().await;
    drop(older);
    engine.put(embedded(&older_disk));
    loop {
        match follower.next().await {
            Step::Fault(_) | Step::CaughtUp => {}
            Step::Lost { applied, last } => {
                assert_eq!((applied, last), (Position(4), Position(1)));
                break;
            }
            step => panic!("{step:?}"),
        }
    }
    assert_eq!(restored(&mut follower).await, (None, 1));
    assert_eq!(entries(&mut follower).await, [1]);
    // A snapshot of the newer log is refused.
    engine.put_snapshot(P, Snapshot { position: Position(4), bytes: payload(7) }).await.unwrap();
    let mut follower = Follower::new(engine, P, OPTIONS);
    let step = follower.next().await;
    assert!(matches!(step, Step::Fault(Fault::Load(LoadError::OtherLog { .. }))), "{step:?}");
}
