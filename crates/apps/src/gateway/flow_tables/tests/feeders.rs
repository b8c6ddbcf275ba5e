//! All ways to feed tables: equal contents give equal answers, whatever the tables held before.

use super::*;
use proptest::prelude::*;
use scalebricks_tables::compact::{Control, Op};
use scalebricks_tables::hash_partition::HashPartition;
use std::collections::{BTreeMap, HashMap};

const NODES: u8 = 4;
const FLOWS: u32 = 40;

/// The flows by number: the node of each, and a seed of its other fields. Uplink TEIDs are the numbers plus an offset.
#[derive(Debug, Clone)]
struct Contents {
    flows: BTreeMap<u32, (u8, u32)>,
    shift: u32,
}

impl Contents {
    fn specs(&self) -> impl Iterator<Item = FlowSpec> + Clone + Send + Sync + '_ {
        self.flows.iter().map(|(&flow, &(node, n))| {
            let key = if flow % 3 == 0 { long_key(flow) } else { short_key(flow) };
            state((flow + self.shift) % FLOWS, n).spec(key, NodeId::new(node))
        })
    }
}

fn contents() -> impl Strategy<Value = Contents> {
    let flows = prop::collection::btree_map(0..FLOWS, (0..NODES, 0u32..4), 0..FLOWS as usize);
    (flows, 0u32..3).prop_map(|(flows, shift)| Contents { flows, shift })
}

fn all_keys() -> impl Iterator<Item = FlowKey> {
    (0..FLOWS).flat_map(|n| [short_key(n), long_key(n), FlowKey::teid(Teid::new(n))])
}

/// A table's answer for a key: its flow, the TEID that counts it, its value in the log, and its node.
type Answer = (Option<FlowState>, Option<Teid>, Option<FibValue>, Option<NodeHint>);

/// The tables' answers for every key, except the slots of counters and a GPT's answers for unknown keys.
fn answers(tables: &FlowTables, id: NodeId, contents: &Contents) -> Vec<Answer> {
    let mut node = tables.node_tables(0);
    let is_compact = tables.node_lookup.table().is_some();
    let known: HashMap<FlowKey, FlowSpec> =
        contents.specs().flat_map(|spec| spec.keys().map(|key| (key, spec))).collect();
    let of = |key| {
        let flow = look(&node, key).map(|flow| FlowState { index: FlowIndex(0), ..flow });
        let named = named(&mut node, id, key).filter(|_| !is_compact || known.contains_key(&key));
        (flow, tables.uplink(&key), tables.value(&key), named)
    };
    all_keys().map(of).collect()
}

/// The same answers from plain maps.
fn wanted(contents: &Contents, id: NodeId, architecture: Architecture) -> Vec<Answer> {
    let known: HashMap<FlowKey, FlowSpec> =
        contents.specs().flat_map(|spec| spec.keys().map(|key| (key, spec))).collect();
    let partition = HashPartition::new(layout(architecture, Structure::SetSep).size);
    let of = |key: FlowKey| {
        let spec = known.get(&key);
        let in_fib = spec.filter(|spec| spec.node == id || architecture.holds_all_flows());
        let flow = in_fib.map(|spec| PinnedState::from(spec).at(spec.node, FlowIndex(0)));
        let here = spec.filter(|spec| spec.node == id);
        let hint = spec.map(|spec| NodeHint::new(spec.node.get().into()));
        let named = match architecture {
            Architecture::ScaleBricks => hint,
            Architecture::HashPartition if partition.node(hasher().hash(&key)) != id => None,
            _ => Some(hint.unwrap_or(NodeHint::NONE)),
        };
        (flow, here.map(|spec| spec.uplink_teid), here.map(|spec| PinnedState::from(spec).encode()), named)
    };
    all_keys().map(of).collect()
}

/// Key by key, as from the control plane: new keys are set, then the GPT changes, then old keys are removed.
struct Log {
    tables: FlowTables,
    control: Option<Control>,
    keys: HashMap<FlowKey, FlowSpec>,
}

impl Log {
    fn new(layout: &Layout, id: NodeId) -> Self {
        let tables = FlowTables::new(layout, id, 1, 0).unwrap();
        let control = tables.node_lookup.table().map(|table| Control::new(table.params()));
        Self { tables, control, keys: HashMap::new() }
    }

    fn gpt(&mut self, op: Op) {
        for delta in self.control.iter_mut().flat_map(|control| control.batch(&[op]).unwrap()) {
            assert_eq!(self.tables.apply_gpt(&delta), Ok(Applied::Advanced));
        }
    }

