#![cfg(not(loom))]

use super::*;
use proptest::prelude::*;
use scalebricks_types::{
    Applied, ApplyError, Delta, HashSeed, Key16, Key40, PartitionId, Position, TableKind, Teid,
};
use std::collections::HashMap;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashSeed::from_u64(7))
}

fn config() -> FibConfig {
    FibConfig::new(hasher())
}

fn short(n: u32) -> FlowKey {
    FlowKey::teid(Teid::new(n))
}

fn long(n: u32) -> FlowKey {
    FlowKey::five_tuple_v6(1.into(), u128::from(n).into(), 6, 443, 5000)
}

/// Keys of both sizes, alternately.
fn key(n: u32) -> FlowKey {
    if n.is_multiple_of(3) { long(n) } else { short(n) }
}

fn insert(fib: &PartialFib, key: FlowKey, value: FibValue) -> Result<(), FibError> {
    fib.insert(&key, hasher().hash(&key), value)
}

fn get(fib: &PartialFib, key: FlowKey) -> Option<FibValue> {
    fib.get(&key, hasher().hash(&key))
}

fn contents(fib: &PartialFib) -> HashMap<FlowKey, FibValue> {
    let mut all = HashMap::new();
    fib.for_each(|key, value| assert_eq!(all.insert(key, value), None));
    all
}

fn delta(partition: u16, previous: u64, position: u64, ops: impl IntoIterator<Item = FibOp>) -> Delta {
    Delta {
        kind: TableKind::Fib,
        partition: PartitionId(partition),
        position: Position(position),
        previous: Position(previous),
        payload: encode_ops(ops).unwrap(),
    }
}

#[test]
fn batches_of_every_length_and_mixture_equal_single_lookups() {
    let fib = PartialFib::new(config().short_keys(300).long_keys(300));
    let held = if cfg!(miri) { 30 } else { 300 };
    for n in (0..held).filter(|n| n % 5 != 0) {
        insert(&fib, key(n), [n.into(), 1]).unwrap();
    }
    let of_one_size: [fn(u32) -> FlowKey; 3] = [key, short, long];
    for kind in of_one_size {
        let (longest, step) = if cfg!(miri) { (40, 40) } else { (100, 1) };
        for n in (0..=longest).step_by(step) {
            let keys: Vec<_> = (0..n).map(|i| kind(i * 7)).collect();
            let hashes: Vec<_> = keys.iter().map(|key| hasher().hash(key)).collect();
            let mut values = vec![Some([9; 2]); keys.len() + 1];
            fib.lookup_batch(KeyBatch::new(&keys, &hashes), &mut values);
            let single: Vec<_> = keys.iter().map(|&key| get(&fib, key)).collect();
            assert_eq!(values[..keys.len()], single, "batch of {n}");
            assert_eq!(values[keys.len()], Some([9; 2]), "nothing is written behind the batch");
        }
    }
}

