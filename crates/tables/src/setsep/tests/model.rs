//! Random operations, compared with a plain map.

use super::*;
use proptest::prelude::*;
use scalebricks_types::Delta;
use std::collections::HashMap;

/// Operations over a key space small enough that keys repeat.
fn ops(value_bits: u8) -> impl Strategy<Value = Vec<(u8, u16, u8)>> {
    let values = 0..=u8::MAX >> (8 - value_bits);
    prop::collection::vec((0u8..3, 0u16..400, values), 0..if cfg!(miri) { 20 } else { 600 })
}

fn apply(control: &mut SetSepControl, op: Op) -> Result<Delta, UpdateError> {
    match op {
        Op::Insert(hash, value) => control.insert(hash, value),
        Op::Update(hash, value) => control.update(hash, value),
        Op::Remove(hash) => control.remove(hash),
    }
}

fn op(kind: u8, key: u16, value: u8) -> Op {
    let hash = KeyHash::new(mix64(key.into()));
    match kind {
        0 => Op::Insert(hash, value),
        1 => Op::Update(hash, value),
        _ => Op::Remove(hash),
    }
}

fn check(format: Format, bits: u8, ops: &[(u8, u16, u8)]) -> Result<(), TestCaseError> {
    let params = params_in(format, 300, bits, 2);
    let (mut control, replica) = (SetSepControl::new(params), Arc::new(SetSep::new(params)));
    let mut reader = SetSepReader::new(Arc::clone(&replica));
    let mut model = HashMap::new();
    for &(kind, key, value) in ops {
        let op = op(kind, key, value);
        let hash = op.hash();
        let done = apply(&mut control, op);
        let expected = match op {
            Op::Insert(..) if model.contains_key(&hash) => Err(UpdateError::Exists { op: 0 }),
            Op::Update(..) | Op::Remove(_) if !model.contains_key(&hash) => {
                Err(UpdateError::Missing { op: 0 })
            }
            Op::Insert(_, value) | Op::Update(_, value) => Ok(model.insert(hash, value)),
            Op::Remove(_) => Ok(model.remove(&hash)),
        };
        prop_assert_eq!(done.as_ref().err(), expected.as_ref().err());
        if let Ok(delta) = done {
            prop_assert_eq!(replica.apply(&delta), Ok(scalebricks_types::Applied::Advanced));
        }
        prop_assert_eq!(control.get(hash), model.get(&hash).copied());
        if let Some(&value) = model.get(&hash) {
            prop_assert_eq!(reader.pin().get(hash), value);
        }
    }
    for (&hash, &value) in &model {
        prop_assert_eq!(reader.pin().get(hash), value);
    }
    prop_assert_eq!(control.len(), model.len() as u64);
    prop_assert_eq!(control.iter().collect::<HashMap<_, _>>(), model);
    prop_assert!(bytes_of(&replica) == bytes_of(&control.export()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 96 }, failure_persistence: None,
        ..ProptestConfig::default() })]
    #[test]
    fn equals_a_map(
        (bits, ops) in (1u8..=8).prop_flat_map(|bits| (Just(bits), ops(bits))),
        format in 0usize..Format::ALL.len(),
    ) {
        check(Format::ALL[format], bits, &ops)?;
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
    fn a_batch_is_its_operations_one_by_one(
        list in ops(3),
        sizes in prop::collection::vec(1usize..60, 1..20),
    ) {
        let params = params_in(Format::Paper8x16, 300, 3, 2);
        let (mut singly, mut batched) = (SetSepControl::new(params), SetSepControl::new(params));
        let replica = SetSep::new(params);
        let mut list = list.into_iter().map(|(kind, key, value)| op(kind, key, value));
        for size in sizes {
            let batch: Vec<Op> = list.by_ref().take(size).collect();
            let held = control_bytes(&batched);
            let mut first_error = None;
            let mut trial = SetSepControl::read_snapshot(&control_bytes(&singly)[..]).unwrap();
            for (at, &op) in batch.iter().enumerate() {
                if let Err(error) = apply(&mut trial, op) {
                    first_error = Some((at, error));
                    break;
                }
            }
            match (batched.batch(&batch), first_error) {
                (Ok(deltas), None) => {
                    singly = trial;
                    for delta in deltas {
                        prop_assert_eq!(replica.apply(&delta), Ok(scalebricks_types::Applied::Advanced));
                    }
                }
                (Err(error), Some((at, alone))) => {
                    prop_assert!(held == control_bytes(&batched), "a refused batch left a trace");
                    let at_place = match alone {
                        UpdateError::Exists { .. } => UpdateError::Exists { op: at },
                        UpdateError::Missing { .. } => UpdateError::Missing { op: at },
                        other => other,
                    };
                    prop_assert_eq!(error, at_place);
                }
                (outcome, alone) => prop_assert!(false, "{outcome:?} but one by one {alone:?}"),
            }
            let blocks = |control: &SetSepControl| {
                let store = &control.keys.now.blocks.store;
                let words = |slot| store.view(slot).words.to_vec();
                (control.iter().collect::<Vec<_>>(), (0..store.len()).map(words).collect::<Vec<_>>())
            };
            prop_assert_eq!(blocks(&singly), blocks(&batched));
        }
        prop_assert!(bytes_of(&replica) == bytes_of(&batched.export()));
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn turning_every_key_over_ten_times_leaves_no_wrong_answer_and_no_creeping_fallback() {
    let (count, rounds) = (4096, 10);
    let params = params(count, 2, 1);
    let mut control = SetSepBuilder::new(params).build(&entries(count, 2, 0)).unwrap();
    let replica = Arc::new(control.export());
    for round in 1..=rounds {
        for i in 0..count {
            let batch = [Op::Remove(entry(i, 2, round - 1).0), {
                let (hash, value) = entry(i, 2, round);
                Op::Insert(hash, value)
            }];
            for delta in control.batch(&batch).unwrap() {
                let _ = replica.apply(&delta).unwrap();
            }
        }
        assert_answers(&replica, &entries(count, 2, round));
        let stats = control.stats();
        assert!(stats.fallback_keys <= count / 100, "round {round}: {stats:?}");
    }
    assert_eq!(control.len(), count);
    assert!(control.stats().moves.single > 0);
    assert!(bytes_of(&replica) == bytes_of(&control.export()));
}

/// Blocks as full as the dense format is sized for, before and after every key has been replaced.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn dense_tables_of_their_size_need_no_fallback() {
    let count = 64 * Format::Dense.keys_per_block();
    for bits in [1, 2, 4] {
        let params = params_in(Format::Dense, count, bits, 1);
        assert_eq!(params.blocks(), 64);
        let mut control = SetSepBuilder::new(params).build(&entries(count, bits, 0)).unwrap();
        assert_eq!(control.stats().fallback_keys, 0, "{bits} bits, built");
        for first in (0..count).step_by(4096) {
            let batch = (first..count.min(first + 4096)).flat_map(|i| {
                let (hash, value) = entry(i, bits, 1);
                [Op::Remove(entry(i, bits, 0).0), Op::Insert(hash, value)]
            });
            drop(control.batch(&batch.collect::<Vec<_>>()).unwrap());
            assert_eq!(control.stats().fallback_keys, 0, "{bits} bits, {first} keys replaced");
        }
        assert!(control.stats().moves.double > 0);
    }
}

/// In a full block nearly every insertion moves a bucket. Solving once per batch must not change which bucket
/// moves where.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn batches_move_the_same_buckets_as_single_operations() {
    for format in Format::ALL {
        let full = format.keys_per_block();
        let params = params_in(format, full, 2, 1).with_fallback_lines(300).unwrap();
        let build = || SetSepBuilder::new(params).build(&entries(full * 49 / 50, 2, 0)).unwrap();
        let (mut singly, mut batched) = (build(), build());
        let ops: Vec<Op> = (0..1200)
            .map(|i| match i % 4 {
                0 => Op::Remove(entry(i / 4, 2, 0).0),
                3 => Op::Update(entry(i / 4 + 400, 2, 0).0, 1),
                _ if i % 4 + i / 4 * 2 < 460.max(full / 4) => Op::Insert(entry(i, 2, 7).0, 2),
                _ => Op::Update(entry(i / 4 + 600, 2, 0).0, 3),
            })
            .collect();
        let replica = Arc::new(batched.export());
        for (round, batch) in ops.chunks(75).enumerate() {
            for &op in batch {
                drop(apply(&mut singly, op).unwrap());
            }
            for delta in batched.batch(batch).unwrap() {
                let _ = replica.apply(&delta).unwrap();
            }
            assert_eq!(
                singly.keys.now.blocks.store.view(0).words,
                batched.keys.now.blocks.store.view(0).words,
                "{format:?}, batch {round}"
            );
        }
        assert_eq!(singly.stats(), batched.stats());
        assert!(singly.stats().moves.single > 0, "{format:?}: {:?}", singly.stats());
        assert_answers(&replica, &singly.iter().collect::<Vec<_>>());
    }
}
