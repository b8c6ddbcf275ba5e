//! The control planes of several nodes in one process, over a real log: what is accepted at any node is in the tables of all,
//! and a node that dies leaves its keys to the others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::leasing::Leasing;
use scalebricks_cluster::local::{LocalCluster, LocalConfig, MemoryTables};
use scalebricks_cluster::plane::{Accepted, ChangeRefusal, RefusedChanges};
use scalebricks_cluster::repins::RepinCause;
use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_control::lease::{LeaseState, LeaseTimes};
use scalebricks_control::membership::{Fitness, Placement, Suspension, Unfitness};
use scalebricks_control::partition::{MAX_REQUESTERS, Void};
use scalebricks_control::record::{Call, CallId, Change, Closure, Epoch, Heirs, Session, encode_calls};
use scalebricks_control::version::Version;
use scalebricks_elements::gateway::Lease;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{FlowKey, HashSeed, KeyHasher, NodeId, PartitionCount, Teid};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A test does not wait longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn shape() -> LocalConfig {
    shape_of(Structure::SetSep)
}

fn shape_of(structure: Structure) -> LocalConfig {
    let partitions = PartitionCount::new(16).unwrap();
    LocalConfig {
        partitions,
        params: Params::for_keys(structure, 100_000, 3, partitions).unwrap(),
        hasher: KeyHasher::new(HashSeed::from_u64(5)),
        grace: Duration::from_millis(20),
    }
}

fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

struct Cluster {
    nodes: LocalCluster,
    log: Arc<EmbeddedLog>,
    _directory: tempfile::TempDir,
}

impl Cluster {
    async fn new(nodes: usize) -> Self {
        Self::with(nodes, shape()).await
    }

    async fn with(nodes: usize, shape: LocalConfig) -> Self {
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

    async fn start(&mut self, number: usize) {
        self.nodes.start(node(number)).await.unwrap();
    }

    async fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        assert!(self.nodes.wait(PATIENCE, |_| is_so(self)).await, "not after {PATIENCE:?}: {what}");
    }

    fn plane(&self, number: usize) -> &ControlPlane {
        &self.nodes.node(node(number)).unwrap().plane
    }

    fn tables(&self) -> impl Iterator<Item = &MemoryTables> {
        self.nodes.nodes().map(|(_, node)| &node.tables)
    }

    /// All tables come to agree with what the keys are to lead to: what has left goes after a while.
    async fn check(&self, wanted: &HashMap<FlowKey, Session>) {
        let is_so = self.nodes.wait(PATIENCE, |nodes| nodes.difference(|| wanted.iter()).is_none()).await;
        assert!(is_so, "{:?}", self.nodes.difference(|| wanted.iter()));
    }

    async fn settle(&self, accepted: &[(usize, Accepted)]) {
        for (number, accepted) in accepted {
            let applied = self.plane(*number).applied(accepted);
            assert!(tokio::time::timeout(PATIENCE, applied).await.unwrap(), "not after {PATIENCE:?}");
        }
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
    Session::new(node(at), [value, 1])
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
        cluster.check(&wanted).await;

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
        cluster.check(&wanted).await;
        for number in (0..200).step_by(7) {
            let found = cluster.plane(number as usize % 4).session(&key(number)).await.unwrap();
            assert_eq!(found, Some(wanted[&key(number)]));
        }
        let gone = cluster.plane(1).accept(vec![Change::Delete(key(3))]).await.unwrap();
        cluster.settle(&[(1, gone)]).await;
        assert_eq!(cluster.plane(2).session(&key(3)).await, Ok(None));
        assert!(
            cluster
                .nodes
                .wait(PATIENCE, |_| cluster.tables().all(|tables| tables.get(&key(3)).is_none()))
                .await
        );
    });
}

#[test]
fn what_cannot_be_is_refused() {
    run(async {
        let cluster = Cluster::new(2).await;
        let plane = cluster.plane(0);
        let at_nobody = plane.accept(vec![Change::Upsert(key(1), session(5, 1))]).await;
        assert_eq!(at_nobody, Err(RefusedChanges::NodeNotAlive(node(5))));
        let heirs = Heirs::new([node(1)]).unwrap();
        let closure = Closure { node: node(0), epoch: Epoch::new(1), heirs };
        assert_eq!(plane.accept(vec![Change::Close(closure)]).await, Err(RefusedChanges::NoKey));
    });
}