#[test]
fn without_long_keys_there_is_no_table_of_them() {
    let fib = PartialFib::new(config().short_keys(1000));
    assert_eq!(fib.long_slots(), 0);
    assert_eq!(insert(&fib, long(1), [1, 1]), Err(FibError::Full { len: 0, slots: 0 }));
    let (keys, hashes) = ([short(1), long(1)], [short(1), long(1)].map(|key| hasher().hash(&key)));
    insert(&fib, keys[0], [5, 6]).unwrap();
    let mut values = [Some([1; 2]); 2];
    fib.lookup_batch(KeyBatch::new(&keys, &hashes), &mut values);
    assert_eq!(values, [Some([5, 6]), None]);
    assert_eq!(fib.remove(&keys[1], hashes[1]), Err(FibError::Missing));
    assert_eq!(fib.update(&keys[1], hashes[1], [0; 2]), Err(FibError::Missing));
    assert_eq!(fib.table_bytes(), fib.short_slots() * 33 + 512 * 8, "267 buckets and their stamps, no more");

    let growing = PartialFib::new(config().grow_when_full());
    insert(&growing, long(1), [1, 1]).unwrap();
    assert!(growing.long_slots() > 0 && get(&growing, long(1)) == Some([1, 1]));
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn a_growing_fib_takes_all() {
    let fib = PartialFib::new(config().grow_when_full());
    let n = 30_000;
    for i in 0..n {
        insert(&fib, key(i), [i.into(), 2]).unwrap();
    }
    assert_eq!(insert(&fib, key(1), [0; 2]), Err(FibError::Exists));
    assert_eq!(fib.len(), n as usize);
    assert!((0..n).all(|i| get(&fib, key(i)) == Some([i.into(), 2])));
    assert_eq!(contents(&fib).len(), n as usize);
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn reserved_room_is_there() {
    let fib = PartialFib::new(config().short_keys(10));
    insert(&fib, short(0), [3, 3]).unwrap();
    let n = 5000;
    fib.reserve(n, n).unwrap();
    let slots = (fib.short_slots(), fib.long_slots());
    fib.reserve(1, 1).unwrap();
    assert_eq!(slots, (fib.short_slots(), fib.long_slots()), "room that is there stays");
    for i in 1..n as u32 {
        insert(&fib, short(i), [4, 4]).unwrap();
        insert(&fib, long(i), [4, 4]).unwrap();
    }
    assert_eq!(get(&fib, short(0)), Some([3, 3]));
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn memory_within_a_budget_is_filled_with_flows() {
    let bytes = 1 << 20;
    let fib = PartialFib::new(config().short_keys_within(bytes));
    assert!(fib.table_bytes() <= bytes);
    let full = (0..u32::MAX).find(|&n| insert(&fib, short(n), [0; 2]).is_err()).unwrap() as usize;
    assert!(full > bytes * 94 / 100 / 33, "{full} flows in {bytes} bytes");
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn deltas_follow_one_another_in_each_partition() {
    let fib = PartialFib::new(config().grow_when_full().partitions(PartitionCount::new(2).unwrap()));
    let of = |partition: u16| {
        let here = move |&n: &u32| fib_partition(n) == partition;
        (0..200).filter(here).map(key)
    };
    let set = |keys: Vec<FlowKey>, v: u64| keys.into_iter().map(move |key| FibOp::Set(key, [v, v]));
    let (zero, one): (Vec<_>, Vec<_>) = (of(0).collect(), of(1).collect());
    assert_eq!(fib.apply(&delta(0, 0, 5, set(zero.clone(), 1))), Ok(Applied::Advanced));
    assert_eq!(fib.apply(&delta(1, 0, 2, set(one.clone(), 1))), Ok(Applied::Advanced));
    assert_eq!(contents(&fib).len(), 200);

    let before = contents(&fib);
    assert_eq!(fib.apply(&delta(0, 1, 5, set(zero.clone(), 2))), Ok(Applied::Stale));
    let gap = ApplyError::Gap { have: Position(5), previous: Position(6) };
    assert_eq!(fib.apply(&delta(0, 6, 7, set(zero.clone(), 2))), Err(gap));
    assert_eq!(fib.apply(&delta(2, 0, 1, [])), Err(ApplyError::Partition(PartitionId(2))));
    let foreign = fib.apply(&delta(0, 5, 6, [FibOp::Delete(zero[0]), FibOp::Set(one[0], [3, 3])]));
    assert_eq!(foreign, Err(ApplyError::Malformed("a key of another partition")));
    let kind = Delta { kind: TableKind::FullCopy, ..delta(0, 5, 6, []) };
    assert_eq!(fib.apply(&kind), Err(ApplyError::Kind { want: TableKind::Fib, got: TableKind::FullCopy }));
    assert_eq!(contents(&fib), before);
    assert_eq!(
        (fib.position(PartitionId(0)), fib.position(PartitionId(1))),
        (Some(Position(5)), Some(Position(2)))
    );
    assert_eq!(fib.position(PartitionId(2)), None);

    // An overlapping delta: it may delete keys that are already deleted and set keys that are already set.
    let ops = [FibOp::Delete(zero[0]), FibOp::Delete(zero[1]), FibOp::Set(zero[2], [9, 9])];
    assert_eq!(fib.apply(&delta(0, 5, 6, ops)), Ok(Applied::Advanced));
    assert_eq!(fib.apply(&delta(0, 3, 8, ops)), Ok(Applied::Advanced));
    assert_eq!(fib.len(), 198);
    assert_eq!((get(&fib, zero[1]), get(&fib, zero[2])), (None, Some([9, 9])));
}

fn fib_partition(n: u32) -> u16 {
    PartitionCount::new(2).unwrap().of(hasher().hash(&key(n))).0
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn a_delta_that_does_not_fit_changes_nothing() {
    let keys = 2000;
    let fib = PartialFib::new(config().short_keys(keys as usize).long_keys(50));
    for n in 0..keys {
        insert(&fib, short(n), [n.into(), 1]).unwrap();
    }
    insert(&fib, long(0), [5, 5]).unwrap();
    let before = contents(&fib);
    // Deletes, changes and adds keys. The added keys exceed all slots, first for short keys, then for long
    // keys.
    let changed = |n: u32| match n % 3 {
        0 => FibOp::Delete(short(n)),
        _ => FibOp::Set(short(n), [0, 0]),
    };
    let new_short = (keys..keys * 3).map(|n| FibOp::Set(short(n), [7, 7]));
    let new_long = (0..200).map(|n| FibOp::Set(long(n), [7, 7]));
    for ops in
        [(0..keys).map(changed).chain(new_short).collect(), (0..keys).map(changed).chain(new_long).collect()]
    {
        let ops: Vec<FibOp> = ops;
        assert!(matches!(fib.apply(&delta(0, 0, 1, ops)), Err(ApplyError::Full(_))));
        assert_eq!(contents(&fib), before);
        assert!((0..keys).all(|n| get(&fib, short(n)) == Some([n.into(), 1])));
        assert_eq!(fib.position(PartitionId(0)), Some(Position(0)));
        assert_eq!(fib.len(), before.len());
    }
    let exchange = (0..keys).flat_map(|n| [FibOp::Delete(short(n)), FibOp::Set(short(keys + n), [8, 8])]);
    assert_eq!(
        fib.apply(&delta(0, 0, 1, exchange)),
        Ok(Applied::Advanced),
        "a full table can exchange its keys"
    );
    assert_eq!(fib.len(), before.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_payload_is_applied_whole_or_refused_whole(mut payload: Vec<u8>, counts: [u8; 4], shaped: bool) {
        if shaped {
            // A header that fits a body of random bytes, so that the checks after the length check are
            // reached.
            let counts = counts.map(|count| usize::from(count % 3));
            let body = counts[0] * 32 + counts[1] * 56 + counts[2] * 16 + counts[3] * 40;
            let mut header = vec![1, 0, 0, 0];
            header.extend(counts.iter().flat_map(|&count| (count as u32).to_le_bytes()));
            payload.resize(body, 3);
            payload.splice(0..0, header);
        }
        let fib = PartialFib::new(config().short_keys(4).long_keys(4));
        insert(&fib, short(1), [1, 2]).unwrap();
        let before = contents(&fib);
        let applied = fib.apply(&Delta { payload, ..delta(0, 0, 1, []) }).is_ok();
        prop_assert_eq!(fib.position(PartitionId(0)), Some(Position(u64::from(applied))));
        prop_assert!(applied || contents(&fib) == before);
    }

    #[test]
    fn deltas_and_direct_changes_behave_as_a_map(rounds in prop::collection::vec(
        prop::collection::vec((0u32..200, prop::option::of(any::<[u64; 2]>())), 0..if cfg!(miri) { 10 } else { 60 }), 1..if cfg!(miri) { 3 } else { 8 })) {
        let fib = PartialFib::new(config().grow_when_full());
        let mut plain = HashMap::new();
        for (round, ops) in (0..).zip(rounds) {
            for &(n, value) in &ops {
                match value {
                    Some(value) => plain.insert(key(n), value),
                    None => plain.remove(&key(n)),
                };
            }
            if round % 2 == 0 {
                let op = |(n, value): (u32, Option<_>)| value.map_or(FibOp::Delete(key(n)), |v| FibOp::Set(key(n), v));
                let done = fib.apply(&delta(0, round, round + 1, ops.into_iter().map(op)));
                prop_assert_eq!(done, Ok(Applied::Advanced));
            } else {
                for (n, value) in ops {
                    let (key, hash) = (key(n), hasher().hash(&key(n)));
                    match value {
                        Some(value) if get(&fib, key).is_some() => prop_assert!(fib.update(&key, hash, value).is_ok()),
                        Some(value) => prop_assert_eq!(fib.insert(&key, hash, value), Ok(())),
                        None => {
                            let there = get(&fib, key);
                            prop_assert_eq!(fib.remove(&key, hash).ok(), there);
                        }
                    }
                }
                // Only deltas change the stream's position.
                prop_assert_eq!(fib.apply(&delta(0, round, round + 1, [])), Ok(Applied::Advanced));
            }
            prop_assert_eq!(&contents(&fib), &plain);
            prop_assert_eq!(fib.len(), plain.len());
        }
    }
}

#[test]
fn the_zero_key_is_refused() {
    let fib = PartialFib::new(config().short_keys(4).long_keys(4));
    for zero in [FlowKey::Short(Key16::from_words([0; 2])), FlowKey::Long(Key40::from_words([0; 5]))] {
        assert_eq!(insert(&fib, zero, [1; 2]), Err(FibError::ZeroKey));
        assert_eq!(get(&fib, zero), None);
    }
}
