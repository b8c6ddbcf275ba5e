//! Operations in any order, against plain maps.

use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const WORKERS: usize = 2;
const TEIDS: u32 = 5;

#[derive(Debug, Clone)]
enum Do {
    /// A key gets this flow: new, again, or another one than before.
    Set(FlowKey, PinnedState),
    Remove(FlowKey),
    /// A worker looks a key up, to count for it at the end of its turn.
    Look(usize, FlowKey),
    Pass(usize),
    Rest(usize),
    Expire(u64),
    CarryOver(u32, u64),
    Take,
}

fn key() -> impl Strategy<Value = FlowKey> {
    prop_oneof![
        (0u32..6).prop_map(short_key),
        (0u32..3).prop_map(long_key),
        (0..TEIDS).prop_map(|n| FlowKey::teid(Teid::new(n))),
    ]
}

fn operation() -> impl Strategy<Value = Do> {
    let worker = 0..WORKERS;
    prop_oneof![
        6 => (key(), 0..TEIDS, any::<u32>()).prop_map(|(key, uplink, n)| Do::Set(key, state(uplink, n))),
        5 => key().prop_map(Do::Remove),
        4 => (worker.clone(), key()).prop_map(|(worker, key)| Do::Look(worker, key)),
        4 => worker.clone().prop_map(Do::Pass),
        1 => worker.prop_map(Do::Rest),
        4 => (0u64..4).prop_map(Do::Expire),
        1 => (0..TEIDS, 0u64..1_000).prop_map(|(uplink, n)| Do::CarryOver(uplink, n)),
        1 => Just(Do::Take),
    ]
}

/// A worker: what it found in this turn, and whose it was then.
struct Worker {
    tables: NodeTables,
    turns: Turns,
    found: Vec<(FlowIndex, u32)>,
}

struct Model {
    tables: FlowTables,
    workers: Vec<Worker>,
    keys: HashMap<FlowKey, PinnedState>,
    /// By uplink TEID: counted or carried here, and handed out.
    came: HashMap<u32, u64>,
    departed: HashMap<u32, u64>,
    now: Duration,
}

impl Model {
    fn new() -> Self {
        let mut tables = tables(3, WORKERS, 0);
        let workers = (0..WORKERS).map(|at| Worker {
            tables: tables.node_tables(at),
            turns: tables.turns(at).unwrap(),
            found: Vec::new(),
        });
        let workers = workers.collect();
        let (keys, came, departed) = Default::default();
        Self { tables, workers, keys, came, departed, now: Duration::ZERO }
    }

    /// A worker comes to the end of its turn: it counts what it found in it.
    fn end_turn(&mut self, worker: usize) {
        let worker = &mut self.workers[worker];
        for (index, uplink) in worker.found.drain(..) {
            worker.tables.counters.count(index, false, 1);
            *self.came.entry(uplink).or_default() += 1;
        }
    }

    fn take(&mut self) {
        for (uplink, count) in self.tables.take_departed() {
            *self.departed.entry(uplink.get()).or_default() += count.downstream_packets;
        }
    }

    fn perform(&mut self, operation: &Do) {
        match *operation {
            Do::Set(key, state) => {
                self.tables.set_logged(&key, state.encode()).unwrap();
                self.keys.insert(key, state);
            }
            Do::Remove(key) => {
                self.tables.remove(&key);
                self.keys.remove(&key);
            }
            Do::Look(worker, key) => {
                let worker = &mut self.workers[worker];
                if worker.found.is_empty() {
                    worker.turns.pass(); // it may have rested
                }
                let found = look(&worker.tables, key);
                assert_eq!(found.is_some(), self.keys.contains_key(&key));
                worker.found.extend(found.map(|flow| (flow.index, self.keys[&key].uplink_teid.get())));
            }
            Do::Pass(worker) => {
                self.end_turn(worker);
                self.workers[worker].turns.pass();
            }
            Do::Rest(worker) => {
                self.end_turn(worker);
                self.workers[worker].turns.rest();
            }
            Do::Expire(seconds) => {
                self.now += Duration::from_secs(seconds);
                self.tables.expire(self.now);
            }
            Do::CarryOver(uplink, n) => {
                self.tables.carry_over(Teid::new(uplink), packets(n));
                *self.came.entry(uplink).or_default() += n;
            }
            Do::Take => self.take(),
        }
    }

