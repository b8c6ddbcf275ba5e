//! Arbitrary segment files: opening them gives a log or an error. A log that was opened can be read completely,
//! written, closed and opened again, and then has the same content.
//!
//! Here a checksum of 0 counts as correct, so that inputs reach the code behind the check.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pollster::block_on;
use scalebricks_control::engine::{Batch, BatchId, Engine, Entry, ReadError, WriterId};
use scalebricks_engine::embedded::memory::MemoryDisk;
use scalebricks_engine::embedded::{EmbeddedLog, OpenError, Options};
use scalebricks_types::{PartitionId, Position};
use std::cell::OnceCell;
use std::sync::Arc;

const SEGMENTS: [&str; 3] = ["log-0000000001.seg", "log-0000000002.seg", "log-0000000003.seg"];

fn open(disk: &MemoryDisk) -> Result<EmbeddedLog, OpenError> {
    EmbeddedLog::open_on(disk.storage(), Options { segment_bytes: 4 << 10, salt: 5, ..Options::default() })
}

fn batch(number: u64, len: usize) -> Batch {
    Batch { id: BatchId { writer: WriterId(1), number }, payload: Arc::from(vec![number as u8; len]) }
}

/// A valid log of three segments.
fn sample() -> MemoryDisk {
    let disk = MemoryDisk::default();
    let engine = open(&disk).unwrap();
    block_on(engine.swap("a.b", None, Some(Arc::from(*b"value")))).unwrap();
    for number in 1..=10 {
        let partition = PartitionId((number % 2) as u16);
        block_on(engine.append(partition, batch(number, 1000))).unwrap();
    }
    drop(engine);
    disk
}

thread_local!(static SAMPLE: OnceCell<MemoryDisk> = const { OnceCell::new() });

fn disk(bytes: &[u8]) -> Option<MemoryDisk> {
    let (&mode, mut rest) = bytes.split_first()?;
    if mode & 1 == 0 {
        // One file or two.
        let disk = MemoryDisk::default();
        if mode & 2 != 0 {
            let (len, both) = rest.split_first_chunk::<2>()?;
            let (first, second) = both.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            disk.put(SEGMENTS[1], second);
            rest = first;
        }
        disk.put(SEGMENTS[0], rest);
        return Some(disk);
    }
    // The valid log with some bytes changed, or one file truncated.
    let disk = SAMPLE.with(|cell| cell.get_or_init(sample).copy());
    for edit in rest.chunks_exact(4) {
        let (name, at) =
            (SEGMENTS[usize::from(edit[0]) % 3], usize::from(edit[1]) << 8 | usize::from(edit[2]));
        if edit[0] & 0x80 == 0 {
            disk.flip(name, at, edit[3]);
        } else {
            let content = disk.content(name);
            disk.put(name, &content[..at.min(content.len())]);
        }
    }
    Some(disk)
}

/// All entries of a partition.
fn entries(engine: &EmbeddedLog, partition: PartitionId) -> Vec<Entry> {
    let last = block_on(engine.last(partition)).unwrap();
    let first = match block_on(engine.read(partition, Position(1), 0)) {
        Err(ReadError::Trimmed { first, .. }) => first,
        Err(error) => panic!("{error}"),
        Ok(_) => Position(1),
    };
    let entries = block_on(engine.read(partition, first, usize::MAX)).unwrap();
    assert_eq!(entries.len() as u64, last.0 + 1 - first.0);
    for (position, entry) in (first.0..).zip(&entries) {
        assert_eq!(entry.position, Position(position));
    }
    entries
}

fuzz_target!(|bytes: &[u8]| {
    let Some(disk) = disk(bytes) else { return };
    let Ok(engine) = open(&disk) else { return };
    let mut before: Vec<_> = (0..3).map(PartitionId).map(|partition| entries(&engine, partition)).collect();
    let record = block_on(engine.record("a.b")).unwrap();
    let added = batch(u64::MAX, 10);
    if let Ok(position) = block_on(engine.append(PartitionId(2), added.clone())) {
        // Otherwise the log already had this batch.
        if before[2].iter().all(|entry| entry.position != position) {
            before[2].push(Entry { position, batch: added });
        }
    }
    drop(engine);
    let engine = open(&disk).expect("what could be opened can be opened again");
    assert!(engine.report().torn.is_none(), "what was torn is cut off");
    let after: Vec<_> = (0..3).map(PartitionId).map(|partition| entries(&engine, partition)).collect();
    assert!(before == after && record == block_on(engine.record("a.b")).unwrap());
});
