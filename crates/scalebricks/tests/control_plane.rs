//! The control planes of several nodes in one process, over a real log: what is accepted at any node is in the tables of all,
//! and a node that dies leaves its keys to the others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use scalebricks::cluster::plane::{Accepted, Inbox, Link, RefusedChanges};
use scalebricks::cluster::{ControlPlane, PlaneConfig};
use scalebricks_control::distribution::Tables;
use scalebricks_control::engine::Engine;
use scalebricks_control::record::{Change, Session};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_tables::setsep::{Params, SetSep, SetSepReader};
use scalebricks_tables::{FibError, FibValue};
use scalebricks_types::{
    Applied, ApplyError, Delta, FlowKey, HashSeed, KeyHasher, NodeId, PartitionCount, PartitionId, Teid,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

const HASHER: KeyHasher = KeyHasher::new(HashSeed::from_u64(5));

fn partitions() -> PartitionCount {
    PartitionCount::new(16).unwrap()
}

fn params() -> Params {
    Params::for_keys(100_000, 3, partitions()).unwrap()
}

fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

/// A node's tables, which the test can look at.
#[derive(Clone)]
struct Memory {
    gpt: Arc<SetSep>,
    fib: Arc<Mutex<HashMap<FlowKey, FibValue>>>,
}

impl Memory {
    fn new() -> Self {
        Self { gpt: Arc::new(SetSep::new(params())), fib: Arc::default() }
    }

    fn named(&self, keys: &[FlowKey]) -> Vec<u8> {
        let mut reader = SetSepReader::new(Arc::clone(&self.gpt));
        let pin = reader.pin();
        keys.iter().map(|key| pin.get(HASHER.hash(key))).collect()
    }

    fn has(&self, key: &FlowKey) -> Option<FibValue> {
        self.fib.lock().unwrap().get(key).copied()
    }
}

impl Tables for Memory {
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
}

/// The ways between nodes; what is for a node that is gone is lost.
type Inboxes = Arc<RwLock<HashMap<NodeId, Inbox>>>;

struct Channels {
    me: NodeId,
    inboxes: Inboxes,
    runtime: tokio::runtime::Handle,
}

impl Link for Channels {
    fn beat(&self, life: u64) {
        let inboxes = self.inboxes.read().unwrap();
        if inboxes.contains_key(&self.me) {
            inboxes
                .iter()
                .filter(|(node, _)| **node != self.me)
                .for_each(|(_, inbox)| inbox.beat(self.me, life));
        }
    }

    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        let inboxes = self.inboxes.read().unwrap();
        if inboxes.contains_key(&self.me)
            && let Some(inbox) = inboxes.get(&to).cloned()
        {
            let me = self.me;
            self.runtime.spawn(async move { inbox.came(me, bytes).await });
        }
    }
}

struct Cluster {
    engine: Arc<dyn Engine>,
    inboxes: Inboxes,
    nodes: HashMap<usize, (ControlPlane, Memory)>,
    _directory: tempfile::TempDir,
}

impl Cluster {
    async fn new(nodes: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Arc::new(EmbeddedLog::open(directory.path(), Options::default()).unwrap());
        let mut cluster =
            Self { engine, inboxes: Arc::default(), nodes: HashMap::new(), _directory: directory };
        for number in 0..nodes {
            cluster.start(number).await;
        }
        cluster.wait("all have caught up", |cluster| cluster.all(ControlPlane::has_caught_up)).await;
        cluster
            .wait("all know all", |cluster| cluster.all(|plane| plane.view().alive().count() == nodes))
            .await;
        cluster
    }

    fn all(&self, is_so: impl Fn(&ControlPlane) -> bool) -> bool {
        self.nodes.values().all(|(plane, _)| is_so(plane))
    }

    async fn start(&mut self, number: usize) {
        let config = PlaneConfig {
            node: node(number),
            partitions: partitions(),
            params: params(),
            hasher: HASHER,
            grace: Duration::from_millis(20),
        };
        let tables = Memory::new();
        let (inboxes, runtime) = (Arc::clone(&self.inboxes), tokio::runtime::Handle::current());
        let plane = ControlPlane::start(config, Arc::clone(&self.engine), tables.clone(), |inbox| {
            inboxes.write().unwrap().insert(node(number), inbox);
            Arc::new(Channels { me: node(number), inboxes: Arc::clone(&inboxes), runtime })
        });
        self.nodes.insert(number, (plane.await.unwrap(), tables));
    }

    /// A node is gone, with all it had.
    fn kill(&mut self, number: usize) {
        self.inboxes.write().unwrap().remove(&node(number));
        self.nodes.remove(&number);
    }

