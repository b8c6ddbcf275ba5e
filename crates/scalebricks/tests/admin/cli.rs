//! The program itself.

use crate::admin::running::{Running, downstream};
use crate::harness::{program, stdout};
use scalebricks_admin::model::{Stats, Status, Trace};
use scalebricks_io::{CaptureReader, CaptureWriter};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn scalebricks(running: &Running, args: &[&str]) -> Output {
    let mut command = program();
    command.args(args).arg("--socket").arg(running.socket()).output().unwrap()
}

#[test]
fn status_in_words_and_as_json() {
    let running = Running::start();
    let said = stdout(&scalebricks(&running, &["status"]));
    println!("{said}");
    for words in
        ["0 of 2, scalebricks", "100 in the cluster, 50 here", "10,000 Mbit/s", "reachable", "12.5 %"]
    {
        assert!(said.contains(words), "{words} in\n{said}");
    }
    let status: Status =
        serde_json::from_str(&stdout(&scalebricks(&running, &["status", "--json"]))).unwrap();
    assert_eq!(status.flows.here, 50);
}

#[test]
fn stats_in_words_and_as_json() {
    let running = Running::start();
    running.far.lock().unwrap().downstream(4, b"");
    running.far.lock().unwrap().downstream(9_999, b"");
    running.until("packets", |window| window.counted().internet_in == 2);
    let said = stdout(&scalebricks(&running, &["stats"]));
    println!("{said}");
    for words in ["internet", "8,000 free, 192 in use", "arp_requests_answered"] {
        assert!(said.contains(words), "{words} in\n{said}");
    }
    let stats: Stats = serde_json::from_str(&stdout(&scalebricks(&running, &["stats", "--json"]))).unwrap();
    assert_eq!(stats.total.get("internet_in"), 2);
}

#[test]
fn stats_are_watched_until_ctrl_c() {
    let running = Running::start();
    let watch = program()
        .args(["stats", "--watch", "1", "--socket"])
        .arg(running.socket())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    for n in 0..15 {
        running.far.lock().unwrap().downstream(2 * (n % 10), b"");
        std::thread::sleep(Duration::from_millis(100));
    }
    Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap();
    let out = watch.wait_with_output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    println!("{said}");
    assert_eq!(out.status.code(), Some(130));
    assert!(said.contains("per second over the last") && said.contains("/s"), "{said}");
}