/// It is alive all the time, and takes flows again when it is fit.
#[test]
fn an_unfit_node_s_flows_go_to_others_and_its_addresses_to_one() {
    run(async {
        let cluster = Cluster::new(4).await;
        let mut flows = 0;
        for at in 0..4 {
            let changes = (0..50).flat_map(|flow| pins(flows + flow, at)).collect();
            flows += 50;
            cluster.settle(&[(at, cluster.plane(at).accept(changes).await.unwrap())]).await;
        }
        let unfit = Fitness::FIT.with(Unfitness::Worker).with(Unfitness::RanLink);
        cluster.plane(2).set_fitness(unfit);
        let is_suspended = |cluster: &Cluster| {
            let views: Vec<_> = (0..4).map(|at| cluster.plane(at).view()).collect();
            views.iter().all(|view| {
                view.suspension(node(2)) == Some(Suspension::Unfit(unfit))
                    && !view.answers_for_itself(node(2))
            })
        };
        cluster.wait("all know that it is unfit, and why", is_suspended).await;
        let heirs = one_node_each(&cluster, 0, flows, &[2]).await;
        assert!([0, 1, 3].iter().all(|heir| heirs.contains(heir)), "{heirs:?}");
        assert_eq!(cluster.plane(0).view().alive().count(), 4);
        let refused = cluster.plane(1).accept(pins(flows, 2)).await.unwrap_err();
        assert_eq!(refused, RefusedChanges::Suspended(node(2), Suspension::Unfit(unfit)));
        cluster.wait("it is told of", |cluster| !cluster.plane(1).repins().is_empty()).await;
        assert!(cluster.plane(1).repins().iter().all(|notice| notice.cause == RepinCause::Unfit));
        cluster.plane(2).set_fitness(Fitness::FIT);
        cluster.wait("it takes flows again", |cluster| cluster.plane(1).view().is_open(node(2))).await;
        cluster.settle(&[(1, cluster.plane(1).accept(pins(flows, 2)).await.unwrap())]).await;
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
        cluster.check(&sessions).await;

        cluster.nodes.kill(node(2));
        let keys: Vec<FlowKey> = sessions.keys().copied().collect();
        let orphans = |cluster: &Cluster| {
            let named =
                |tables: &MemoryTables| tables.named(&keys).into_iter().filter(|named| *named == 2).count();
            cluster.tables().map(named).sum::<usize>()
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
        cluster.check(&now).await;

        // It comes back with nothing, and is given all bits.
        cluster.start(2).await;
        cluster.wait("it has caught up", |cluster| cluster.plane(2).has_caught_up()).await;
        // It was given what it had before, too, and lets go of that.
        let is_empty = |cluster: &Cluster| cluster.nodes.node(node(2)).unwrap().tables.is_empty();
        cluster.wait("it has none of the keys", is_empty).await;
        cluster.check(&now).await;
        let accepted = cluster.plane(2).accept(vec![Change::Move(keys[0], session(2, 9))]).await.unwrap();
        cluster.settle(&[(2, accepted)]).await;
        now.insert(keys[0], session(2, 9));
        cluster.check(&now).await;
    });
}

/// The two keys of a flow, which lie in partitions of their own.
fn keys_of(flow: u32) -> [FlowKey; 2] {
    [key(flow), FlowKey::ue(std::net::Ipv4Addr::from(0x0a00_0000 | flow).into())]
}

fn pins(flow: u32, at: usize) -> Vec<Change> {
    let session = Session::new(node(at), [u64::from(flow) << 32 | 7, 1]);
    keys_of(flow).map(|key| Change::Upsert(key, session)).to_vec()
}

/// Where flows are, once none is at a node that is to have none: both keys of each at one node.
async fn one_node_each(cluster: &Cluster, by: usize, flows: u32, without: &[usize]) -> Vec<usize> {
    let began = std::time::Instant::now();
    let mut places = Vec::new();
    'again: while places.len() < flows as usize {
        places.clear();
        for flow in 0..flows {
            let mut nodes = Vec::new();
            for key in keys_of(flow) {
                let found = cluster.plane(by).session(&key).await.ok().flatten();
                let at = found.map(|session| usize::from(session.node.get()));
                if at.is_none_or(|at| without.contains(&at)) {
                    assert!(began.elapsed() < PATIENCE, "flow {flow} is at {at:?}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue 'again;
                }
                nodes.extend(at);
            }
            assert_eq!(nodes[0], nodes[1], "flow {flow}");
            places.push(nodes[0]);
        }
    }
    places
}

/// Pins new flows to a node until that is refused: the last ones by nodes that have not heard that it is gone or drained.
async fn pin_until_refused(cluster: &Cluster, by: usize, at: usize, flows: &mut u32) -> RefusedChanges {
    let began = std::time::Instant::now();
    loop {
        match cluster.plane(by).accept(pins(*flows, at)).await {
            Ok(_) => *flows += 1,
            Err(refused) => return refused,
        }
        assert!(began.elapsed() < PATIENCE, "{flows} flows, and none is refused");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn both_directions_of_a_flow_have_one_heir() {
    run(async {
        let mut cluster = Cluster::new(4).await;
        let mut flows = 1_000;
        let changes = (0..flows).flat_map(|flow| pins(flow, flow as usize % 4)).collect();
        let accepted = cluster.plane(0).accept(changes).await.unwrap();
        cluster.settle(&[(0, accepted)]).await;
        let before = one_node_each(&cluster, 0, flows, &[]).await;

        // One dies, and flows are pinned to it until the node that is asked knows.
        cluster.nodes.kill(node(2));
        let refused = pin_until_refused(&cluster, 1, 2, &mut flows).await;
        assert_eq!(refused, RefusedChanges::NodeNotAlive(node(2)));
        let died = one_node_each(&cluster, 0, flows, &[2]).await;
        assert!(before.iter().zip(&died).all(|(before, after)| before == after || *before == 2));

        // One is drained at a node, and another goes on pinning to it.
        let drain = |is_drained| move |placement: &mut Placement| placement.set_drained(node(1), is_drained);
        let (placed, refused) =
            tokio::join!(cluster.plane(0).place(drain(true)), pin_until_refused(&cluster, 3, 1, &mut flows),);
        placed.unwrap();
        assert!(matches!(refused, RefusedChanges::Drained(_) | RefusedChanges::NotOpen(_)), "{refused}");
        let drained = one_node_each(&cluster, 0, flows, &[1, 2]).await;
        assert!(died.iter().zip(&drained).all(|(before, after)| before == after || *before == 1));

        // Heirs die, too: two are left, one of them drained.
        cluster.nodes.kill(node(3));
        let alone = one_node_each(&cluster, 0, flows, &[1, 2, 3]).await;
        assert!(alone.iter().all(|at| *at == 0));

        // What is pinned back stays there, whoever else comes back.
        cluster.plane(0).place(drain(false)).await.unwrap();
        let changes = (0..10).flat_map(|flow| pins(flow, 1)).collect();
        let accepted = cluster.plane(0).accept(changes).await.unwrap();
        cluster.settle(&[(0, accepted)]).await;
        cluster.start(2).await;
        cluster.start(3).await;
        cluster.wait("all are back", |cluster| cluster.nodes.is_whole()).await;
        let back = one_node_each(&cluster, 2, flows, &[2, 3]).await;
        assert!(back.iter().enumerate().all(|(flow, at)| *at == usize::from(flow < 10)), "{back:?}");
    });
}

/// A table for a few keys and two nodes, which is given many more.
#[test]
fn the_table_grows_with_its_keys_and_nodes() {
    Structure::ALL.into_iter().for_each(grow);
}

fn grow(structure: Structure) {
    run(async {
        let partitions = PartitionCount::new(4).unwrap();
        let params = Params::for_keys(structure, 1_000, 1, partitions).unwrap();
        let mut cluster = Cluster::with(2, LocalConfig { partitions, params, ..shape() }).await;
        let mut wanted = HashMap::new();
        let mut accepted = Vec::new();
        for part in 0..100 {
            let sessions: Vec<_> =
                (0..400).map(|n| (key(part * 400 + n), session((n % 2) as usize, 3))).collect();
            let began = std::time::Instant::now();
            loop {
                let changes = sessions.iter().map(|(key, session)| Change::Upsert(*key, *session)).collect();
                match cluster.plane(1).accept(changes).await {
                    Ok(told) if told.refused().is_empty() => break accepted.push((1, told)),
                    Ok(told) => assert!(told.refused().iter().all(|(_, why)| why.is_room()), "{told:?}"),
                    Err(error) => assert!(matches!(error, RefusedChanges::NoRoom(..)), "{error}"),
                }
                assert!(began.elapsed() < PATIENCE, "it does not grow: {:?}", cluster.plane(1).shape());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            wanted.extend(sessions);
        }
        cluster.settle(&accepted).await;
        cluster.check(&wanted).await;
        let grown = cluster.plane(0).shape().now;
        assert!(grown.keys_per_partition() >= params.keys_per_partition() * 8, "{grown:?}");

        // Nodes that the table cannot name yet.
        cluster.start(5).await;
        let told = cluster.plane(0).accept(vec![Change::Move(key(7), session(5, 9))]).await;
        assert!(
            matches!(told, Err(RefusedChanges::NotNamed(_) | RefusedChanges::NodeNotAlive(_))),
            "{told:?}"
        );
        cluster.wait("it can be named", |cluster| cluster.plane(0).shape().can_name(node(5))).await;
        cluster.wait("all know it", |cluster| cluster.nodes.is_whole()).await;
        let accepted = cluster.plane(0).accept(vec![Change::Move(key(7), session(5, 9))]).await.unwrap();
        cluster.settle(&[(0, accepted)]).await;
        wanted.insert(key(7), session(5, 9));
        cluster.check(&wanted).await;
        assert_eq!(cluster.plane(5).shape().now.value_bits(), 3);
    });
}

/// Two of three at once: the one that is left has to wait for the pulses of the others to stay away, unless it is told.
#[test]
fn whoever_is_forgotten_leaves_its_keys_to_the_others() {
    run(async {
        let mut cluster = Cluster::new(3).await;
        let sessions: Vec<_> = (0..300).map(|n| (key(n), session((n % 3) as usize, 7))).collect();
        let changes = sessions.iter().map(|(key, session)| Change::Upsert(*key, *session)).collect();
        let accepted = cluster.plane(0).accept(changes).await.unwrap();
        cluster.settle(&[(0, accepted)]).await;
        cluster.nodes.kill(node(1));
        cluster.nodes.kill(node(2));
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let alive = |cluster: &Cluster| cluster.plane(0).view().alive().count();
        assert_eq!(alive(&cluster), 3, "it may be cut off itself");
        for number in [1, 2] {
            cluster.plane(0).forget(node(number)).await.unwrap();
        }
        cluster.wait("it is alone", |cluster| alive(cluster) == 1).await;
        let wanted = sessions.iter().map(|(key, at)| (*key, Session { node: node(0), ..*at })).collect();
        cluster.check(&wanted).await;
        cluster.start(1).await;
        cluster.wait("who comes back is a member", |cluster| alive(cluster) == 2).await;
    });
}

/// Two of three die, and nobody says so: their pulses stay away.
#[test]
fn the_last_of_three_takes_over() {
    run(async {
        let mut cluster = Cluster::new(3).await;
        cluster.nodes.kill(node(1));
        cluster.nodes.kill(node(2));
        cluster.wait("it is alone", |cluster| cluster.plane(0).view().alive().count() == 1).await;
    });
}

/// One link between two of four is cut in both directions, and another in one: nobody is removed, and what one accepts all have.
#[test]
fn updates_go_round_a_broken_link() {
    run(async {
        let cluster = Cluster::new(4).await;
        let epoch = cluster.plane(0).view().epoch();
        for (from, to) in [(0, 1), (1, 0), (2, 3)] {
            cluster.nodes.cut(node(from), node(to), true);
        }
        // Every node owns partitions, and has to reach all others.
        for round in 0..30_u32 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let sessions: Vec<_> =
                (0..40).map(|n| (key(n), session(((n + round) % 4) as usize, u64::from(round)))).collect();
            let changes = sessions.iter().map(|(key, session)| Change::Upsert(*key, *session)).collect();
            let accepted = cluster.plane((round % 4) as usize).accept(changes).await.unwrap();
            cluster.settle(&[((round % 4) as usize, accepted)]).await;
            if round == 29 {
                cluster.check(&sessions.into_iter().collect()).await;
            }
        }
        assert_eq!(cluster.plane(0).view().epoch(), epoch);
    });
}

/// Of changes that do nothing, the caller is told so, and the others of the call are made.
#[test]
fn what_is_void_is_told_to_its_caller() {
    run(async {
        let cluster = Cluster::new(2).await;
        let changes = vec![
            Change::Upsert(key(1), session(1, 7)),
            Change::Move(key(2), session(0, 7)),
            Change::Upsert(key(3), session(0, 7)),
            Change::Delete(key(4)),
        ];
        for number in [0, 1] {
            let told = cluster.plane(number).accept(changes.clone()).await.unwrap();
            let missing = ChangeRefusal::Void(Void::Missing);
            assert_eq!(told.refused(), [(1, missing.clone()), (3, missing)]);
            assert_eq!(told.refused_changes(), 2);
            cluster.settle(&[(number, told)]).await;
        }
        cluster.check(&[(key(1), session(1, 7)), (key(3), session(0, 7))].into()).await;
    });
}

/// A partition has heard so many processes since this one started that it has forgotten it.
#[test]
fn a_process_that_was_forgotten_goes_on_under_another_number() {
    run(async {
        let cluster = Cluster::new(1).await;
        let partition = shape().partitions.of(shape().hasher.hash(&key(1)));
        let id = |by| CallId { by: WriterId(by), number: 1 };
        let calls: Vec<Call> = (1_000..1_002 + MAX_REQUESTERS as u64)
            .map(|by| Call { id: id(by), oldest: 1, changes: Vec::new() })
            .collect();
        let payload = encode_calls(&calls).unwrap().into();
        let batch = Batch { id: BatchId { writer: WriterId(1_000), number: 1 }, payload };
        cluster.log.append(partition, batch).await.unwrap();
        // The number that it draws next is too low, too, as nobody drew those that the partition knows.
        let drawn = 2_000_u64.to_le_bytes();
        let record = cluster.log.record("cluster.writer").await.unwrap().unwrap();
        cluster
            .log
            .swap("cluster.writer", Some(record.revision), Some(drawn.as_slice().into()))
            .await
            .unwrap();
        for value in 0..3 {
            let accepting = cluster.plane(0).accept(vec![Change::Upsert(key(1), session(0, value))]);
            let told = tokio::time::timeout(PATIENCE, accepting).await.unwrap().unwrap();
            assert!(told.refused().is_empty(), "{told:?}");
            cluster.settle(&[(0, told)]).await;
        }
        cluster.check(&[(key(1), session(0, 2))].into()).await;
    });
}

/// New keys are refused while a FIB has less room than it is to keep free; what is given to it all the same, as others die, it sheds.
#[test]
fn a_full_fib_refuses_keys_of_its_node_and_stops_nothing_else() {
    run(async {
        const CAPACITY: usize = 600;
        let mut cluster = Cluster::new(2).await;
        let tables = MemoryTables::new(shape()).with_capacity(CAPACITY);
        cluster.nodes.start_with(node(2), tables, Version::NEWEST).await.unwrap();
        cluster.wait("all know all", |cluster| cluster.nodes.is_whole()).await;
        let (mut wanted, mut refused) = (HashMap::new(), 0);
        for number in 0..600 {
            let change = Change::Upsert(key(number), session(2, 1));
            match cluster.plane(number as usize % 3).accept(vec![change]).await {
                Ok(told) => {
                    wanted.insert(key(number), session(2, 1));
                    cluster.settle(&[(number as usize % 3, told)]).await;
                }
                Err(error) => {
                    assert_eq!(error, RefusedChanges::NodeFull(node(2)));
                    refused += 1;
                }
            }
        }
        // Two thirds of 95 % are 380, give or take a key for each partition.
        assert!((350..=400).contains(&wanted.len()) && refused > 0, "{} were taken", wanted.len());
        let held: Vec<(FlowKey, Session)> = wanted.iter().map(|(key, session)| (*key, *session)).collect();
        let update = |(key, _): &(FlowKey, Session)| Change::Upsert(*key, session(2, 2));
        let told = cluster.plane(0).accept(held.iter().map(update).collect()).await.unwrap();
        assert!(told.refused().is_empty(), "what is there takes no room: {told:?}");
        for at in wanted.values_mut() {
            *at = session(2, 2);
        }
        let elsewhere: HashMap<_, _> =
            (1_000..2_400).map(|n| (key(n), session((n % 2) as usize, u64::from(n) << 32))).collect();
        let changes = elsewhere.iter().map(|(key, session)| Change::Upsert(*key, *session)).collect();
        let told = cluster.plane(2).accept(changes).await.unwrap();
        assert!(told.refused().is_empty(), "{told:?}");
        cluster.settle(&[(2, told)]).await;
        wanted.extend(elsewhere);
        cluster.check(&wanted).await;

        // Half of what was at a node that dies is more than fits.
        cluster.nodes.kill(node(1));
        let sheds = |cluster: &Cluster| cluster.plane(2).stats().shedding;
        cluster.wait("it has more than it can hold", |cluster| sheds(cluster) > 0).await;
        let orphans = |cluster: &Cluster| {
            let keys: Vec<FlowKey> = (1_000..2_400).map(key).collect();
            cluster.tables().any(|tables| tables.named(&keys).contains(&1))
        };
        cluster.wait("all its keys are elsewhere", |cluster| !orphans(cluster)).await;
        let more: HashMap<_, _> = (3_000..3_200).map(|n| (key(n), session(0, 4))).collect();
        let changes = more.iter().map(|(key, session)| Change::Upsert(*key, *session)).collect();
        let told = cluster.plane(0).accept(changes).await.unwrap();
        assert!(told.refused().is_empty(), "other nodes go on: {told:?}");
        cluster.settle(&[(0, told)]).await;
        let told = cluster.plane(0).accept(vec![Change::Upsert(key(5_000), session(2, 1))]).await;
        assert_eq!(told, Err(RefusedChanges::NodeFull(node(2))));

        // With room, what was shed comes in.
        let gone = held.iter().map(|(key, _)| Change::Delete(*key)).collect();
        let told = cluster.plane(0).accept(gone).await.unwrap();
        assert!(told.refused().is_empty(), "{told:?}");
        cluster.wait("it holds all", |cluster| sheds(cluster) == 0).await;
        wanted.retain(|key, _| held.iter().all(|(gone, _)| gone != key));
        wanted.extend(more);
        for (key, at) in &mut wanted {
            *at = cluster.plane(0).session(key).await.unwrap().unwrap();
        }
        cluster.check(&wanted).await;
        assert!(cluster.plane(2).stats().shed > 0);
    });
}

/// An owner dies while calls to it are under way: each caller is told a verdict, by the next owner if need be, and each call is
/// executed once.
#[test]
fn calls_to_an_owner_that_dies_get_their_verdicts() {
    run(async {
        let mut cluster = Cluster::new(3).await;
        let (plane, mut callers) = (cluster.plane(0).clone(), Vec::new());
        for number in 0..64 {
            let plane = plane.clone();
            callers.push(tokio::spawn(async move {
                let mut told = Vec::new();
                for round in 0..40 {
                    let key = key(number * 1_000 + round);
                    let change = Change::Upsert(key, session((round % 2) as usize * 2, u64::from(round)));
                    told.push((key, plane.accept(vec![change]).await));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                told
            }));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.nodes.kill(node(1));
        let mut positions = HashMap::new();
        for caller in callers {
            for (key, told) in tokio::time::timeout(PATIENCE, caller).await.unwrap().unwrap() {
                let told = told.unwrap();
                assert!(told.refused().is_empty(), "{told:?}");
                positions.insert(key, told.positions().to_vec());
            }
        }
        // Executed once, where the verdict says: no later entry brought the key anew.
        for partition in plane.partitions() {
            let rib = plane.rib(partition).await.unwrap();
            for (key, _) in rib.sessions() {
                let since = rib.session(&key).map(|(_, since)| since);
                assert_eq!(Some(positions[&key][0]), since.map(|since| (partition, since)));
            }
        }
        assert_eq!(positions.len(), 64 * 40);
    });
}

/// Short times, so that a test need not wait for long.
const TIMES: LeaseTimes = LeaseTimes { claim: Duration::from_millis(1_500), forward: Duration::from_secs(3) };

impl Cluster {
    async fn keep_leases(&self) {
        for (_, node) in self.nodes.nodes() {
            let (lease, start) = (Arc::new(Lease::none()), Instant::now());
            node.plane.keep_lease(Leasing { times: TIMES, lease, fabric: None, start }).await;
        }
        self.wait("all have leases", |cluster| {
            (0..3).all(|number| cluster.lease(number) == LeaseState::Held)
        })
        .await;
    }

    fn lease(&self, number: usize) -> LeaseState {
        self.plane(number).lease().unwrap().0
    }
}

/// A node that hears nobody is removed, though it reaches the engine: it learns so and loses its lease, and the others keep theirs.
#[test]
fn a_node_that_is_cut_off_loses_its_lease() {
    run(async {
        let cluster = Cluster::new(3).await;
        cluster.keep_leases().await;
        let cut = |is_cut| {
            for other in 1..3 {
                cluster.nodes.cut(node(0), node(other), is_cut);
                cluster.nodes.cut(node(other), node(0), is_cut);
            }
        };
        cut(true);
        cluster.wait("it claims nothing", |cluster| cluster.lease(0) == LeaseState::ClaimsLapsed).await;
        cluster.wait("it forwards nothing", |cluster| cluster.lease(0) == LeaseState::Expired).await;
        let have_theirs = |cluster: &Cluster| (1..3).all(|number| cluster.lease(number) == LeaseState::Held);
        cluster.wait("the others have theirs", have_theirs).await;
        cut(false);
        cluster.wait("it has its lease again", |cluster| cluster.lease(0) == LeaseState::Held).await;
    });
}

/// A node dies, and a caller gives one of its keys to another flow: the call waits until the node's lease is over. Others pass.
#[test]
fn a_key_of_a_node_that_died_goes_to_another_flow_when_its_lease_is_over() {
    run(async {
        let mut cluster = Cluster::new(3).await;
        cluster.keep_leases().await;
        let of_flow =
            |number, at, flow: u64| Change::Upsert(key(number), Session::new(node(at), [flow << 32, 1]));
        let pinned = cluster.plane(0).accept(vec![of_flow(0, 2, 1)]).await.unwrap();
        cluster.settle(&[(0, pinned)]).await;
        cluster.nodes.kill(node(2));
        cluster.wait("it is given up", |cluster| cluster.plane(0).view().alive().count() == 2).await;
        let delayed = |cluster: &Cluster| -> u64 {
            (0..2).map(|number| cluster.plane(number).stats().calls_delayed).sum()
        };
        let plane = cluster.plane(0).clone();
        let waiting = tokio::spawn(async move { plane.accept(vec![of_flow(0, 1, 2)]).await });
        cluster.wait("the call waits", |cluster| delayed(cluster) > 0).await;
        assert!(!waiting.is_finished());
        let others = cluster.plane(0).accept(vec![of_flow(1, 1, 2), of_flow(0, 1, 1)]).await.unwrap();
        assert!(others.refused().is_empty(), "{others:?}");
        let told = waiting.await.unwrap().unwrap();
        assert!(told.refused().is_empty(), "{told:?}");
        cluster.settle(&[(0, told)]).await;
    });
}
