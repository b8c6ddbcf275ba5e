//! Disks that fail, are full, or stall.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use pollster::block_on;
use scalebricks_control::engine::{
    AppendError, Batch, BatchId, Engine, EngineError, ReadError, Snapshot, SwapError, WriterId,
};
use scalebricks_engine::embedded::memory::{Fault, MemoryDisk};
use scalebricks_engine::embedded::storage::{Storage, StoredFile};
use scalebricks_engine::embedded::{EmbeddedLog, OpenError, Options};
use scalebricks_types::{PartitionId, Position};
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const P: PartitionId = PartitionId(1);

fn batch(number: u64, len: usize) -> Batch {
    Batch { id: BatchId { writer: WriterId(1), number }, payload: Arc::from(vec![number as u8; len]) }
}

fn open(disk: &MemoryDisk) -> EmbeddedLog {
    EmbeddedLog::open_on(disk.storage(), Options { segment_bytes: 4 << 10, ..Options::default() }).unwrap()
}

#[test]
fn a_full_disk_refuses_and_works_again_when_there_is_room() {
    let disk = MemoryDisk::default();
    let engine = open(&disk);
    assert_eq!(block_on(engine.append(P, batch(1, 500))), Ok(Position(1)));
    let len = disk.content("log-0000000001.seg").len();
    for room in 0..500 {
        disk.set_capacity(Some(len + room));
        let refused = block_on(engine.append(P, batch(2, 500)));
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?} with room for {room} bytes");
        assert_eq!(disk.content("log-0000000001.seg").len(), len, "what was written is taken back");
    }
    assert!(block_on(engine.swap("k", None, None)).is_ok(), "what fits is still taken");
    let retried = block_on(engine.append(P, batch(1, 500)));
    assert_eq!(retried, Ok(Position(1)), "and what is there is there");
    disk.set_capacity(None);
    assert_eq!(block_on(engine.append(P, batch(3, 5000))), Ok(Position(2)));
    // The disk is full when a segment begins.
    let names = disk.names();
    disk.set_capacity(Some(0));
    assert!(matches!(block_on(engine.append(P, batch(4, 5000))), Err(AppendError::Refused(_))));
    assert_eq!(disk.names(), names);
    disk.set_capacity(None);
    assert_eq!(block_on(engine.append(P, batch(4, 5000))), Ok(Position(3)));
    drop(engine);
    let engine = open(&disk);
    assert_eq!(block_on(engine.last(P)), Ok(Position(3)));
    assert!(engine.report().torn.is_none() && engine.report().was_closed);
}

#[test]
fn after_a_failed_fsync_nothing_is_acknowledged_until_the_log_is_opened_again() {
    let disk = MemoryDisk::default();
    let engine = open(&disk);
    assert_eq!(block_on(engine.append(P, batch(1, 100))), Ok(Position(1)));
    let mut watch = engine.watch(P, Position(1));
    assert!(matches!(block_on(watch.next()), Some(Ok(_))));
    disk.fail(disk.operations() + 1, Fault::Error); // the write succeeds
    assert!(matches!(block_on(engine.append(P, batch(2, 100))), Err(AppendError::Unknown(_))));
    assert!(matches!(block_on(engine.append(P, batch(2, 100))), Err(AppendError::Unknown(_))));
    assert!(matches!(block_on(engine.append(P, batch(3, 100))), Err(AppendError::Unknown(_))));
    assert!(matches!(block_on(engine.swap("k", None, None)), Err(SwapError::Unknown(_))));
    assert_eq!(block_on(engine.append(P, batch(1, 100))), Ok(Position(1)), "this is certain");
    assert_eq!(
        block_on(engine.read(P, Position(1), 1 << 20)).unwrap().len(),
        1,
        "readers see what is durable"
    );
    assert!(matches!(block_on(watch.next()), Some(Err(ReadError::Unavailable(_)))));
    assert!(block_on(watch.next()).is_none());
    drop(engine);
    // The next process reads batch 2 from the cache, though the disk never had it. It must be durable before it is
    // returned.
    let engine = open(&disk);
    assert_eq!(block_on(engine.append(P, batch(2, 100))), Ok(Position(2)));
    disk.fail(disk.operations(), Fault::PowerOff);
    drop(engine);
    disk.power_on(&mut |_| 0);
    let engine = open(&disk);
    assert_eq!(block_on(engine.last(P)), Ok(Position(2)), "what was acknowledged is lost");
}

