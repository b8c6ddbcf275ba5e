//! What a node makes of its log: how much of it a restart replays, and what it does when an older log takes its place.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::replaceable::{Replaceable, copy, embedded};
use scalebricks_cluster::local::{LocalCluster, LocalConfig};
use scalebricks_cluster::plane::Accepted;
use scalebricks_control::agent::REPLAY;
use scalebricks_control::engine::{Engine, MAX_BATCH_BYTES, ReadError, Snapshot};
use scalebricks_control::record::{Change, Session};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{
    FlowKey, HashSeed, Key40, KeyHasher, NodeId, PartitionCount, PartitionId, Position, Teid,
};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A test does not wait longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn shape(partitions: u32) -> LocalConfig {
    let partitions = PartitionCount::new(partitions).unwrap();
    LocalConfig {
        partitions,
        params: Params::for_keys(Structure::SetSep, 50_000, 2, partitions).unwrap(),
        hasher: KeyHasher::new(HashSeed::from_u64(5)),
        grace: Duration::from_millis(20),
    }
}

fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}

async fn start(engine: Arc<dyn Engine>, shape: LocalConfig, nodes: usize) -> LocalCluster {
    let mut cluster = LocalCluster::new(shape, engine);
    for number in 0..nodes {
        cluster.start(node(number)).await.unwrap();
    }
    assert!(cluster.wait(PATIENCE, LocalCluster::is_whole).await, "not all caught up");
    cluster
}

async fn accept(cluster: &LocalCluster, at: usize, changes: Vec<Change>) -> Accepted {
    cluster.node(node(at)).unwrap().plane.accept(changes).await.unwrap()
}

async fn settle(cluster: &LocalCluster, at: usize, accepted: &Accepted) {
    let applied = cluster.node(node(at)).unwrap().plane.applied(accepted);
    assert!(tokio::time::timeout(PATIENCE, applied).await.unwrap(), "not after {PATIENCE:?}");
}

/// All tables come to agree with what the keys are to lead to.
async fn check(cluster: &LocalCluster, wanted: &HashMap<FlowKey, Session>) {
    let is_so = cluster.wait(PATIENCE, |nodes| nodes.difference(|| wanted.iter()).is_none()).await;
    assert!(is_so, "{:?}", cluster.difference(|| wanted.iter()));
}

/// Bytes of files in a directory.
fn disk_bytes(directory: &Path) -> u64 {
    fs::read_dir(directory).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// What who loads the partition replays: entries, and bytes of batches; and the snapshot they begin with.
async fn replay(engine: &dyn Engine, partition: PartitionId) -> (u64, u64, Option<Snapshot>) {
    let snapshot = engine.snapshot(partition).await.unwrap();
    let mut next = snapshot.as_ref().map_or(1, |snapshot| snapshot.position.0 + 1);
    let (mut entries, mut bytes) = (0, 0);
    loop {
        let read = engine.read(partition, Position(next), 1 << 20).await.unwrap();
        let Some(last) = read.last() else { return (entries, bytes, snapshot) };
        next = last.position.0 + 1;
        entries += read.len() as u64;
        bytes += read.iter().map(|entry| entry.batch.payload.len() as u64).sum::<u64>();
    }
}

/// Few entries of many bytes: far below the bound of entries, far above that of bytes.
#[test]
fn what_a_restart_replays_is_bounded_in_bytes_and_the_log_and_disk_follow() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 4 << 20, ..Options::default() };
        let engine: Arc<dyn Engine> = Arc::new(EmbeddedLog::open(directory.path(), options).unwrap());
        let cluster = start(Arc::clone(&engine), shape(1), 1).await;
        let key = |n: u64| FlowKey::Long(Key40::from_words([1, 2, 3, 4, n]));
        let mut wanted = HashMap::new();
        let mut appended = 0;
        let mut entries = 0;
        while appended < 3 * REPLAY.bytes {
            let session = |n| Session::new(node(0), [n, entries]);
            wanted.extend((0..4_000).map(|n| (key(n), session(n))));
            let changes: Vec<Change> = wanted.iter().map(|(key, at)| Change::Upsert(*key, *at)).collect();
            appended += scalebricks_control::record::encode(&changes).unwrap().len() as u64;
            settle(&cluster, 0, &accept(&cluster, 0, changes).await).await;
            entries += 1;
        }
        assert!(entries < 500, "{entries} entries");
        let allowed = |snapshot: &Option<Snapshot>| {
            let snapshot_bytes = snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes.len() as u64);
            REPLAY.bytes.max(2 * snapshot_bytes) + MAX_BATCH_BYTES as u64
        };
        let partition = PartitionId(0);
        let mut told = String::new();
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            // The last snapshot may still be on its way.
            let (entries, bytes, snapshot) = replay(&*engine, partition).await;
            let (allowed, disk) = (allowed(&snapshot), disk_bytes(directory.path()));
            let trimmed = engine.read(partition, Position(1), 1).await;
            let is_trimmed = matches!(trimmed, Err(ReadError::Trimmed { .. }));
            // Two snapshots, what is replayed, and segments at both ends.
            let kept = snapshot.map_or(0, |snapshot| snapshot.bytes.len() as u64);
            let space = allowed + 2 * kept + 4 * options.segment_bytes;
            if bytes <= allowed && is_trimmed && disk <= space {
                break;
            }
            told = format!(
                "{entries} entries of {bytes} bytes, {allowed} allowed; {disk} on disk, {space} allowed; {told}"
            );
            assert!(std::time::Instant::now() < until, "{told}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Who starts has all of it.
        drop(cluster);
        let cluster = start(engine, shape(1), 1).await;
        check(&cluster, &wanted).await;
    });
}

