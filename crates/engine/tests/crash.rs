//! Random operations with power failures at any point: acknowledged entries survive, refused ones do not appear,
//! positions have no holes, and a retry finds the first attempt.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use futures_util::future::join_all;
use pollster::block_on;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use scalebricks_control::engine::{
    AppendError, Batch, BatchId, Engine, EngineError, Revision, Snapshot, SwapError, WriterId,
};
use scalebricks_engine::embedded::memory::{Fault, MemoryDisk};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_types::{PartitionId, Position};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PARTITIONS: u16 = 3;
const KEYS: usize = 4;

type Name = (u64, u64);

/// The entries that one partition must and may have.
#[derive(Debug, Default)]
struct LogModel {
    /// Acknowledged batches by position.
    known: BTreeMap<u64, Name>,
    positions: BTreeMap<Name, u64>,
    /// Batches with unknown outcome.
    unknown: BTreeSet<Name>,
    refused: BTreeSet<Name>,
    /// Lowest and highest possible trim position.
    floor: (u64, u64),
    snapshots: BTreeSet<u64>,
}

/// The value that one record must have, and others that it may have.
#[derive(Debug, Default, Clone)]
struct RecordModel {
    now: Option<(Revision, u8)>,
    maybe: Vec<Option<u8>>,
}

