//! One graph for several switches, compared with plain maps and with a separate control structure for each
//! switch: the same answers, the same deltas, the same bits.

use super::*;
use crate::gpt::Gpt;
use proptest::prelude::*;
use scalebricks_types::PartitionId;
use std::collections::{BTreeMap, HashMap};

/// One operation on a network.
#[derive(Debug, Clone)]
enum Step {
    Insert(KeyHash, Vec<u16>),
    Remove(KeyHash),
    Update(usize, Vec<(KeyHash, u16)>),
    /// Adds a switch whose actions are the bits of the hashes from this bit on.
    Switch(u32),
}

/// A network, and separately each of its switches: a control structure, a table that follows it, and a table
/// that follows the network's deltas.
struct Network {
    shared: SharedControl,
    alone: Vec<OthelloControl>,
    follows: Vec<Arc<Othello>>,
    maps: Vec<HashMap<KeyHash, u16>>,
    names: Vec<KeyHash>,
}

fn action_of(hash: KeyHash, shift: u32, params: &Params) -> u16 {
    (hash.get() >> shift) as u16 & (u16::MAX >> (16 - params.value_bits()))
}

impl Network {
    fn new(params: Params) -> Self {
        let control = || OthelloBuilder::new(params).build(&[]).unwrap();
        let shared = SharedControl::new(control()).unwrap();
        let follows = vec![Arc::new(shared.export(0).unwrap())];
        Self { shared, alone: vec![control()], follows, maps: vec![HashMap::new()], names: Vec::new() }
    }

    /// The same history of names for a switch that existed from the beginning, with the actions it has now.
    fn add_switch(&mut self, shift: u32, history: &[Op]) {
        let params = *self.shared.params();
        let number = self.shared.add_switch(|name| action_of(name, shift, &params)).unwrap();
        assert_eq!((number, self.shared.switches()), (self.maps.len(), self.maps.len() + 1));
        let mut alone = OthelloBuilder::new(params).build(&[]).unwrap();
        for &done in history {
            let action = action_of(done.hash(), shift, &params);
            match done {
                Op::Insert(name, _) => drop(alone.insert(name, action).unwrap()),
                Op::Remove(name) => drop(alone.remove(name).unwrap()),
                Op::Update(..) => {}
            }
        }
        self.maps.push(self.names.iter().map(|&name| (name, action_of(name, shift, &params))).collect());
        self.follows.push(Arc::new(self.shared.export(number).unwrap()));
        self.alone.push(alone);
    }

    /// Applies a step everywhere, and compares the results.
    fn perform(&mut self, step: &Step, history: &mut Vec<Op>) {
        match step {
            Step::Switch(shift) => self.add_switch(*shift, history),
            Step::Insert(name, actions) => {
                let actions: Vec<u16> = actions.iter().copied().cycle().take(self.maps.len()).collect();
                let done = self.shared.insert(*name, &actions);
                let alone = self.alone.iter_mut().zip(&actions).map(|(alone, &one)| alone.insert(*name, one));
                let alone: Result<Vec<_>, _> = alone.collect();
                if self.follow(done, alone) {
                    history.push(Op::Insert(*name, 0));
                    self.names.push(*name);
                    let maps = self.maps.iter_mut().zip(actions);
                    maps.for_each(|(map, action)| assert_eq!(map.insert(*name, action), None));
                }
            }
            Step::Remove(name) => {
                let done = self.shared.remove(*name);
                let alone = self.alone.iter_mut().map(|alone| alone.remove(*name)).collect();
                if self.follow(done, alone) {
                    history.push(Op::Remove(*name));
                    self.names.retain(|held| held != name);
                    self.maps.iter_mut().for_each(|map| assert!(map.remove(name).is_some()));
                }
            }
            Step::Update(switch, changes) => {
                let switch = switch % self.maps.len();
                let ops: Vec<Op> = changes.iter().map(|&(name, action)| Op::Update(name, action)).collect();
                let done = self.shared.update_all(switch, changes);
                match (done, self.alone[switch].batch(&ops)) {
                    (Ok(deltas), Ok(alone)) => {
                        let payloads = |deltas: &[scalebricks_types::Delta]| -> Vec<_> {
                            deltas.iter().map(|delta| (delta.partition, delta.payload.clone())).collect()
                        };
                        assert_eq!(payloads(&deltas), payloads(&alone));
                        for delta in &deltas {
                            let _ = self.follows[switch].apply(delta).unwrap();
                        }
                        self.maps[switch].extend(changes.iter().copied());
                    }
                    (done, alone) => assert_eq!(done, alone.map_err(SharedError::from)),
                }
            }
        }
    }

    /// Whether it was applied: everywhere or nowhere, with the deltas of each separate switch, which its
    /// table applies.
    fn follow(
        &self,
        done: Result<Vec<scalebricks_types::Delta>, SharedError>,
        alone: Result<Vec<scalebricks_types::Delta>, UpdateError>,
    ) -> bool {
        let (deltas, alone) = match (done, alone) {
            (Ok(deltas), Ok(alone)) => (deltas, alone),
            (done, alone) => {
                assert_eq!(done, alone.map_err(SharedError::from));
                return false;
            }
        };
        assert_eq!(deltas.len(), self.follows.len());
        for ((delta, alone), table) in deltas.iter().zip(&alone).zip(&self.follows) {
            assert_eq!((delta.partition, &delta.payload), (alone.partition, &alone.payload));
            let _ = table.apply(delta).unwrap();
        }
        true
    }

