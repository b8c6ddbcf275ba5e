//! What operators ask of the control plane, over several nodes in one process and a real log: that all tables are as the log
//! says, that a node gets no flows any more, who takes whose.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use scalebricks_cluster::local::{LocalCluster, LocalConfig};
use scalebricks_cluster::plane::{Accepted, RefusedChanges};
use scalebricks_cluster::repins::RepinCause;
use scalebricks_cluster::verify::{DifferenceKind, Verdict};
use scalebricks_cluster::{ControlPlane, local::MemoryTables};
use scalebricks_control::distribution::Tables;
use scalebricks_control::engine::{Batch, BatchId, Entry, WriterId};
use scalebricks_control::membership::{Placement, Standby};
use scalebricks_control::record::{Change, Session, encode};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{FlowKey, HashSeed, KeyHasher, NodeId, PartitionCount, Position, Teid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A test does not wait longer.
const PATIENCE: Duration = Duration::from_secs(60);

const HASHER: KeyHasher = KeyHasher::new(HashSeed::from_u64(5));

fn partitions() -> PartitionCount {
    PartitionCount::new(16).unwrap()
}

fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

fn key(number: u32) -> FlowKey {
    FlowKey::teid(Teid::new(number + 1))
}

fn session(at: usize, value: u64) -> Session {
    Session::new(node(at), [value, 1])
}

struct Cluster {
    nodes: LocalCluster,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// So many nodes, and keys spread evenly over them.
    async fn new(nodes: usize, keys: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Arc::new(EmbeddedLog::open(directory.path(), Options::default()).unwrap());
        let shape = LocalConfig {
            partitions: partitions(),
            params: Params::for_keys(Structure::Othello, 100_000, 3, partitions()).unwrap(),
            hasher: HASHER,
            grace: Duration::from_millis(20),
        };
        let mut cluster = Self { nodes: LocalCluster::new(shape, engine), _directory: directory };
        for number in 0..nodes {
            cluster.nodes.start(node(number)).await.unwrap();
        }
        cluster.wait("all are there", |cluster| cluster.nodes.is_whole()).await;
        let all: Vec<u32> = (0..keys).collect();
        for part in all.chunks(1_000) {
            let changes = part.iter().map(|&n| Change::Upsert(key(n), session(n as usize % nodes, n.into())));
            cluster.change(0, changes.collect()).await;
        }
        cluster
    }

    async fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        assert!(self.nodes.wait(PATIENCE, |_| is_so(self)).await, "not after {PATIENCE:?}: {what}");
    }

    fn plane(&self, number: usize) -> &ControlPlane {
        &self.nodes.node(node(number)).unwrap().plane
    }

    fn tables(&self, number: usize) -> MemoryTables {
        self.nodes.node(node(number)).unwrap().tables.clone()
    }

    async fn change(&self, number: usize, changes: Vec<Change>) {
        let accepted: Accepted = self.plane(number).accept(changes).await.unwrap();
        assert!(tokio::time::timeout(PATIENCE, self.plane(number).applied(&accepted)).await.unwrap());
    }

    async fn verify(&self, by: usize, patience: Duration) -> BTreeMap<u8, Option<Verdict>> {
        let mut verdicts = self.plane(by).verify(3, patience);
        let mut all = BTreeMap::new();
        while let Some((node, verdict)) = verdicts.recv().await {
            all.insert(node.get(), verdict);
        }
        all
    }

    /// Where all keys are, by the log.
    async fn places(&self, keys: u32) -> Vec<usize> {
        let mut places = Vec::new();
        for number in 0..keys {
            let found = self.plane(0).session(&key(number)).await.unwrap().unwrap();
            places.push(usize::from(found.node.get()));
        }
        places
    }

    /// Changes what the controller says at one node, and waits until all know.
    async fn place(&self, by: usize, change: impl Fn(&mut Placement) + Send + Sync + 'static) -> Placement {
        let placed = self.plane(by).place(change).await.unwrap();
        self.wait("all know", |cluster| {
            let epoch = cluster.nodes.nodes().map(|(_, node)| node.plane.view().epoch()).max();
            let knows =
                |plane: &ControlPlane| plane.placement() == placed && Some(plane.view().epoch()) == epoch;
            cluster.nodes.nodes().all(|(_, node)| knows(&node.plane))
        })
        .await;
        placed
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}

fn counts(verdict: Option<&Verdict>) -> Vec<(DifferenceKind, u64)> {
    verdict.unwrap().counts.iter().map(|(kind, count)| (*kind, *count)).collect()
}

#[test]
fn every_broken_table_is_named_and_no_other() {
    run(async {
        let cluster = Cluster::new(4, 8_000).await;
        for (number, verdict) in cluster.verify(1, PATIENCE).await {
            let verdict = verdict.unwrap();
            assert!(verdict.is_same(), "node {number}: {verdict:?}");
            assert_eq!((verdict.keys, verdict.partitions, verdict.in_flight), (8_000, 16, 0));
            assert_eq!(verdict.keys_here, 2_000);
        }
        // At node 0 two keys are lost, at node 1 a value is another, at node 2 five keys are too many, one of them of nobody.
        cluster.tables(0).remove(&key(4));
        cluster.tables(0).remove(&key(8));
        cluster.tables(1).set(&key(5), [7, 7]).unwrap();
        for number in [1, 3, 4, 5, 90_000] {
            cluster.tables(2).set(&key(number), [1, 1]).unwrap();
        }
        // At node 3 the GPT has bits of an entry that is in no log.
        let moved = key(6);
        let mut rib = cluster.plane(0).rib(partitions().of(HASHER.hash(&moved))).await.unwrap();
        let payload = encode(&[Change::Move(moved, session(3, 1))]).unwrap().into();
        let id = BatchId { writer: WriterId(1_000), number: 1 };
        let position = Position(rib.position().0 + 1);
        let effects = rib.apply(&Entry { position, batch: Batch { id, payload } }).unwrap();
        let _advanced = cluster.tables(3).apply_gpt(&effects.gpt.unwrap()).unwrap();

        let verdicts = cluster.verify(2, PATIENCE).await;
        let of = |number: u8| verdicts[&number].as_ref();
        assert_eq!(counts(of(0)), [(DifferenceKind::FibMissing, 2)]);
        assert_eq!(counts(of(1)), [(DifferenceKind::FibValue, 1)]);
        assert_eq!(counts(of(2)), [(DifferenceKind::FibSurplus, 5)]);
        assert_eq!(counts(of(3)), [(DifferenceKind::GptNode, 1)]);
        let told = &of(2).unwrap().differences;
        assert_eq!(told.len(), 3, "the first of them");
        let lost: Vec<_> = of(0).unwrap().differences.iter().filter_map(|d| d.key.as_deref()).collect();
        assert!(lost.contains(&"teid 0x5") && lost.contains(&"teid 0x9"), "{lost:?}");
        let value = &of(1).unwrap().differences[0];
        assert_eq!((value.key.as_deref(), value.kind), (Some("teid 0x6"), DifferenceKind::FibValue));
        assert_eq!(value.expected, "0000000000000005 0000000000000001");
        assert_eq!(value.found, "0000000000000007 0000000000000007");
        let named = &of(3).unwrap().differences[0];
        assert_eq!((named.key.as_deref(), named.expected.as_str()), (Some("teid 0x7"), "node 2"));
        assert_eq!(named.found, "node 3");
    });
}

#[test]
fn what_changes_meanwhile_is_no_difference() {
    run(async {
        let cluster = Cluster::new(3, 6_000).await;
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let changing = {
            let (plane, stop, made) = (cluster.plane(1).clone(), Arc::clone(&stop), Arc::clone(&made));
            tokio::spawn(async move {
                for round in 0_u32.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    // Some move again and again, some once in a while, some come and go.
                    let busy = (0..20)
                        .map(|n| (n, round))
                        .chain((0..50).map(|n| (20 + (round * 50 + n) % 6_000, n)));
                    let mut changes: Vec<Change> = busy
                        .map(|(n, at)| Change::Upsert(key(n), session(at as usize % 3, round.into())))
                        .collect();
                    let passing = 50_000 + round % 64;
                    changes.push(if round / 64 % 2 == 0 {
                        Change::Upsert(key(passing), session(0, 1))
                    } else {
                        Change::Delete(key(passing))
                    });
                    let count = changes.len() as u32;
                    if plane.accept(changes).await.is_ok() {
                        made.fetch_add(count, Ordering::Relaxed);
                    }
                    tokio::task::yield_now().await;
                }
            })
        };
        let mut times = 0;
        while times < 20 || made.load(Ordering::Relaxed) < 20_000 {
            for (number, verdict) in cluster.verify(times % 3, PATIENCE).await {
                let verdict = verdict.unwrap();
                assert!(verdict.is_same(), "node {number}: {verdict:?}");
                assert!(verdict.keys >= 6_000 && verdict.partitions == 16, "{verdict:?}");
            }
            times += 1;
        }
        stop.store(true, Ordering::Relaxed);
        changing.await.unwrap();
    });
}