#[test]
fn a_failed_write_that_cannot_be_taken_back_stops_the_log() {
    let disk = MemoryDisk::default();
    let engine = open(&disk);
    assert_eq!(block_on(engine.append(P, batch(1, 100))), Ok(Position(1)));
    disk.fail(disk.operations(), Fault::Error);
    disk.fail(disk.operations() + 1, Fault::Error);
    assert!(matches!(block_on(engine.append(P, batch(2, 100))), Err(AppendError::Unknown(_))));
    assert!(matches!(block_on(engine.append(P, batch(3, 100))), Err(AppendError::Unknown(_))));
    drop(engine);
    let engine = open(&disk);
    assert!(engine.report().torn.is_some(), "half of it was there");
    assert_eq!(block_on(engine.append(P, batch(3, 100))), Ok(Position(2)));
}

#[test]
fn a_snapshot_that_cannot_be_written_leaves_the_one_before() {
    let disk = MemoryDisk::default();
    let engine = open(&disk);
    let snapshot = |position| Snapshot { position: Position(position), bytes: Arc::from([7; 1000]) };
    assert_eq!(block_on(engine.put_snapshot(P, snapshot(1))), Ok(()));
    let used: usize = disk.names().iter().map(|name| disk.content(name).len()).sum();
    disk.set_capacity(Some(used + 900));
    assert!(matches!(block_on(engine.put_snapshot(P, snapshot(2))), Err(EngineError::Unavailable(_))));
    assert!(disk.names().iter().all(|name| !name.contains(".tmp")), "half a file is removed");
    assert_eq!(block_on(engine.snapshot(P)), Ok(Some(snapshot(1))));
    disk.set_capacity(None);
    for operation in 0..5 {
        disk.fail(disk.operations() + operation, Fault::Error);
        let put = block_on(engine.put_snapshot(P, snapshot(3 + operation)));
        assert!(put.is_err(), "operation {operation}");
        assert!(block_on(engine.snapshot(P)).unwrap().is_some());
    }
}

#[test]
fn trimming_gives_space_back() {
    let disk = MemoryDisk::default();
    let engine = open(&disk);
    block_on(engine.swap("kept", None, Some(Arc::from(*b"v")))).unwrap();
    let other = PartitionId(2);
    for number in 1..=50 {
        block_on(engine.append(P, batch(number, 1000))).unwrap();
    }
    block_on(engine.append(other, batch(1, 1000))).unwrap();
    let segments = || disk.names().into_iter().filter(|name| name.starts_with("log-")).count();
    let before = segments();
    let snapshot = Snapshot { position: Position(50), bytes: Arc::from([]) };
    block_on(engine.put_snapshot(P, snapshot)).unwrap();
    block_on(engine.trim(P, Position(26))).unwrap();
    let half = segments();
    assert!((before / 2..=before / 2 + 2).contains(&half), "{half} of {before} segments");
    block_on(engine.trim(P, Position(51))).unwrap();
    assert!(segments() <= 2, "only what holds the other partition's entry: {}", segments());
    drop(engine);
    let engine = open(&disk);
    assert_eq!(block_on(engine.last(P)), Ok(Position(50)));
    assert_eq!(block_on(engine.read(other, Position(1), 0)).unwrap().len(), 1);
    assert!(block_on(engine.record("kept")).unwrap().is_some());
}

