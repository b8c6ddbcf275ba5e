//! Connections that are lost, and servers that are gone for a while.

use super::{batch, connect, eventually, socket, start};
use futures_util::{FutureExt, StreamExt};
use pollster::block_on;
use scalebricks_control::engine::{AppendError, Engine, EngineError, ReadError, Snapshot, SwapError};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::remote::{ClientOptions, RemoteEngine};
use scalebricks_types::{PartitionId, Position};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const P: PartitionId = PartitionId(7);
const CALLERS: u64 = 24;
const RESTARTS: u64 = 6;

/// Appends until told to stop, each batch until it is known where it is; returns the positions.
fn append_all(engine: &RemoteEngine, writer: u64, is_over: &AtomicBool, unknown: &AtomicU64) -> Vec<u64> {
    let mut positions = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let number = positions.len() as u64 + 1;
        let payload = (writer * 1_000_000 + number).to_le_bytes();
        let mut may_be_there = false;
        loop {
            match block_on(engine.append(P, batch(writer, number, &payload))) {
                Ok(position) => {
                    positions.push(position.0);
                    break;
                }
                Err(AppendError::Unknown(_)) => {
                    may_be_there = true;
                    unknown.fetch_add(1, Ordering::Relaxed);
                }
                Err(AppendError::Refused(why)) => {
                    assert!(!may_be_there, "it may be in the log, and was refused: {why}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    positions
}

#[test]
fn a_server_that_stops_and_starts_loses_nothing_and_doubles_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = socket(directory.path());
    let mut server = Some(start(directory.path(), &endpoint).0);
    let (is_over, unknown) = (AtomicBool::new(false), AtomicU64::new(0));
    // Two clients, as of two processes.
    let clients = [connect(&endpoint), connect(&endpoint)];
    let mut watch = clients[0].watch(P, Position(1));
    let acknowledged: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CALLERS)
            .map(|writer| {
                let (engine, is_over, unknown) = (&clients[writer as usize % 2], &is_over, &unknown);
                scope.spawn(move || append_all(engine, writer, is_over, unknown))
            })
            .collect();
        for restart in 0..RESTARTS {
            std::thread::sleep(Duration::from_millis(60));
            // The directory is held by one at a time: the old one goes first, the new one comes later.
            drop(server.take());
            std::thread::sleep(Duration::from_millis(restart * 20));
            server = Some(start(directory.path(), &endpoint).0);
        }
        std::thread::sleep(Duration::from_millis(60));
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let entries = block_on(clients[1].read(P, Position(1), usize::MAX)).unwrap();
    let mut places = HashMap::new();
    for (at, entry) in (1..).zip(&entries) {
        assert_eq!(entry.position, Position(at));
        let id = (entry.batch.id.writer.0, entry.batch.id.number);
        assert_eq!(places.insert(id, at), None, "{id:?} is there twice");
        let payload = id.0 * 1_000_000 + id.1;
        assert_eq!(*entry.batch.payload, payload.to_le_bytes());
    }
    for (writer, positions) in (0..).zip(&acknowledged) {
        for (number, position) in (1..).zip(positions) {
            assert_eq!(places.get(&(writer, number)), Some(position), "batch {number} of {writer}");
        }
    }
    let count: usize = acknowledged.iter().map(Vec::len).sum();
    assert_eq!(count, entries.len(), "each was asked for until it was acknowledged");
    assert!(count > 100, "{count}");
    // The watcher saw it all, over as many connections as there were.
    let watched: Vec<_> = block_on(watch.by_ref().take(entries.len()).map(Result::unwrap).collect());
    assert_eq!(watched, entries);
    assert!(watch.next().now_or_never().is_none());
    println!("{count} batches, {} of unknown outcome", unknown.load(Ordering::Relaxed));
}

#[test]
fn without_a_server_calls_wait_and_then_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = socket(directory.path());
    let wait = Duration::from_millis(200);
    let options = ClientOptions { wait, ..ClientOptions::default() };
    let engine = RemoteEngine::connect(endpoint.clone(), options).unwrap();
    let refused = block_on(engine.append(P, batch(1, 1, b"x")));
    assert!(matches!(&refused, Err(AppendError::Refused(why)) if why.contains("engine.sock")), "{refused:?}");
    assert!(matches!(block_on(engine.last(P)), Err(ReadError::Unavailable(_))));
    assert!(matches!(block_on(engine.read(P, Position(1), 1)), Err(ReadError::Unavailable(_))));
    assert!(matches!(block_on(engine.swap("a", None, None)), Err(SwapError::Unknown(_))));
    assert!(matches!(block_on(engine.record("a")), Err(EngineError::Unavailable(_))));
    assert!(matches!(block_on(engine.subscribe("a")), Err(EngineError::Unavailable(_))));
    assert!(matches!(block_on(engine.trim(P, Position(1))), Err(EngineError::Unavailable(_))));
    assert!(!engine.is_connected());
    // Streams wait for as long as it takes, and calls that came before the server are answered.
    let mut watch = engine.watch(P, Position(1));
    let options = ClientOptions { wait: Duration::from_secs(20), ..options };
    let patient = RemoteEngine::connect(endpoint.clone(), options).unwrap();
    let late = std::thread::scope(|scope| {
        let early = scope.spawn(|| block_on(patient.append(P, batch(1, 1, b"x"))));
        std::thread::sleep(Duration::from_millis(100));
        let (_server, _) = start(directory.path(), &endpoint);
        let entry = block_on(watch.next()).unwrap().unwrap();
        (early.join().unwrap(), entry.position)
    });
    assert_eq!(late, (Ok(Position(1)), Position(1)));
}

#[test]
fn a_batch_that_may_be_there_is_never_refused() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = socket(directory.path());
    let (server, _) = start(directory.path(), &endpoint);
    let options = ClientOptions { wait: Duration::from_secs(1), ..ClientOptions::default() };
    let engine = RemoteEngine::connect(endpoint, options).unwrap();
    assert_eq!(block_on(engine.append(P, batch(1, 5, b"x"))), Ok(Position(1)));
    drop(server);
    let retry = |number| block_on(engine.append(P, batch(1, number, b"x")));
    // The first may have been on its way when the connection was lost; those after it were not.
    assert!(matches!(retry(5), Err(AppendError::Unknown(_))));
    eventually("the connection is lost", || !engine.is_connected());
    assert!(matches!(retry(5), Err(AppendError::Unknown(_))));
    assert!(matches!(retry(4), Err(AppendError::Unknown(_))));
    assert!(matches!(retry(6), Err(AppendError::Refused(_))));
    assert!(matches!(
        block_on(engine.append(PartitionId(8), batch(1, 5, b"x"))),
        Err(AppendError::Refused(_))
    ));
}

