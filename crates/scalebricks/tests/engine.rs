//! `scalebricks engine` from outside: killed and started again, stopped in order, checked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use pollster::block_on;
use rustix::process::{Pid, Signal, kill_process};
use scalebricks_control::engine::{AppendError, Batch, BatchId, Engine, Snapshot, WriterId};
use scalebricks_engine::remote::{ClientOptions, Endpoint, RemoteEngine};
use scalebricks_types::{PartitionId, Position};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

/// A process that runs, ended by SIGKILL at the latest with the test.
struct Process {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    /// What it said before it was ready.
    said: String,
}

impl Process {
    fn start(data: &Path, args: &[&str]) -> Self {
        let mut child = command(&["run", "--data"])
            .arg(data)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("ready") {
            assert!(log.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        Self { child, log, said }
    }

    /// Ends it by SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and returns its status and last words.
    fn stop(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut said = String::new();
        self.log.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn connect(endpoint: Endpoint) -> RemoteEngine {
    RemoteEngine::connect(endpoint, ClientOptions::default()).unwrap()
}

fn socket(data: &Path) -> Endpoint {
    Endpoint::Unix(data.join("engine.sock"))
}

fn batch(writer: u64, number: u64, len: usize) -> Batch {
    Batch { id: BatchId { writer: WriterId(writer), number }, payload: Arc::from(vec![number as u8; len]) }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("log");
    let mut process = Process::start(&data, &[]);
    let engine = connect(socket(&data));
    let is_over = AtomicBool::new(false);
    let acknowledged: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let (engine, is_over) = (&engine, &is_over);
        let append_all = move |writer| {
            let mut positions: Vec<u64> = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let number = positions.len() as u64 + 1;
                match block_on(engine.append(P, batch(writer, number, 300))) {
                    Ok(position) => positions.push(position.0),
                    Err(AppendError::Unknown(_) | AppendError::Refused(_)) => {} // again, under the same name
                    Err(error) => panic!("{error}"),
                }
            }
            positions
        };
        let threads: Vec<_> = (0..8).map(|writer| scope.spawn(move || append_all(writer))).collect();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(150));
            process.kill();
            process = Process::start(&data, &[]);
            assert!(process.said.contains("was_closed=false"), "{}", process.said);
        }
        std::thread::sleep(Duration::from_millis(150));
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let entries = block_on(engine.read(P, Position(1), usize::MAX)).unwrap();
    assert_eq!(acknowledged.iter().map(Vec::len).sum::<usize>(), entries.len(), "each is there once");
    for (writer, positions) in (0..).zip(&acknowledged) {
        for (number, &position) in (1..).zip(positions) {
            let entry = &entries[position as usize - 1];
            assert_eq!((entry.position, &entry.batch), (Position(position), &batch(writer, number, 300)));
        }
    }
    process.kill();
    let (code, out, _) = check(&data);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("entries"), "{out}");
}

#[test]
fn it_stops_in_order_and_says_what_it_served() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("log");
    for (signal, life) in [(Signal::TERM, 1), (Signal::INT, 2)] {
        let process = Process::start(&data, &["--log", "json"]);
        assert!(process.said.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
        let engine = connect(socket(&data));
        assert_eq!(block_on(engine.append(P, batch(1, life, 10))), Ok(Position(life)));
        let (code, said) = process.stop(signal);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("\"appended\":1"), "{said}");
        assert!(!data.join("engine.sock").exists());
        let (code, out, _) = check(&data);
        assert_eq!(code, Some(0));
        assert!(out.contains("closed in order"), "{out}");
    }
}

#[test]
fn one_process_has_a_directory_and_one_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (folder.path().join("log"), folder.path().join("other"));
    let place = socket(&data).to_string();
    let mut process = Process::start(&data, &[]);
    let fails = |args: &[&str], data: &Path, word: &str| {
        let out = command(args).arg(data).output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        assert!(text(&out.stderr).contains(word), "{}", text(&out.stderr));
    };
    fails(&["run", "--data"], &data, "in use");
    fails(&["check"], &data, "in use");
    fails(&["run", "--listen", &place, "--data"], &other, "served by another process");
    process.kill();
    // What it left is no hindrance.
    assert!(data.join("engine.sock").exists());
    Process::start(&other, &["--listen", &place]).kill();
    let listen = command(&["run", "--listen", "tcp:192.0.2.1:9", "--data", "x"]).output().unwrap();
    assert_eq!(listen.status.code(), Some(2));
    assert!(text(&listen.stderr).contains("JetStream"));
}

#[test]
fn a_port_of_the_loopback_can_be_served() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), &["--listen", "tcp:127.0.0.1:0"]);
    let place = process.said.split("listen=").nth(1).unwrap().split_whitespace().next().unwrap();
    let engine = connect(place.parse().unwrap());
    assert_eq!(block_on(engine.append(P, batch(1, 1, 10))), Ok(Position(1)));
}

#[test]
fn check_names_what_is_damaged_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("log");
    let process = Process::start(&data, &[]);
    let engine = connect(socket(&data));
    for number in 1..=20 {
        block_on(engine.append(P, batch(1, number, 1000))).unwrap();
    }
    let snapshot = Snapshot { position: Position(15), bytes: Arc::from([7; 1000]) };
    block_on(engine.put_snapshot(P, snapshot)).unwrap();
    drop(engine);
    process.stop(Signal::TERM);
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
    let run = command(&["run", "--data"]).arg(&data).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("put a whole copy"), "{}", text(&run.stderr));
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
    assert!(text(&help.stdout).contains("scalebricks engine run --data"));
}
