//! Random operations in all architectures, compared with plain maps.

use super::*;
use proptest::prelude::*;
use scalebricks_graph::Mark;
use scalebricks_tables::compact::{Control, Op};
use std::collections::{HashMap, HashSet};

const WORKERS: usize = 2;
const TEIDS: u32 = 5;

/// The node that has the tables, and another node.
const HERE: NodeId = NodeId::new(3);
const AWAY: NodeId = NodeId::new(1);

#[derive(Debug, Clone)]
enum Do {
    /// Sets the flow of a key: a new key, the same flow again, or another flow; at this node or at another.
    Set(FlowKey, NodeId, PinnedState),
    Remove(FlowKey),
    /// Several such changes in one batch.
    Apply(Vec<Change>),
    /// A worker looks up a key, and counts for it at the end of its turn.
    Look(usize, FlowKey),
    Pass(usize),
    Rest(usize),
    Expire(u64),
    CarryOver(u32, u64),
    Take,
}

fn all_keys() -> impl Iterator<Item = FlowKey> {
    let teid = |n| FlowKey::teid(Teid::new(n));
    (0..6).map(short_key).chain((0..3).map(long_key)).chain((0..TEIDS).map(teid))
}

fn key() -> impl Strategy<Value = FlowKey> {
    prop::sample::select(all_keys().collect::<Vec<_>>())
}

fn set() -> impl Strategy<Value = (FlowKey, NodeId, PinnedState)> {
    let node = prop_oneof![3 => Just(HERE), 1 => Just(AWAY)];
    (key(), node, 0..TEIDS, any::<u32>()).prop_map(|(key, node, uplink, n)| (key, node, state(uplink, n)))
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => set().prop_map(|(key, node, state)| Change::Set(key, node, state)),
        1 => key().prop_map(Change::Remove),
    ]
}

fn operation() -> impl Strategy<Value = Do> {
    let worker = 0..WORKERS;
    prop_oneof![
        6 => set().prop_map(|(key, node, state)| Do::Set(key, node, state)),
        5 => key().prop_map(Do::Remove),
        2 => prop::collection::vec(change(), 0..6).prop_map(Do::Apply),
        4 => (worker.clone(), key()).prop_map(|(worker, key)| Do::Look(worker, key)),
        4 => worker.clone().prop_map(Do::Pass),
        1 => worker.prop_map(Do::Rest),
        4 => (0u64..4).prop_map(Do::Expire),
        1 => (0..TEIDS, 0u64..1_000).prop_map(|(uplink, n)| Do::CarryOver(uplink, n)),
        1 => Just(Do::Take),
    ]
}

/// A worker: the flows it found in this turn, with their TEIDs at that time.
struct Worker {
    tables: NodeTables,
    mark: Mark,
    found: Vec<(FlowIndex, u32)>,
}

struct Model {
    tables: FlowTables,
    architecture: Architecture,
    /// The source of GPT deltas, in the architecture with a GPT.
    control: Option<Control>,
    workers: Vec<Worker>,
    keys: HashMap<FlowKey, (NodeId, PinnedState)>,
    /// By uplink TEID: counts added here, and counts handed out.
    came: HashMap<u32, u64>,
    departed: HashMap<u32, u64>,
    now: Duration,
}

/// The GPT delta that belongs to the change of a key.
fn op(keys: &HashMap<FlowKey, (NodeId, PinnedState)>, change: &Change) -> Option<Op> {
    let hash = hasher().hash(change.key());
    match (change, keys.contains_key(change.key())) {
        (Change::Set(_, node, _), true) => Some(Op::Update(hash, node.get())),
        (Change::Set(_, node, _), false) => Some(Op::Insert(hash, node.get())),
        (Change::Remove(_), true) => Some(Op::Remove(hash)),
        (Change::Remove(_), false) => None,
    }
}