#[test]
fn a_watch_of_records_sees_what_was_deleted_while_the_server_was_gone() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = socket(directory.path());
    let (server, _) = start(directory.path(), &endpoint);
    let engine = connect(&endpoint);
    let set = |engine: &dyn Engine, key: &str, at, value: Option<&str>| {
        block_on(engine.swap(key, at, value.map(|value| Arc::from(value.as_bytes())))).unwrap()
    };
    let stays = set(&engine, "k.stays", None, Some("1"));
    let changes = set(&engine, "k.changes", None, Some("1"));
    let [goes, returns, last] =
        ["k.goes", "k.returns", "k.last"].map(|key| set(&engine, key, None, Some("1")));
    let other = set(&engine, "other", None, Some("1"));
    let mut watch = engine.watch_records("k.");
    for revision in [stays, changes, goes, returns, last] {
        assert_eq!(block_on(watch.next()).unwrap().unwrap().revision, revision);
    }
    drop(server);
    let log = EmbeddedLog::open(&directory.path().join("log"), Options::default()).unwrap();
    set(&log, "k.goes", Some(goes), None);
    let gone = set(&log, "k.returns", Some(returns), None);
    set(&log, "k.changes", Some(changes), Some("2"));
    let returned = set(&log, "k.returns", None, Some("3"));
    set(&log, "k.last", Some(last), None);
    set(&log, "other", Some(other), None);
    assert!(gone < returned);
    drop(log);
    let (_server, _) = start(directory.path(), &endpoint);
    let later = set(&engine, "k.later", None, Some("4"));
    let mut seen = HashMap::new();
    let mut newest = last;
    loop {
        let record = block_on(watch.next()).unwrap().unwrap();
        assert!(record.revision > newest, "{record:?} after {newest:?}");
        newest = record.revision;
        let value = record.value.map(|value| String::from_utf8(value.to_vec()).unwrap());
        let is_last = record.key == "k.later";
        assert_eq!(seen.insert(record.key.clone(), value), None, "{} is told once", record.key);
        if is_last {
            break;
        }
    }
    let expected = [
        ("k.goes", None),
        ("k.changes", Some("2")),
        ("k.returns", Some("3")),
        ("k.last", None),
        ("k.later", Some("4")),
    ];
    let expected: HashMap<String, Option<String>> =
        expected.map(|(key, value)| (key.to_owned(), value.map(str::to_owned))).into();
    assert_eq!(seen, expected);
    assert_eq!(newest, later);
    assert!(watch.next().now_or_never().is_none());
}

