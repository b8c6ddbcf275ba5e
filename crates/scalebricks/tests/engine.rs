//! `scalebricks engine check`.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use pollster::block_on;
use scalebricks_control::engine::{Batch, BatchId, Engine, Snapshot, WriterId};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_types::{PartitionId, Position};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

const P: PartitionId = PartitionId(5);

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scalebricks"));
    command.arg("engine").args(args).env_remove("SCALEBRICKS_LOG");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn check(data: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command(&["check"]).arg(data).output().unwrap();
    (status.code(), text(&stdout), text(&stderr))
}

fn open(data: &Path) -> EmbeddedLog {
    EmbeddedLog::open(data, Options::default()).unwrap()
}

fn batch(writer: u64, number: u64, len: usize) -> Batch {
    Batch { id: BatchId { writer: WriterId(writer), number }, payload: Arc::from(vec![number as u8; len]) }
}

#[test]
fn a_log_that_is_open_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("log");
    let engine = open(&data);
    assert_eq!(block_on(engine.append(P, batch(1, 1, 10))), Ok(Position(1)));
    let (code, _, problem) = check(&data);
    assert_eq!(code, Some(1));
    assert!(problem.contains("in use"), "{problem}");
    drop(engine);
    let (code, out, _) = check(&data);
    assert_eq!(code, Some(0));
    assert!(out.contains("closed in order"), "{out}");
}

#[test]
fn check_names_what_is_damaged_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("log");
    let engine = open(&data);
    for number in 1..=20 {
        block_on(engine.append(P, batch(1, number, 1000))).unwrap();
    }
    let snapshot = Snapshot { position: Position(15), bytes: Arc::from([7; 1000]) };
    block_on(engine.put_snapshot(P, snapshot)).unwrap();
    drop(engine);
    let (code, out, _) = check(&data);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("1 segment, ") && out.contains("20 entries"), "{out}");
    assert!(out.lines().any(|line| line.split_whitespace().eq(["5", "1", "20", "20", "15"])), "{out}");

    let flip = |name: &str, at: usize| {
        let path = data.join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 0x20;
        fs::write(&path, bytes).unwrap();
    };
    let (segment, kept) = ("log-0000000001.seg", "snapshot-00005-00000000000000000015.snap");
    flip(kept, 500);
    let (code, out, _) = check(&data);
    assert_eq!(code, Some(1));
    assert!(out.contains("DAMAGED") && out.contains(kept) && out.contains("remove their files"), "{out}");
    flip(segment, 5000);
    let (code, out, _) = check(&data);
    assert_eq!(code, Some(1));
    assert!(out.contains("DAMAGED: log-0000000001.seg, offset ") && out.contains("What to do"), "{out}");
    let refused = EmbeddedLog::open(&data, Options::default()).unwrap_err().to_string();
    assert!(refused.contains("put a whole copy"), "{refused}");
    flip(segment, 5000);
    // The end cut off, as a crash does, is no damage.
    let bytes = fs::read(data.join(segment)).unwrap();
    fs::write(data.join(segment), &bytes[..bytes.len() - 7]).unwrap();
    fs::remove_file(data.join(kept)).unwrap();
    let (code, out, _) = check(&data);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("torn: "), "{out}");
    let (code, _, problem) = check(&folder.path().join("no"));
    assert_eq!(code, Some(1));
    assert!(problem.contains("No such file"), "{problem}");
}

#[test]
fn help_has_examples() {
    let help = command(&["--help"]).output().unwrap();
    assert!(text(&help.stdout).contains("scalebricks engine check /var/lib/scalebricks/log"));
}
