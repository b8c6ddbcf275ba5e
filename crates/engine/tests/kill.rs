//! A process that appends to a log is killed with SIGKILL, again and again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the killed process prints what was acknowledged")]

use pollster::block_on;
use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_types::{PartitionId, Position};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const P: PartitionId = PartitionId(5);
const WRITERS: usize = 8;

/// Names the log's directory to the process that is killed.
const DIRECTORY: &str = "KILLED_LOG_DIRECTORY";

/// Numbers of the writers' next batches.
const NEXT: &str = "KILLED_LOG_NEXT";

fn batch(writer: usize, number: u64) -> Batch {
    let id = BatchId { writer: WriterId(writer as u64), number };
    Batch { id, payload: Arc::from(vec![number as u8; 300]) }
}

fn append_until_killed(directory: &Path) {
    let log = EmbeddedLog::open(directory, Options::default()).unwrap();
    let next = std::env::var(NEXT).unwrap();
    thread::scope(|scope| {
        for (writer, next) in next.split(' ').enumerate() {
            let (log, first) = (&log, next.parse::<u64>().unwrap());
            scope.spawn(move || {
                for number in first.. {
                    let position = block_on(log.append(P, batch(writer, number))).unwrap();
                    println!("acknowledged {writer} {}", position.0);
                }
            });
        }
    });
}

#[test]
fn acknowledged_entries_survive_sigkill() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return append_until_killed(Path::new(&directory));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = vec![Vec::<u64>::new(); WRITERS];
    let next = |acknowledged: &[Vec<u64>]| {
        let numbers = acknowledged.iter().map(|positions| (positions.len() + 1).to_string());
        numbers.collect::<Vec<_>>().join(" ")
    };
    for life in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::acknowledged_entries_survive_sigkill", "--nocapture"])
            .env(DIRECTORY, folder.path())
            .env(NEXT, next(&acknowledged))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (began, mut count) = (Instant::now(), 0);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some((_, words)) = line.split_once("acknowledged ") else { continue };
            let (writer, position) = words.split_once(' ').unwrap();
            acknowledged[writer.parse::<usize>().unwrap()].push(position.parse().unwrap());
            count += 1;
            if count >= 50 && began.elapsed() > Duration::from_millis(150) {
                child.kill().unwrap(); // lines that are in the pipe are still read
            }
        }
        assert!(!child.wait().unwrap().success() && count >= 50, "life {life}: {count} acknowledged");
    }
    let log = EmbeddedLog::open(folder.path(), Options::default()).unwrap();
    assert!(!log.report().was_closed);
    // The outcome of each writer's last batch is unknown: it is appended again under its number.
    for (writer, positions) in acknowledged.iter_mut().enumerate() {
        let number = positions.len() as u64 + 1;
        positions.push(block_on(log.append(P, batch(writer, number))).unwrap().0);
    }
    let entries = block_on(log.read(P, Position(1), usize::MAX)).unwrap();
    assert_eq!(acknowledged.iter().map(Vec::len).sum::<usize>(), entries.len(), "each is there once");
    for (writer, positions) in acknowledged.iter().enumerate() {
        for (number, &position) in (1..).zip(positions) {
            let entry = &entries[position as usize - 1];
            assert_eq!((entry.position, &entry.batch), (Position(position), &batch(writer, number)));
        }
    }
}
