//! Flows pinned by the program through a real control plane over a real log.

use crate::admin::flows::ask;
use crate::admin::running::Running;
use crate::harness::{program, until};
use scalebricks_admin::flow_list::columns::FlowParser;
use scalebricks_admin::flows::{ControlledFlows, Flows};
use scalebricks_admin::server::{AdminServer, Listen};
use scalebricks_cluster::inbox::Inbox;
use scalebricks_cluster::plane::PeerLink;
use scalebricks_cluster::verify::Readable;
use scalebricks_cluster::{ControlPlane, PlaneConfig};
use scalebricks_control::distribution::{FibRoom, Tables};
use scalebricks_control::membership::Beat;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_tables::compact::{Params, Reader, Structure, Table};
use scalebricks_tables::fib::FibDigest;
use scalebricks_tables::{FibError, FibValue};
use scalebricks_types::{
    Applied, ApplyError, ClusterSize, Delta, FlowKey, HashSeed, KeyHasher, KeyProfile, NodeId,
    PartitionCount, PartitionId, Position, Teid,
};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HASHER: KeyHasher = KeyHasher::new(HashSeed::from_u64(5));
const FLOWS: u32 = 10_000;

fn partitions() -> PartitionCount {
    PartitionCount::new(16).unwrap()
}

fn params() -> Params {
    Params::for_keys(Structure::SetSep, 100_000, 3, partitions()).unwrap()
}

/// A node's tables, which the test can read.
#[derive(Clone)]
struct Memory {
    gpt: Table,
    fib: Arc<Mutex<HashMap<FlowKey, FibValue>>>,
    capacity: usize,
}

impl Memory {
    fn holds(&self, key: FlowKey) -> bool {
        self.fib.lock().unwrap().contains_key(&key)
    }

    fn len(&self) -> usize {
        self.fib.lock().unwrap().len()
    }
}

impl Tables for Memory {
    fn begin(&mut self, params: Params) {
        self.gpt.restart(params);
    }

    fn digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        self.gpt.digest(partition)
    }

    fn forget(&mut self, partition: PartitionId) {
        self.gpt.forget(partition);
    }

    fn apply_gpt(&mut self, delta: &Delta) -> Result<Applied, ApplyError> {
        self.gpt.apply(delta)
    }

    fn set(&mut self, key: &FlowKey, value: FibValue) -> Result<(), FibError> {
        self.fib.lock().unwrap().insert(*key, value);
        Ok(())
    }

    fn remove(&mut self, key: &FlowKey) {
        self.fib.lock().unwrap().remove(key);
    }

    fn keys(&self, partition: PartitionId) -> Vec<FlowKey> {
        let is_in = |key: &&FlowKey| partitions().of(HASHER.hash(key)) == partition;
        self.fib.lock().unwrap().keys().filter(is_in).copied().collect()
    }

    fn room(&self) -> FibRoom {
        FibRoom { used: self.len() as u64, capacity: self.capacity as u64, shed: 0 }
    }

    fn fib_digests(&self) -> Vec<FibDigest> {
        let mut digests = vec![FibDigest::default(); partitions().get() as usize];
        for (key, value) in &*self.fib.lock().unwrap() {
            let hash = HASHER.hash(key);
            digests[usize::from(partitions().of(hash).0)] += FibDigest::of(hash, *value);
        }
        digests
    }

    fn entry_digest(&self, key: &FlowKey) -> FibDigest {
        let value = self.fib.lock().unwrap().get(key).copied();
        value.map(|value| FibDigest::of(HASHER.hash(key), value)).unwrap_or_default()
    }
}

impl Readable for Memory {
    fn named(&self, keys: &[FlowKey]) -> Vec<u8> {
        let mut reader = Reader::new(&self.gpt);
        keys.iter().map(|key| reader.get(HASHER.hash(key))).collect()
    }

    fn held(&self, keys: &[FlowKey]) -> Vec<Option<FibValue>> {
        let fib = self.fib.lock().unwrap();
        keys.iter().map(|key| fib.get(key).copied()).collect()
    }

    fn keys_in(&self, partitions: Range<usize>) -> Vec<FlowKey> {
        partitions.flat_map(|at| self.keys(PartitionId(at as u16))).collect()
    }
}

