//! A damaged or invented payload is applied or refused; refused, the table answers as before; and a good delta that
//! comes after still applies.

#![no_main]

use libfuzzer_sys::fuzz_target;
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
        let entries: Vec<(KeyHash, u16)> =
            (1..600u64).map(|n| (KeyHash::new(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)), (n % 8) as u16)).collect();
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
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let table = Arc::new(Othello::new(*params));
    let mut reader = OthelloReader::new(Arc::clone(&table));
    let (mut before, mut after) = (vec![0; keys.len()], vec![0; keys.len()]);
    let good = if mode & 1 == 0 { full } else { change };
    if mode & 1 == 1 && table.apply(full).is_err() {
        unreachable!("the sample applies");
    }
    let mut damaged = good.clone();
    if mode & 2 == 0 {
        damaged.payload = bytes.to_vec();
    } else {
        for edit in bytes.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % damaged.payload.len();
            damaged.payload[at] = edit[2];
        }
    }
    reader.lookup_batch(keys, &mut before);
    if table.apply(&damaged).is_err() {
        reader.lookup_batch(keys, &mut after);
        assert_eq!(before, after, "a refused delta changed the table");
        assert!(table.apply(good).is_ok());
    }
});
