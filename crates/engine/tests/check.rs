//! A check reports what opening would find, and changes nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use pollster::block_on;
use scalebricks_control::engine::{Batch, BatchId, Engine, Snapshot, WriterId};
use scalebricks_engine::embedded::memory::MemoryDisk;
use scalebricks_engine::embedded::{Damage, EmbeddedLog, OpenError, Options, check, check_on};
use scalebricks_types::{PartitionId, Position};
use std::collections::BTreeMap;
use std::sync::Arc;

const P: PartitionId = PartitionId(3);
const FIRST: &str = "log-0000000001.seg";
const SNAPSHOT: &str = "snapshot-00003-00000000000000000007.snap";

/// A log of two partitions over three segments, one of them trimmed to its snapshot.
fn sample() -> MemoryDisk {
    let disk = MemoryDisk::default();
    let options = Options { segment_bytes: 4 << 10, salt: 5, ..Options::default() };
    let engine = EmbeddedLog::open_on(disk.storage(), options).unwrap();
    for number in 1..=9 {
        let batch =
            |len| Batch { id: BatchId { writer: WriterId(1), number }, payload: Arc::from(vec![1; len]) };
        block_on(engine.append(P, batch(500))).unwrap();
        block_on(engine.append(PartitionId(4), batch(500))).unwrap();
    }
    block_on(engine.swap("a.b", None, Some(Arc::from(*b"value")))).unwrap();
    block_on(engine.put_snapshot(P, Snapshot { position: Position(7), bytes: Arc::from([9; 100]) })).unwrap();
    block_on(engine.trim(P, Position(6))).unwrap();
    drop(engine);
    disk
}

fn content(disk: &MemoryDisk) -> BTreeMap<String, Vec<u8>> {
    disk.names().into_iter().map(|name| (name.clone(), disk.content(&name))).collect()
}

#[test]
fn a_whole_log_is_described() {
    let disk = sample();
    let report = check_on(&disk.storage()).unwrap();
    assert_eq!((report.log.entries, report.log.records, report.log.was_closed), (4 + 9, 1, true));
    let partitions: Vec<_> = report.partitions.iter().map(|p| (p.partition.0, p.first.0, p.last.0)).collect();
    assert_eq!(partitions, [(3, 6, 9), (4, 1, 9)]);
    assert_eq!((report.snapshots.len(), report.damage), (1, vec![]));
}

#[test]
fn what_opening_would_change_is_told_and_left() {
    let disk = sample();
    let last = disk.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    let bytes = disk.content(&last);
    disk.put(&last, &bytes[..bytes.len() - 5]);
    disk.put(&format!("{SNAPSHOT}.tmp"), b"half");
    let before = content(&disk);
    let operations = disk.operations();
    let report = check_on(&disk.storage()).unwrap();
    assert_eq!(report.damage, [], "a torn end is none");
    let torn = report.log.torn.clone().unwrap();
    assert_eq!((&torn.file, report.log.was_closed), (&last, false));
    assert_eq!(report.log.removed, [format!("{SNAPSHOT}.tmp")]);
    assert_eq!((content(&disk), disk.operations()), (before, operations));
    let engine = EmbeddedLog::open_on(disk.storage(), Options::default()).unwrap();
    assert_eq!((engine.report().torn.as_ref(), engine.report().entries), (Some(&torn), report.log.entries));
}

#[test]
fn damage_is_told_with_its_place() {
    let disk = sample();
    disk.flip(FIRST, 900, 4);
    let report = check_on(&disk.storage()).unwrap();
    let Err(OpenError::Damaged { file, offset, what }) =
        EmbeddedLog::open_on(disk.storage(), Options::default())
    else {
        panic!("it is damaged");
    };
    assert_eq!(report.damage, [Damage::Log { file, offset, what }]);
    assert!(report.log.entries < 13, "what was read before it");

    let disk = sample();
    disk.flip(SNAPSHOT, 50, 1);
    let report = check_on(&disk.storage()).unwrap();
    assert!(!report.snapshots[0].is_whole);
    let [Damage::Snapshot(what), Damage::NoSnapshot { partition: P, first: Position(6) }] =
        &report.damage[..]
    else {
        panic!("{:?}", report.damage);
    };
    assert!(what.contains(SNAPSHOT));
}

#[test]
fn a_directory_in_use_is_not_checked_and_a_copy_is() {
    let directory = tempfile::tempdir().unwrap();
    let engine = EmbeddedLog::open(directory.path(), Options::default()).unwrap();
    assert!(matches!(check(directory.path()), Err(OpenError::InUse(_))));
    drop(engine);
    assert_eq!(check(directory.path()).unwrap().damage, []);
    std::fs::remove_file(directory.path().join("lock")).unwrap();
    assert_eq!(check(directory.path()).unwrap().log.segments, 1);
    assert!(!directory.path().join("lock").exists(), "nothing was made");
    assert!(matches!(check(&directory.path().join("no")), Err(OpenError::Io { .. })));
}