    async fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < Duration::from_secs(30), "not after 30 s: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn plane(&self, number: usize) -> &ControlPlane {
        &self.nodes[&number].0
    }

    /// All tables agree with what the keys are to lead to.
    fn check(&self, wanted: &HashMap<FlowKey, Session>) {
        let keys: Vec<FlowKey> = wanted.keys().copied().collect();
        for (number, (_, tables)) in &self.nodes {
            for (key, named) in keys.iter().zip(tables.named(&keys)) {
                assert_eq!(named, wanted[key].node.get(), "node {number}, {key:?}");
                let own = (wanted[key].node == node(*number)).then_some(wanted[key].value);
                assert_eq!(tables.has(key), own, "node {number}, {key:?}");
            }
        }
    }

    async fn settle(&self, accepted: &[(usize, Accepted)]) {
        for (number, accepted) in accepted {
            let applied = self.plane(*number).applied(accepted);
            assert!(tokio::time::timeout(Duration::from_secs(30), applied).await.unwrap(), "not after 30 s");
        }
        // What has left goes after a while.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}

fn key(number: u32) -> FlowKey {
    FlowKey::teid(Teid::new(number + 1))
}

fn session(at: usize, value: u64) -> Session {
    Session { node: node(at), value: [value, 1] }
}

#[test]
fn what_one_node_accepts_all_have() {
    run(async {
        let cluster = Cluster::new(4).await;
        let mut wanted = HashMap::new();
        let mut accepted = Vec::new();
        for number in 0..4 {
            let sessions = (0..5_000).map(|n| (key(n * 4 + number), session((n % 4) as usize, u64::from(n))));
            let sessions: Vec<_> = sessions.collect();
            wanted.extend(sessions.iter().copied());
            for part in sessions.chunks(1_000) {
                let changes = part.iter().map(|(key, session)| Change::Upsert(*key, *session)).collect();
                accepted
                    .push((number as usize, cluster.plane(number as usize).accept(changes).await.unwrap()));
            }
        }
        cluster.settle(&accepted).await;
        cluster.check(&wanted);

        // Each key moves, by another node than the one that brought it.
        let mut accepted = Vec::new();
        for number in 0..200 {
            let moved = session((wanted[&key(number)].node.get() as usize + 1) % 4, 7);
            wanted.insert(key(number), moved);
            let by = (number as usize + 1) % 4;
            accepted
                .push((by, cluster.plane(by).accept(vec![Change::Move(key(number), moved)]).await.unwrap()));
        }
        cluster.settle(&accepted).await;
        cluster.check(&wanted);
        for number in (0..200).step_by(7) {
            let found = cluster.plane(number as usize % 4).session(&key(number)).await.unwrap();
            assert_eq!(found, Some(wanted[&key(number)]));
        }
        let gone = cluster.plane(1).accept(vec![Change::Delete(key(3))]).await.unwrap();
        cluster.settle(&[(1, gone)]).await;
        assert_eq!(cluster.plane(2).session(&key(3)).await, Ok(None));
        assert!(cluster.nodes.values().all(|(_, tables)| tables.has(&key(3)).is_none()));
    });
}

#[test]
fn what_cannot_be_is_refused() {
    run(async {
        let cluster = Cluster::new(2).await;
        let plane = cluster.plane(0);
        let at_nobody = plane.accept(vec![Change::Upsert(key(1), session(5, 1))]).await;
        assert_eq!(at_nobody, Err(RefusedChanges::NodeNotAlive(node(5))));
        // More than there is room for: refused, and what was accepted is there.
        let (mut kept, mut refused) = (HashMap::new(), None);
        let mut accepted = Vec::new();
        for part in 0..400 {
            let sessions: Vec<_> = (0..500).map(|n| (key(part * 500 + n), session(1, 1))).collect();
            let changes = sessions.iter().map(|(key, session)| Change::Upsert(*key, *session)).collect();
            match plane.accept(changes).await {
                Ok(positions) => {
                    kept.extend(sessions);
                    accepted.push((0, positions));
                }
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        assert!(matches!(refused, Some(RefusedChanges::NoRoom(..))), "{refused:?}");
        assert!(kept.len() > 30_000, "{}", kept.len());
        cluster.settle(&accepted).await;
        cluster.check(&kept);
    });
}

#[test]
fn a_dead_node_s_keys_go_to_others_and_it_returns_empty() {
    run(async {
        let mut cluster = Cluster::new(4).await;
        let sessions: HashMap<_, _> =
            (0..20_000).map(|n| (key(n), session(n as usize % 4, u64::from(n)))).collect();
        let mut accepted = Vec::new();
        let all: Vec<_> = sessions.iter().collect();
        for part in all.chunks(1_000) {
            let changes = part.iter().map(|(key, session)| Change::Upsert(**key, **session)).collect();
            accepted.push((0, cluster.plane(0).accept(changes).await.unwrap()));
        }
        cluster.settle(&accepted).await;
        cluster.check(&sessions);

        cluster.kill(2);
        let keys: Vec<FlowKey> = sessions.keys().copied().collect();
        let orphans = |cluster: &Cluster| {
            let named = |tables: &Memory| tables.named(&keys).into_iter().filter(|named| *named == 2).count();
            cluster.nodes.values().map(|(_, tables)| named(tables)).sum::<usize>()
        };
        assert!(orphans(&cluster) > 0);
        cluster.wait("all keys are with living nodes", |cluster| orphans(cluster) == 0).await;
        let mut now = sessions.clone();
        for key in &keys {
            let found = cluster.plane(1).session(key).await.unwrap().unwrap();
            assert_eq!(found.value, sessions[key].value);
            let stayed = found.node == sessions[key].node;
            assert!(stayed != (sessions[key].node == node(2)), "others stay where they are");
            now.insert(*key, found);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.check(&now);

        // It comes back with nothing, and is given all bits.
        cluster.start(2).await;
        cluster.wait("it has caught up", |cluster| cluster.plane(2).has_caught_up()).await;
        // It was given what it had before, too, and lets go of that.
        let is_empty = |cluster: &Cluster| cluster.nodes[&2].1.fib.lock().unwrap().is_empty();
        cluster.wait("it has none of the keys", is_empty).await;
        cluster.check(&now);
        let accepted = cluster.plane(2).accept(vec![Change::Move(keys[0], session(2, 9))]).await.unwrap();
        cluster.settle(&[(2, accepted)]).await;
        now.insert(keys[0], session(2, 9));
        cluster.check(&now);
    });
}
