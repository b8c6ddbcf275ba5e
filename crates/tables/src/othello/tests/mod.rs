//! Tests of the whole table: against slow reference models and a plain map, between control structure and
//! replicas, with concurrent readers, and on invalid input.

mod build;
mod exhaustive;
mod model;
mod reference;
mod replica;
mod reshape;
mod shared;
mod snapshots;
mod stress;
mod turnover;

use super::*;
use crate::mix::mix64;
use crate::published::tests::{
    self as common, Tested, bytes_of, come_back_and_go_on, control_bytes, damage_is_noticed,
};
use scalebricks_types::{KeyHash, PartitionCount};
use std::sync::Arc;

fn partitions(count: u32) -> PartitionCount {
    PartitionCount::new(count).unwrap()
}

fn params(keys: u64, value_bits: u8, count: u32) -> Params {
    Params::for_keys(keys, value_bits, partitions(count)).unwrap().with_seed(0x5EED)
}

impl Tested for OthelloStructure {
    fn value(bits: u64) -> u16 {
        bits as u16
    }

    fn build(params: Params, entries: &[(KeyHash, u16)]) -> OthelloControl {
        OthelloBuilder::new(params).build(entries).unwrap()
    }

    fn held(control: &OthelloControl) -> Vec<(KeyHash, u16)> {
        control.iter().collect()
    }
}

fn entries(count: u64, value_bits: u8, salt: u64) -> Vec<(KeyHash, u16)> {
    common::entries::<OthelloStructure>(count, value_bits, salt)
}

fn entry(i: u64, value_bits: u8, salt: u64) -> (KeyHash, u16) {
    common::entry::<OthelloStructure>(i, value_bits, salt)
}

/// Looks up all entries in batches, and some one by one.
fn assert_answers(table: &Arc<Othello>, entries: &[(KeyHash, u16)]) {
    common::assert_answers(table, entries);
    let mut reader = OthelloReader::new(Arc::clone(table));
    let hashes: Vec<KeyHash> = entries.iter().map(|entry| entry.0).collect();
    let mut found = vec![None; hashes.len()];
    reader.check_batch(&hashes, &mut found);
    assert!(entries.iter().zip(&found).all(|(entry, &found)| found == Some(entry.1)));
    let pin = reader.pin();
    for &(hash, value) in entries.iter().step_by(7) {
        assert_eq!(pin.check(hash), Some(value));
    }
}

fn op(control: &mut OthelloControl, op: Op) -> Result<scalebricks_types::Delta, UpdateError> {
    match op {
        Op::Insert(hash, value) => control.insert(hash, value),
        Op::Update(hash, value) => control.update(hash, value),
        Op::Remove(hash) => control.remove(hash),
    }
}
