//! A cluster in this process, over a log in a directory of its own, and the flows it holds.

use super::flows::{Flow, HASHER, brought, flows, node};
use scalebricks_bench::{BenchError, BenchRun};
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::local::{LocalCluster, LocalConfig};
use scalebricks_cluster::plane::{Accepted, RefusedChanges};
use scalebricks_control::engine::Engine;
use scalebricks_control::record::Change;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::nats::{self, JetStream};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{ClusterSize, PartitionCount};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// What errors are about.
pub(super) const NAME: &str = "cluster";

/// Partitions of the key space.
pub(super) const PARTITIONS: u32 = 64;

/// Least keys the tables are made for.
const LEAST_KEYS: u64 = 100_000;

/// How long anything may take that is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Between two tries of a call that was turned away.
const BUSY: Duration = Duration::from_millis(1);

/// The longest time that a packet would take between two nodes.
const GRACE: Duration = Duration::from_millis(20);

/// Changes of one call that brings flows.
pub(super) const TOGETHER: usize = 4_096;

/// The cluster.
pub(super) struct Rig {
    // Dropped in this order: nodes, the runtime they are on, the files.
    pub(super) cluster: LocalCluster,
    pub(super) runtime: Runtime,
    pub(super) directory: TempDir,
    /// What every key is to lead to.
    pub(super) flows: Vec<Flow>,
}

impl Rig {
    /// So many nodes on so many threads, with so many flows in all tables.
    pub(super) fn new(
        bench: &BenchRun<'_>,
        nodes: usize,
        threads: usize,
        count: u64,
        gpt: Structure,
    ) -> Result<Self, BenchError> {
        let _busy = bench.busy("starting a cluster and bringing flows");
        let rig = Self::empty(bench, nodes, threads, shape(nodes, count, PARTITIONS, gpt)?)?;
        let rig = Self { flows: flows(count, nodes), ..rig };
        rig.runtime.block_on(fill(plane(&rig.cluster, 0)?, &rig.flows))?;
        rig.check()?;
        Ok(rig)
    }

    /// So many nodes of this shape on so many threads, without flows.
    pub(super) fn empty(
        bench: &BenchRun<'_>,
        nodes: usize,
        threads: usize,
        shape: LocalConfig,
    ) -> Result<Self, BenchError> {
        let failed = |error: std::io::Error| BenchError::of(NAME, error);
        let directory = TempDir::new_in(bench.options.directory()).map_err(failed)?;
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.map_err(|error| BenchError::Threads(error.to_string()))?;
        let log = open(bench, &directory.path().join("log"), &runtime)?;
        let mut cluster = LocalCluster::new(shape, log);
        runtime.block_on(async {
            for number in 0..nodes {
                cluster.start(node(number)).await.map_err(|error| BenchError::of(NAME, error))?;
            }
            if !cluster.wait(PATIENCE, LocalCluster::is_whole).await {
                return Err(BenchError::check(NAME, "the nodes have not found each other"));
            }
            Ok(())
        })?;
        Ok(Self { cluster, runtime, directory, flows: Vec::new() })
    }

    /// Waits until all tables of all nodes agree with the flows.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let wanted = || self.flows.iter().map(|(key, session)| (key, session));
        let is_so = |cluster: &LocalCluster| cluster.difference(wanted).is_none();
        if self.runtime.block_on(self.cluster.wait(PATIENCE, is_so)) {
            return Ok(());
        }
        let difference = self.cluster.difference(wanted).unwrap_or_else(|| "too late".to_owned());
        Err(BenchError::check(NAME, difference))
    }

    /// How often who is alive and who owns what has changed.
    pub(super) fn epoch(&self) -> Result<u64, BenchError> {
        Ok(plane(&self.cluster, 0)?.view().epoch())
    }
}

/// The control plane of a node.
pub(super) fn plane(cluster: &LocalCluster, number: usize) -> Result<&ControlPlane, BenchError> {
    let node = cluster.node(node(number)).ok_or_else(|| BenchError::check(NAME, "a node is not there"))?;
    Ok(&node.plane)
}

/// Has changes accepted, however often it is turned away for the moment.
pub(super) async fn accept(plane: &ControlPlane, changes: Vec<Change>) -> Result<Accepted, BenchError> {
    loop {
        match plane.accept(changes.clone()).await {
            Ok(accepted) if accepted.refused().is_empty() => return Ok(accepted),
            Ok(_) | Err(RefusedChanges::Busy | RefusedChanges::NoRoom(..) | RefusedChanges::NoOwner(_)) => {
                tokio::time::sleep(BUSY).await;
            }
            Err(error) => return Err(BenchError::of(NAME, error)),
        }
    }
}

async fn fill(plane: &ControlPlane, flows: &[Flow]) -> Result<(), BenchError> {
    for part in flows.chunks(TOGETHER) {
        let accepting = accept(plane, part.iter().map(brought).collect());
        let accepted = tokio::time::timeout(PATIENCE, accepting).await;
        accepted.map_err(|_| BenchError::check(NAME, "flows are not taken"))??;
    }
    Ok(())
}

/// The shape of a cluster for so many keys.
pub(super) fn shape(
    nodes: usize,
    count: u64,
    partitions: u32,
    gpt: Structure,
) -> Result<LocalConfig, BenchError> {
    let of = |error: &dyn std::error::Error| BenchError::check(NAME, error.to_string());
    let partitions = PartitionCount::new(partitions).map_err(|error| of(&error))?;
    let bits = ClusterSize::new(nodes).map_err(|error| of(&error))?.value_bits();
    // Twice as many as there are: no table grows while it is measured.
    let params =
        Params::for_keys(gpt, (count * 2).max(LEAST_KEYS), bits, partitions).map_err(|error| of(&error))?;
    Ok(LocalConfig { partitions, params, hasher: HASHER, grace: GRACE })
}

/// Logs on servers so far: each has names of its own.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// A new log: in a file, or on the servers that were named.
fn open(bench: &BenchRun<'_>, path: &Path, runtime: &Runtime) -> Result<Arc<dyn Engine>, BenchError> {
    let servers = &bench.options.nats;
    if servers.is_empty() {
        let log = EmbeddedLog::open(path, Options::default());
        return Ok(Arc::new(log.map_err(|error| BenchError::of("log", error))?));
    }
    let number = OPENED.fetch_add(1, Ordering::Relaxed);
    let prefix = format!("bench-{}-{number}", std::process::id());
    let options = nats::Options { servers: servers.clone(), prefix, ..nats::Options::default() };
    let log = runtime.block_on(JetStream::connect(options));
    Ok(Arc::new(log.map_err(|error| BenchError::of("log", error))?))
}

/// What is measured, by who keeps the log.
pub(super) fn name(bench: &BenchRun<'_>) -> &'static str {
    if bench.options.nats.is_empty() { NAME } else { "cluster, NATS" }
}