    /// The tables say what the maps say.
    fn check(&mut self) {
        self.take();
        let mut owner: HashMap<FlowIndex, Teid> = HashMap::new();
        for (key, want) in &self.keys {
            let found = look(&self.workers[1].tables, *key).unwrap();
            assert_eq!(found, want.at(NodeId::new(3), found.index));
            assert_eq!(self.tables.flow(key), Some(found));
            assert_eq!(self.tables.uplink(key), Some(want.uplink_teid));
            assert_eq!(self.tables.value(key), Some(want.encode()));
            assert_eq!(*owner.entry(found.index).or_insert(want.uplink_teid), want.uplink_teid, "shared");
        }
        let flows: HashSet<Teid> = self.keys.values().map(|state| state.uplink_teid).collect();
        assert_eq!(owner.len(), flows.len(), "a flow counts at one place");
        assert_eq!(self.tables.sizes().keys_here, self.keys.len());
        for uplink in 0..TEIDS {
            let here = self.tables.count(Teid::new(uplink));
            assert!(here.is_some() || !flows.contains(&Teid::new(uplink)));
            let here = here.map_or(0, |count| count.downstream_packets);
            let [came, departed] =
                [&self.came, &self.departed].map(|map| map.get(&uplink).copied().unwrap_or(0));
            assert_eq!(here + departed, came, "flow {uplink}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_keeps_every_key_and_every_count(operations in prop::collection::vec(operation(), 1..150)) {
        let mut model = Model::new();
        for operation in &operations {
            model.perform(operation);
            model.check();
        }
        let listed: Vec<FlowKey> = (0..16).flat_map(|n| model.tables.keys(PartitionId(n))).collect();
        let keys: HashSet<FlowKey> = model.keys.keys().copied().collect();
        prop_assert_eq!(listed.len(), keys.len());
        prop_assert_eq!(listed.into_iter().collect::<HashSet<_>>(), keys.clone());
        prop_assert_eq!(model.tables.keys(PartitionId(16)), []);
        // All goes, and nothing is left behind.
        for key in keys {
            model.perform(&Do::Remove(key));
        }
        for _ in 0..4 {
            (0..WORKERS).for_each(|worker| model.perform(&Do::Pass(worker)));
            model.perform(&Do::Expire(STRAY_PATIENCE.as_secs()));
            model.check();
        }
        prop_assert_eq!(model.tables.sizes().flows_here, 0);
        for uplink in 0..TEIDS {
            prop_assert_eq!(model.tables.count(Teid::new(uplink)), None);
        }
    }
}

#[test]
fn a_place_is_not_given_away_while_a_worker_may_count_there() {
    let mut model = Model::new();
    let (a, b) = (short_key(1), short_key(2));
    model.perform(&Do::Set(a, state(1, 1)));
    model.perform(&Do::Look(0, a));
    let place = model.tables.flow(&a).unwrap().index;
    model.perform(&Do::Remove(a));
    for _ in 0..5 {
        model.perform(&Do::Pass(1));
        model.perform(&Do::Expire(1_000));
    }
    assert_eq!(model.tables.take_departed(), [], "worker 0 is still in its turn");
    model.perform(&Do::Set(b, state(2, 2)));
    assert_ne!(model.tables.flow(&b).unwrap().index, place);
    model.perform(&Do::Pass(0));
    model.perform(&Do::Expire(0));
    let last = FlowCount { downstream_bytes: 1, ..packets(1) };
    assert_eq!(model.tables.take_departed(), [(Teid::new(1), last)], "with what it counted last");
    model.perform(&Do::Set(a, state(3, 3)));
    assert_eq!(model.tables.flow(&a).unwrap().index, place, "free again");
    assert_eq!(model.tables.count(Teid::new(3)), Some(FlowCount::default()), "and zeroed");
}
