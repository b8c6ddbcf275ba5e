//! A damaged or invented payload is applied or refused; refused, the table answers as before; and a good delta that
//! comes after still applies.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_fuzz::tables::{damaged_delta, entries};
use scalebricks_tables::othello::{Othello, OthelloBuilder, OthelloReader, Params};
use scalebricks_types::{Delta, KeyHash, PartitionCount, PartitionId};
use std::sync::{Arc, OnceLock};

struct Sample {
    params: Params,
    keys: Vec<KeyHash>,
    full: Delta,
    change: Delta,
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let entries = entries::<u16>(600, 8);
        let params = Params::for_keys(600, 3, PartitionCount::ONE).unwrap();
        let mut control = OthelloBuilder::new(params).build(&entries).unwrap();
        let full = control.export_partition(PartitionId(0)).unwrap();
        let (hash, value) = entries[7];
        let change = control.update(hash, value ^ 1).unwrap();
        Sample { params, keys: entries.into_iter().map(|(hash, _)| hash).collect(), full, change }
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Sample { params, keys, full, change } = sample();
    let table = Arc::new(Othello::new(*params));
    let mut reader = OthelloReader::new(Arc::clone(&table));
    let values = || {
        let mut values = vec![0; keys.len()];
        reader.lookup_batch(keys, &mut values);
        values
    };
    damaged_delta(bytes, [full, change], |delta| table.apply(delta).is_ok(), values);
});