    /// Every table answers as its map says, and has the bits of a separate table.
    fn assert_right(&self) {
        assert_eq!(self.shared.stats().keys, self.names.len() as u64);
        for (switch, map) in self.maps.iter().enumerate() {
            let held: Vec<_> = map.iter().map(|(&name, &action)| (name, action)).collect();
            assert_answers(&self.follows[switch], &held);
            let exported = Arc::new(self.shared.export(switch).unwrap());
            assert!(bytes_of(&exported) == bytes_of(&self.follows[switch]), "deltas lead where an export is");
            assert!(held.iter().all(|&(name, one)| self.shared.get(switch, name) == Ok(Some(one))));
            let (healed, params) = (Othello::new(*self.shared.params()), self.shared.params());
            for partition in (0..params.partitions().get()).map(|at| PartitionId(at as u16)) {
                let digest = exported.digest(partition).unwrap();
                assert_eq!(Some(digest.1), self.alone[switch].digest(partition), "switch {switch}");
                let state = self.shared.export_partition(switch, partition).unwrap().unwrap();
                let _ = healed.apply(&state).unwrap();
                assert_eq!(healed.digest(partition), Some(digest));
                assert_eq!(exported.position(partition), Some(state.position));
            }
        }
    }
}

fn check(params: Params, steps: &[Step]) {
    let (mut network, mut history) = (Network::new(params), Vec::new());
    for step in steps {
        network.perform(step, &mut history);
    }
    network.assert_right();
}

