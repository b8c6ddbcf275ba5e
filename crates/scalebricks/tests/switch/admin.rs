//! A running switch, whose far ends the test has, inspected and changed by the program.

use super::program::{example, frame, mac, refused, said, scalebricks};
use super::shared::worker;
use crate::harness::program;
use scalebricks_admin::model::NodeState;
use scalebricks_daemon::runtime::workers::{Control, turn};
use scalebricks_daemon::switch::admin::serve;
use scalebricks_daemon::switch::load::Configuration;
use scalebricks_daemon::switch::running::Running;
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn receive(port: &mut MemoryPort<Packet>) -> Option<Packet> {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(packet) = port.receive() {
            return Some(packet);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// The program's status of a switch in this folder.
fn ask(folder: &Path, args: &[&str]) -> String {
    said(folder, &[args, &["--socket", "switch.sock"]].concat())
}

/// Valid and invalid changes by the program, and changes by the file.
fn change_names(folder: &Path, switch: &Running) {
    assert_eq!(
        ask(folder, &["names", "add", "02:00:00:00:07:01", "forward", "uplink-b"]).trim(),
        "1 added, 0 altered, 0 removed"
    );
    let found = ask(folder, &["names", "lookup", "02:00:00:00:07:01"]);
    assert!(found.contains("forward uplink-b"), "{found}");
    let socket = ["--socket", "switch.sock"];
    let refused = |args: &[&str]| refused(folder, &[args, &socket].concat());
    let (status, error) = refused(&["names", "add", "02:00:00:00:07:01", "drop"]);
    assert!(status == Some(1) && error.contains("'02:00:00:00:07:01': the name already exists"), "{error}");
    let (status, error) = refused(&["names", "alter", "02:00:00:00:07:02", "drop"]);
    assert!(status == Some(1) && error.contains("the name does not exist"), "{error}");
    let (_, error) = refused(&["names", "add", "02:00:00:00:07:03", "forward", "nowhere"]);
    assert!(error.contains("no port is named 'nowhere'"), "{error}");
    ask(folder, &["names", "alter", "02:00:00:00:07:01", "drop"]);
    for n in 0..20 {
        ask(
            folder,
            &[
                "names",
                "add",
                &format!("02:00:00:00:08:{n:02x}"),
                &format!("route rack2 02:00:00:01:08:{n:02x} 02:00:00:00:00:01"),
            ],
        );
    }
    let (_, error) = refused(&["names", "remove", "02:00:00:00:08:00", "02:00:00:00:08:00"]);
    assert!(error.contains("the name does not exist"), "all or none: {error}");
    ask(folder, &["names", "remove", "02:00:00:00:08:00", "02:00:00:00:08:01"]);
    let listed = ask(folder, &["names", "list"]);
    assert_eq!(listed.lines().count(), 7 + 1 + 18, "{listed}");
    assert!(listed.contains("02:00:00:00:07:01,drop\n"), "{listed}");
    read_again(folder, switch, &listed);
}

/// The file is read again: as listed, invalid, and shorter.
fn read_again(folder: &Path, switch: &Running, listed: &str) {
    // The list is a valid file of names.
    fs::write(folder.join("names.csv"), listed).unwrap();
    let done = switch.reload().unwrap().unwrap();
    assert_eq!((done.added, done.altered, done.removed, done.kept), (0, 0, 0, 26));
    // An invalid file changes nothing.
    fs::write(folder.join("names.csv"), "nonsense\n").unwrap();
    assert!(switch.reload().is_err());
    assert_eq!(ask(folder, &["names", "list"]), listed);
    // Names that are not in the file are removed.
    fs::write(folder.join("names.csv"), "02:00:00:00:02:01,forward rack2\n").unwrap();
    switch.reload().unwrap();
    assert_eq!(ask(folder, &["names", "list"]), "02:00:00:00:02:01,forward rack2\n");
}

fn check_metrics(folder: &Path, count: u64) {
    let metrics = scalebricks_admin::client::Client::new(
        scalebricks_admin::client::Target::Unix(folder.join("switch.sock")),
        Duration::from_secs(10),
    );
    let metrics = metrics.unwrap().text("/metrics").unwrap();
    for line in [
        "scalebricks_switch_names 1".to_owned(),
        "scalebricks_switch_ready 1".to_owned(),
        format!("scalebricks_switch_frames_total{{port=\"rack1\",direction=\"in\"}} {}", count + 1),
        "scalebricks_switch_unknown_frames_total{port=\"rack1\"} 1".to_owned(),
        "scalebricks_switch_flooded_frames_total{port=\"rack1\"} 1".to_owned(),
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} is not in\n{metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"));
}

/// Without traffic, the second report has rates of 0.
fn check_rates(folder: &Path) {
    let mut command = program();
    command.args(["switch", "status", "--watch", "1", "--socket", "switch.sock"]).current_dir(folder);
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    let rates: Vec<String> = lines.filter(|line| line.contains("rack1")).take(1).collect();
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert_eq!(rates[0].matches("0/s").count(), 5, "{rates:?}");
}

#[test]
fn names_are_changed_while_frames_pass() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    example(folder);
    let configuration = Configuration::read(&folder.join("switch.toml")).unwrap();
    let table = configuration.table().unwrap();
    let switch = Arc::new(Running::new(configuration, table, Instant::now()));
    switch.reload().unwrap();
    let admin = serve(&switch).unwrap();
    let mut pool = Pool::new(10_000, 2_000).unwrap();
    let (mut turning, mut far) = worker(&switch, 512, &pool);
    let control = Arc::new(Control::default());
    let stopping = Arc::clone(&control);
    let idle = switch.configuration.file.workers.idle;
    let thread = std::thread::spawn(move || turn(&mut turning, idle, Instant::now(), &stopping));
    switch.set_state(NodeState::Ready);

    // Names that do not change are forwarded correctly throughout.
    let is_done = Arc::new(AtomicBool::new(false));
    let ([mut from, _], [_, mut to]) = (far.remove(0), far.remove(0));
    let steady = {
        let is_done = Arc::clone(&is_done);
        let mut pool = pool.clone();
        std::thread::spawn(move || {
            let known = frame(mac(2, 1), 64, b"known");
            let mut count = 0;
            while !is_done.load(Ordering::Relaxed) {
                assert!(from.send(pool.packet(&known).unwrap()).is_ok());
                assert_eq!(receive(&mut to).unwrap().data(), known);
                count += 1;
            }
            (from, to, count)
        })
    };
    change_names(folder, &switch);
    is_done.store(true, Ordering::Relaxed);
    let (mut from, _to, count) = steady.join().unwrap();
    assert!(count > 0);

    // A frame to an unknown name is flooded and counted.
    assert!(from.send(pool.packet(&frame(mac(7, 1), 64, b"unknown")).unwrap()).is_ok());
    assert!(far.iter_mut().all(|[_, port]| receive(port).is_some()));
    let until = Instant::now() + Duration::from_secs(60);
    let status = loop {
        let status: Value = serde_json::from_str(&ask(folder, &["status", "--json"])).unwrap();
        if status["ports"][0]["unknown"] == 1 {
            break status;
        }
        assert!(Instant::now() < until, "{status}");
    };
    assert_eq!(status["ports"][0]["rx_frames"], count + 1);
    assert_eq!(status["ports"][1]["tx_frames"], count + 1);
    assert_eq!(
        (&status["is_ready"], &status["names"], &status["source"]),
        (&true.into(), &1.into(), &"file".into())
    );
    let words = ask(folder, &["status"]);
    assert!(words.contains("names from a file") && words.contains("uplink-b"), "{words}");

    check_metrics(folder, count);
    check_rates(folder);

    control.stop();
    thread.join().unwrap();
    drop(admin);
    assert!(!folder.join("switch.sock").exists());
    let (status, error) = refused(folder, &["status", "--socket", "switch.sock"]);
    assert!(status == Some(1) && error.contains("no such socket"), "{error}");
}

/// Status, standard output and standard error of `scalebricks graph` for a switch in this folder.
fn graph(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = scalebricks(folder, &[&["graph"], args, &["--socket", "switch.sock"]].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_graphs_of_two_workers_are_asked_together_and_apart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    example(folder);
    let configuration = Configuration::read(&folder.join("switch.toml")).unwrap();
    let table = configuration.table().unwrap();
    let switch = Arc::new(Running::new(configuration, table, Instant::now()));
    switch.reload().unwrap();
    let _admin = serve(&switch).unwrap();
    let refused = |args: &[&str]| {
        let (status, _, error) = graph(folder, args);
        assert_eq!(status, Some(1), "{args:?}: {error}");
        error
    };
    let graph = |args: &[&str]| {
        let (status, said, error) = graph(folder, args);
        assert_eq!(status, Some(0), "{args:?}: {error}");
        said
    };
    let error = refused(&["show"]);
    assert!(error.contains("no worker runs yet"), "{error}");

    let mut pool = Pool::new(1_000, 2_000).unwrap();
    let control = Arc::new(Control::default());
    let idle = switch.configuration.file.workers.idle;
    let mut far = Vec::new();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (mut turning, its_far) = worker(&switch, 512, &pool);
            far.push(its_far);
            let stopping = Arc::clone(&control);
            std::thread::spawn(move || turn(&mut turning, idle, Instant::now(), &stopping))
        })
        .collect();
    let known = frame(mac(2, 1), 64, b"known");
    for (worker, frames) in [(0, 3), (1, 2)] {
        for _ in 0..frames {
            assert!(far[worker][0][0].send(pool.packet(&known).unwrap()).is_ok());
            assert_eq!(receive(&mut far[worker][1][1]).unwrap().data(), known);
        }
    }
    let came = ["read", "rack1/in.rx_frames"];
    assert_eq!(graph(&came), "5\n");
    for (worker, frames) in [("0", "3\n"), ("1", "2\n")] {
        assert_eq!(graph(&[&came[..], &["--worker", worker]].concat()), frames);
    }
    let view: Value = serde_json::from_str(&graph(&["show", "--json"])).unwrap();
    let of = |view: &Value, name: &str| {
        let all = view["elements"].as_array().unwrap();
        all.iter().find(|element| element["name"] == name).unwrap().clone()
    };
    assert_eq!((&view["workers"], &view["is_replaceable"]), (&2.into(), &false.into()));
    assert_eq!(of(&view, "rack2/out")["counters"]["tx_frames"], 5);
    let first: Value = serde_json::from_str(&graph(&["show", "--json", "--worker", "1"])).unwrap();
    assert_eq!(of(&first, "rack2/out")["counters"]["tx_frames"], 2);
    let shown = graph(&["show", "rack1/lookup"]);
    assert!(shown.contains("[0] <- rack1/in [0]"), "{shown}");
    for (args, what) in [
        (&["read", "rack9/in.rx_frames"][..], "no element"),
        (&["read", "rack1/in.rx_frames", "--worker", "2"], "no worker 2: there are 2"),
        (&["write", "rack1/in.rx_frames", "0"], "read-only"),
        (&["write", "rack1/in.nothing", "0"], "no handler"),
        (&["reload"], "the program wires this graph itself"),
    ] {
        let error = refused(args);
        assert!(error.contains(what), "{args:?}: {error}");
    }
    control.stop();
    for thread in threads {
        thread.join().unwrap();
    }
}