impl Model {
    fn new((architecture, gpt): (Architecture, Structure)) -> Self {
        let mut tables = FlowTables::new(&layout(architecture, gpt), HERE, WORKERS, 0).unwrap();
        let control = tables.node_lookup.table().map(|table| Control::new(table.params()));
        let workers = (0..WORKERS).map(|at| Worker {
            tables: tables.node_tables(at),
            mark: tables.mark(at).unwrap(),
            found: Vec::new(),
        });
        let workers = workers.collect();
        let (keys, came, departed) = Default::default();
        Self { tables, architecture, control, workers, keys, came, departed, now: Duration::ZERO }
    }

    /// A worker ends its turn: it counts for the flows that it found.
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

    fn note(&mut self, change: &Change) {
        match *change {
            Change::Set(key, node, state) => drop(self.keys.insert(key, (node, state))),
            Change::Remove(key) => drop(self.keys.remove(&key)),
        }
    }

    /// A change as the control plane makes it: a key in the FIB, and a delta before or after it.
    fn change(&mut self, change: &Change) {
        let op = op(&self.keys, change);
        let deltas = self.control.as_mut().map(|control| control.batch(op.as_slice()).unwrap());
        let apply_gpt = |tables: &mut FlowTables| {
            for delta in deltas.iter().flatten() {
                assert_eq!(tables.apply_gpt(delta), Ok(Applied::Advanced));
            }
        };
        match *change {
            Change::Set(key, HERE, state) => {
                self.tables.set_logged(&key, state.encode()).unwrap();
                apply_gpt(&mut self.tables);
            }
            Change::Set(key, node, state) => {
                apply_gpt(&mut self.tables);
                self.tables.set(&key, node, &state).unwrap();
            }
            Change::Remove(key) => {
                apply_gpt(&mut self.tables);
                self.tables.remove(&key);
            }
        }
        self.note(change);
    }

    fn apply(&mut self, changes: &[Change]) {
        let mut keys = self.keys.clone();
        let ops = changes.iter().filter_map(|change| {
            let op = op(&keys, change);
            match *change {
                Change::Set(key, node, state) => drop(keys.insert(key, (node, state))),
                Change::Remove(key) => drop(keys.remove(&key)),
            }
            op
        });
        let (ops, control): (Vec<Op>, _) = (ops.collect(), &mut self.control);
        let gpt = |table: &Table| {
            control.as_mut().unwrap().batch_with(table, &ops)?;
            Ok(())
        };
        self.tables.apply(changes, gpt).unwrap();
        for change in changes {
            self.note(change);
        }
    }