#[test]
fn subscriptions_go_on_and_a_trimmed_watch_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = socket(directory.path());
    let (server, _) = start(directory.path(), &endpoint);
    let engine = connect(&endpoint);
    let mut messages = block_on(engine.subscribe("t")).unwrap();
    block_on(engine.publish("t", Arc::from(*b"1"))).unwrap();
    assert_eq!(*block_on(messages.next()).unwrap(), *b"1");
    for number in 1..=3 {
        block_on(engine.append(P, batch(1, number, b"x"))).unwrap();
    }
    let mut watch = engine.watch(P, Position(1));
    assert_eq!(block_on(watch.next()).unwrap().unwrap().position, Position(1));
    // The others are on their way, or here.
    let mut ahead = engine.watch(P, Position(4));
    assert!(ahead.next().now_or_never().is_none());
    drop(server);
    let log = EmbeddedLog::open(&directory.path().join("log"), Options::default()).unwrap();
    for number in 4..=9 {
        block_on(log.append(P, batch(1, number, b"x"))).unwrap();
    }
    let snapshot = Snapshot { position: Position(9), bytes: Arc::from(*b"state") };
    block_on(log.put_snapshot(P, snapshot)).unwrap();
    block_on(log.trim(P, Position(8))).unwrap();
    drop(log);
    let (_server, _) = start(directory.path(), &endpoint);
    let trimmed = Some(Err(ReadError::Trimmed { partition: P, first: Position(8) }));
    assert_eq!(block_on(ahead.next()), trimmed);
    assert_eq!(block_on(ahead.next()), None);
    // Messages come again once the subscription is renewed.
    eventually("a message comes", || {
        block_on(engine.publish("t", Arc::from(*b"2"))).unwrap();
        messages.next().now_or_never().is_some()
    });
}

/// The directory is replaced by an older copy while the server is gone.
#[test]
fn a_reader_ahead_of_the_log_that_a_server_came_back_with_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = socket(directory.path());
    let (log, backup) = (directory.path().join("log"), directory.path().join("backup"));
    drop(start(directory.path(), &endpoint));
    std::fs::create_dir(&backup).unwrap();
    for file in std::fs::read_dir(&log).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), backup.join(file.file_name())).unwrap();
    }
    let (server, _) = start(directory.path(), &endpoint);
    let engine = connect(&endpoint);
    for number in 1..=3 {
        block_on(engine.append(P, batch(1, number, b"x"))).unwrap();
    }
    let mut watch = engine.watch(P, Position(1));
    for number in 1..=3 {
        assert_eq!(block_on(watch.next()).unwrap().unwrap().position, Position(number));
    }
    let mut first = engine.watch(PartitionId(8), Position(1));
    drop(server);
    std::fs::remove_dir_all(&log).unwrap();
    std::fs::rename(&backup, &log).unwrap();
    let (_server, _) = start(directory.path(), &endpoint);
    let ahead = ReadError::Ahead { partition: P, last: Position(0) };
    assert_eq!(block_on(watch.next()), Some(Err(ahead.clone())));
    assert_eq!(block_on(watch.next()), None);
    assert_eq!(block_on(engine.read(P, Position(4), 1)), Err(ahead));
    // Who had read nothing goes on.
    block_on(engine.append(PartitionId(8), batch(1, 1, b"x"))).unwrap();
    assert_eq!(block_on(first.next()).unwrap().unwrap().position, Position(1));
}

#[test]
fn a_closed_client_ends_its_streams() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, endpoint) = start(directory.path(), &socket(directory.path()));
    let engine = connect(&endpoint);
    let mut watch = engine.watch(P, Position(1));
    let mut records = engine.watch_records("");
    let mut messages = block_on(engine.subscribe("t")).unwrap();
    drop(engine);
    assert!(matches!(block_on(watch.next()), Some(Err(ReadError::Unavailable(_)))));
    assert_eq!(block_on(watch.next()), None);
    assert!(matches!(block_on(records.next()), Some(Err(EngineError::Unavailable(_)))));
    assert_eq!(block_on(messages.next()), None);
}
