//! The daemon over DPDK's virtual devices, which read and write captures.

use super::program::{frame, mac, said};
use super::replay::{Frames, read, write};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A daemon; killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Daemon {
    fn start(folder: &Path) -> Self {
        let program = env!("CARGO_BIN_EXE_scalebricks");
        let mut command = Command::new(program);
        Self(command.args(["switch", "--config", "switch.toml"]).current_dir(folder).spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

fn status(folder: &Path, is_so: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let asked = super::program::switch(folder, &["status", "--json", "--socket", "switch.sock"]);
        let answer = serde_json::from_slice(&asked.stdout).unwrap_or(Value::Null);
        if is_so(&answer) {
            return answer;
        }
        assert!(Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_daemon_switches_between_devices_and_reads_its_names_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let device = |n: u8| {
        let at = folder.display();
        format!(
            "[[port]]\nname = \"p{n}\"\ndevice = \"net_pcap{n},rx_pcap={at}/in{n}.pcap,tx_pcap={at}/out{n}.pcap\"\n"
        )
    };
    let config = format!(
        "[switch]\nsecret = \"000102030405060708090a0b0c0d0e0f\"\nadmin = \"switch.sock\"\n\
         [names]\nkind = \"mac\"\nfile = \"names.csv\"\nunknown = \"drop\"\n{}{}{}",
        device(0),
        device(1),
        device(2)
    );
    fs::write(folder.join("switch.toml"), config).unwrap();
    fs::write(folder.join("names.csv"), "02:00:00:00:01:01,forward p1\n02:00:00:00:01:02,drop\n").unwrap();
    let frames = |n: u8| -> Frames {
        (0..40)
            .map(|at| {
                let to = match at % 4 {
                    0 => [0xff; 6],
                    1 => mac(1, 1),
                    2 => mac(1, 2),
                    _ => mac(9, 9),
                };
                (u64::from(at), frame(to, 64, &[n, at]))
            })
            .collect()
    };
    for n in 0..3 {
        write(&folder.join(format!("in{n}.pcap")), &frames(n));
    }
    let mut daemon = Daemon::start(folder);
    let came = |view: &Value| (0..3).all(|n| view["ports"][n]["rx_frames"] == 40);
    let view = status(folder, |view| view["state"] == "ready" && came(view));
    let dropped = serde_json::json!({"by_action": 10, "unknown_name": 10});
    assert_eq!(view["ports"][0]["dropped"], dropped);
    let at_home = serde_json::json!({"by_action": 10, "split_horizon": 10, "unknown_name": 10});
    assert_eq!(view["ports"][1]["dropped"], at_home);

    // By the socket, by the file again, and by an invalid file.
    let ask = |args: &[&str]| said(folder, &[&["names"], args, &["--socket", "switch.sock"]].concat());
    ask(&["add", "02:00:00:00:03:03", "flood"]);
    fs::write(folder.join("names.csv"), "02:00:00:00:01:01,forward p2\n").unwrap();
    daemon.signal("-HUP");
    status(folder, |view| view["names"] == 1);
    assert_eq!(ask(&["list"]), "02:00:00:00:01:01,forward p2\n");
    fs::write(folder.join("names.csv"), "nonsense\n").unwrap();
    daemon.signal("-HUP");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(ask(&["list"]), "02:00:00:00:01:01,forward p2\n");

    daemon.signal("-TERM");
    assert!(daemon.0.wait().unwrap().success());
    assert!(!folder.join("switch.sock").exists());
    let left = |n: u8| {
        let mut left: Vec<Vec<u8>> =
            read(&folder.join(format!("out{n}.pcap"))).into_iter().map(|(_, frame)| frame).collect();
        left.sort();
        left
    };
    let of = |n: u8, kind: u64| {
        frames(n).into_iter().filter(move |(at, _)| at % 4 == kind).map(|(_, frame)| frame)
    };
    let sorted = |frames: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut frames: Vec<_> = frames.collect();
        frames.sort();
        frames
    };
    assert_eq!(left(0), sorted(&mut of(1, 0).chain(of(2, 0))));
    assert_eq!(left(1), sorted(&mut of(0, 0).chain(of(2, 0)).chain(of(0, 1)).chain(of(2, 1))));
    assert_eq!(left(2), sorted(&mut of(0, 0).chain(of(1, 0))));
}

/// A frame with a tag.
fn tagged(frame: &[u8], vlan: u8) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, vlan], &frame[12..]].concat()
}

#[test]
fn ports_share_a_device_by_vlan() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let port = |name: &str, device: u8, vlan: &str| {
        let at = folder.display();
        format!(
            "[[port]]\nname = \"{name}\"\n{vlan}\ndevice = \"net_pcap{device},rx_pcap={at}/in{device}.pcap,tx_pcap={at}/out{device}.pcap\"\n"
        )
    };
    let config = format!(
        "[switch]\nsecret = \"000102030405060708090a0b0c0d0e0f\"\nadmin = \"switch.sock\"\n\
         [names]\nkind = \"mac\"\nfile = \"names.csv\"\n{}{}{}",
        port("ten", 0, "vlan = 10"),
        port("twenty", 0, "vlan = 20"),
        port("plain", 1, "")
    );
    fs::write(folder.join("switch.toml"), config).unwrap();
    fs::write(
        folder.join("names.csv"),
        "02:00:00:00:01:01,forward ten\n02:00:00:00:01:02,forward twenty\n02:00:00:00:01:03,forward plain\n",
    )
    .unwrap();
    let to = |machine: u8, mark: &[u8]| frame(mac(1, machine), 64, mark);
    let shared: Frames = vec![
        (0, tagged(&to(2, b"from ten"), 10)),
        (1, tagged(&to(1, b"from twenty"), 20)),
        (2, tagged(&to(3, b"up"), 20)),
        (3, tagged(&to(1, b"back"), 10)),
        (4, tagged(&to(3, b"another's"), 30)),
        (5, to(3, b"without")),
    ];
    write(&folder.join("in0.pcap"), &shared);
    write(&folder.join("in1.pcap"), &vec![(0, to(2, b"down")), (1, frame([0xff; 6], 64, b"all"))]);
    let mut daemon = Daemon::start(folder);
    let rx = |view: &Value, n: usize| view["ports"][n]["rx_frames"].as_u64();
    let view = status(folder, |view| {
        [0, 1, 2].map(|n| rx(view, n)) == [Some(2), Some(2), Some(2)] && view["other_vlan"] == 2
    });
    assert_eq!(view["ports"][0]["dropped"], serde_json::json!({"split_horizon": 1}));
    daemon.signal("-TERM");
    assert!(daemon.0.wait().unwrap().success());
    let left = |n: u8| {
        let frames = read(&folder.join(format!("out{n}.pcap")));
        let mut frames: Vec<Vec<u8>> = frames.into_iter().map(|(_, frame)| frame).collect();
        frames.sort();
        frames
    };
    let sorted = |mut frames: Vec<Vec<u8>>| {
        frames.sort();
        frames
    };
    assert_eq!(left(1), [to(3, b"up")]);
    let all = frame([0xff; 6], 64, b"all");
    assert_eq!(
        left(0),
        sorted(vec![
            tagged(&to(2, b"from ten"), 20),
            tagged(&to(1, b"from twenty"), 10),
            tagged(&to(2, b"down"), 20),
            tagged(&all, 10),
            tagged(&all, 20),
        ])
    );
}