/// The connection to the other node.
struct Wire {
    me: NodeId,
    inboxes: Arc<Mutex<HashMap<NodeId, Inbox>>>,
    runtime: tokio::runtime::Handle,
}

impl PeerLink for Wire {
    fn beat(&self, beat: Beat) {
        let inboxes = self.inboxes.lock().unwrap();
        inboxes.iter().filter(|(node, _)| **node != self.me).for_each(|(_, inbox)| inbox.beat(self.me, beat));
    }

    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        if let Some(inbox) = self.inboxes.lock().unwrap().get(&to).cloned() {
            let me = self.me;
            self.runtime.spawn(async move { inbox.came(me, bytes).await });
        }
    }
}

/// Two nodes with their control planes; the first has an admin server.
struct Cluster {
    tables: Vec<Memory>,
    planes: Vec<ControlPlane>,
    server: AdminServer,
    running: Running,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Cluster {
    fn start() -> Self {
        Self::with_capacity(1 << 20)
    }

    /// Limits the second node to so many keys.
    fn with_capacity(capacity: usize) -> Self {
        let running = Running::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let engine =
            Arc::new(EmbeddedLog::open(&running.folder.path().join("log"), Options::default()).unwrap());
        let inboxes: Arc<Mutex<HashMap<NodeId, Inbox>>> = Arc::default();
        let (mut planes, mut tables) = (Vec::new(), Vec::new());
        for node in (0..2).map(NodeId::new) {
            let capacity = if node.get() == 1 { capacity } else { 1 << 20 };
            let memory = Memory { gpt: Table::new(params()), fib: Arc::default(), capacity };
            let config = PlaneConfig {
                node,
                partitions: partitions(),
                params: params(),
                hasher: HASHER,
                grace: Duration::from_millis(20),
                version: scalebricks_control::version::Version::NEWEST,
            };
            let engine = Arc::<EmbeddedLog>::clone(&engine);
            let (inboxes, handle) = (Arc::clone(&inboxes), runtime.handle().clone());
            let plane = runtime.block_on(ControlPlane::start(config, engine, memory.clone(), |inbox| {
                inboxes.lock().unwrap().insert(node, inbox);
                Arc::new(Wire { me: node, inboxes: Arc::clone(&inboxes), runtime: handle })
            }));
            planes.push(plane.unwrap());
            tables.push(memory);
        }
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || drop(runtime.block_on(stopped)));
        let parser =
            FlowParser::new(KeyProfile::Ue, ClusterSize::new(4).unwrap(), &[Ipv4Addr::new(10, 9, 0, 1)]);
        let flows: Arc<dyn Flows> =
            Arc::new(ControlledFlows::new(NodeId::new(0), Arc::new(planes[0].clone().into()), parser));
        let listen = Listen::on(running.folder.path().join("pinning.sock"));
        let server = AdminServer::start_with(&listen, Arc::clone(&running.window) as _, Some(flows)).unwrap();
        let cluster = Self { tables, planes, server, running, _stop: stop };
        let are_up = |plane: &ControlPlane| plane.has_caught_up() && plane.view().alive().count() == 2;
        cluster.until("both are up", |cluster| cluster.planes.iter().all(are_up));
        cluster
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        until(what, || holds(self));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.args(args).arg("--socket").arg(self.server.socket());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn says(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn refuses(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        String::from_utf8(out.stderr).unwrap()
    }

    fn file(&self, name: &str, lines: &str) -> PathBuf {
        let path = self.running.folder.path().join(name);
        std::fs::write(&path, format!("ue,node,base_station,uplink_teid,downlink_teid,qfi\n{lines}"))
            .unwrap();
        path
    }
}

fn ue(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a2d_0000 + n)
}

fn keys(n: u32, teid: u32) -> [FlowKey; 2] {
    [FlowKey::ue(IpAddr::V4(ue(n))), FlowKey::teid(Teid::new(teid))]
}

fn lines(count: u32, node: impl Fn(u32) -> u32) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        writeln!(text, "{},{},10.9.0.1,{},{},9", ue(n), node(n), 0x1_0000 + n, 0x2_0000 + n).unwrap();
        text
    })
}

const ADD: [&str; 11] = [
    "flow",
    "add",
    "--wait",
    "--base-station",
    "10.9.0.1",
    "--downlink-teid",
    "0x20",
    "--qfi",
    "5",
    "--ue",
    "10.45.0.1",
];

