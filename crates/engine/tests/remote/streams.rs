//! Readers that do not read, and what is large.

use super::{batch, connect, eventually, socket, start, start_with};
use futures_util::StreamExt;
use futures_util::future::join_all;
use pollster::block_on;
use scalebricks_control::engine::{Engine, EngineError, ReadError, Snapshot};
use scalebricks_engine::embedded::memory::MemoryDisk;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::remote::ServerOptions;
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;
use std::time::{Duration, Instant};

const P: PartitionId = PartitionId(7);
const Q: PartitionId = PartitionId(8);

#[test]
fn a_watcher_that_does_not_read_holds_up_nobody_and_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let (server, endpoint) = start(directory.path(), &socket(directory.path()));
    let engine = connect(&endpoint);
    let mut slow: Vec<_> = (0..4).map(|_| engine.watch(P, Position(1))).collect();
    let mut slow_messages = block_on(engine.subscribe("t")).unwrap();
    let mut quick = engine.watch(Q, Position(1));
    for number in 1..=40 {
        block_on(engine.append(P, batch(1, number, &vec![number as u8; 500_000]))).unwrap();
        block_on(engine.publish("t", Arc::from(vec![number as u8; 500_000]))).unwrap();
        // Beside them everything goes its way, over the same connection.
        block_on(engine.append(Q, batch(1, number, b"x"))).unwrap();
        assert_eq!(block_on(quick.next()).unwrap().unwrap().position, Position(number));
    }
    // A window is 1 MiB: three frames of half a megabyte, for each of five.
    let streamed = server.counts().streamed;
    assert!((40 + 5..=40 + 15).contains(&streamed), "{streamed}");
    for watch in &mut slow {
        let entries: Vec<_> = block_on(watch.by_ref().take(40).map(Result::unwrap).collect());
        for (number, entry) in (1..).zip(entries) {
            assert_eq!((entry.position, entry.batch.payload[0]), (Position(number), number as u8));
        }
    }
    // Of messages the oldest that did not fit are lost.
    let mut before = 0;
    while before < 40 {
        let message = block_on(slow_messages.next()).unwrap();
        assert!(message[0] > before);
        before = message[0];
    }
}

#[test]
fn streams_that_nobody_reads_any_more_are_let_go() {
    let log = EmbeddedLog::open_on(MemoryDisk::default().storage(), Options::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let options = ServerOptions { streams: 3, ..ServerOptions::default() };
    let (_server, endpoint) = start_with(Arc::new(log), &socket(directory.path()), options);
    let engine = connect(&endpoint);
    for _ in 0..20 {
        let streams: Vec<_> = (0..3).map(|_| engine.watch(P, Position(1))).collect();
        let mut fourth = engine.watch(P, Position(1));
        assert!(matches!(block_on(fourth.next()), Some(Err(ReadError::Unavailable(_)))));
        let mut fourth = engine.watch_records("");
        assert!(matches!(block_on(fourth.next()), Some(Err(EngineError::Unavailable(_)))));
        assert!(matches!(block_on(engine.subscribe("t")), Err(EngineError::Unavailable(_))));
        drop(streams);
    }
}

#[test]
fn large_snapshots_pass_beside_small_calls() {
    let directory = tempfile::tempdir().unwrap();
    let options = ServerOptions { snapshot_bytes: 48 << 20, ..ServerOptions::default() };
    let log = EmbeddedLog::open(&directory.path().join("log"), Options::default()).unwrap();
    let (_server, endpoint) = start_with(Arc::new(log), &socket(directory.path()), options);
    let engine = connect(&endpoint);
    let bytes: Arc<[u8]> = (0..48_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    let snapshot = Snapshot { position: Position(9), bytes };
    std::thread::scope(|scope| {
        let put = scope.spawn(|| {
            block_on(engine.put_snapshot(P, snapshot.clone())).unwrap();
            block_on(engine.snapshot(P)).unwrap().unwrap()
        });
        let mut slowest = Duration::ZERO;
        let mut number = 0;
        while !put.is_finished() {
            number += 1;
            let began = Instant::now();
            block_on(engine.append(Q, batch(1, number, b"x"))).unwrap();
            slowest = slowest.max(began.elapsed());
        }
        assert!(put.join().unwrap() == snapshot);
        println!("{number} appends beside it, the slowest {slowest:?}");
        assert!(number > 3);
    });
    let too_large = Snapshot { position: Position(10), bytes: Arc::from(vec![0; (48 << 20) + 1]) };
    assert!(matches!(block_on(engine.put_snapshot(P, too_large)), Err(EngineError::Refused(_))));
    assert_eq!(block_on(engine.snapshot(P)).unwrap().unwrap().position, Position(9));
}

#[test]
fn more_callers_than_may_be_under_way_all_get_their_turn() {
    let log = EmbeddedLog::open_on(MemoryDisk::default().storage(), Options::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let options = ServerOptions { requests: 4, request_bytes: 1000, ..ServerOptions::default() };
    let (server, endpoint) = start_with(Arc::new(log), &socket(directory.path()), options);
    let engine = connect(&endpoint);
    let appends = (1..=500).map(|number| engine.append(P, batch(1, number, &[1; 2000])));
    assert!(block_on(join_all(appends)).iter().all(Result::is_ok));
    let reads = (1..=50).map(|_| engine.read(P, Position(1), usize::MAX));
    for read in block_on(join_all(reads)) {
        assert_eq!(read.unwrap().len(), 500);
    }
    eventually("counts", || server.counts().appended == 500);
    assert_eq!(server.counts().appended_bytes, 1_000_000);
}