#[test]
fn a_directory_is_opened_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep").join("log");
    let engine = EmbeddedLog::open(&path, Options::default()).unwrap();
    let mut watch = engine.watch(P, Position(1));
    assert!(matches!(EmbeddedLog::open(&path, Options::default()), Err(OpenError::InUse(_))));
    drop(engine);
    drop(EmbeddedLog::open(&path, Options::default()).unwrap());
    assert!(
        matches!(block_on(watch.next()), Some(Err(ReadError::Unavailable(_)))),
        "a watch ends with its engine"
    );
}

#[test]
fn options_that_cannot_be_are_refused() {
    for options in [
        Options { segment_bytes: 0, ..Options::default() },
        Options { segment_bytes: 2 << 30, ..Options::default() },
        Options { queue_bytes: 1 << 20, ..Options::default() },
        Options { group_bytes: 9 << 20, ..Options::default() },
        Options { remembered_batches: 0, ..Options::default() },
    ] {
        let opened = EmbeddedLog::open_on(MemoryDisk::default().storage(), options);
        assert!(matches!(opened, Err(OpenError::Options(_))), "{options:?}");
    }
}

/// A disk whose fsyncs wait until they are released.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }
}

#[derive(Debug)]
struct Gated(Arc<dyn Storage>, Arc<Gate>);

#[derive(Debug)]
struct GatedFile(Arc<dyn StoredFile>, Arc<Gate>);

impl Gated {
    fn file(&self, file: Arc<dyn StoredFile>) -> Arc<dyn StoredFile> {
        Arc::new(GatedFile(file, Arc::clone(&self.1)))
    }
}

impl Storage for Gated {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(self.file(self.0.create(name)?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn StoredFile>> {
        Ok(self.file(self.0.open(name)?))
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }
}

impl StoredFile for GatedFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }
    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.truncate(size)
    }
    fn sync(&self) -> io::Result<()> {
        let shut = self.1.is_shut.lock().unwrap();
        // With a limit, so that a failing test ends.
        let limit = Duration::from_secs(20);
        drop(self.1.opened.wait_timeout_while(shut, limit, |is_shut| *is_shut).unwrap());
        self.0.sync()
    }
}

#[test]
fn what_waits_is_bounded_and_shares_fsyncs() {
    let (disk, gate) = (MemoryDisk::default(), Arc::new(Gate::default()));
    let options = Options { queue_bytes: 2 << 20, ..Options::default() };
    let engine = EmbeddedLog::open_on(Arc::new(Gated(disk.storage(), Arc::clone(&gate))), options).unwrap();
    let mut watch = engine.watch(P, Position(1));
    gate.set(true);
    // 41 of these fit into 2 MiB; none is acknowledged, and none is visible.
    let mut waiting: Vec<_> = (1..=41).map(|number| engine.append(P, batch(number, 50_000))).collect();
    assert!(waiting.iter_mut().all(|append| append.now_or_never().is_none()));
    assert!(matches!(engine.append(P, batch(42, 50_000)).now_or_never(), Some(Err(AppendError::Refused(_)))));
    let twin = engine.append(P, batch(41, 50_000)).now_or_never();
    assert!(matches!(twin, Some(Err(AppendError::Unknown(_)))), "its twin waits: {twin:?}");
    assert_eq!(engine.last(P).now_or_never(), Some(Ok(Position(0))));
    assert!(watch.next().now_or_never().is_none());
    let before = disk.syncs();
    gate.set(false);
    let positions: Vec<u64> =
        block_on(join_all(waiting)).into_iter().map(|result| result.unwrap().0).collect();
    assert!(positions.into_iter().eq(1..=41));
    assert!(disk.syncs() - before <= 2, "{} fsyncs", disk.syncs() - before);
    assert_eq!(block_on(engine.append(P, batch(42, 50_000))), Ok(Position(42)));
    let full = block_on(engine.append(P, batch(7, 50_000)));
    assert_eq!(full, Ok(Position(7)));
}
