use super::*;
use crate::engine::{Batch, BatchId, WriterId};
use crate::record::{Closure, Epoch, Heirs, Reshape, encode};
use proptest::prelude::*;
use scalebricks_tables::compact::{Reader, Structure, Table};
use scalebricks_tables::fib::FibOp;
use scalebricks_types::{HashSeed, PartitionCount, Teid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const HASHER: KeyHasher = KeyHasher::new(HashSeed::from_u64(3));
pub(super) const PARTITIONS: u32 = 4;
pub(super) const MINE: PartitionId = PartitionId(1);

pub(super) fn params() -> Params {
    params_of(Structure::SetSep)
}

pub(super) fn params_of(structure: Structure) -> Params {
    Params::for_keys(structure, 20_000, 3, PartitionCount::new(PARTITIONS).unwrap()).unwrap()
}

pub(super) fn empty() -> Partition {
    Partition::new(MINE, params(), HASHER)
}

/// The keys of this partition, and some of others at the end.
pub(super) fn keys(count: usize) -> Vec<FlowKey> {
    let of = |teid| FlowKey::teid(Teid::new(teid));
    let partitions = params().partitions();
    let mine = |key: &FlowKey| partitions.of(HASHER.hash(key)) == MINE;
    let (mut inside, outside): (Vec<_>, Vec<_>) = (1..count as u32 * 8).map(of).partition(mine);
    inside.truncate(count);
    inside.extend(&outside[..3]);
    inside
}

fn entry(position: u64, writer: u64, number: u64, changes: &[Change]) -> Entry {
    let id = BatchId { writer: WriterId(writer), number };
    Entry { position: Position(position), batch: Batch { id, payload: encode(changes).unwrap().into() } }
}

/// A simple model of a partition: a map, and a set of batches.
pub(super) struct Twin {
    params: Params,
    shapes: u32,
    pub(super) sessions: BTreeMap<u64, (FlowKey, Session, Position)>,
    seen: BTreeSet<BatchId>,
    closures: Vec<Closure>,
}

impl Twin {
    pub(super) const fn new(params: Params) -> Self {
        Self { params, shapes: 0, sessions: BTreeMap::new(), seen: BTreeSet::new(), closures: Vec::new() }
    }

    fn is_node(&self, node: NodeId) -> bool {
        node.get() < 1 << self.params.value_bits()
    }

    /// Blocks only become more, and all nodes named keep their names. A table stays in its structure.
    fn reshape(&mut self, Reshape { number, to }: Reshape) {
        let fits = |node: NodeId| node.get() < 1 << to.value_bits();
        let is_setsep = to.structure() == Structure::SetSep;
        let can_be = to.structure() == self.params.structure()
            && (!is_setsep || to.keys_per_partition() >= self.params.keys_per_partition())
            && self.sessions.values().all(|(_, session, _)| fits(session.node));
        if number > self.shapes && can_be {
            (self.shapes, self.params) = (number, to);
        }
    }

    fn newest(&self, node: NodeId) -> Epoch {
        let of = self.closures.iter().filter(|closure| closure.node == node);
        of.map(|closure| closure.epoch).max().unwrap_or_default()
    }

    /// Step by step: the first closure of the pin's node behind its epoch.
    fn led(&self, session: Session) -> Session {
        let of = self
            .closures
            .iter()
            .filter(|closure| closure.node == session.node && closure.epoch > session.epoch);
        let heir = of.min_by_key(|closure| closure.epoch).and_then(|closure| {
            Some((closure.heirs.of_flow(session.flow(), |heir| self.is_node(heir))?, closure.epoch))
        });
        heir.map_or(session, |pin| self.led(session.at(pin)))
    }

    fn apply(&mut self, entry: &Entry, changes: &[Change]) {
        if !self.seen.insert(entry.batch.id) {
            return;
        }
        if let [Change::Reshape(to)] = changes {
            return self.reshape(*to);
        }
        for change in changes {
            self.make(entry.position, change);
        }
    }

    /// Makes a change. Whether it does something.
    pub(super) fn make(&mut self, position: Position, change: &Change) -> bool {
        if let Some(key) = change.key()
            && params().partitions().of(HASHER.hash(key)) != MINE
        {
            return false;
        }
        let hash = |key: &FlowKey| HASHER.hash(key).get();
        match change {
            Change::Upsert(key, session) if self.is_node(self.led(*session).node) => {
                self.sessions.insert(hash(key), (*key, self.led(*session), position));
                true
            }
            Change::Move(key, session) if self.is_node(self.led(*session).node) => {
                let led = self.led(*session);
                let held = self.sessions.get_mut(&hash(key));
                held.map(|held| (held.1, held.2) = (led, position)).is_some()
            }
            Change::Close(closure)
                if closure.epoch > self.newest(closure.node)
                    && closure.heirs.nodes().iter().any(|heir| self.is_node(*heir)) =>
            {
                self.closures.push(closure.clone());
                let is_in = |session: &Session| session.node == closure.node && session.epoch < closure.epoch;
                let pinned = self.sessions.iter().filter(|(_, held)| is_in(&held.1));
                let led: Vec<_> = pinned.map(|(hash, held)| (*hash, self.led(held.1))).collect();
                for (hash, led) in led {
                    let held = self.sessions.get_mut(&hash).unwrap();
                    (held.1, held.2) = (led, position);
                }
                true
            }
            Change::Delete(key) => self.sessions.remove(&hash(key)).is_some(),
            _ => false,
        }
    }
}

/// Mostly some changes, in any order; now and then another shape.
fn batch(structure: Structure) -> impl Strategy<Value = Vec<Change>> {
    let reshape =
        (1..9_u32, any::<bool>(), 2..=4_u8, 0..10).prop_map(move |(number, doubles, bits, other)| {
            let structure = if other == 0 { Structure::ALL[usize::from(bits % 2)] } else { structure };
            let to = params_of(structure).with_value_bits(bits).unwrap();
            Change::Reshape(Reshape { number, to: if doubles { to.doubled().unwrap() } else { to } })
        });
    prop_oneof![
        12 => prop::collection::vec(change(12), 0..6),
        1 => reshape.clone().prop_map(|reshape| vec![reshape]),
        1 => (change(12), reshape).prop_map(|(change, reshape)| vec![change, reshape]),
    ]
}

/// Nodes 8 and 9 do not exist as long as values have three bits.
pub(super) fn change(keys: usize) -> impl Strategy<Value = Change> {
    let keys = self::keys(keys);
    let key = prop::sample::select(keys);
    let session = (0..10_u8, 0..20_u32, any::<u64>()).prop_map(|(node, epoch, value)| Session {
        node: NodeId::new(node),
        epoch: Epoch::new(epoch),
        value: [value, 7],
    });
    let heirs = prop::collection::btree_set(0..9_u8, 1..4)
        .prop_map(|heirs| Heirs::new(heirs.into_iter().map(NodeId::new)).unwrap());
    prop_oneof![
        6 => (key.clone(), session.clone()).prop_map(|(key, session)| Change::Upsert(key, session)),
        3 => (key.clone(), session).prop_map(|(key, session)| Change::Move(key, session)),
        3 => key.prop_map(Change::Delete),
        1 => (0..8_u8, 1..20_u32, heirs).prop_map(|(node, epoch, heirs)| {
            let heirs = heirs.nodes().iter().copied().filter(|heir| *heir != NodeId::new(node));
            let heirs = Heirs::new(heirs).or_else(|_| Heirs::new([NodeId::new((node + 1) % 8)])).unwrap();
            Change::Close(Closure { node: NodeId::new(node), epoch: Epoch::new(epoch), heirs })
        }),
    ]
}

/// FIBs computed from effects: what every node holds, including keys that left.
#[derive(Default)]
struct Fibs(BTreeMap<(u8, u64), FlowKeyValue>);

#[derive(Debug, PartialEq)]
struct FlowKeyValue(FlowKey, [u64; 2]);

impl Fibs {
    fn apply(&mut self, effects: &Effects) {
        for (node, update) in &effects.fib {
            for op in &update.ops {
                match op {
                    FibOp::Set(key, value) => {
                        self.0.insert((node.get(), HASHER.hash(key).get()), FlowKeyValue(*key, *value));
                    }
                    FibOp::Delete(key) => {
                        assert!(self.0.remove(&(node.get(), HASHER.hash(key).get())).is_some());
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any log, with repeated entries or not: the partition agrees with a map, deltas lead a table to its bits, effects lead FIBs
    /// to its sessions, and a partition restored from a snapshot behaves the same.
    #[test]
    fn a_partition_is_a_function_of_its_log(
        (structure, batches) in prop::sample::select(Structure::ALL.to_vec()).prop_flat_map(|structure| {
            let batches = prop::collection::vec((1..3_u64, 1..20_u64, batch(structure)), 1..60);
            (Just(structure), batches)
        }),
        restored_at: prop::sample::Index,
    ) {
        // A repeated batch has no effect.
        let mut first = BTreeMap::new();
        let batches: Vec<(u64, u64, Vec<Change>)> = batches.into_iter().map(|(writer, number, changes)| {
            let changes = first.entry((writer, number)).or_insert(changes).clone();
            (writer, number, changes)
        }).collect();
        let restored_at = restored_at.index(batches.len());
        let empty = || Partition::new(MINE, params_of(structure), HASHER);
        let (mut partition, mut other) = (empty(), empty());
        let (mut twin, mut fibs) = (Twin::new(params_of(structure)), Fibs::default());
        let mut table = Table::new(params_of(structure));
        let mut positions = BTreeMap::new();
        for (at, (writer, number, changes)) in batches.iter().enumerate() {
            let entry = entry(at as u64 + 1, *writer, *number, changes);
            let (shape, whole) = (partition.params(), partition.gpt());
            let effects = partition.apply(&entry).unwrap();
            if shape != partition.params() {
                // The other partitions of the table have come along.
                table = Table::new(shape);
                let _ = whole.map(|whole| table.apply(&whole).unwrap());
            }
            if at == restored_at {
                other = Partition::restore(&other.snapshot(), HASHER).unwrap();
            }
            prop_assert_eq!(&effects, &other.apply(&entry).unwrap());
            twin.apply(&entry, changes);
            fibs.apply(&effects);
            for (node, update) in &effects.fib {
                let last = positions.insert(*node, update.position).unwrap_or_default();
                prop_assert_eq!((update.previous, update.position), (last, entry.position));
                prop_assert_eq!(partition.fib_position(*node), update.position);
            }
            if let Some(delta) = &effects.gpt {
                prop_assert_eq!(delta.position, entry.position);
                let _ = table.apply(delta).unwrap();
            }
            prop_assert_eq!(partition.apply(&entry).unwrap(), Effects::void(Void::Applied));
        }
        let held: Vec<(FlowKey, Session)> = partition.sessions().collect();
        prop_assert_eq!(partition.params(), twin.params);
        prop_assert_eq!(&held, &twin.sessions.into_values().map(|(key, session, _)| (key, session)).collect::<Vec<_>>());
        for node in (0..8).map(NodeId::new) {
            let wanted = held.iter().filter(|(_, session)| session.node == node).count();
            prop_assert_eq!((partition.keys_of(node), other.keys_of(node)), (wanted, wanted));
        }
        let mut reader = Reader::new(&table);
        for (key, session) in &held {
            prop_assert_eq!(reader.get(HASHER.hash(key)), session.node.get());
        }
        let wanted = held.iter().map(|(key, session)| {
            ((session.node.get(), HASHER.hash(key).get()), FlowKeyValue(*key, session.value))
        });
        prop_assert_eq!(fibs.0, wanted.collect::<BTreeMap<_, _>>());
        prop_assert_eq!(partition.snapshot(), other.snapshot());
        prop_assert_eq!(partition.gpt(), other.gpt());
    }

    /// Any flipped bit is detected.
    #[test]
    fn damaged_snapshots_are_refused(changes in prop::collection::vec(change(12), 1..20), at: prop::sample::Index, bit in 0..8_u8) {
        let mut partition = empty();
        partition.apply(&entry(1, 1, 1, &changes)).unwrap();
        let mut bytes = partition.snapshot();
        prop_assert!(Partition::restore(&bytes, HASHER).is_ok());
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Partition::restore(&bytes, HASHER).is_err());
        bytes[at] ^= 1 << bit;
        prop_assert!(Partition::restore(&bytes[..at], HASHER).is_err());
        prop_assert!(Partition::restore(&bytes, KeyHasher::new(HashSeed::from_u64(4))).is_err() || partition.len() < 2);
    }
}

#[test]
fn holes_in_the_log_are_refused() {
    let mut partition = empty();
    let gap = EntryError::Gap { partition: MINE, have: Position(0), got: Position(2) };
    assert_eq!(partition.apply(&entry(2, 1, 1, &[])), Err(gap));
    assert_eq!(partition.position(), Position(0));
    assert_eq!(partition.apply(&entry(1, 1, 1, &[])).unwrap().outcome, Outcome::Done);
    assert_eq!(partition.position(), Position(1));
}

#[test]
fn entries_of_other_versions_are_refused() {
    let mut partition = empty();
    for version in [1, 2, 3, 9] {
        let mut other = entry(1, 1, 1, &[]);
        other.batch.payload = Arc::from([version as u8, 0, 0, 0, 0, 0, 0, 0].as_slice());
        let error = EntryError::Version { partition: MINE, at: Position(1), version };
        assert_eq!(partition.apply(&other), Err(error));
        assert_eq!(partition.position(), Position(0));
    }
}

#[test]
fn void_changes_have_reasons() {
    let keys = keys(2);
    let session = |node| Session::new(NodeId::new(node), [1, 2]);
    let mut partition = empty();
    let effects = partition
        .apply(&entry(
            1,
            1,
            1,
            &[
                Change::Move(keys[0], session(1)),
                Change::Upsert(keys[0], session(8)),
                Change::Upsert(keys[3], session(1)),
                Change::Delete(keys[1]),
                Change::Upsert(keys[0], session(1)),
                Change::Delete(keys[0]),
            ],
        ))
        .unwrap();
    let voids = [(0, Void::Missing), (1, Void::NoSuchNode), (2, Void::OtherPartition), (3, Void::Missing)];
    assert_eq!(effects.voids, voids);
    assert!(effects.fib.is_empty(), "it came and went: {effects:?}");
    assert!(partition.is_empty());
    let broken = Entry {
        batch: Batch { payload: Arc::new([4, 0, 3]), ..entry(2, 1, 2, &[]).batch },
        position: Position(2),
    };
    assert_eq!(partition.apply(&broken).unwrap().outcome, Outcome::Void(Void::Malformed));
    assert_eq!(partition.apply(&entry(3, 1, 2, &[])).unwrap().outcome, Outcome::Void(Void::Duplicate));
    assert_eq!(partition.apply(&entry(4, 1, 5_000, &[])).unwrap().outcome, Outcome::Done);
    assert_eq!(partition.apply(&entry(5, 1, 3, &[])).unwrap().outcome, Outcome::Void(Void::BelowWindow));
    let elsewhere = Params::for_keys(Structure::SetSep, 20_000, 3, PartitionCount::ONE).unwrap();
    let reshape = Change::Reshape(Reshape { number: 1, to: elsewhere });
    let effects = partition.apply(&entry(6, 1, 5_001, std::slice::from_ref(&reshape))).unwrap();
    assert_eq!(effects.outcome, Outcome::Void(Void::Shape));
    let effects = partition.apply(&entry(7, 1, 5_002, &[reshape, Change::Delete(keys[1])])).unwrap();
    assert_eq!(effects.voids, [(0, Void::NotAlone), (1, Void::Missing)]);
}

#[test]
fn a_table_without_room_voids_the_entry_and_stays_as_it_was() {
    for structure in Structure::ALL {
        let small = Params::for_keys(structure, 1_000, 3, PartitionCount::new(PARTITIONS).unwrap()).unwrap();
        is_voided(small);
    }
}

fn is_voided(small: Params) {
    let mut partition = Partition::new(MINE, small, HASHER);
    let session = Session::new(NodeId::new(1), [0; 2]);
    let changes: Vec<Change> = keys(8_000).iter().map(|key| Change::Upsert(*key, session)).collect();
    partition.apply(&entry(1, 1, 1, &changes[..100])).unwrap();
    let before: Vec<_> = partition.sessions().collect();
    assert_eq!(partition.apply(&entry(2, 1, 2, &changes)).unwrap().outcome, Outcome::Void(Void::NoRoom));
    assert_eq!(partition.sessions().collect::<Vec<_>>(), before);
    assert_eq!(Partition::restore(&partition.snapshot(), HASHER).unwrap().snapshot(), partition.snapshot());
}

#[test]
fn a_dead_node_s_keys_are_spread_evenly() {
    let keys = keys(3_000);
    let session = |flow: usize| Session::new(NodeId::new(flow as u8 % 4), [(flow as u64) << 32, 0]);
    let mut partition = empty();
    let changes: Vec<Change> =
        keys.iter().enumerate().map(|(flow, key)| Change::Upsert(*key, session(flow))).collect();
    partition.apply(&entry(1, 1, 1, &changes)).unwrap();
    let of = |partition: &Partition, node| {
        partition.sessions().filter(|(_, session)| session.node == NodeId::new(node)).count()
    };
    let died = of(&partition, 2);
    let heirs = Heirs::new([0, 1, 3].map(NodeId::new)).unwrap();
    let closure = Closure { node: NodeId::new(2), epoch: Epoch::new(1), heirs };
    let effects = partition.apply(&entry(2, 1, 2, &[Change::Close(closure)])).unwrap();
    assert_eq!(of(&partition, 2), 0);
    let changed: BTreeMap<u8, usize> =
        effects.fib.iter().map(|(node, update)| (node.get(), update.ops.len())).collect();
    assert_eq!((changed[&2], changed[&0] + changed[&1] + changed[&3]), (died, died));
    for node in [0, 1, 3] {
        assert!(changed[&node] > died / 6 && changed[&node] < died / 2, "{changed:?} of {died}");
    }
}

mod heirs;