#[test]
fn who_does_not_answer_is_named() {
    run(async {
        let mut cluster = Cluster::new(3, 100).await;
        cluster.nodes.kill(node(1));
        let verdicts = cluster.verify(0, Duration::from_secs(2)).await;
        assert_eq!(verdicts[&1], None);
        assert!(verdicts[&0].as_ref().unwrap().is_same() && verdicts[&2].as_ref().unwrap().is_same());
        cluster.wait("node 1 is given up", |cluster| cluster.plane(0).view().alive().count() == 2).await;
        // One comparison at a time: of two at once each node answers one.
        let (one, other) = tokio::join!(cluster.verify(0, PATIENCE), cluster.verify(0, PATIENCE));
        let problems = |all: &BTreeMap<u8, Option<Verdict>>| {
            all.values().flatten().filter(|verdict| verdict.problem.is_some()).count()
        };
        assert!(problems(&one) + problems(&other) > 0);
    });
}

#[test]
fn a_drained_node_gets_no_flows_and_gives_away_those_it_has() {
    run(async {
        let mut cluster = Cluster::new(4, 4_000).await;
        // No more than the record says so: whatever is pinned there goes, whoever pinned it.
        cluster.place(0, |placement| placement.set_drained(node(2), true)).await;
        for number in 0..4 {
            for change in [Change::Upsert(key(9_000), session(2, 1)), Change::Move(key(1), session(2, 1))] {
                let refused = cluster.plane(number).accept(vec![change]).await;
                assert_eq!(refused, Err(RefusedChanges::Drained(node(2))));
            }
        }
        let said = RefusedChanges::Drained(node(2)).to_string();
        assert!(said.contains("scalebricks cluster undrain 2"), "{said}");
        cluster.wait("it has no keys", |cluster| cluster.tables(2).is_empty()).await;
        let places = cluster.places(4_000).await;
        for (number, at) in places.iter().enumerate() {
            assert!(if number % 4 == 2 { *at != 2 } else { *at == number % 4 }, "key {number} is at {at}");
        }
        let told = |cluster: &Cluster, number: usize, cause| {
            let repins = cluster.plane(number).repins();
            repins
                .iter()
                .filter(|repin| repin.cause == cause)
                .map(|repin| (repin.node, repin.keys))
                .collect::<Vec<_>>()
        };
        cluster
            .wait("all are told", |cluster| {
                (0..4).all(|number| told(cluster, number, RepinCause::Drained) == [(2, Some(1_000))])
            })
            .await;

        // It takes none of a node that dies.
        cluster.nodes.kill(node(3));
        cluster.wait("node 3 is given up", |cluster| cluster.plane(0).view().alive().count() == 3).await;
        let at_3 = (3..4_000).step_by(4).map(key).collect::<Vec<_>>();
        cluster
            .wait("its keys are elsewhere", |cluster| {
                cluster.tables(0).named(&at_3).iter().all(|named| [0, 1].contains(named))
            })
            .await;
        assert!(cluster.tables(2).is_empty());

        cluster.place(1, |placement| placement.set_drained(node(2), false)).await;
        cluster.change(0, vec![Change::Move(key(1), session(2, 1))]).await;
        assert_eq!(cluster.tables(2).len(), 1);
    });
}