fn steps(value_bits: u8, universe: u16) -> impl Strategy<Value = Vec<Step>> {
    let most = u16::MAX >> (16 - value_bits);
    let name = move || (0..universe).prop_map(|key| KeyHash::new(mix64(key.into())));
    let change = (name(), 0..=most);
    let one = prop_oneof![
        6 => (name(), prop::collection::vec(0..=most, 1..5)).prop_map(|(name, all)| Step::Insert(name, all)),
        2 => name().prop_map(Step::Remove),
        2 => change.clone().prop_map(|change| Step::Update(change.0.get() as usize, vec![change])),
        1 => (0..5_usize, prop::collection::vec(change, 0..6)).prop_map(|(at, all)| Step::Update(at, all)),
        1 => (0..48_u32).prop_map(Step::Switch),
    ];
    prop::collection::vec(one, 0..if cfg!(miri) { 12 } else { 150 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 120 }, failure_persistence: None,
        ..ProptestConfig::default() })]
    /// The ranges are so small that cycles, new seeds and full ranges are common.
    #[test]
    fn switches_of_one_graph_are_as_switches_alone(steps in steps(3, 40), ranges in 1u32..5) {
        check(Params::new(partitions(2), ranges, [6, 5], 3).unwrap(), &steps);
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
    fn so_they_are_with_wide_slots_and_checksums(steps in steps(16, 60)) {
        check(Params::new(partitions(1), 3, [16, 300], 16).unwrap().with_check_bits(7).unwrap(), &steps);
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn what_is_refused_changes_nothing() {
    let params = params(200, 3, 2);
    let mut shared =
        SharedControl::new(OthelloBuilder::new(params).build(&entries(200, 3, 0)).unwrap()).unwrap();
    assert_eq!(shared.add_switch(|_| 5), Ok(1));
    let state = |shared: &SharedControl| [0, 1].map(|switch| bytes_of(&shared.export(switch).unwrap()));
    let before = state(&shared);
    let (known, new) = (entry(3, 3, 0).0, KeyHash::new(77));
    assert_eq!(shared.add_switch(|_| 8), Err(UpdateError::Value { op: 0, value: 8, bits: 3 }.into()));
    assert_eq!(shared.switches(), 2);
    assert_eq!(shared.insert(new, &[1]), Err(SharedError::Actions { got: 1, switches: 2 }));
    assert_eq!(shared.insert(new, &[]), Err(SharedError::Actions { got: 0, switches: 2 }));
    for wide in [[1, 8], [8, 1]] {
        assert_eq!(shared.insert(new, &wide), Err(UpdateError::Value { op: 0, value: 8, bits: 3 }.into()));
    }
    assert_eq!(shared.insert(known, &[1, 1]), Err(UpdateError::Exists { op: 0 }.into()));
    assert_eq!(shared.remove(new), Err(UpdateError::Missing { op: 0 }.into()));
    for switch in [0, 1] {
        let changes = [(known, 1), (new, 1)];
        assert_eq!(shared.update_all(switch, &changes), Err(UpdateError::Missing { op: 1 }.into()));
        let changes = [(known, 1), (known, 8), (new, 1)];
        let wide = UpdateError::Value { op: 1, value: 8, bits: 3 };
        assert_eq!(shared.update_all(switch, &changes), Err(wide.into()));
        assert_eq!(shared.get(switch, new), Ok(None));
    }
    let none = SharedError::NoSwitch { switch: 2, switches: 2 };
    assert_eq!(shared.update(2, known, 1), Err(none));
    assert_eq!((shared.get(2, known), shared.export(2).map(drop)), (Err(none), Err(none)));
    assert_eq!(shared.export_partition(2, PartitionId(0)), Err(none));
    assert!(state(&shared) == before);
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
fn one_in_two_shapes_is_no_graph_of_several() {
    let mut control = OthelloBuilder::new(params(200, 3, 2)).build(&entries(200, 3, 0)).unwrap();
    control.reshape(control.params().with_ranges(9).unwrap()).unwrap();
    assert_eq!(SharedControl::new(control).map(drop), Err(SharedError::Reshaping));
}

/// A hostile sequence of operations: names are added and removed where the graph is fullest, one name is
/// added and removed repeatedly, and one switch's actions are inverted meanwhile. The control structure holds
/// only some partitions.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn full_ranges_that_turn_over_stay_right_at_every_switch() {
    let params = Params::new(partitions(2), 2, [64, 64], 5).unwrap();
    let partition = PartitionId(1);
    let all =
        |salt| entries(2000, 5, salt).into_iter().filter(|one| params.partitions().of(one.0) == partition);
    let mut shared = SharedControl::new(OthelloControl::for_partitions(params, [partition])).unwrap();
    for shift in [3, 9, 20] {
        shared.add_switch(|name| action_of(name, shift, &params)).unwrap();
    }
    let tables: Vec<_> = (0..4).map(|switch| Arc::new(shared.export(switch).unwrap())).collect();
    // Ordered, so that the same names are removed in every run.
    let mut maps = vec![BTreeMap::new(); 4];
    let (mut refused, mut turned) = (0, 0);
    let mut apply = |deltas: Result<Vec<scalebricks_types::Delta>, SharedError>| match deltas {
        Ok(deltas) => {
            for (table, delta) in tables.iter().zip(&deltas) {
                let _ = table.apply(delta).unwrap();
            }
            true
        }
        Err(SharedError::Update(UpdateError::Full(_))) => {
            refused += 1;
            false
        }
        Err(error) => panic!("{error}"),
    };
    for (number, (name, action)) in all(0).chain(all(1)).enumerate() {
        for _ in 0..3 {
            let actions = [action, 1, 31, action ^ 7];
            if apply(shared.insert(name, &actions)) {
                for (map, action) in maps.iter_mut().zip(actions) {
                    map.insert(name, action);
                }
                if number % 5 == 0 {
                    assert!(apply(shared.remove(name)));
                    for map in &mut maps {
                        assert!(map.remove(&name).is_some());
                    }
                } else {
                    break;
                }
            }
        }
        let leaving = maps[0].keys().nth(number * 7 % maps[0].len().max(1)).filter(|_| number % 3 == 0);
        if let Some(&old) = leaving {
            assert!(apply(shared.remove(old)));
            for map in &mut maps {
                assert!(map.remove(&old).is_some());
            }
        }
        let switch = number % 4;
        let changes: Vec<_> = maps[switch].iter().map(|(&name, &action)| (name, action ^ 31)).collect();
        for delta in shared.update_all(switch, &changes).unwrap() {
            let _ = tables[switch].apply(&delta).unwrap();
            turned += 1;
        }
        maps[switch].values_mut().for_each(|action| *action ^= 31);
    }
    assert!(
        refused > 10 && turned > 500 && shared.stats().reseeded > 50,
        "{refused} {turned} {:?}",
        shared.stats()
    );
    for (switch, map) in maps.iter().enumerate() {
        assert!(!map.is_empty());
        assert_answers(
            &tables[switch],
            &map.iter().map(|(&name, &action)| (name, action)).collect::<Vec<_>>(),
        );
        assert!(bytes_of(&tables[switch]) == bytes_of(&shared.export(switch).unwrap()));
    }
    assert!(matches!(
        shared.insert(KeyHash::new(5), &[0; 4]),
        Err(SharedError::Update(UpdateError::NotHeld { op: 0, partition: PartitionId(0) }))
    ));
}

/// A further switch needs memory only for its bits: names and graph are stored once.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_further_switch_takes_its_bits_and_no_more() {
    let params = params(20_000, 4, 4);
    let control = OthelloBuilder::new(params).build(&entries(20_000, 4, 0)).unwrap();
    let alone = control.control_bytes();
    let mut shared = SharedControl::new(control).unwrap();
    shared.add_switch(|name| action_of(name, 8, &params)).unwrap();
    let bits = shared.stats().table_bytes;
    let further = shared.control_bytes() - alone;
    assert!(further <= bits && bits < alone / 4, "{further} {bits} {alone}");
    let built: Vec<_> =
        entries(20_000, 4, 0).iter().map(|one| (one.0, action_of(one.0, 8, &params))).collect();
    let built = OthelloBuilder::new(params).build(&built).unwrap();
    assert!(bytes_of(&shared.export(1).unwrap()) == bytes_of(&built.export()), "as built for it alone");
}
