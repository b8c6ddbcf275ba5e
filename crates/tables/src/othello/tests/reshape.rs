//! Reshaping with concurrent readers and between updates.

use super::*;
use crate::gpt::{GptReader, KeyBatch};
use crate::published::tests::reshape::{KEYS, batches_find_what_single_lookups_find, turns};
use proptest::prelude::*;
use scalebricks_types::{Applied, ApplyError, FlowKey, NodeHint, PartitionId, Teid};

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_table_is_reshaped_partition_by_partition_while_it_is_used() {
    let from = params(4000, 2, 4);
    let shapes = [
        from.with_ranges(from.ranges_per_partition() * 2 + 1).unwrap(),
        from.with_value_bits(5).unwrap().with_check_bits(3).unwrap(),
        from.with_seed(99),
        Params::sized(Sizing::Option2, 6000, 3, partitions(4)).unwrap(),
        Params::sharded(7000, 2, partitions(4), [64, 32]).unwrap(),
    ];
    for to in shapes {
        let mut control = OthelloBuilder::new(from).build(&entries(4000, 2, 0)).unwrap();
        let (own, replica) = (Arc::new(control.export()), Arc::new(control.export()));
        let mut held: std::collections::HashMap<_, _> = entries(4000, 2, 0).into_iter().collect();
        control.reshape(to).unwrap();
        assert_eq!(control.reshape(to), Err(ReshapeError::Busy));
        for turn in 0..8 {
            let ops: Vec<Op> = (turn * 30..turn * 30 + 30)
                .flat_map(|i| {
                    let (new, other) = (entry(i, 2, 5), entry(i + 2000, 2, 0));
                    [
                        Op::Remove(entry(i, 2, 0).0),
                        Op::Insert(new.0, new.1),
                        Op::Update(other.0, (turn % 4) as u16),
                    ]
                })
                .collect();
            for op in &ops {
                match *op {
                    Op::Insert(hash, value) | Op::Update(hash, value) => _ = held.insert(hash, value),
                    Op::Remove(hash) => _ = held.remove(&hash),
                }
            }
            for delta in control.batch_with(&own, &ops).unwrap() {
                assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
            }
            let partition = PartitionId([2, 0, 3, 1, 0, 0, 0, 0][turn as usize]);
            if let Some(delta) = control.reshape_step(partition).unwrap() {
                assert!(turn < 4);
                assert_eq!(own.apply(&delta), Ok(Applied::Advanced));
                assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
            }
            assert_eq!(control.reshaping().is_some(), turn < 3);
            assert_eq!(replica.reshaping().is_some(), turn < 3);
            let entries: Vec<_> = held.iter().map(|(&hash, &value)| (hash, value)).collect();
            assert_answers(&replica, &entries);
            assert!(bytes_of(&own) == bytes_of(&replica) && bytes_of(&own) == bytes_of(&control.export()));
            for partition in (0..4).map(PartitionId) {
                assert_eq!(replica.digest(partition).map(|found| found.1), control.digest(partition));
            }
            let again = OthelloControl::read_snapshot(&control_bytes(&control)[..]).unwrap();
            assert!(control_bytes(&again) == control_bytes(&control));
            assert!(
                bytes_of(&Othello::read_snapshot(&bytes_of(&replica)[..]).unwrap()) == bytes_of(&replica)
            );
        }
        assert_eq!((*control.params(), replica.params()), (to, to));
        // A replica that starts late gets exports, whether it has the old shape or the new.
        for shape in [from, to] {
            let late = Othello::new(shape);
            for partition in (0..4).map(PartitionId) {
                assert_eq!(late.apply(&control.export_partition(partition).unwrap()), Ok(Applied::Advanced));
            }
            assert!(bytes_of(&late) == bytes_of(&replica));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_reshaping_that_cannot_be_is_refused() {
    let from = params(4000, 2, 2);
    let mut control = OthelloBuilder::new(from).build(&entries(4000, 2, 0)).unwrap();
    let before = control_bytes(&control);
    let other = Params::for_keys(4000, 2, partitions(4)).unwrap();
    assert_eq!(control.reshape(other), Err(ReshapeError::Partitions { from: 2, to: 4 }));
    let narrow = from.with_value_bits(1).unwrap();
    assert!(matches!(control.reshape(narrow), Err(ReshapeError::Keys(UpdateError::Value { bits: 1, .. }))));
    let few = from.with_ranges(2).unwrap();
    assert!(matches!(control.reshape(few), Err(ReshapeError::Keys(UpdateError::Full(_)))));
    assert!(control_bytes(&control) == before);
    // Two changes at once, and back.
    let replica = control.export();
    control.reshape(from.with_seed(1)).unwrap();
    let step = control.reshape_step(PartitionId(0)).unwrap().unwrap();
    assert_eq!(control.reshape_step(PartitionId(0)).unwrap(), None);
    assert!(matches!(control.reshape_step(PartitionId(9)), Err(UpdateError::NotHeld { .. })));
    let _ = replica.apply(&step).unwrap();
    let mut elsewhere = OthelloBuilder::new(from).build(&entries(4000, 2, 0)).unwrap();
    elsewhere.reshape(from.with_seed(2)).unwrap();
    let mut step = elsewhere.reshape_step(PartitionId(1)).unwrap().unwrap();
    assert_eq!(replica.apply(&step), Err(ApplyError::Malformed("the last reshaping is not finished")));
    step.payload.truncate(9);
    assert!(matches!(replica.apply(&step), Err(ApplyError::Malformed(_))));
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_table_that_is_kept_in_shape_never_fills() {
    let mut control = OthelloControl::new(params(500, 2, 2));
    let table = Arc::new(control.export());
    for i in 0..6000 {
        let (hash, value) = entry(i, 2, 0);
        let _ = table.apply(&control.insert(hash, value).unwrap()).unwrap();
        if let Some(delta) = control.maintain().unwrap() {
            let _ = table.apply(&delta).unwrap();
        }
    }
    assert!(control.params().ranges() > 20 && control.stats().reseeded > 0);
    assert_answers(&table, &entries(6000, 2, 0));
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None,
        ..ProptestConfig::default() })]

    /// Also the batches that compare checksums, each with the checksums of its shape.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter; `published::split` and the kernels have smaller tests")]
    fn batches_in_two_shapes_find_what_single_lookups_find(turns in turns(8)) {
        let first = params(KEYS, 2, 8).with_check_bits(4).unwrap();
        let second = first.with_value_bits(5).unwrap().with_check_bits(7).unwrap();
        let check = |reader: &mut OthelloReader, hashes: &[KeyHash]| {
            let mut found = vec![None; hashes.len()];
            reader.check_batch(hashes, &mut found);
            let mut hints = vec![NodeHint::new(99); hashes.len()];
            let flow = FlowKey::teid(Teid::new(0)); // only hashes are looked up
            let keys = vec![flow; hashes.len()];
            GptReader::lookup_batch(reader, KeyBatch::new(&keys, hashes), &mut hints);
            let pin = reader.pin();
            hashes.iter().zip(found.iter().zip(&hints)).all(|(&hash, (&found, &hint))| {
                pin.check(hash) == found && hint == found.map_or(NodeHint::NONE, NodeHint::new)
            })
        };
        batches_find_what_single_lookups_find::<OthelloStructure>(
            &[first, second, second.with_seed(5)],
            &turns,
            |control, partition, _| control.reshape_step(partition).unwrap(),
            check,
        )?;
    }
}