#[test]
fn a_packet_is_traced_however_it_is_given() {
    let running = Running::start();
    let made =
        ["--src", "198.51.100.7", "--dst", "10.45.0.4", "--proto", "udp", "--sport", "53", "--dport", "4000"];
    let said = stdout(&scalebricks(&running, &[&["trace"][..], &made].concat()));
    println!("{said}");
    assert!(said.starts_with("node 0 sends it to base station 10.9.0.1, user data in tunnel 0x20004, QFI 9"));
    let said = stdout(&scalebricks(
        &running,
        &["trace", "--teid", "0x10001", "--inner-src", "10.45.0.1", "--inner-dst", "198.51.100.7"],
    ));
    println!("{said}");
    assert!(said.contains("node 1 handles it, it leaves to the Internet"), "{said}");

    let path = running.folder.path().join("two.pcap");
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.write_frame(Duration::from_secs(1), &[0; 60]).unwrap();
    writer.write_frame(Duration::from_secs(2), &downstream(6, b"x")).unwrap();
    writer.finish().unwrap();
    let file = path.to_str().unwrap();
    let args = ["trace", file, "--frame", "2", "--port", "internet", "--json"];
    let trace: Trace = serde_json::from_str(&stdout(&scalebricks(&running, &args))).unwrap();
    assert_eq!(trace.flow.unwrap().downlink_teid, 0x20006);
    let args = ["trace", &trace.frame_hex, "--port", "internet", "--readdress"];
    assert!(stdout(&scalebricks(&running, &args)).contains("0x20006"));

    for (args, code, words) in [
        (&["trace", file, "--frame", "3", "--port", "internet"][..], 1, "has only 2 frames"),
        (&["trace", "no/such/file", "--port", "internet"], 1, "neither a capture file nor a frame"),
        (&["trace"], 2, "the packet is incomplete"),
        (&["trace", "00"], 2, "--port"),
        (&["trace", "--src", "10.0.0.1"], 2, "--dst"),
        (&["trace", "--teid", "0", "--src", "10.0.0.1"], 2, ""),
    ] {
        let out = scalebricks(&running, args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn a_capture_goes_to_a_file_or_a_pipe() {
    let running = Running::start();
    let path = running.folder.path().join("some.pcapng");
    let to_file = program()
        .args(["capture", "--host", "10.45.0.8", "--count", "2", "-w"])
        .arg(&path)
        .arg("--socket")
        .arg(running.socket())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let to_pipe = program()
        .args([
            "capture",
            "-w",
            "-",
            "--drops=unknown_flow,other_mac",
            "--port",
            "internet",
            "--direction",
            "rx",
            "--socket",
        ])
        .arg(running.socket())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    running.until("the captures", |window| window.captures() == 2);
    running.far.lock().unwrap().downstream(8, b"hello");
    let out = to_file.wait_with_output().unwrap();
    assert!(out.status.success());
    assert_eq!(String::from_utf8_lossy(&out.stderr), "2 frames captured\n");
    assert_eq!(CaptureReader::open(&path).unwrap().map(Result::unwrap).count(), 2);

    std::thread::sleep(Duration::from_millis(300)); // let the pipe have it
    Command::new("kill").args(["-INT", &to_pipe.id().to_string()]).status().unwrap();
    let out = to_pipe.wait_with_output().unwrap();
    assert!(out.status.success());
    let reader = CaptureReader::from_stream(std::io::Cursor::new(out.stdout), "pipe").unwrap();
    assert_eq!(reader.map(Result::unwrap).count(), 1, "received, and not dropped");
    running.until("the end", |window| window.captures() == 0);
}

#[test]
fn a_refused_capture_leaves_the_file_alone() {
    let running = Running::start();
    let path = running.folder.path().join("kept.pcapng");
    std::fs::write(&path, "precious").unwrap();
    let file = path.to_str().unwrap();
    let out = scalebricks(&running, &["capture", "-w", file, "--drops=boredom"]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("no drop reason is called 'boredom'"), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn without_a_node_the_error_says_so() {
    let out = program().args(["status", "--socket", "/no/such/admin.sock"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(
        said,
        "error: /no/such/admin.sock: no such socket; check that the node runs and that this is its admin socket\n"
    );
}

/// The program finds a node whose socket is in the default directory; of several, the user chooses.
#[test]
fn the_only_node_is_found_and_several_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let ask = |args: &[&str]| {
        let mut command = program();
        let out = command.args(args).env("SCALEBRICKS_RUNTIME_DIR", folder.path()).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, _, said) = ask(&["status"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("no node answers in") && said.contains("--socket PATH"), "{said}");

    let at = |name: &str| Running::listening(|listen| listen.socket = folder.path().join(name));
    let first = at("node0.sock");
    let (code, said, error) = ask(&["status"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(said.contains("0 of 2, scalebricks"), "{said}");
    // The other commands find it in the same way; it has no control plane for flows.
    let (code, _, said) = ask(&["flow", "export", "-"]);
    assert!(code == Some(1) && said.contains("refused: "), "{said}");

    let second = at("node1.sock");
    let (code, _, said) = ask(&["status"]);
    assert_eq!(code, Some(1));
    let (first_socket, second_socket) = (first.socket(), second.socket());
    for socket in [&first_socket, &second_socket] {
        assert!(said.contains(socket.to_str().unwrap()), "{said}");
    }
    assert!(said.contains("choose one with --socket PATH"), "{said}");
    let (code, _, error) = ask(&["status", "--socket", second_socket.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{error}");
    drop(first);
    assert_eq!(ask(&["status"]).0, Some(0), "one is left");
}

#[test]
fn every_command_has_examples() {
    for command in ["status", "stats", "trace", "capture", "flow", "cluster"] {
        let out = program().args([command, "--help"]).output().unwrap();
        let said = String::from_utf8(out.stdout).unwrap();
        assert!(said.contains("Examples:") && said.contains("Exit status:"), "{said}");
    }
}
