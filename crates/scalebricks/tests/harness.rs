//! Shared by the tests: the program, waiting, and clusters of control planes in one process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::local::{LocalCluster, LocalConfig, MemoryTables};
use scalebricks_cluster::plane::Accepted;
use scalebricks_control::record::Session;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_types::{FlowKey, NodeId, Teid};
use std::collections::HashMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Longest wait of a test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program, without arguments.
pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_scalebricks"))
}

/// Runs the program in a folder.
pub fn scalebricks(folder: &Path, args: &[&str]) -> Output {
    program().args(args).current_dir(folder).output().unwrap()
}

/// Standard output of a run, which must have succeeded.
pub fn stdout(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{error}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard output of a run, which must succeed.
pub fn said(folder: &Path, args: &[&str]) -> String {
    let output = scalebricks(folder, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}\n{error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Status and standard error of a run, which must fail.
pub fn refused(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = scalebricks(folder, args);
    assert!(!output.status.success(), "{args:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path in the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Copies an example into a folder.
pub fn example(name: &str, folder: &Path) {
    for entry in fs::read_dir(repository("examples").join(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
}

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A free port of the loopback address, for TCP and UDP, that no other test of this process gets. It is below the range
/// from which the kernel takes ports.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let offset = u32::from(NEXT.fetch_add(1, Ordering::Relaxed)) + std::process::id();
        let port = 20_000 + (offset % 10_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Runs a test on a runtime of one thread.
pub fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}

/// A node's number.
pub fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

/// A key, each number another.
pub fn key(number: u32) -> FlowKey {
    FlowKey::teid(Teid::new(number + 1))
}

/// A session with this value at a node.
pub fn session(at: usize, value: u64) -> Session {
    Session::new(node(at), [value, 1])
}

/// Control planes of several nodes in one process, over a log in a temporary directory.
pub struct Cluster {
    /// The nodes.
    pub nodes: LocalCluster,
    /// Their log.
    pub log: Arc<EmbeddedLog>,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// So many nodes, all of them whole.
    pub async fn with(nodes: usize, shape: LocalConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Arc::new(EmbeddedLog::open(directory.path(), Options::default()).unwrap());
        let log = Arc::<EmbeddedLog>::clone(&engine);
        let mut cluster = Self { nodes: LocalCluster::new(shape, engine), log, _directory: directory };
        for number in 0..nodes {
            cluster.start(number).await;
        }
        cluster.wait("all have caught up and know all", |cluster| cluster.nodes.is_whole()).await;
        cluster
    }

    pub async fn start(&mut self, number: usize) {
        self.nodes.start(node(number)).await.unwrap();
    }

    pub async fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        assert!(self.nodes.wait(PATIENCE, |_| is_so(self)).await, "not after {PATIENCE:?}: {what}");
    }

    pub fn plane(&self, number: usize) -> &ControlPlane {
        &self.nodes.node(node(number)).unwrap().plane
    }

    /// The tables of all nodes.
    pub fn all_tables(&self) -> impl Iterator<Item = &MemoryTables> {
        self.nodes.nodes().map(|(_, node)| &node.tables)
    }

    /// The tables of a node.
    pub fn tables(&self, number: usize) -> MemoryTables {
        self.nodes.node(node(number)).unwrap().tables.clone()
    }

    /// Waits until all tables agree with these sessions. A session that has left disappears after a while.
    pub async fn check(&self, wanted: &HashMap<FlowKey, Session>) {
        let is_so = self.nodes.wait(PATIENCE, |nodes| nodes.difference(|| wanted.iter()).is_none()).await;
        assert!(is_so, "{:?}", self.nodes.difference(|| wanted.iter()));
    }

    /// Waits until changes that nodes accepted are applied.
    pub async fn settle(&self, accepted: &[(usize, Accepted)]) {
        for (number, accepted) in accepted {
            let applied = self.plane(*number).applied(accepted);
            assert!(tokio::time::timeout(PATIENCE, applied).await.unwrap(), "not after {PATIENCE:?}");
        }
    }
}
