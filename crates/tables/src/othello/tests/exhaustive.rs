//! All small graphs, and every operation on each: every intermediate state that readers could see gives
//! correct answers.

use super::*;
use crate::published::Units as _;

/// Names of one range of 2 + 2 slots: one for each pair of slots under seed 0, and one that shares a pair.
fn universe(params: &Params) -> Vec<KeyHash> {
    let places = placement::Placement::of(params);
    let mut names: Vec<KeyHash> = Vec::new();
    let mut times = std::collections::HashMap::new();
    for i in 0.. {
        let hash = KeyHash::new(mix64(i));
        let pair = places.pair(hash.get(), 0);
        let seen: &mut u32 = times.entry(pair).or_default();
        let wanted = if pair == [0, 2] { 2 } else { 1 };
        if *seen < wanted {
            *seen += 1;
            names.push(hash);
        }
        if names.len() == 5 {
            return names;
        }
    }
    unreachable!("hashes reach every pair")
}

/// Every subset of the names with every assignment of values, made by inserting them; then each operation on
/// each name. The delta is applied to a replica that a reader reads before and after. The publication in
/// between is one store, so these two are all the states that can be seen. Other names have the same value in
/// both.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn every_operation_on_every_small_graph_leaves_other_names_alone() {
    let params = Params::new(PartitionCount::ONE, 1, [2, 2], 1).unwrap();
    let names = universe(&params);
    let (mut graphs, mut operations, mut reseeded) = (0, 0, 0);
    for set in 0..1u32 << names.len() {
        let members: Vec<usize> = (0..names.len()).filter(|i| set >> i & 1 == 1).collect();
        for values in 0..1u32 << members.len() {
            let build = || {
                let mut control = OthelloControl::new(params);
                let all = members.iter().enumerate();
                let done = all.map(|(at, &i)| control.insert(names[i], (values >> at & 1) as u16));
                done.collect::<Result<Vec<_>, _>>().is_ok().then_some(control)
            };
            let Some(_) = build() else { continue }; // no seed suits
            graphs += 1;
            for &name in &names {
                for change in [
                    Op::Insert(name, 0),
                    Op::Insert(name, 1),
                    Op::Update(name, 0),
                    Op::Update(name, 1),
                    Op::Remove(name),
                ] {
                    let mut control = build().unwrap();
                    let table = Arc::new(control.export());
                    let mut reader = OthelloReader::new(Arc::clone(&table));
                    let held: Vec<(KeyHash, u16)> = control.iter().collect();
                    let before = control.stats().reseeded;
                    let Ok(delta) = op(&mut control, change) else { continue };
                    operations += 1;
                    reseeded += control.stats().reseeded - before;
                    // A reader that began before keeps the version that it saw.
                    let now = Arc::clone(&table.generations.load().now);
                    let old = (now.slot(0), OthelloStructure::extra(&now, 0));
                    for &(hash, value) in &held {
                        assert_eq!(reader.pin().get(hash), value);
                    }
                    let _ = table.apply(&delta).unwrap();
                    let mut words = vec![0; 8];
                    now.arena.copy(old.0, &mut words);
                    let layout = layout::Layout::of(&params);
                    for &(hash, value) in &held {
                        let [a, b] = layout.places.pair(hash.get(), old.1);
                        assert_eq!(layout.get(&words, a) ^ layout.get(&words, b), u32::from(value));
                    }
                    for (hash, value) in control.iter() {
                        assert_eq!(reader.pin().get(hash), value, "{change:?} on {held:?}");
                    }
                    let others = held.iter().filter(|&&(hash, _)| hash != name);
                    others.for_each(|&(hash, value)| assert_eq!(control.get(hash), Some(value)));
                }
            }
        }
    }
    assert!(graphs > 100 && operations > 1000 && reseeded > 0, "{graphs} {operations} {reseeded}");
}
