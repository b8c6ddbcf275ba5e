//! Random operations, compared with a plain map and the slow reference model.

use super::reference::Reference;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Operations over a set of names small enough that names repeat.
fn ops(value_bits: u8, universe: u16) -> impl Strategy<Value = Vec<Op>> {
    let values = 0..=u16::MAX >> (16 - value_bits);
    let one = (0u8..4, 0..universe, values).prop_map(|(kind, key, value)| {
        let hash = KeyHash::new(mix64(key.into()));
        match kind {
            0 | 3 => Op::Insert(hash, value),
            1 => Op::Update(hash, value),
            _ => Op::Remove(hash),
        }
    });
    prop::collection::vec(one, 0..if cfg!(miri) { 12 } else { 120 })
}

/// Applies operations one by one and in batches; compares with the map, the reference model and each other.
fn check(params: Params, ops: &[Op], batch: usize) {
    let (mut singly, mut batched) = (OthelloControl::new(params), OthelloControl::new(params));
    let replica = Arc::new(singly.export());
    let (mut model, mut twin) = (HashMap::new(), Reference::new(params));
    let mut good = Vec::new();
    for &one in ops {
        let before = control_bytes(&singly);
        let done = op(&mut singly, one);
        assert_eq!(done.is_ok(), twin.perform(one), "{one:?}: {done:?}");
        let is_there = model.contains_key(&one.hash());
        match (one, done) {
            (Op::Insert(hash, value) | Op::Update(hash, value), Ok(delta)) => {
                assert_eq!(model.insert(hash, value).is_some(), matches!(one, Op::Update(..)));
                let _ = replica.apply(&delta).unwrap();
                good.push(one);
            }
            (Op::Remove(hash), Ok(delta)) => {
                assert!(model.remove(&hash).is_some());
                let _ = replica.apply(&delta).unwrap();
                good.push(one);
            }
            (Op::Insert(..), Err(UpdateError::Exists { op: 0 })) => assert!(is_there),
            (Op::Insert(..), Err(UpdateError::Full(_))) | (_, Err(UpdateError::Missing { op: 0 })) => {
                assert!(!is_there);
            }
            (_, Err(error)) => panic!("{one:?}: {error}"),
        }
        if good.last() != Some(&one) {
            assert!(control_bytes(&singly) == before, "a refused operation changed something");
        }
    }
    twin.assert_equals(&singly);
    for ops in good.chunks(batch.max(1)) {
        let before = control_bytes(&batched);
        let mut bad = ops.to_vec();
        bad.push(Op::Remove(KeyHash::new(u64::MAX)));
        assert!(matches!(batched.batch(&bad), Err(UpdateError::Missing { op }) if op == ops.len()));
        assert!(control_bytes(&batched) == before, "a refused batch left traces");
        drop(batched.batch(ops).unwrap());
    }
    for partition in (0..params.partitions().get()).map(|p| scalebricks_types::PartitionId(p as u16)) {
        assert_eq!(singly.digest(partition), batched.digest(partition));
        assert_eq!(replica.digest(partition).map(|found| found.1), singly.digest(partition));
    }
    assert_eq!(singly.iter().collect::<HashMap<_, _>>(), model);
    assert_eq!(singly.len(), model.len() as u64);
    let held: Vec<_> = singly.iter().collect();
    assert!(held.is_sorted() && held.iter().all(|&(hash, value)| singly.get(hash) == Some(value)));
    assert_answers(&replica, &held);
    assert!(bytes_of(&replica) == bytes_of(&singly.export()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 150 }, failure_persistence: None,
        ..ProptestConfig::default() })]
    /// The ranges are so small that cycles, new seeds and full ranges are common.
    #[test]
    fn small_ranges_do_what_a_map_and_the_twin_do(ops in ops(3, 40), batch in 1usize..20, ranges in 1u32..5) {
        check(Params::new(partitions(2), ranges, [6, 5], 3).unwrap(), &ops, batch);
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
    fn wide_slots_with_checksums_do_too(ops in ops(16, 60), batch in 1usize..20) {
        let params = Params::new(partitions(1), 3, [16, 16], 16).unwrap().with_check_bits(7).unwrap();
        check(params, &ops, batch);
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn one_large_range_does_what_a_map_does() {
    let count = 60_000;
    let params = Params::sized(Sizing::Option1, count, 2, partitions(1)).unwrap();
    assert_eq!((params.ranges(), params.slots()), (1, [1 << 17; 2]));
    let mut control = OthelloBuilder::new(params).build(&entries(count / 2, 2, 0)).unwrap();
    let table = Arc::new(control.export());
    let mut ops: Vec<Op> =
        (count / 2..count).map(|i| entry(i, 2, 0)).map(|(h, v)| Op::Insert(h, v)).collect();
    ops.extend((0..5000).map(|i| Op::Remove(entry(i, 2, 0).0)));
    ops.extend((5000..9000).map(|i| Op::Update(entry(i, 2, 0).0, 1)));
    for ops in ops.chunks(8000) {
        for delta in control.batch(ops).unwrap() {
            let _ = table.apply(&delta).unwrap();
        }
    }
    let held: Vec<_> = control.iter().collect();
    assert_eq!(held.len() as u64, count - 5000);
    assert!(held.iter().all(|&(hash, value)| control.get(hash) == Some(value)));
    assert_answers(&table, &held);
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}
