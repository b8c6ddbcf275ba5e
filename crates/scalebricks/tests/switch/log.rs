//! Several switches with one log.

use super::shared::{DIRECTORY, KIND, ask, change, configure, follow, wait};
use scalebricks_admin::model::switch::Change;
use scalebricks_control::engine::{Batch, BatchId, Engine, ReadError, WriterId};
use scalebricks_daemon::switch::load::Configuration;
use scalebricks_daemon::switch::running::ChangeError;
use scalebricks_elements::flat::NameError;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_types::{PartitionId, Position};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn all_switches_come_to_the_same_names_and_a_new_one_recovers_them() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, DIRECTORY);
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
    let switches = [follow(&configuration, &engine), follow(&configuration, &engine)];
    wait("both follow", || switches.iter().all(|switch| switch.has_all_names()));
    // Both add the same names concurrently: each name is accepted once.
    let accepted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = switches
            .iter()
            .zip(["forward rack1", "forward rack2"])
            .map(|(switch, action)| {
                scope.spawn(move || {
                    let add = |n| {
                        ask(switch, &[change(Change::Add, n, action), change(Change::Add, 1_000 + n, action)])
                    };
                    let answers = (0..50).map(add).map(|answer| match answer {
                        Ok(_) => 1,
                        Err(ChangeError::Refused(NameError::Exists { op: 0 }, _)) => 0,
                        Err(error) => panic!("{error}"),
                    });
                    answers.sum::<usize>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(accepted, 50);
    let last = ask(&switches[0], &[change(Change::Remove, 7, ""), change(Change::Alter, 8, "drop")]).unwrap();
    wait("both are there", || switches.iter().all(|switch| switch.view().position == Some(last)));
    let names = switches[0].list();
    assert_eq!((names.len(), switches[1].list()), (99, names.clone()));
    assert!(names.contains(&"02:00:00:00:00:08,drop\n".to_owned()));
    // Also all or none.
    let refused = ask(&switches[1], &[change(Change::Remove, 9, ""), change(Change::Remove, 7, "")]);
    assert!(
        matches!(refused, Err(ChangeError::Refused(NameError::Missing { op: 1 }, Some(_)))),
        "{refused:?}"
    );
    drop(switches);
    let again = follow(&configuration, &engine);
    wait("it recovers", || again.has_all_names());
    assert_eq!(again.list(), names);
    assert_eq!(again.view().source, "log");
}

#[test]
fn an_entry_that_was_logged_twice_is_void_the_second_time() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, DIRECTORY);
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
    let switch = follow(&configuration, &engine);
    wait("it follows", || switch.has_all_names());
    ask(&switch, &[change(Change::Add, 1, "drop")]).unwrap();
    // A batch that an engine logs again because it has forgotten it: here with an older number of the same writer.
    let payload = |action: &str| -> Arc<[u8]> {
        let changes = serde_json::json!([{"op": "alter", "name": "02:00:00:00:00:01", "action": action}]);
        let record = serde_json::json!({"version": 1, "kind": "mac", "changes": changes});
        serde_json::to_vec(&record).unwrap().into()
    };
    let append = |number, action| {
        let id = BatchId { writer: WriterId(1 << 40), number };
        pollster::block_on(engine.append(PartitionId(0), Batch { id, payload: payload(action) })).unwrap()
    };
    append(2, "forward rack2");
    let last = append(1, "forward rack1");
    wait("it is there", || switch.view().position == Some(last.0));
    assert_eq!(switch.list(), ["02:00:00:00:00:01,forward rack2\n"]);
    // It skips entries that it cannot decode.
    let id = BatchId { writer: WriterId(1 << 40), number: 3 };
    let nonsense = Batch { id, payload: b"nonsense".as_slice().into() };
    pollster::block_on(engine.append(PartitionId(0), nonsense)).unwrap();
    ask(&switch, &[change(Change::Alter, 1, "flood")]).unwrap();
    assert_eq!(switch.list(), ["02:00:00:00:00:01,flood\n"]);
}

/// More changes than trigger a snapshot, one per entry.
#[test]
fn the_log_is_trimmed_and_a_new_switch_begins_with_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, DIRECTORY);
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
    let switch = follow(&configuration, &engine);
    wait("it follows", || switch.has_all_names());
    for n in 0..1_100 {
        let action =
            if n % 2 == 0 { "forward rack1" } else { "route uplink-a 02:00:00:00:ff:01 02:00:00:00:ff:fe" };
        ask(&switch, &[change(Change::Add, n, action)]).unwrap();
    }
    let kept = || pollster::block_on(engine.snapshot(PartitionId(0))).unwrap();
    wait("a snapshot is kept", || kept().is_some());
    assert_eq!(kept().unwrap().position.0, 1_024);
    let begins = || pollster::block_on(engine.read(PartitionId(0), Position(1), 1_000));
    wait("the log is trimmed", || matches!(begins(), Err(ReadError::Trimmed { .. })));
    ask(&switch, &[change(Change::Remove, 3, "")]).unwrap();
    let last = ask(&switch, &[change(Change::Alter, 4, "drop")]).unwrap();
    let names = switch.list();
    assert_eq!(names.len(), 1_099);
    drop(switch);
    let again = follow(&configuration, &engine);
    wait("it recovers", || again.has_all_names());
    assert_eq!(again.view().position, Some(last));
    assert!(again.list() == names, "other names"); // a thousand lines
    // It continues from there.
    ask(&again, &[change(Change::Add, 3, "flood")]).unwrap();
    assert_eq!(again.list().len(), 1_100);
    // A switch without a port has all names except those of that port, and reports it.
    let other = tempfile::tempdir().unwrap();
    let mut fewer = configure(other.path(), KIND, DIRECTORY);
    let text = fs::read_to_string(other.path().join("switch.toml")).unwrap();
    fs::write(other.path().join("switch.toml"), text.replace("\"uplink-a\"", "\"uplink-c\"")).unwrap();
    fewer = Configuration::read(&other.path().join("switch.toml")).unwrap_or(fewer);
    let lacking = follow(&fewer, &engine);
    wait("it follows", || lacking.has_all_names());
    let wanted: Vec<String> = again.list().into_iter().filter(|line| !line.contains("uplink-a")).collect();
    assert_eq!(wanted.len(), 551);
    assert!(lacking.list() == wanted, "other names"); // a thousand lines
}

#[test]
fn a_log_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = configure(folder.path(), KIND, DIRECTORY);
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
    let batch =
        Batch { id: BatchId { writer: WriterId(1), number: 1 }, payload: b"a cluster's".as_slice().into() };
    pollster::block_on(engine.append(PartitionId(0), batch)).unwrap();
    let switch = follow(&configuration, &engine);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!switch.has_all_names());
    let answer = ask(&switch, &[change(Change::Add, 1, "drop")]);
    assert!(
        matches!(&answer, Err(ChangeError::NotReady(Some(why))) if why.contains("does not hold names")),
        "{answer:?}"
    );
    assert_eq!(pollster::block_on(engine.last(PartitionId(0))).unwrap().0, 1);
    // Switches with different kinds of names do not share a log either.
    let other = tempfile::tempdir().unwrap();
    let macs = configure(other.path(), KIND, DIRECTORY);
    let addresses = tempfile::tempdir().unwrap();
    let addresses = configure(addresses.path(), "kind = \"ipv4\"", DIRECTORY);
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&other.path().join("log"), Options::default()).unwrap());
    let first = follow(&macs, &engine);
    wait("it follows", || first.has_all_names());
    let second = follow(&addresses, &engine);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!second.has_all_names());
}