#[test]
fn the_controller_says_who_takes_whose_flows() {
    run(async {
        let mut cluster = Cluster::new(4, 4_000).await;
        let placed =
            cluster.place(3, |placement| placement.set_standby(node(1), Standby::One(node(3)))).await;
        assert_eq!(placed.standbys().collect::<Vec<_>>(), [(node(1), node(3))]);
        // What another says at the same time stays.
        let (one, other) = tokio::join!(
            cluster.plane(0).place(|placement| placement.set_standby(node(0), Standby::One(node(2)))),
            cluster.plane(2).place(|placement| placement.set_drained(node(2), false)),
        );
        assert!(one.is_ok() && other.is_ok());
        cluster.nodes.kill(node(1));
        let orphans: Vec<FlowKey> = (1..4_000).step_by(4).map(key).collect();
        cluster
            .wait("node 3 has them all", |cluster| {
                cluster.tables(0).named(&orphans).iter().all(|named| *named == 3)
            })
            .await;
        cluster.wait("and knows them", |cluster| cluster.tables(3).len() == 2_000).await;
        cluster
            .wait("all are told", |cluster| {
                [0, 2, 3].iter().all(|number| {
                    let repins = cluster.plane(*number).repins();
                    repins.len() == 1
                        && (repins[0].node, repins[0].keys, repins[0].partitions) == (1, Some(1_000), 16)
                })
            })
            .await;
        let repin = cluster.plane(0).repins().remove(0);
        assert_eq!((repin.cause, repin.heirs), (RepinCause::Died, vec![3]));
        let counted: u64 = [0, 2, 3].iter().map(|number| cluster.plane(*number).stats().repins).sum();
        assert_eq!(counted, 16);
        // A node that starts later finds the record.
        cluster.nodes.start(node(1)).await.unwrap();
        assert_eq!(cluster.plane(1).placement(), cluster.plane(0).placement());
    });
}
