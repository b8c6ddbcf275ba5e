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
use crate::published::tests::{
    self as common, Tested, assert_answers, bytes_of, come_back_and_go_on, control_bytes, damage_is_noticed,
};
use scalebricks_types::{KeyHash, PartitionCount};
use std::sync::Arc;

fn params(keys: u64, value_bits: u8, partitions: u32) -> Params {
    params_in(Format::default(), keys, value_bits, partitions)
}

fn params_in(format: Format, keys: u64, value_bits: u8, partitions: u32) -> Params {
    let partitions = PartitionCount::new(partitions).unwrap();
    Params::for_keys_in(format, keys, value_bits, partitions).unwrap().with_seed(0x5EED)
}

impl Tested for SetSepStructure {
    fn value(bits: u64) -> u8 {
        bits as u8
    }

    fn build(params: Params, entries: &[(KeyHash, u8)]) -> SetSepControl {
        SetSepBuilder::new(params).build(entries).unwrap()
    }

    fn held(control: &SetSepControl) -> Vec<(KeyHash, u8)> {
        control.iter().collect()
    }
}

fn entries(count: u64, value_bits: u8, salt: u64) -> Vec<(KeyHash, u8)> {
    common::entries::<SetSepStructure>(count, value_bits, salt)
}

fn entry(i: u64, value_bits: u8, salt: u64) -> (KeyHash, u8) {
    common::entry::<SetSepStructure>(i, value_bits, salt)
}