#[derive(Debug, Clone)]
enum Step {
    Append { partition: u16, count: u64, len: usize },
    Retry { partition: u16 },
    Swap { key: usize, value: Option<u8>, is_right: bool },
    Snapshot { partition: u16 },
    Trim { partition: u16 },
    Reopen,
    PowerOff,
    FailAt { operations: u64, is_power: bool },
    Capacity { free_bytes: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..PARTITIONS;
    prop_oneof![
        8 => (partition.clone(), 1..6u64, 0..700usize)
            .prop_map(|(partition, count, len)| Step::Append { partition, count, len }),
        3 => partition.clone().prop_map(|partition| Step::Retry { partition }),
        4 => (0..KEYS, any::<Option<u8>>(), prop::bool::weighted(0.8))
            .prop_map(|(key, value, is_right)| Step::Swap { key, value, is_right }),
        2 => partition.clone().prop_map(|partition| Step::Snapshot { partition }),
        3 => partition.prop_map(|partition| Step::Trim { partition }),
        1 => Just(Step::Reopen),
        2 => Just(Step::PowerOff),
        3 => (0..30u64, any::<bool>()).prop_map(|(operations, is_power)| Step::FailAt { operations, is_power }),
        1 => (0..4000usize).prop_map(|free_bytes| Step::Capacity { free_bytes }),
    ]
}

struct World {
    disk: MemoryDisk,
    engine: Option<EmbeddedLog>,
    rng: StdRng,
    logs: Vec<LogModel>,
    records: Vec<RecordModel>,
    newest: Revision,
    /// Batches so far, by partition; all of one writer.
    numbers: Vec<u64>,
    salt: u64,
}

fn key(key: usize) -> String {
    format!("key.{key}")
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            disk: MemoryDisk::default(),
            engine: None,
            rng: StdRng::seed_from_u64(seed),
            logs: (0..PARTITIONS).map(|_| LogModel { floor: (1, 1), ..LogModel::default() }).collect(),
            records: vec![RecordModel::default(); KEYS],
            newest: Revision(0),
            numbers: vec![0; PARTITIONS.into()],
            salt: seed,
        };
        // For every other seed, writes are split, with power failures and errors in between.
        world.disk.set_transfer(seed.is_multiple_of(2).then_some(100));
        world.open();
        world
    }

    fn options(&self) -> Options {
        Options { remembered_batches: 1000, salt: self.salt, ..Options::default() }
    }

    fn open(&mut self) {
        self.salt += 1;
        let options = Options { segment_bytes: 4 << 10, group_bytes: 1 << 10, ..self.options() };
        // A fault may occur during opening.
        let engine = EmbeddedLog::open_on(self.disk.storage(), options).or_else(|_| {
            self.power_on();
            EmbeddedLog::open_on(self.disk.storage(), options)
        });
        self.engine = Some(engine.expect("a crash is no damage"));
    }

    fn power_on(&mut self) {
        self.disk.set_capacity(None);
        self.disk.power_on(&mut |n| self.rng.random_range(0..n));
    }

    fn crash(&mut self) {
        // Sometimes the disk fails first, so that the log cannot be closed.
        if self.rng.random() {
            self.disk.fail(self.disk.operations(), Fault::PowerOff);
        }
        self.engine = None;
        self.power_on();
        self.open();
    }

    fn engine(&self) -> &EmbeddedLog {
        self.engine.as_ref().unwrap()
    }

    fn append(&mut self, partition: u16, count: u64, len: usize) {
        let p = usize::from(partition);
        let names: Vec<Name> = (0..count).map(|i| (1, self.numbers[p] + 1 + i)).collect();
        self.numbers[p] += count;
        self.attempt(partition, &names, len);
    }

    fn attempt(&mut self, partition: u16, names: &[Name], len: usize) {
        let batch = |&(writer, number): &Name| Batch {
            id: BatchId { writer: WriterId(writer), number },
            payload: payload(partition, number, len),
        };
        let engine = self.engine();
        let appends = names.iter().map(|name| engine.append(PartitionId(partition), batch(name)));
        let results = block_on(join_all(appends));
        let log = &mut self.logs[usize::from(partition)];
        for (&name, result) in names.iter().zip(results) {
            match result {
                Ok(Position(position)) => {
                    if let Some(&before) = log.positions.get(&name) {
                        assert_eq!(position, before, "a retry of {name:?}");
                    }
                    log.unknown.remove(&name);
                    log.refused.remove(&name);
                    log.positions.insert(name, position);
                    assert_eq!(*log.known.entry(position).or_insert(name), name, "position {position} twice");
                }
                Err(AppendError::Unknown(_)) => {
                    if !log.positions.contains_key(&name) {
                        log.unknown.insert(name);
                    }
                }
                Err(AppendError::Refused(_)) => {
                    assert!(!log.positions.contains_key(&name), "{name:?} is in the log, and was refused");
                    assert!(!log.unknown.contains(&name), "{name:?} may be in the log, and was refused");
                    log.refused.insert(name);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Repeats batches with unknown outcome, and some known and refused ones.
    fn retry(&mut self, partition: u16) {
        let log = &self.logs[usize::from(partition)];
        // After a trim, only remembered batches are answered with their old position.
        let mut names: Vec<Name> = log.unknown.iter().copied().collect();
        names.extend(
            log.positions.iter().filter(|(_, at)| **at >= log.floor.1).map(|(name, _)| *name).take(5),
        );
        names.extend(log.refused.iter().copied().take(2));
        self.attempt(partition, &names, 10);
    }

    fn swap(&mut self, at: usize, value: Option<u8>, is_right: bool) {
        // Reads a record with an unknown value, as a caller would.
        if !self.records[at].maybe.is_empty() {
            self.check_record(at);
        }
        let now = self.records[at].now.map(|(revision, _)| revision);
        let expected = if is_right { now } else { Some(Revision(self.newest.0 + 1000)) };
        let result = block_on(self.engine().swap(&key(at), expected, value.map(|v| Arc::from([v]))));
        let record = &mut self.records[at];
        match result {
            Ok(revision) => {
                assert!(is_right && revision > self.newest, "{revision:?} after {:?}", self.newest);
                self.newest = revision;
                record.now = value.map(|value| (revision, value));
            }
            Err(SwapError::Conflict(current)) => {
                assert!(!is_right);
                assert_eq!(current, now);
            }
            Err(SwapError::Unknown(_)) if is_right => record.maybe.push(value),
            Err(SwapError::Unknown(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn snapshot(&mut self, partition: u16) {
        let id = PartitionId(partition);
        let position = block_on(self.engine().last(id)).unwrap();
        let bytes = Arc::from(position.0.to_le_bytes());
        if block_on(self.engine().put_snapshot(id, Snapshot { position, bytes })).is_ok() {
            self.logs[usize::from(partition)].snapshots.insert(position.0);
        }
    }

    fn trim(&mut self, partition: u16) {
        let id = PartitionId(partition);
        let newest = block_on(self.engine().snapshot(id));
        let log = &mut self.logs[usize::from(partition)];
        let Ok(newest) = newest else { return };
        let newest = newest.map_or(0, |snapshot| snapshot.position.0);
        let below = newest + 1 - self.rng.random_range(0..=newest.min(2));
        match block_on(self.engine.as_ref().unwrap().trim(id, Position(below))) {
            Ok(()) => log.floor = (log.floor.0.max(below), log.floor.1.max(below)),
            Err(EngineError::Unavailable(_)) => log.floor.1 = log.floor.1.max(below),
            Err(error) => panic!("{error}"),
        }
    }

    fn check_record(&mut self, at: usize) {
        let found = block_on(self.engine().record(&key(at))).unwrap();
        let found = found.map(|record| (record.revision, record.value.unwrap()[0]));
        let record = &mut self.records[at];
        let is_allowed =
            found == record.now || record.maybe.iter().any(|maybe| *maybe == found.map(|(_, value)| value));
        assert!(is_allowed, "record {at} is {found:?}, not as in {record:?}");
        // Outcomes are unknown only for a stopped log, and opening resolves them.
        if !self.disk.is_off() {
            record.now = found;
            self.newest = self.newest.max(found.map_or(Revision(0), |(revision, _)| revision));
        }
    }

    /// Compares everything with the model, after opening.
    fn check(&mut self) {
        for at in 0..KEYS {
            self.check_record(at);
            self.records[at].maybe.clear();
        }
        for partition in 0..PARTITIONS {
            let id = PartitionId(partition);
            let engine = self.engine.as_ref().unwrap();
            let log = &mut self.logs[usize::from(partition)];
            let last = block_on(engine.last(id)).unwrap().0;
            assert!(
                last >= log.known.last_key_value().map_or(0, |(position, _)| *position),
                "entries are lost"
            );
            if let Some(newest) = block_on(engine.snapshot(id)).unwrap() {
                assert_eq!(*newest.bytes, newest.position.0.to_le_bytes());
                assert!(newest.position.0 >= log.snapshots.last().copied().unwrap_or(0));
            } else {
                assert!(log.snapshots.is_empty(), "snapshots are lost");
            }
            let from = match block_on(engine.read(id, Position(1), 0)) {
                Err(scalebricks_control::engine::ReadError::Trimmed { first, .. }) => first.0,
                read => {
                    assert!(read.is_ok());
                    1
                }
            };
            assert!((log.floor.0..=log.floor.1).contains(&from), "trimmed to {from}, not to {:?}", log.floor);
            log.floor = (from, from);
            let entries = block_on(engine.read(id, Position(from), usize::MAX)).unwrap();
            assert_eq!(entries.len() as u64, last + 1 - from, "from {from} to {last}");
            for (position, entry) in (from..).zip(entries) {
                let name = (entry.batch.id.writer.0, entry.batch.id.number);
                assert_eq!(entry.position.0, position);
                let len = entry.batch.payload.len();
                assert_eq!(entry.batch.payload, payload(partition, name.1, len));
                if let Some(known) = log.known.get(&position) {
                    assert_eq!(*known, name);
                } else {
                    assert!(log.unknown.remove(&name), "{name:?} at {position} was never said to be unknown");
                    log.known.insert(position, name);
                    assert_eq!(log.positions.insert(name, position), None, "{name:?} is there twice");
                }
            }
            // What is absent now stays absent. None was trimmed: the log was not written after the outcome became
            // unknown.
            log.unknown.clear();
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Append { partition, count, len } => self.append(partition, count, len),
            Step::Retry { partition } => self.retry(partition),
            Step::Swap { key, value, is_right } => self.swap(key, value, is_right),
            Step::Snapshot { partition } => self.snapshot(partition),
            Step::Trim { partition } => self.trim(partition),
            Step::Reopen => {
                self.engine = None;
                self.open();
                if self.disk.is_off() {
                    self.crash();
                }
                self.check();
            }
            Step::PowerOff => {
                self.crash();
                self.check();
            }
            Step::FailAt { operations, is_power } => {
                let fault = if is_power { Fault::PowerOff } else { Fault::Error };
                self.disk.fail(self.disk.operations() + operations, fault);
            }
            Step::Capacity { free_bytes } => {
                let used: usize = self.disk.names().iter().map(|name| self.disk.content(name).len()).sum();
                self.disk.set_capacity(Some(used + free_bytes));
            }
        }
    }
}

fn payload(partition: u16, number: u64, len: usize) -> Arc<[u8]> {
    (0..len).map(|i| (i as u64 * 31 + number * 7 + u64::from(partition)) as u8).collect()
}

proptest! {
    #[test]
    fn what_was_acknowledged_survives(steps in prop::collection::vec(step(), 1..60), seed: u64) {
        let mut world = World::new(seed % (1 << 40));
        for step in &steps {
            world.run(step);
        }
        world.disk.set_capacity(None);
        world.crash();
        world.check();
        // The log can be used.
        for partition in 0..PARTITIONS {
            world.retry(partition);
            world.append(partition, 2, 20);
            assert!(world.logs[usize::from(partition)].unknown.is_empty());
        }
        world.crash();
        world.check();
    }
}
