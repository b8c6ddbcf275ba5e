//! Tables of one partition that are larger than a frame of the mesh, and corrupted entries of exact tables.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use crate::harness::{block_on, free_port, key};
use scalebricks_apps::gateway::{FlowTables, PinnedState};
use scalebricks_cluster::live::live;
use scalebricks_cluster::local::{LocalCluster, LocalConfig};
use scalebricks_cluster::mesh::{ClusterKey, Mesh, MeshConfig, MeshLimits, PeerCount};
use scalebricks_cluster::shared_tables::SharedTables;
use scalebricks_cluster::{ControlPlane, PlaneConfig};
use scalebricks_control::distribution::Tables;
use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_control::record::{Change, Session, encode};
use scalebricks_control::version::Version;
use scalebricks_elements::gateway::BaseStationId;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_tables::FibValue;
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{FlowKey, HashSeed, KeyHasher, NodeId, PartitionCount, PartitionId, Teid};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Longest wait of a test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Keys take 33 bytes each in a message: 23 MB.
const KEYS: u32 = 700_000;

/// More entries than an owner keeps, so that a node that joins gets an image.
const BATCHES: u32 = 4_200;

const ONLY: PartitionId = PartitionId(0);

fn shape() -> LocalConfig {
    let partitions = PartitionCount::ONE;
    LocalConfig {
        partitions,
        params: Params::for_keys(Structure::Othello, 1_600_000, 3, partitions).unwrap(),
        hasher: KeyHasher::new(HashSeed::from_u64(5)),
        grace: Duration::from_millis(20),
    }
}

fn node(number: u8) -> NodeId {
    NodeId::new(number)
}

/// The value of a key in the log.
fn value(number: u32) -> FibValue {
    let state = PinnedState {
        downlink_teid: Teid::new(number),
        uplink_teid: Teid::new(number + 1),
        base_station: BaseStationId(3),
        qfi: None,
    };
    state.encode()
}

fn upsert(number: u32, to: NodeId) -> Change {
    Change::Upsert(key(number), Session::new(to, value(number)))
}

/// A log in which all keys are pinned to node 1, which has not started yet.
async fn log_of_many_keys(directory: &std::path::Path) -> Arc<dyn Engine> {
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedLog::open(directory, Options::default()).unwrap());
    // Later writers have higher numbers.
    engine.swap("cluster.writer", None, Some(1_u64.to_le_bytes().as_slice().into())).await.unwrap();
    let each = KEYS / BATCHES + 1;
    let mut under_way = Vec::new();
    for number in 0..BATCHES {
        let range = (number * each).min(KEYS)..((number + 1) * each).min(KEYS);
        let changes: Vec<Change> = range.map(|number| upsert(number, node(1))).collect();
        let id = BatchId { writer: WriterId(1), number: u64::from(number) + 1 };
        let batch = Batch { id, payload: encode(&changes).unwrap().into() };
        let engine = Arc::clone(&engine);
        under_way.push(tokio::spawn(async move { engine.append(ONLY, batch).await.unwrap() }));
        if under_way.len() == 64 {
            for append in under_way.drain(..) {
                append.await.unwrap();
            }
        }
    }
    for append in under_way {
        append.await.unwrap();
    }
    engine
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Updates the partition until it is dropped.
fn steady_updates(plane: ControlPlane) -> tokio::task::AbortHandle {
    let update = async move {
        for round in 0_u32.. {
            let number = KEYS + round % 500;
            let _busy = plane.accept(vec![upsert(number, node((round % 2) as u8))]).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::spawn(update).abort_handle()
}

#[test]
fn a_node_that_joins_gets_more_than_a_frame_holds_and_wrong_entries_are_mended() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let mut cluster = LocalCluster::new(shape(), log_of_many_keys(directory.path()).await);
        cluster.start(node(0)).await.unwrap();
        assert!(cluster.wait(PATIENCE, LocalCluster::is_whole).await);
        cluster.start(node(1)).await.unwrap();
        assert!(cluster.wait(PATIENCE, LocalCluster::is_whole).await);
        let tables = |cluster: &LocalCluster| cluster.node(node(1)).unwrap().tables.clone();
        let (mut joined, plane) = (tables(&cluster), cluster.node(node(1)).unwrap().plane.clone());
        assert_eq!(joined.len(), KEYS as usize);
        assert!((0..KEYS).all(|number| joined.get(&key(number)) == Some(value(number))));

        let updates = steady_updates(cluster.node(node(0)).unwrap().plane.clone());
        let stray = key(KEYS + 1_000_000);
        // An image repairs all keys of its pieces. Its last piece removes the stray key.
        for round in 1..=2 {
            joined.set(&key(7), [1, 2]).unwrap();
            joined.remove(&key(8));
            joined.set(&stray, [3, 4]).unwrap();
            let is_right = || {
                joined.get(&key(7)) == Some(value(7))
                    && joined.get(&key(8)) == Some(value(8))
                    && joined.get(&stray).is_none()
            };
            until("the faults are mended", is_right).await;
            until("they are counted", || plane.stats().fib_astray >= round).await;
        }
        updates.abort();
    });
}