/// The program says which flows were refused, and why; others are pinned.
#[test]
fn flows_to_a_full_node_are_refused_by_name() {
    let cluster = Cluster::with_capacity(10);
    let teid = format!("{}", 0x10);
    let said = cluster.refuses(&[&ADD, &["--node", "1", "--uplink-teid", &teid][..]].concat());
    assert!(said.contains("the FIB of node 1 has no room for new flows"), "{said}");
    let file = cluster.file("some.csv", &lines(20, |n| u32::from(n == 7)));
    let said = cluster.refuses(&["flow", "import", "--wait", file.to_str().unwrap()]);
    assert!(said.contains("line 9: the FIB of node 1 has no room"), "{said}");
    let [key, _] = keys(3, 0x1_0003);
    cluster.until("the others are pinned", |cluster| cluster.tables[0].holds(key));
    let body = r#"[{"ue": "10.45.0.9", "node": 1, "base_station": "10.9.0.1", "uplink_teid": 9, "downlink_teid": 9}]"#;
    let (code, answer) = ask(cluster.server.socket(), "POST", "/v1/flows?wait=applied", body.as_bytes());
    assert_eq!(code, 507, "{answer}");
}

#[test]
fn a_flow_is_added_shown_moved_and_deleted() {
    let cluster = Cluster::start();
    let add = |more: &[&str]| cluster.says(&[&ADD, more].concat());
    let said = add(&["--node", "1", "--uplink-teid", "0x10"]);
    assert_eq!(said, "accepted, and applied by all living nodes\n");
    assert!(keys(1, 0x10).iter().all(|key| cluster.tables[1].holds(*key)));
    for name in [["--ue", "10.45.0.1"], ["--uplink-teid", "0x10"]] {
        let shown = cluster.says(&[&["flow", "show"], &name[..]].concat());
        for words in ["node           1", "10.9.0.1", "0x10", "0x20", "5"] {
            assert!(shown.contains(words), "{words} in\n{shown}");
        }
    }
    // Another uplink TEID replaces the earlier one.
    add(&["--node", "1", "--uplink-teid", "0x11"]);
    assert!(cluster.refuses(&["flow", "show", "--uplink-teid", "0x10"]).contains("does not exist"));
    let json = cluster.says(&["flow", "show", "--uplink-teid", "17", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["node"], 1);

    cluster.says(&["flow", "move", "--ue", "10.45.0.1", "--node", "0", "--wait"]);
    assert!(keys(1, 0x11).iter().all(|key| cluster.tables[0].holds(*key)));
    cluster.until("node 1 has none of it", |cluster| cluster.tables[1].len() == 0);
    // The colons of an IPv6 address must be escaped in a URL.
    let six = ["--ue", "2001:db8::7", "--node", "0", "--uplink-teid", "0x12"];
    cluster.says(&[&ADD[..9], &six[..]].concat());
    assert!(cluster.says(&["flow", "show", "--ue", "2001:db8::7"]).contains("0x12"));
    cluster.says(&["flow", "del", "--ue", "2001:db8::7", "--wait"]);
    let said = cluster.refuses(&["flow", "move", "--ue", "10.45.0.1", "--node", "3"]);
    assert_eq!(said, "error: refused: node 3 is not alive: pin the flow to another\n");
    let said = cluster.refuses(&["flow", "move", "--ue", "10.45.0.2", "--node", "1"]);
    assert!(said.contains("flows do not exist"), "{said}");
    let said = cluster.refuses(&[&ADD[..], &["--node", "7", "--uplink-teid", "0x11"]].concat());
    assert!(said.contains("node 7 of a cluster of 4"), "{said}");

    assert_eq!(cluster.says(&["flow", "del", "--ue", "10.45.0.1"]), "accepted\n");
    assert_eq!(cluster.says(&["flow", "del", "--ue", "10.45.0.1"]), "the flow did not exist\n");
    cluster.until("no node has it", |cluster| cluster.tables.iter().all(|tables| tables.len() == 0));
    assert_eq!(cluster.run(&["flow", "show"]).status.code(), Some(2));
}

#[test]
fn a_file_is_imported_and_a_node_drained() {
    let cluster = Cluster::start();
    let file = cluster.file("flows.csv", &lines(FLOWS, |n| n % 2));
    let import = ["flow", "import", file.to_str().unwrap(), "--wait"];
    assert_eq!(cluster.says(&import), "10,000 of 10,000 flows accepted\n");
    let both = |node: u32| {
        let own = (node..FLOWS).step_by(2).flat_map(|n| keys(n, 0x1_0000 + n));
        own.into_iter().all(|key| cluster.tables[node as usize].holds(key))
    };
    assert!(both(0) && both(1));
    // Once more, and as JSON.
    let json = cluster.says(&[&import[..], &["--json", "--new", "--in-flight", "1"]].concat());
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer, serde_json::json!({ "accepted": FLOWS, "of": FLOWS, "is_applied": true }));

    let said = cluster.says(&["cluster", "status"]);
    println!("{said}");
    for words in ["node 0 of up to 4, caught up", "alive", "partitions owned"] {
        assert!(said.contains(words), "{words} in\n{said}");
    }
    let said = cluster.says(&["cluster", "drain", "1", "--wait"]);
    assert_eq!(
        said,
        "node 1 gets no new flows, its flows move to 0: accepted, and applied by all living nodes\n"
    );
    cluster.until("node 1 is empty", |cluster| cluster.tables[1].len() == 0);
    assert_eq!(cluster.tables[0].len(), 2 * FLOWS as usize);
    // It remains a member, and gets no flows until the drain ends.
    let said = cluster.refuses(&["flow", "move", "--ue", "10.45.0.1", "--node", "1"]);
    assert!(said.contains("node 1 is drained") && said.contains("scalebricks cluster undrain 1"), "{said}");
    let said = cluster.says(&["cluster", "status"]);
    for words in ["alive, drained", "10,000", "drained", "unknown"] {
        assert!(said.contains(words), "{words} in\n{said}");
    }
    assert!(cluster.refuses(&["cluster", "drain", "0"]).contains("no other node is alive and not drained"));
    assert_eq!(cluster.says(&["cluster", "undrain", "1"]), "node 1 may get flows again\n");
    cluster.says(&["flow", "move", "--ue", "10.45.0.1", "--node", "1", "--wait"]);
    assert_eq!(cluster.tables[1].len(), 2);
    assert!(cluster.refuses(&["cluster", "drain", "3"]).contains("node 3 was never in the cluster"));
}

