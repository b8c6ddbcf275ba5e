//! Tests of the whole table: against a plain map, between control structure and replicas, with concurrent
//! readers, and on invalid input.

mod build;
mod digests;
mod equivalence;
mod model;
mod replica;
mod reshape;
mod snapshots;
mod stress;
mod turnover;

use super::geometry::mix64;
use super::*;
use crate::published::tests::{bytes_of, come_back_and_go_on, control_bytes, damage_is_noticed};
use scalebricks_types::{KeyHash, PartitionCount};
use std::sync::Arc;

fn params(keys: u64, value_bits: u8, partitions: u32) -> Params {
    params_in(Format::default(), keys, value_bits, partitions)
}

fn params_in(format: Format, keys: u64, value_bits: u8, partitions: u32) -> Params {
    let partitions = PartitionCount::new(partitions).unwrap();
    Params::for_keys_in(format, keys, value_bits, partitions).unwrap().with_seed(0x5EED)
}

/// Distinct keys spread over the whole range, with values that use all bits.
fn entries(count: u64, value_bits: u8, salt: u64) -> Vec<(KeyHash, u8)> {
    (0..count).map(|i| entry(i, value_bits, salt)).collect()
}

fn entry(i: u64, value_bits: u8, salt: u64) -> (KeyHash, u8) {
    let hash = mix64(i ^ salt << 40);
    (KeyHash::new(hash), (mix64(!hash) & ((1 << value_bits) - 1)) as u8)
}

/// Looks up all entries in a batch, and some one by one.
fn assert_answers(table: &Arc<SetSep>, entries: &[(KeyHash, u8)]) {
    let mut reader = SetSepReader::new(Arc::clone(table));
    let hashes: Vec<KeyHash> = entries.iter().map(|entry| entry.0).collect();
    let mut values = vec![0; hashes.len()];
    reader.lookup_batch(&hashes, &mut values);
    let wrong = entries.iter().zip(&values).filter(|(entry, value)| entry.1 != **value).count();
    assert_eq!(wrong, 0, "wrong answers of {}", entries.len());
    let pin = reader.pin();
    for &(hash, value) in entries.iter().step_by(7) {
        assert_eq!(pin.get(hash), value);
    }
}
