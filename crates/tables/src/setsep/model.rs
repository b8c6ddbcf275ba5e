//! A reader beside the deltas of a reshaping, all of it the table's own code, through the interleavings of loom's memory model.

use super::*;
use crate::publish::modelled::check;
use scalebricks_types::{Delta, KeyHash, PartitionCount, PartitionId};
use std::sync::Arc;

/// A key in the first of two blocks: its value changes last.
const KEY: KeyHash = KeyHash::new(1 << 60);

/// The table before, and what a control structure sends while it gives the table another shape and then changes the key.
fn deltas() -> (Params, Vec<Delta>, Vec<Delta>) {
    let from = Params::new(2, 1, PartitionCount::ONE).unwrap();
    let mut control = SetSepControl::new(from);
    let before = vec![control.insert(KEY, 1).unwrap()];
    control.reshape(from.with_seed(5)).unwrap();
    let mut deltas = Vec::new();
    for _ in 0..2 {
        deltas.push(control.reshape_step(PartitionId(0), 1).unwrap().unwrap());
    }
    assert!(control.reshaping().is_none());
    deltas.push(control.update(KEY, 0).unwrap());
    (from, before, deltas)
}

#[test]
fn loom_a_reader_sees_before_or_after_while_the_table_is_reshaped() {
    let (from, before, deltas) = deltas();
    check(2, move || {
        let table = Arc::new(SetSep::new(from));
        for delta in &before {
            let _ = table.apply(delta).unwrap();
        }
        let reader = {
            let table = Arc::clone(&table);
            loom::thread::spawn(move || {
                let mut reader = SetSepReader::new(table);
                let mut last = 1;
                for _ in 0..2 {
                    let value = reader.pin().get(KEY);
                    assert!(value <= last, "{value} after {last}");
                    last = value;
                }
            })
        };
        for delta in &deltas {
            let _ = table.apply(delta).unwrap();
        }
        reader.join().unwrap();
        assert_eq!(SetSepReader::new(table).pin().get(KEY), 0, "no update is lost");
    });
}
