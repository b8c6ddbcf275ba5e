//! A switch whose log is replaced by an older one.

use super::shared::{DIRECTORY, KIND, ask, change, configure, follow, wait};
use crate::replaceable::{Replaceable, copy, embedded};
use scalebricks_admin::model::switch::Change;
use scalebricks_control::engine::{Batch, BatchId, Engine, MAX_BATCH_BYTES, ReadError, Snapshot, WriterId};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_types::{PartitionId, Position};
use std::fs;
use std::sync::Arc;

const P: PartitionId = PartitionId(0);

/// Bytes of entries after which a switch keeps a snapshot.
const LIMIT: usize = 16 << 20;

#[test]
fn names_are_those_of_an_older_log_that_takes_the_place_of_the_one_read() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, DIRECTORY);
    let (log, backup) = (folder.path().join("log"), folder.path().join("backup"));
    let engine = Replaceable::new(embedded(&log));
    let same: Arc<dyn Engine> = Arc::<Replaceable>::clone(&engine);
    let switch = follow(&configuration, &same);
    wait("it follows", || switch.has_all_names());
    for n in 0..10 {
        ask(&switch, &[change(Change::Add, n, "forward rack1")]).unwrap();
    }
    let old = switch.list();
    pollster::block_on(engine.remove());
    copy(&log, &backup);
    engine.put(embedded(&log));
    for n in 10..30 {
        ask(&switch, &[change(Change::Add, n, "drop"), change(Change::Remove, n - 10, "")]).unwrap();
    }
    assert_ne!(switch.list(), old);
    pollster::block_on(engine.remove());
    fs::remove_dir_all(&log).unwrap();
    fs::rename(&backup, &log).unwrap();
    engine.put(embedded(&log));
    wait("it has the names of the older log", || switch.list() == old && switch.has_all_names());
    let view = switch.view();
    assert_eq!((view.position, view.log_reloads), (Some(10), 1));
    let metrics = scalebricks_admin::metrics::render_switch(&view).unwrap();
    assert!(metrics.contains("scalebricks_switch_log_reloads_total 1\n"), "{metrics}");
    // It goes on from there.
    assert_eq!(ask(&switch, &[change(Change::Add, 77, "flood")]).unwrap(), 11);
    assert_eq!(switch.list().len(), 11);
}

#[test]
fn a_snapshot_that_is_ahead_of_the_log_is_not_begun_with() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, DIRECTORY);
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
    let bytes = Arc::from(*b"whatever it says");
    pollster::block_on(engine.put_snapshot(P, Snapshot { position: Position(7), bytes })).unwrap();
    let switch = follow(&configuration, &engine);
    let is_told = |fault: String| fault.contains("of position 7, but the log ends at 0");
    wait("it says why", || switch.view().fault.is_some_and(is_told));
    assert!(!switch.has_all_names());
}

/// Few entries of many bytes each: far fewer than a snapshot waits for, and far more bytes. They are another switch's, which is gone.
#[test]
fn what_a_switch_replays_is_bounded_in_bytes_whoever_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, DIRECTORY);
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
    let switch = follow(&configuration, &engine);
    wait("it follows", || switch.has_all_names());
    let mut changes = Vec::new();
    for n in 0..6_000 {
        changes.push(serde_json::json!({"op": "add", "name": format!("02:00:00:00:{:02x}:{:02x}", n / 256, n % 256), "action": "drop"}));
    }
    for n in 0..6_000 {
        changes.push(serde_json::json!({"op": "remove", "name": format!("02:00:00:00:{:02x}:{:02x}", n / 256, n % 256)}));
    }
    let record = serde_json::json!({"version": 1, "kind": "mac", "changes": changes});
    let payload: Arc<[u8]> = serde_json::to_vec(&record).unwrap().into();
    assert!((MAX_BATCH_BYTES / 2..MAX_BATCH_BYTES).contains(&payload.len()), "{}", payload.len());
    let mut last = 0;
    for number in 1..=(3 * LIMIT / payload.len()) as u64 {
        let id = BatchId { writer: WriterId(1 << 40), number };
        let batch = Batch { id, payload: Arc::clone(&payload) };
        last = pollster::block_on(engine.append(P, batch)).unwrap().0;
    }
    wait("it has all", || switch.view().position == Some(last));
    // Half as much again as after entries of its own, and the entry that brought it there.
    let replayed = || {
        let snapshot = pollster::block_on(engine.snapshot(P)).unwrap();
        (last - snapshot.map_or(0, |snapshot| snapshot.position.0)) as usize * payload.len()
    };
    wait("what is replayed is bounded", || replayed() <= LIMIT * 3 / 2 + MAX_BATCH_BYTES);
    let begins = || pollster::block_on(engine.read(P, Position(1), 1_000));
    wait("the log is trimmed", || matches!(begins(), Err(ReadError::Trimmed { .. })));
}
