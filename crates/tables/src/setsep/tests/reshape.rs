//! Reshaping while the table is in use: the answers never change, and the final bits are those of a new
//! build.

use super::*;
use crate::published::tests::reshape::{Turn, batches_find_what_single_lookups_find, turns};
use proptest::prelude::*;
use scalebricks_types::{Applied, PartitionId, Position};

fn targets(from: Params) -> Vec<Params> {
    vec![
        from.with_blocks(from.blocks() * 2).unwrap(),
        from.with_value_bits(from.value_bits() + 1).unwrap(),
        from.with_seed(77),
        from.with_blocks(from.blocks() * 4).unwrap().with_value_bits(5).unwrap().with_seed(3),
        from.with_format(Format::Dense).unwrap(),
    ]
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn every_step_leaves_every_answer_right_while_keys_come_and_go() {
    for format in [Format::Linear, Format::Paper8x16] {
        let from = params_in(format, 9000, 2, 2);
        for to in targets(from) {
            let mut control = SetSepBuilder::new(from).build(&entries(9000, 2, 0)).unwrap();
            let replica = Arc::new(control.export());
            let mut reader = SetSepReader::new(Arc::clone(&replica));
            control.reshape(to).unwrap();
            assert_eq!(control.reshape(to), Err(ReshapeError::Busy));
            let mut turn = 0;
            while control.reshaping().is_some() {
                turn += 1;
                let partition = PartitionId((turn % 2) as u16);
                if let Some(delta) = control.reshape_step(partition, 1).unwrap() {
                    assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
                }
                let ops = [
                    Op::Remove(entry(turn, 2, 0).0),
                    Op::Insert(entry(turn, 2, 9).0, entry(turn, 2, 9).1),
                    Op::Update(entry(turn + 4000, 2, 0).0, entry(turn + 4000, 2, 0).1 ^ 1),
                ];
                for delta in control.batch(&ops).unwrap() {
                    assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
                }
                let refused =
                    control.batch(&[Op::Remove(entry(turn + 1, 2, 0).0), Op::Remove(KeyHash::new(1))]);
                assert_eq!(refused, Err(UpdateError::Missing { op: 1 }));
                let held: Vec<_> = control.iter().collect();
                assert_answers(&replica, &held);
                let pin = reader.pin();
                assert!(held.iter().step_by(11).all(|&(hash, value)| pin.get(hash) == value));
                assert!(held.iter().step_by(13).all(|&(hash, value)| control.get(hash) == Some(value)));
                assert!(bytes_of(&replica) == bytes_of(&control.export()), "{to:?}, turn {turn}");
                if turn == 5 {
                    let (bits, keys) = (bytes_of(&replica), control_bytes(&control));
                    assert!(bytes_of(&SetSep::read_snapshot(&bits[..]).unwrap()) == bits);
                    control = SetSepControl::read_snapshot(&keys[..]).unwrap();
                    assert!(control_bytes(&control) == keys);
                }
            }
            assert_eq!((*control.params(), replica.params()), (to, to));
            assert_eq!(control.len(), 9000);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn what_nobody_touches_meanwhile_becomes_a_fresh_build() {
    let from = params(20_000, 2, 4);
    for to in targets(from) {
        let entries = entries(20_000, 2, 0);
        let mut control = SetSepBuilder::new(from).build(&entries).unwrap();
        control.reshape(to).unwrap();
        for partition in [2, 0, 3, 1].map(PartitionId) {
            while control.reshape_step(partition, 3).unwrap().is_some() {}
        }
        let fresh = SetSepBuilder::new(to).build(&entries).unwrap();
        let words = |control: &SetSepControl| {
            let store = &control.keys.now.blocks.store;
            (0..store.len()).map(|slot| store.view(slot).words.to_vec()).collect::<Vec<_>>()
        };
        assert!(words(&control) == words(&fresh), "{to:?}");
        assert_eq!(control.stats(), fresh.stats());
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn growing_from_empty_one_key_at_a_time_crosses_doublings_unnoticed() {
    let mut control = SetSepControl::new(params(1, 2, 1));
    let replica = Arc::new(SetSep::new(*control.params()));
    let count = 60_000;
    for i in 0..count {
        let (hash, value) = entry(i, 2, 0);
        let _ = replica.apply(&control.insert(hash, value).unwrap()).unwrap();
        if let Some(delta) = control.maintain().unwrap() {
            let _ = replica.apply(&delta).unwrap();
        }
        if i % 5000 == 4999 {
            assert_answers(&replica, &entries(i + 1, 2, 0));
        }
    }
    assert!(control.params().blocks() >= 32, "{:?}", control.params());
    assert_eq!(control.stats().fallback_keys, 0);
    assert!(bytes_of(&replica) == bytes_of(&control.export()));
}

#[test]
fn impossible_shapes_are_refused_by_name() {
    let from = params(9000, 2, 2);
    let mut control = SetSepControl::new(from);
    let odd = from.with_blocks(from.blocks() + 2).unwrap();
    assert!(matches!(control.reshape(odd), Err(ReshapeError::Blocks { .. })));
    assert!(matches!(control.reshape(params(9000, 2, 4)), Err(ReshapeError::Partitions { from: 2, to: 4 })));
    assert_eq!(control.reshaping(), None);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_partition_is_reshaped_at_once_or_not_at_all() {
    let from = params(3000, 2, 2);
    let partition = PartitionId(1);
    let mut control = SetSepControl::for_partitions(from, [partition]);
    let own = entries(3000, 2, 0).into_iter().filter(|(hash, _)| from.partitions().of(*hash) == partition);
    let ops: Vec<Op> = own.map(|(hash, value)| Op::Insert(hash, value)).collect();
    let replica = Arc::new(SetSep::new(from));
    let filled = control.batch_to(Position(5), &ops).unwrap().unwrap();
    assert_eq!(replica.apply(&filled), Ok(Applied::Advanced));
    let (before, narrow) = (control_bytes(&control), from.with_value_bits(1).unwrap());
    assert!(matches!(
        control.reshape_to(partition, narrow, Position(6)),
        Err(ReshapeError::Keys(UpdateError::Value { .. }))
    ));
    let wide = from.with_blocks(from.blocks() * 2).unwrap().with_value_bits(5).unwrap();
    assert!(matches!(control.reshape_to(partition, wide, Position(5)), Err(ReshapeError::Keys(_))));
    assert!(matches!(control.reshape_to(PartitionId(0), wide, Position(6)), Err(ReshapeError::Keys(_))));
    assert!(control_bytes(&control) == before, "a refusal changes nothing");
    let delta = control.reshape_to(partition, wide, Position(9)).unwrap();
    assert_eq!((delta.position, delta.previous), (Position(9), Position(5)));
    assert_eq!((*control.params(), control.reshaping()), (wide, None));
    assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
    // A replica that missed the deltas gets the whole partition, in a table of the old or the new shape.
    let whole = control.export_partition(partition).unwrap();
    for table in [SetSep::new(from), SetSep::new(wide)] {
        assert_eq!(table.apply(&whole), Ok(Applied::Advanced));
        assert_eq!(table.digest(partition), replica.digest(partition));
    }
    assert_eq!(replica.reshaping(), Some(wide), "the other partition is still to come");
    let mut other = SetSepControl::for_partitions(from, [PartitionId(0)]);
    assert_eq!(
        replica.apply(&other.reshape_to(PartitionId(0), wide, Position(1)).unwrap()),
        Ok(Applied::Advanced)
    );
    assert_eq!((replica.params(), replica.reshaping()), (wide, None));
    let held: Vec<_> = control.iter().collect();
    assert_answers(&replica, &held);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter; `published::split` and the kernels have smaller tests")]
    fn batches_in_two_shapes_find_what_single_lookups_find(turns in turns(2)) {
        in_two_shapes(Format::Linear, &turns)?;
        in_two_shapes(Format::Paper8x16, &turns)?;
    }
}

/// Few blocks, so that a few turns convert them all, and another reshaping follows.
fn in_two_shapes(format: Format, turns: &[Turn]) -> Result<(), TestCaseError> {
    let first = Params::new(8, 2, PartitionCount::new(2).unwrap()).unwrap().with_format(format).unwrap();
    let second = first.with_blocks(2 * first.blocks()).unwrap().with_value_bits(3).unwrap();
    batches_find_what_single_lookups_find::<SetSepStructure>(
        &[first, second, second.with_seed(5)],
        turns,
        |control, partition, units| control.reshape_step(partition, units).unwrap(),
        |_, _| true,
    )
}