/// A node with real tables, over a real mesh.
struct Real {
    plane: Arc<OnceLock<ControlPlane>>,
    mesh: Arc<Mesh>,
    tables: SharedTables,
}

fn real(number: u8, engine: &Arc<dyn Engine>, peers: &BTreeMap<NodeId, SocketAddr>) -> Real {
    let LocalConfig { partitions, params, hasher, grace } = shape();
    let node = node(number);
    let config = PlaneConfig { node, partitions, params, hasher, grace, version: Version::NEWEST };
    let mesh = MeshConfig {
        cluster: "large".to_owned(),
        node,
        listen: peers[&node],
        peers: peers.clone(),
        key: ClusterKey::new(&[7; 32]).unwrap(),
        limits: MeshLimits::default(),
    };
    let (mesh, events) = Mesh::start(mesh).unwrap();
    let (mesh, plane) = (Arc::new(mesh), Arc::new(OnceLock::new()));
    let mut tables = FlowTables::for_log(node, params, hasher, 1, 1_000);
    // No worker runs, so there are no counts.
    drop(tables.mark(0));
    let tables = SharedTables::new(tables);
    let (engine, started, over) = (Arc::clone(engine), Arc::clone(&plane), Arc::clone(&mesh));
    let own = tables.clone();
    tokio::spawn(async move { live(config, engine, over, events, &started, own, None).await });
    Real { plane, mesh, tables }
}

#[test]
fn the_same_over_the_mesh_into_real_tables() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let engine = log_of_many_keys(directory.path()).await;
        let address = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let peers: BTreeMap<_, _> = [(node(0), address()), (node(1), address())].into();
        let has_caught_up = |node: &Real| node.plane.get().is_some_and(ControlPlane::has_caught_up);
        let owner = real(0, &engine, &peers);
        until("the owner has begun", || has_caught_up(&owner)).await;
        let joined = real(1, &engine, &peers);
        until("the other has joined", || has_caught_up(&joined)).await;
        assert_eq!(joined.tables.lock().sizes().keys_here, KEYS as usize);
        let is_right = |number: u32| joined.tables.lock().value(&key(number)) == Some(value(number));
        assert!((0..KEYS).all(is_right));
        let dropped = [PeerCount::DroppedTooLong, PeerCount::DroppedFull];
        assert_eq!(dropped.map(|what| owner.mesh.stats().of(node(1), what)), [0, 0]);

        let updates = steady_updates(owner.plane.get().unwrap().clone());
        let fib = joined.tables.lock().node_tables(0).fib;
        let hash = |key: &FlowKey| shape().hasher.hash(key);
        let stray = key(KEYS + 1_000_000);
        for round in 1..=2 {
            let mut entry = fib.remove(&key(7), hash(&key(7))).unwrap();
            entry[0] ^= 1 << 40;
            fib.insert(&key(7), hash(&key(7)), entry).unwrap();
            fib.remove(&key(8), hash(&key(8))).unwrap();
            fib.insert(&stray, hash(&stray), [5, 6]).unwrap();
            let is_mended = || is_right(7) && is_right(8) && joined.tables.lock().flow(&stray).is_none();
            until("the faults are mended", is_mended).await;
            until("they are counted", || joined.plane.get().unwrap().stats().fib_astray >= round).await;
        }
        updates.abort();
    });
}