    fn perform(&mut self, operation: &Do) {
        match *operation {
            Do::Set(key, node, state) => self.change(&Change::Set(key, node, state)),
            Do::Remove(key) => self.change(&Change::Remove(key)),
            Do::Apply(ref changes) => self.apply(changes),
            Do::Look(worker, key) => {
                let worker = &mut self.workers[worker];
                if worker.found.is_empty() {
                    worker.mark.pass(); // it may have rested
                }
                let found = look(&worker.tables, key).filter(|flow| flow.node == HERE);
                worker.found.extend(found.map(|flow| (flow.index, self.keys[&key].1.uplink_teid.get())));
            }
            Do::Pass(worker) => {
                self.end_turn(worker);
                self.workers[worker].mark.pass();
            }
            Do::Rest(worker) => {
                self.end_turn(worker);
                self.workers[worker].mark.leave();
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

    /// Asserts that the tables equal the maps.
    fn check(&mut self) {
        self.take();
        let mut owner: HashMap<FlowIndex, Teid> = HashMap::new();
        let mut keys_here = 0;
        for key in all_keys() {
            let wanted = self.keys.get(&key).copied();
            let in_fib = wanted.filter(|(node, _)| *node == HERE || self.architecture.holds_all_flows());
            let found = look(&self.workers[1].tables, key);
            let index = found.map_or(FlowIndex(0), |flow| flow.index);
            assert_eq!(found, in_fib.map(|(node, state)| state.at(node, index)), "{key:?}");
            assert_eq!(self.tables.flow(&key), found);
            keys_here += usize::from(found.is_some());
            let here = wanted.filter(|(node, _)| *node == HERE).map(|(_, state)| state);
            assert_eq!(self.tables.uplink(&key), here.map(|state| state.uplink_teid));
            assert_eq!(self.tables.value(&key), here.map(|state| state.encode()));
            if let Some(state) = here {
                assert_eq!(*owner.entry(index).or_insert(state.uplink_teid), state.uplink_teid, "shared");
            }
            let named = named(&mut self.workers[1].tables, HERE, key);
            let hint = wanted.map(|(node, _)| NodeHint::new(node.get().into()));
            match self.architecture {
                Architecture::ScaleBricks => assert!(hint.is_none_or(|hint| named == Some(hint)), "{key:?}"),
                // Other nodes know the keys that this node is not asked for.
                _ => assert!(named.is_none_or(|named| named == hint.unwrap_or(NodeHint::NONE)), "{key:?}"),
            }
        }
        let here = self.keys.values().filter(|(node, _)| *node == HERE);
        let flows: HashSet<Teid> = here.map(|(_, state)| state.uplink_teid).collect();
        assert_eq!(owner.len(), flows.len(), "a flow counts at one place");
        let sizes = self.tables.sizes();
        assert_eq!((sizes.keys_here, sizes.flows_here), (keys_here, flows.len()));
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
    fn any_order_keeps_every_key_and_every_count(
        kind in prop::sample::select(all_kinds().collect::<Vec<_>>()),
        operations in prop::collection::vec(operation(), 1..150),
    ) {
        let mut model = Model::new(kind);
        for operation in &operations {
            model.perform(operation);
            model.check();
        }
        let keys: HashSet<FlowKey> = model.keys.keys().copied().collect();
        let in_fib: HashSet<FlowKey> =
            keys.iter().copied().filter(|key| model.tables.flow(key).is_some()).collect();
        let listed: Vec<FlowKey> = (0..64).flat_map(|n| model.tables.keys(PartitionId(n))).collect();
        prop_assert_eq!(listed.len(), in_fib.len());
        prop_assert_eq!(listed.into_iter().collect::<HashSet<_>>(), in_fib);
        prop_assert_eq!(model.tables.keys(PartitionId(64)), []);
        // All keys are removed, and nothing remains.
        for key in keys {
            model.perform(&Do::Remove(key));
        }
        for _ in 0..4 {
            (0..WORKERS).for_each(|worker| model.perform(&Do::Pass(worker)));
            model.perform(&Do::Expire(STRAY_PATIENCE.as_secs()));
            model.check();
        }
        let sizes = model.tables.sizes();
        prop_assert_eq!((sizes.flows_here, sizes.flows_leaving), (0, 0));
        for uplink in 0..TEIDS {
            prop_assert_eq!(model.tables.count(Teid::new(uplink)), None);
        }
    }
}

#[test]
fn a_place_is_not_given_away_while_a_worker_may_count_there() {
    let mut model = Model::new((Architecture::ScaleBricks, Structure::SetSep));
    let (a, b) = (short_key(1), short_key(2));
    model.perform(&Do::Set(a, HERE, state(1, 1)));
    model.perform(&Do::Look(0, a));
    let place = model.tables.flow(&a).unwrap().index;
    model.perform(&Do::Remove(a));
    for _ in 0..5 {
        model.perform(&Do::Pass(1));
        model.perform(&Do::Expire(1_000));
    }
    assert_eq!(model.tables.take_departed(), [], "worker 0 is still in its turn");
    model.perform(&Do::Set(b, HERE, state(2, 2)));
    assert_ne!(model.tables.flow(&b).unwrap().index, place);
    model.perform(&Do::Pass(0));
    model.perform(&Do::Expire(0));
    let last = FlowCount { downstream_bytes: 1, ..packets(1) };
    assert_eq!(model.tables.take_departed(), [(Teid::new(1), last)], "with what it counted last");
    model.perform(&Do::Set(a, HERE, state(3, 3)));
    assert_eq!(model.tables.flow(&a).unwrap().index, place, "free again");
    assert_eq!(model.tables.count(Teid::new(3)), Some(FlowCount::default()), "and zeroed");
}
