//! Digests are equal for equal bits, independent of the holder, and different for different bits.

use super::*;
use scalebricks_types::{Applied, ApplyError, PartitionId, Position};

fn partitions() -> impl Iterator<Item = PartitionId> {
    (0..2).map(PartitionId)
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn both_ends_have_one_digest_whatever_happens() {
    let from = params(3000, 2, 2);
    let mut control = SetSepBuilder::new(from).build(&entries(3000, 2, 0)).unwrap();
    let replica = control.export();
    let assert_equal = |control: &SetSepControl, replica: &SetSep| {
        for partition in partitions() {
            let own = control.digest(partition).map(|digest| (control.position(partition).unwrap(), digest));
            assert_eq!(replica.digest(partition), own);
        }
    };
    assert_equal(&control, &replica);
    assert!(control.digest(PartitionId(0)).is_some());
    for i in 0..200 {
        let before = replica.digest(PartitionId(0));
        let ops = [Op::Remove(entry(i, 2, 0).0), Op::Insert(entry(i, 2, 9).0, entry(i, 2, 9).1)];
        for delta in control.batch(&ops).unwrap() {
            assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
            if delta.partition == PartitionId(0) {
                assert_ne!(replica.digest(PartitionId(0)), before);
            }
        }
        assert_equal(&control, &replica);
    }
    control.reshape(from.with_blocks(from.blocks() * 2).unwrap().with_value_bits(3).unwrap()).unwrap();
    while let Some(delta) = control.reshape_step(PartitionId(1), 1).unwrap() {
        assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
        assert_equal(&control, &replica);
    }
    while let Some(delta) = control.reshape_step(PartitionId(0), 8).unwrap() {
        assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
    }
    assert_equal(&control, &replica);
    assert_eq!(replica.digest(PartitionId(2)), None);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn bits_that_went_wrong_are_found_and_mended() {
    let params = params(3000, 2, 2);
    let mut control = SetSepBuilder::new(params).build(&entries(3000, 2, 0)).unwrap();
    let replica = Arc::new(control.export());
    let Some(whole) = control.export_partition(PartitionId(1)) else { panic!("keys are there") };
    // Another history with the same final state.
    let other = SetSepBuilder::new(params).build(&entries(3000, 2, 7)).unwrap();
    let mut wrong = other.export_partition(PartitionId(1)).unwrap();
    wrong.position = Position(whole.position.0 + 1);
    assert_eq!(replica.apply(&wrong), Ok(Applied::Advanced));
    let hash = entries(3000, 2, 0).into_iter().find(|(hash, _)| params.partitions().of(*hash).0 == 1);
    let delta = control.batch_to(Position(whole.position.0 + 1), &[Op::Remove(hash.unwrap().0)]).unwrap();
    assert_eq!(replica.apply(&delta.unwrap()), Ok(Applied::Stale), "the position does not reveal it");
    let digest = replica.digest(PartitionId(1)).unwrap();
    assert_eq!(digest.0, control.position(PartitionId(1)).unwrap());
    assert_ne!(Some(digest.1), control.digest(PartitionId(1)));
    replica.forget(PartitionId(1));
    let whole = control.export_partition(PartitionId(1)).unwrap();
    let late = scalebricks_types::Delta { previous: Position(1), ..whole.clone() };
    assert_eq!(replica.apply(&late), Err(ApplyError::Gap { have: Position(0), previous: Position(1) }));
    assert_eq!(replica.apply(&whole), Ok(Applied::Advanced));
    assert_eq!(replica.digest(PartitionId(1)).map(|digest| digest.1), control.digest(PartitionId(1)));
    let held: Vec<_> = control.iter().collect();
    assert_answers(&replica, &held);
}