#[test]
fn what_is_exported_can_be_imported_and_is_the_same_again() {
    let path = |cluster: &Cluster, name: &str| cluster.running.folder.path().join(name);
    let export = |cluster: &Cluster, name: &str| {
        let file = path(cluster, name);
        cluster.says(&["flow", "export", "--quiet", file.to_str().unwrap()]);
        std::fs::read(&file).unwrap()
    };
    let first = Cluster::start();
    let empty = export(&first, "empty.csv");
    assert_eq!(empty, b"ue,node,base_station,uplink_teid,downlink_teid,qfi\n");
    let file = first.file("flows.csv", &lines(FLOWS, |n| n % 2));
    first.says(&["flow", "import", file.to_str().unwrap(), "--wait"]);
    first.says(&["flow", "move", "--ue", "10.45.0.1", "--node", "0", "--wait"]);
    first.says(&["flow", "del", "--ue", "10.45.0.2", "--wait"]);
    let six = ["--ue", "2001:db8::7", "--node", "0", "--uplink-teid", "0x12"];
    first.says(&[&ADD[..9], &six[..]].concat());
    let exported = export(&first, "exported.csv");
    let text = String::from_utf8(exported.clone()).unwrap();
    assert_eq!(text.lines().count(), FLOWS as usize + 1, "a header, one flow less and one more");
    assert!(text.contains("\n10.45.0.1,0,10.9.0.1,65537,131073,9\n"), "{}", &text[..500]);
    assert!(text.contains("\n2001:db8::,0,10.9.0.1,18,32,5\n"));
    assert!(!text.contains("\n10.45.0.2,"));
    // Standard output has the same content.
    let out = first.run(&["flow", "export", "-"]);
    assert!(out.status.success() && out.stdout == exported);

    let second = Cluster::start();
    let file = path(&second, "exported.csv");
    std::fs::write(&file, &exported).unwrap();
    second.says(&["flow", "import", file.to_str().unwrap(), "--new", "--wait"]);
    assert!(export(&second, "again.csv") == exported);
    assert_eq!(second.tables.iter().map(Memory::len).sum::<usize>(), 2 * FLOWS as usize);
    // To a path that cannot be written, and over an existing file.
    let out = second.run(&["flow", "export", "/no/such/folder/file.csv"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/no/such/folder/file.csv"));
    assert!(export(&second, "exported.csv") == exported);
}

#[test]
fn all_tables_are_compared_and_a_standby_is_set() {
    let cluster = Cluster::start();
    let file = cluster.file("flows.csv", &lines(1_000, |n| n % 2));
    cluster.says(&["flow", "import", file.to_str().unwrap(), "--wait"]);
    let said = cluster.says(&["cluster", "verify"]);
    println!("{said}");
    assert!(said.contains("all tables agree with the log"), "{said}");
    cluster.tables[1].fib.lock().unwrap().remove(&keys(1, 0x1_0001)[0]);
    let out = cluster.run(&["cluster", "verify"]);
    let said = String::from_utf8(out.stdout).unwrap();
    println!("{said}");
    assert_eq!(out.status.code(), Some(1));
    for words in ["1 fib-missing", "ue 10.45.0.1: ", "nothing in the table", "not all tables"] {
        assert!(said.contains(words), "{words} in\n{said}");
    }
    let out = cluster.run(&["cluster", "verify", "--json", "--differences", "0"]);
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(answer["is_same"], false);
    assert_eq!(answer["nodes"][1]["verdict"]["counts"], serde_json::json!({ "fib-missing": 1 }));
    assert_eq!(answer["nodes"][1]["verdict"]["differences"], serde_json::json!([]));
    assert_eq!(answer["nodes"][0]["verdict"]["keys"], 2_000);

    let said = cluster.says(&["cluster", "standby", "1", "--to", "3"]);
    assert_eq!(said, "when node 1 dies or is drained, its flows go to node 3\n");
    let status =
        || serde_json::from_str::<serde_json::Value>(&cluster.says(&["cluster", "status", "--json"]));
    assert_eq!(status().unwrap()["standbys"], serde_json::json!([{ "node": 1, "to": 3 }]));
    assert!(cluster.says(&["cluster", "status"]).contains("node 3"));
    assert!(cluster.refuses(&["cluster", "standby", "1", "--to", "1"]).contains("cannot take its own flows"));
    assert!(cluster.refuses(&["cluster", "standby", "1", "--to", "4"]).contains("node 4 of a cluster of 4"));
    cluster.says(&["cluster", "standby", "1", "--to", "all"]);
    assert_eq!(status().unwrap()["standbys"], serde_json::json!([]));
    assert_eq!(cluster.run(&["cluster", "standby", "1", "--to", "some"]).status.code(), Some(2));
}

#[test]
fn a_file_with_a_bad_line_is_not_sent() {
    let cluster = Cluster::start();
    let bad = lines(3_000, |n| if n == 2_500 { 4 } else { 0 });
    let file = cluster.file("bad.csv", &bad);
    let said = cluster.refuses(&["flow", "import", file.to_str().unwrap()]);
    assert!(said.contains("line 2502: node 4 of a cluster of 4"), "{said}");
    // Node 3 is valid but not alive, which only the cluster knows.
    let file = cluster.file("dead.csv", &lines(10, |_| 3));
    let out = cluster.run(&["flow", "import", file.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "0 of 10 flows accepted\n");
    assert!(String::from_utf8_lossy(&out.stderr).contains("node 3 is not alive"));
    assert_eq!(cluster.tables[0].len(), 0);
}

#[test]
fn ctrl_c_ends_an_import_and_says_how_far_it_came() {
    let cluster = Cluster::start();
    let file = cluster.file("many.csv", &lines(40_000, |n| n % 2));
    let import = cluster
        .command(&["flow", "import", file.to_str().unwrap(), "--in-flight", "1", "--wait"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    cluster.until("the first are there", |cluster| cluster.tables[0].len() > 0);
    Command::new("kill").args(["-INT", &import.id().to_string()]).status().unwrap();
    let out = import.wait_with_output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(130), "{said}");
    let accepted: usize =
        said.split(" of 40,000 flows accepted").next().unwrap().replace(',', "").parse().unwrap();
    assert!(accepted < 40_000 && accepted.is_multiple_of(2_000), "{said}");
    cluster.until("what was accepted is there", |cluster| {
        cluster.tables.iter().map(Memory::len).sum::<usize>() == 2 * accepted
    });
}
