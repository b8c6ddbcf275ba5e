//! Damage to stored bytes is detected everywhere, and never read as other data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use pollster::block_on;
use scalebricks_control::engine::{
    Batch, BatchId, Engine, EngineError, Entry, ReadError, Snapshot, WriterId,
};
use scalebricks_engine::embedded::memory::MemoryDisk;
use scalebricks_engine::embedded::{EmbeddedLog, OpenError, Options};
use scalebricks_types::{PartitionId, Position};
use std::sync::Arc;

const P: PartitionId = PartitionId(1);
const Q: PartitionId = PartitionId(2);

fn options() -> Options {
    Options { segment_bytes: 4 << 10, salt: 77, ..Options::default() }
}

fn open(disk: &MemoryDisk) -> Result<EmbeddedLog, OpenError> {
    EmbeddedLog::open_on(disk.storage(), options())
}

fn append(engine: &EmbeddedLog, partition: PartitionId, number: u64, payload: &[u8]) {
    let batch = Batch { id: BatchId { writer: WriterId(9), number }, payload: Arc::from(payload) };
    assert_eq!(block_on(engine.append(partition, batch)), Ok(Position(number)));
}

fn entries(engine: &EmbeddedLog, partition: PartitionId) -> Vec<Entry> {
    block_on(engine.read(partition, Position(1), usize::MAX)).unwrap()
}

/// Four segments with two partitions and a record in them; the last segment is short.
fn sample() -> MemoryDisk {
    let disk = MemoryDisk::default();
    let engine = open(&disk).unwrap();
    block_on(engine.swap("record", None, Some(Arc::from(*b"value")))).unwrap();
    for number in 1..=22 {
        append(&engine, P, number, &[number as u8; 300]);
        append(&engine, Q, number, &[number as u8 ^ 0xff; 250]);
    }
    drop(engine);
    disk
}

fn segments(disk: &MemoryDisk) -> Vec<String> {
    let names: Vec<String> = disk.names().into_iter().filter(|name| name.starts_with("log-")).collect();
    assert!(names.len() >= 3, "{names:?}");
    names
}

/// The disk of a log that was not closed.
fn unclosed() -> MemoryDisk {
    let disk = sample();
    let engine = open(&disk).unwrap();
    append(&engine, P, 23, &[23; 300]);
    append(&engine, P, 24, &[24; 300]);
    disk.copy()
}

#[test]
fn a_changed_bit_anywhere_is_noticed() {
    let disk = sample();
    let engine = open(&disk.copy()).unwrap();
    assert!(engine.report().was_closed && engine.report().torn.is_none(), "{:?}", engine.report());
    let whole = (entries(&engine, P), entries(&engine, Q));
    let mut cut = 0;
    for name in segments(&disk) {
        let len = disk.content(&name).len();
        for offset in 0..len {
            let damaged = disk.copy();
            damaged.flip(&name, offset, 1 << (offset * 5 % 8));
            match open(&damaged) {
                Err(OpenError::Damaged { file, offset: at, .. }) => {
                    assert_eq!(file, name);
                    assert!(at as usize <= offset, "found at {at}, done at {offset}");
                }
                Err(error) => panic!("{name} at {offset}: {error}"),
                // Only damage to the mark of a closed log looks like a crash, and loses nothing.
                Ok(engine) => {
                    cut += 1;
                    assert!(engine.report().torn.is_some(), "{name} at {offset}");
                    assert!((entries(&engine, P), entries(&engine, Q)) == whole);
                    assert!(block_on(engine.record("record")).unwrap().is_some());
                }
            }
        }
    }
    assert_eq!(cut, 24 + 9, "bytes of the mark");
}

