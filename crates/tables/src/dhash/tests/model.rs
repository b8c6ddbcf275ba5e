//! Any sequence of calls, with every function for signatures, gives what a plain map gives.

use super::super::*;
use super::{SECRET, fixed};
use crate::isa::Isa;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// A call.
#[derive(Debug, Clone)]
enum Call {
    FindOrAdd(Key4),
    Batch(Vec<Key4>),
    Remove(Key4),
    Find(Key4),
    /// Find in three steps, with sessions that are added (`true`) and removed after the first and after the second step.
    Look(Vec<Key4>, [Vec<(bool, Key4)>; 2]),
    /// Sweep so many records, and remove the sessions whose value has this remainder modulo 3.
    Sweep(usize, u64),
}

/// Few keys, most of which equal others in the XOR of their addresses and ports: with the paper's functions, their
/// signatures collide. Some have two equal ends.
fn key() -> impl Strategy<Value = Key4> {
    let key = |(a, b, p, q, protocol): (u32, u32, u16, u16, u8)| {
        Key4::new(a.into(), b.into(), protocol, p, q, u16::from(protocol == 17))
    };
    (0..4_u32, 0..4_u32, 0..4_u16, 0..4_u16, prop::sample::select(vec![6_u8, 17])).prop_map(key)
}

fn changes() -> impl Strategy<Value = Vec<(bool, Key4)>> {
    prop::collection::vec((any::<bool>(), key()), 0..12)
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => key().prop_map(Call::FindOrAdd),
        2 => prop::collection::vec(key(), 0..=64).prop_map(Call::Batch),
        3 => key().prop_map(Call::Remove),
        3 => key().prop_map(Call::Find),
        2 => (prop::collection::vec(key(), 0..=40), [changes(), changes()])
            .prop_map(|(keys, changes)| Call::Look(keys, changes)),
        1 => (0..200_usize, 0..3_u64).prop_map(|(budget, rest)| Call::Sweep(budget, rest)),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let growth = prop_oneof![
        Just(Growth::Fixed),
        (3..40_u32, 1..=16_u32)
            .prop_map(|(max_buckets, mean_sessions)| Growth::Linear { max_buckets, mean_sessions }),
    ];
    let pool =
        (0..20_u32, 0..100_u32).prop_map(|(entries, more)| Pool { entries, max_entries: entries + more });
    let switches = (any::<bool>(), any::<bool>(), prop::sample::select(Signature::ALL.to_vec()));
    (1..4_u32, growth, pool, 0..70_u32, switches, any::<u64>()).prop_map(
        |(buckets, growth, pool, max_list, (has_major_location, is_promoting, signature), seed)| Config {
            growth,
            pool,
            max_list,
            signature,
            secret: scalebricks_types::HashSeed::from_u64(seed),
            has_major_location,
            is_promoting,
            ..fixed(buckets, 0)
        },
    )
}

/// A table, and the plain map that says what it must contain: the first packet's key, by both directions, with the
/// session's value.
struct Pair {
    table: DHash<Key4>,
    value: Column<u64>,
    name: Column<Box<str>>,
    sessions: HashMap<Key4, u64>,
    directions: HashMap<Key4, (Key4, Direction)>,
    next: u64,
}

impl Pair {
    fn new(config: &Config, isa: Isa) -> Self {
        let mut records = Records::new();
        let (value, name) = (records.reserve(), records.reserve());
        let table = DHash::with_isa(config, records, isa).unwrap();
        Self { table, value, name, sessions: HashMap::new(), directions: HashMap::new(), next: 1 }
    }

    /// What a result must be; notes a session that was added.
    fn check_added(&mut self, key: Key4, added: Result<Added, AddError>) {
        match (added, self.directions.get(&key)) {
            (Ok(added), Some(&(first, direction))) => {
                assert_eq!((added.direction, added.is_new), (direction, false));
                assert_eq!(self.table.column(self.value)[added.record], self.sessions[&first]);
            }
            (Ok(added), None) => {
                assert_eq!((added.direction, added.is_new), (Direction::Forward, true));
                assert_eq!(self.table.column(self.value)[added.record], 0, "an unused record has defaults");
                self.table.column_mut(self.value)[added.record] = self.next;
                self.table.column_mut(self.name)[added.record] = self.next.to_string().into();
                self.sessions.insert(key, self.next);
                self.directions.insert(key.reversed(), (key, Direction::Reverse));
                self.directions.insert(key, (key, Direction::Forward));
                self.next += 1;
            }
            (Err(_), Some(_)) => panic!("{key:?} is there and was refused"),
            (Err(_), None) => {}
        }
    }

