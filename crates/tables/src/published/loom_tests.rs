//! A reader concurrent with the deltas of a reshaping, both with the table's own code, in the interleavings
//! of loom's memory model.

use super::{Reader, Structure, Table, Units};
use crate::reclaim::loom_shims::check;
use crate::{othello, setsep};
use scalebricks_types::{Delta, KeyHash, PartitionCount, PartitionId};
use std::sync::Arc;

/// A key in the first of two blocks, or in the first of two partitions.
const KEY: KeyHash = KeyHash::new(1 << 60);

/// A key in the second of them, which no one changes. A batch of both is split while the table is reshaped.
const OTHER: KeyHash = KeyHash::new(3 << 62);

/// A table that had both keys with value 1, and the deltas that a control structure sends while it reshapes
/// the table and then changes the value of the first key to 0.
fn before_or_after<S: Units>(from: S::Params, before: Vec<Delta>, deltas: Vec<Delta>)
where
    <S as Structure>::Params: 'static,
{
    check(2, move || {
        let table = Arc::new(Table::<S>::new(from));
        for delta in &before {
            let _ = table.apply(delta).unwrap();
        }
        let reader = {
            let table = Arc::clone(&table);
            loom::thread::spawn(move || {
                let mut reader = Reader::new(table);
                let first: u16 = reader.pin().get(KEY).into();
                assert!(first <= 1, "{first}, which it never had");
                let mut values = [S::Value::default(); 2];
                reader.lookup_batch(&[KEY, OTHER], &mut values);
                let [value, other] = values.map(Into::<u16>::into);
                assert!(value <= first, "{value} after {first}");
                assert_eq!(other, 1, "no one changes this key");
            })
        };
        for delta in &deltas {
            let _ = table.apply(delta).unwrap();
        }
        reader.join().unwrap();
        let value: u16 = Reader::new(table).pin().get(KEY).into();
        assert_eq!(value, 0, "no update is lost");
    });
}

#[test]
fn loom_a_reader_sees_before_or_after_while_blocks_are_reshaped() {
    use setsep::{Params, SetSepControl, SetSepStructure};
    let from = Params::new(2, 1, PartitionCount::ONE).unwrap();
    let mut control = SetSepControl::new(from);
    let before = [KEY, OTHER].map(|key| control.insert(key, 1).unwrap()).to_vec();
    control.reshape(from.with_seed(5)).unwrap();
    let mut deltas = Vec::new();
    for _ in 0..2 {
        deltas.push(control.reshape_step(PartitionId(0), 1).unwrap().unwrap());
    }
    assert!(control.reshaping().is_none());
    deltas.push(control.update(KEY, 0).unwrap());
    before_or_after::<SetSepStructure>(from, before, deltas);
}

#[test]
fn loom_a_reader_sees_before_or_after_while_partitions_are_reshaped() {
    use othello::{OthelloControl, OthelloStructure, Params};
    let from = Params::new(PartitionCount::new(2).unwrap(), 1, [8; 2], 1).unwrap();
    let mut control = OthelloControl::new(from);
    let before = [KEY, OTHER].map(|key| control.insert(key, 1).unwrap()).to_vec();
    control.reshape(from.with_seed(5)).unwrap();
    let mut deltas = Vec::new();
    for partition in [0, 1] {
        deltas.push(control.reshape_step(PartitionId(partition)).unwrap().unwrap());
    }
    assert!(control.reshaping().is_none());
    deltas.push(control.update(KEY, 0).unwrap());
    before_or_after::<OthelloStructure>(from, before, deltas);
}