#[test]
fn only_the_last_group_of_a_log_that_was_not_closed_passes_for_a_crash() {
    let disk = unclosed();
    let whole = entries(&open(&disk.copy()).unwrap(), P);
    assert_eq!(whole.len(), 24);
    let name = segments(&disk).pop().unwrap();
    let len = disk.content(&name).len();
    let last = len - (24 + 9 + 26 + 300);
    for offset in 0..len {
        let damaged = disk.copy();
        damaged.flip(&name, offset, 0x10);
        match open(&damaged) {
            Err(OpenError::Damaged { .. }) => assert!(offset < last, "{offset}"),
            Ok(engine) => {
                assert!(offset >= last, "{offset}");
                assert_eq!(engine.report().torn.as_ref().unwrap().offset as usize, last);
                assert!(entries(&engine, P) == whole[..23]);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_segment_cut_short_is_noticed_unless_it_is_the_last() {
    let disk = unclosed();
    let whole = entries(&open(&disk.copy()).unwrap(), P);
    let names = segments(&disk);
    for name in &names {
        let content = disk.content(name);
        for len in 0..content.len() {
            let damaged = disk.copy();
            damaged.put(name, &content[..len]);
            match open(&damaged) {
                Ok(engine) => {
                    assert_eq!(Some(name), names.last());
                    let found = entries(&engine, P);
                    assert!(found == whole[..found.len()]);
                }
                Err(OpenError::Damaged { .. }) => assert!(Some(name) != names.last(), "{name} at {len}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_missing_or_exchanged_segment_is_noticed() {
    let disk = sample();
    let names = segments(&disk);
    for (i, name) in names.iter().enumerate() {
        let damaged = disk.copy();
        damaged.take_away(name);
        // A missing last segment is not detected.
        assert_eq!(open(&damaged).is_ok(), i + 1 == names.len(), "{name}");
        for other in names.iter().filter(|other| *other != name) {
            let damaged = disk.copy();
            damaged.put(name, &disk.content(other));
            assert!(matches!(open(&damaged), Err(OpenError::Damaged { .. })), "{other} as {name}");
        }
    }
    // A segment of another log, with the same number and first group.
    let other = MemoryDisk::default();
    let engine = EmbeddedLog::open_on(other.storage(), Options { salt: 78, ..options() }).unwrap();
    append(&engine, P, 1, b"strange");
    drop(engine);
    let damaged = disk.copy();
    damaged.put(&names[0], &other.content(&names[0]));
    assert!(matches!(open(&damaged), Err(OpenError::Damaged { .. })));
}

#[test]
fn bytes_behind_the_end_are_cut_only_if_a_crash_can_have_left_them() {
    let disk = unclosed();
    let names = segments(&disk);
    for name in &names {
        for tail in [&[0; 1][..], &[0; 5000], b"SGRP", &[0xff; 100]] {
            let longer = disk.copy();
            longer.put(name, &[&disk.content(name)[..], tail].concat());
            match open(&longer) {
                Ok(engine) => {
                    assert_eq!(Some(name), names.last());
                    assert_eq!(engine.report().torn.as_ref().unwrap().bytes, tail.len() as u64);
                    assert_eq!(entries(&engine, P).len(), 24);
                    append(&engine, P, 25, b"and on it goes");
                }
                Err(OpenError::Damaged { .. }) => assert!(Some(name) != names.last()),
                Err(error) => panic!("{error}"),
            }
        }
    }
    // Longer than the largest group.
    let longer = disk.copy();
    let name = names.last().unwrap();
    longer.put(name, &[&disk.content(name)[..], &vec![0; 17 << 20]].concat());
    assert!(matches!(open(&longer), Err(OpenError::Damaged { .. })));
}

#[test]
fn a_payload_that_looks_like_the_log_does_not_pass_for_it() {
    // A payload contains groups of the log, and the power fails while it is written.
    let disk = unclosed();
    let name = segments(&disk).pop().unwrap();
    let stolen = disk.content(&name)[36..].to_vec();
    let before = disk.content(&name).len();
    let victim = disk.copy();
    let engine = open(&victim).unwrap();
    append(&engine, P, 25, &stolen);
    let content = victim.content(&name);
    assert!(content.len() > before);
    for len in before..content.len() {
        let torn = disk.copy();
        let mut half = content[..len].to_vec();
        if let Some(byte) = half.get_mut(before) {
            *byte ^= 0xff; // its header was not written
        }
        torn.put(&name, &half);
        let engine = open(&torn).unwrap();
        assert_eq!(entries(&engine, P).len(), 24);
    }
}

#[test]
fn damage_under_an_open_log_is_told_with_its_place() {
    let disk = sample();
    let engine = open(&disk).unwrap();
    let names = segments(&disk);
    let at = disk.content(&names[0]).windows(50).position(|window| window == [4; 50]).unwrap();
    disk.flip(&names[0], at + 7, 0x80);
    let before = block_on(engine.read(P, Position(1), usize::MAX)).unwrap();
    assert_eq!(before.len(), 3, "what comes before it can be read");
    let Err(ReadError::Damaged { partition, position, what }) = block_on(engine.read(P, Position(4), 0))
    else {
        panic!("not told")
    };
    assert_eq!((partition, position), (P, Position(4)));
    assert!(what.contains(&names[0]), "{what}");
    assert_eq!(block_on(engine.read(P, Position(5), usize::MAX)).unwrap().len(), 18);
    assert_eq!(entries(&engine, Q).len(), 22, "the other partition is whole");
    let mut watch = engine.watch(P, Position(3));
    let seen: Vec<_> = block_on(async {
        use futures_util::StreamExt;
        watch.by_ref().collect().await
    });
    assert_eq!(seen.len(), 2);
    assert!(matches!(&seen[1], Err(ReadError::Damaged { position: Position(4), .. })));
}

#[test]
fn a_damaged_snapshot_gives_way_to_the_one_before() {
    let disk = MemoryDisk::default();
    let engine = open(&disk).unwrap();
    let put = |position: u64, byte| {
        let snapshot = Snapshot { position: Position(position), bytes: Arc::from([byte; 400]) };
        block_on(engine.put_snapshot(P, snapshot)).unwrap();
    };
    (1..=22).for_each(|number| append(&engine, P, number, b"x"));
    for position in [10, 15, 20] {
        put(position, position as u8);
    }
    let snapshots: Vec<String> =
        disk.names().into_iter().filter(|name| name.starts_with("snapshot-")).collect();
    assert_eq!(snapshots.len(), 2, "{snapshots:?}");
    for offset in 0..436 {
        disk.flip(&snapshots[1], offset, 1);
        let newest = block_on(engine.snapshot(P)).unwrap().unwrap();
        assert_eq!((newest.position, &*newest.bytes), (Position(15), &[15; 400][..]));
        let trimmed = block_on(engine.trim(P, Position(18)));
        assert!(matches!(trimmed, Err(EngineError::Refused(_))), "trimming trusted a damaged snapshot");
        disk.flip(&snapshots[1], offset, 1);
    }
    disk.flip(&snapshots[0], 100, 1);
    disk.flip(&snapshots[1], 100, 1);
    assert!(matches!(block_on(engine.snapshot(P)), Err(EngineError::Damaged(_))));
    put(16, 16);
    assert_eq!(block_on(engine.snapshot(P)).unwrap().unwrap().position, Position(16));
}