    fn forget(&mut self, first: Key4) {
        self.sessions.remove(&first);
        self.directions.remove(&first);
        self.directions.remove(&first.reversed());
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::FindOrAdd(key) => {
                let splits = self.table.counters().splits;
                let added = self.table.find_or_add(key);
                assert!(self.table.counters().splits <= splits + 1, "one split per session");
                self.check_added(*key, added);
            }
            Call::Batch(keys) => {
                let mut added = vec![Err(AddError::PoolFull { max_entries: 0 }); keys.len()];
                self.table.find_or_add_batch(keys, &mut added);
                // All records are valid now, that of an earlier packet too.
                let records: Vec<_> =
                    keys.iter().map(|key| self.table.find(key).map(|found| found.record)).collect();
                for ((key, added), record) in keys.iter().zip(added).zip(records) {
                    assert_eq!(added.ok().map(|added| added.record), record);
                    self.check_added(*key, added);
                }
            }
            Call::Remove(key) => {
                let first = self.directions.get(key).map(|&(first, _)| first);
                assert_eq!(self.table.remove(key), first.is_some());
                if let Some(first) = first {
                    self.forget(first);
                }
            }
            Call::Find(key) => self.check_found(*key, self.table.find(key)),
            Call::Look(keys, changes) => {
                let mut looks = vec![Look::default(); keys.len()];
                self.table.look(keys, &mut looks);
                self.change(&changes[0]);
                let mut noted = HashSet::new();
                self.table.note(&mut looks, |at, _| assert!(at < keys.len() && noted.insert(at)));
                self.change(&changes[1]);
                for (key, look) in keys.iter().zip(looks) {
                    assert_eq!(look.hash(), self.table.hash(key));
                    self.check_found(*key, self.table.find_looked(key, look));
                }
            }
            Call::Sweep(budget, rest) => self.sweep(*budget, *rest),
        }
        assert_eq!(self.table.len(), self.sessions.len());
    }

    fn change(&mut self, changes: &[(bool, Key4)]) {
        for &(adds, key) in changes {
            self.call(&if adds { Call::FindOrAdd(key) } else { Call::Remove(key) });
        }
    }

    fn sweep(&mut self, budget: usize, rest: u64) {
        let (mut removed, value) = (Vec::new(), self.value);
        let sessions = &self.sessions;
        let stats = self.table.sweep(budget, |session| {
            let held = session.records.column(value)[session.record];
            assert_eq!(sessions.get(session.key), Some(&held));
            let is_kept = held % 3 != rest;
            removed.extend((!is_kept).then_some(*session.key));
            is_kept
        });
        assert_eq!(stats.removed, removed.len());
        assert!(stats.visited <= budget);
        for first in removed {
            self.forget(first);
        }
    }

    fn check_found(&self, key: Key4, found: Option<Found>) {
        let expected = self.directions.get(&key);
        assert_eq!(found.map(|found| found.direction), expected.map(|&(_, direction)| direction), "{key:?}");
        if let (Some(found), Some((first, _))) = (found, expected) {
            assert_eq!(self.table.column(self.value)[found.record], self.sessions[first]);
            assert_eq!(*self.table.column(self.name)[found.record], *self.sessions[first].to_string());
            assert_eq!(self.table.key(found.record), Some(first));
        }
    }

    /// Every session is found in both directions, by each way of looking up, and each has a record of its own.
    fn check_all(&self, others: &[Key4]) {
        let keys: Vec<Key4> = self.directions.keys().chain(others).copied().collect();
        let hashes: Vec<FlowHash> = keys.iter().map(|key| self.table.hash(key)).collect();
        let (mut found, mut hashed) = (vec![None; keys.len()], vec![None; keys.len()]);
        self.table.find_batch(&keys, &mut found);
        self.table.find_batch_hashed(&keys, &hashes, &mut hashed);
        assert_eq!(found, hashed);
        for ((key, hash), found) in keys.iter().zip(hashes).zip(found) {
            self.check_found(*key, found);
            assert_eq!(self.table.find(key), found);
            let probe = self.table.probe(key, hash);
            assert_eq!(probe.found, found);
            assert!(probe.comparisons > probe.false_positives);
            assert!(found.is_none_or(|_| !probe.is_in_list || probe.comparisons > SLOTS as u32));
        }
        let (mut seen, mut records) = (HashMap::new(), HashSet::new());
        self.table.for_each(|record, key| {
            seen.insert(*key, self.table.column(self.value)[record]);
            assert!(records.insert(record) && record.get() < self.table.max_capacity() as u32);
        });
        assert_eq!(seen, self.sessions);
        let counters = self.table.counters();
        assert_eq!(counters.added - counters.deleted, self.sessions.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_gives_what_a_map_gives(
        config in config(),
        // The only case under the interpreter must not be an empty one.
        calls in prop::collection::vec(call(), if cfg!(miri) { 8..12 } else { 0..120 }),
        others in prop::collection::vec(key(), 0..40),
    ) {
        for isa in crate::isa::compared() {
            let mut pair = Pair::new(&config, isa);
            for call in &calls {
                pair.call(call);
            }
            pair.check_all(&others);
        }
    }
}

/// The same answers at each level of instructions, record by record.
#[test]
fn all_levels_choose_the_same_records() {
    let sessions = if cfg!(miri) { 12 } else { 3000 };
    for signature in Signature::ALL {
        let config = Config { signature, ..Config::growing(10, sessions, SECRET) };
        let tables: Vec<Vec<u32>> = crate::isa::compared()
            .into_iter()
            .map(|isa| {
                let mut table = DHash::with_isa(&config, Records::new(), isa).unwrap();
                (0..sessions).for_each(|number| {
                    table.add(&super::session(number)).unwrap();
                });
                let mut records = Vec::new();
                (0..sessions).for_each(|number| {
                    records.push(table.find(&super::session(number).reversed()).unwrap().record.get());
                });
                records
            })
            .collect();
        assert!(tables.iter().all(|records| *records == tables[0]), "{signature:?}");
    }
}