/// The directory of the log is replaced by an old copy while nodes run.
#[test]
fn nodes_follow_a_log_that_was_replaced_by_an_older_one() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let (log, backup) = (directory.path().join("log"), directory.path().join("backup"));
        let engine = Replaceable::new(embedded(&log));
        let mut cluster = start(Arc::<Replaceable>::clone(&engine), shape(4), 3).await;
        let key = |n: u32| FlowKey::teid(Teid::new(n + 1));
        let session = |at: u32, value| Session::new(node(at as usize % 3), [value, 1]);
        let mut old: HashMap<_, _> = (0..300).map(|n| (key(n), session(n, 1))).collect();
        let changes = old.iter().map(|(key, session)| Change::Upsert(*key, *session)).collect();
        settle(&cluster, 0, &accept(&cluster, 0, changes).await).await;
        check(&cluster, &old).await;

        engine.remove().await;
        copy(&log, &backup);
        engine.put(embedded(&log));
        // Entries that the copy lacks, many of them: some keys are new, some move, some go.
        let mut new = old.clone();
        for n in 0..100 {
            new.insert(key(1_000 + n), session(n, 2));
            new.insert(key(n), session(n + 1, 3));
            new.remove(&key(100 + n));
            let changes = vec![
                Change::Upsert(key(1_000 + n), session(n, 2)),
                Change::Move(key(n), session(n + 1, 3)),
                Change::Delete(key(100 + n)),
            ];
            settle(&cluster, 1, &accept(&cluster, 1, changes).await).await;
        }
        check(&cluster, &new).await;

        engine.remove().await;
        fs::remove_dir_all(&log).unwrap();
        fs::rename(&backup, &log).unwrap();
        engine.put(embedded(&log));
        check(&cluster, &old).await;
        let stats = || cluster.nodes().map(|(_, node)| node.plane.stats());
        assert!(stats().map(|stats| stats.reloads).sum::<u64>() >= 4, "each partition has an owner");
        assert!(stats().all(|stats| stats.rewound == 4), "each node has tables of each partition");
        assert!(cluster.wait(PATIENCE, LocalCluster::is_whole).await, "not all caught up");

        // The log goes on from there, through positions that were there before.
        for n in 0..60 {
            old.insert(key(2_000 + n), session(n, 4));
            old.insert(key(n), session(n + 2, 5));
            let changes =
                vec![Change::Upsert(key(2_000 + n), session(n, 4)), Change::Move(key(n), session(n + 2, 5))];
            settle(&cluster, 2, &accept(&cluster, 2, changes).await).await;
        }
        check(&cluster, &old).await;
        // Who comes later has the same.
        cluster.kill(node(1));
        cluster.start(node(1)).await.unwrap();
        assert!(cluster.wait(PATIENCE, LocalCluster::is_whole).await, "not all caught up");
    });
}