    fn change_to(&mut self, contents: &Contents) {
        let keys: HashMap<FlowKey, FlowSpec> =
            contents.specs().flat_map(|spec| spec.keys().map(|key| (key, spec))).collect();
        for (key, spec) in &keys {
            let (hash, node) = (hasher().hash(key), spec.node.get());
            let is_there = self.keys.contains_key(key);
            self.gpt(if is_there { Op::Update(hash, node) } else { Op::Insert(hash, node) });
            self.tables.set(key, spec.node, &PinnedState::from(spec)).unwrap();
        }
        for key in self.keys.keys().copied().filter(|key| !keys.contains_key(key)).collect::<Vec<_>>() {
            self.gpt(Op::Remove(hasher().hash(&key)));
            self.tables.remove(&key);
        }
        self.keys = keys;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_feeders_give_the_same_tables(
        kind in prop::sample::select(all_kinds().collect::<Vec<_>>()),
        all in prop::collection::vec(contents(), 1..4),
    ) {
        let (architecture, gpt) = kind;
        let layout = layout(architecture, gpt);
        let last = all.last().unwrap();
        let bulk = bulk::fill(&layout, layout.size.nodes(), 1, &last.specs()).unwrap();
        for (id, bulk) in layout.size.nodes().zip(bulk) {
            let mut list = list::FlowList::new(&layout, id, 1, 0).unwrap();
            let mut log = Log::new(&layout, id);
            for contents in &all {
                list.change_to(&contents.specs().collect::<Vec<_>>(), |_| {}).unwrap();
                log.change_to(contents);
            }
            let wanted = wanted(last, id, architecture);
            for (feeder, tables) in [("bulk", &bulk), ("list", list.tables()), ("log", &log.tables)] {
                prop_assert_eq!(&answers(tables, id, last), &wanted, "{}", feeder);
            }
            let sizes = |tables: &FlowTables| (tables.sizes().keys_here, tables.sizes().flows_here);
            prop_assert_eq!(sizes(&bulk), sizes(list.tables()));
            prop_assert_eq!(sizes(&bulk), sizes(&log.tables));
        }
    }
}

#[test]
fn a_place_that_a_list_frees_is_given_away_after_all_workers_have_passed() {
    let layout = layout(Architecture::FullDuplication, Structure::SetSep);
    let here = NodeId::new(0);
    let flow = |n| state(n, n).spec(short_key(n), here);
    let mut list = list::FlowList::new(&layout, here, 2, 0).unwrap();
    let node = list.tables().node_tables(0);
    let (mut a, b) = (list.mark(0).unwrap(), list.mark(1).unwrap());
    let index = |list: &list::FlowList, n| list.tables().flow(&short_key(n)).unwrap().index;
    a.pass();
    list.change_to(&[flow(1)], |_| {}).unwrap();
    let place = index(&list, 1);
    node.counters.count(place, false, 100);
    // It is removed while worker 0 is in a turn: a new flow gets another counter slot.
    list.change_to(&[], |_| {}).unwrap();
    drop(b);
    list.change_to(&[flow(2)], |_| {}).unwrap();
    assert_ne!(index(&list, 2), place);
    node.counters.count(place, false, 100);
    assert_eq!(list.tables().count(Teid::new(2)), Some(FlowCount::default()));
    a.pass();
    list.change_to(&[flow(2), flow(3)], |_| {}).unwrap();
    assert_eq!(index(&list, 3), place, "free again");
    assert_eq!(list.tables().count(Teid::new(3)), Some(FlowCount::default()), "and zeroed");
}

#[test]
fn a_flow_that_comes_twice_is_named_in_all_architectures() {
    let spec = |key, uplink, node| state(uplink, 1).spec(short_key(key), NodeId::new(node));
    for (architecture, gpt) in all_kinds() {
        let layout = layout(architecture, gpt);
        for nodes in [[0, 0], [0, 1]] {
            let fill = |flows: [FlowSpec; 3]| {
                bulk::fill(&layout, layout.size.nodes(), 1, &flows.into_iter()).unwrap_err().to_string()
            };
            let error = fill([spec(1, 1, nodes[0]), spec(2, 2, 3), spec(1, 3, nodes[1])]);
            assert_eq!(error, "flow 2 has the same downstream key as an earlier flow", "{architecture}");
            let error = fill([spec(1, 1, nodes[0]), spec(2, 2, 3), spec(3, 1, nodes[1])]);
            assert_eq!(error, "flow 2 has the same uplink TEID as an earlier flow", "{architecture}");
        }
    }
}

#[test]
fn bulk_makes_tables_just_large_enough() {
    let flows = (0..4_000).map(|n| state(n, n).spec(short_key(n), NodeId::new((n % 4) as u8)));
    let sizes = |architecture| {
        let layout = layout(architecture, Structure::SetSep);
        bulk::fill(&layout, [NodeId::new(1)], 1, &flows).unwrap()[0].sizes()
    };
    let all = sizes(Architecture::FullDuplication);
    let (bits, split) = (sizes(Architecture::ScaleBricks), sizes(Architecture::HashPartition));
    assert_eq!((all.keys_here, bits.keys_here, split.keys_here), (8_000, 2_000, 2_000));
    assert!(bits.fib_bytes < all.fib_bytes / 3 && split.fib_bytes == bits.fib_bytes);
    assert!(split.gpt_bytes < all.fib_bytes / 3 && all.gpt_bytes == 0);
}
