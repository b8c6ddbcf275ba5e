//! Any payload of a FIB update is applied or refused. A refused payload leaves the FIB unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_tables::Fib;
use scalebricks_tables::fib::{FibConfig, FibOp, PartialFib, encode_ops};
use scalebricks_types::{Delta, FlowKey, HashSeed, KeyHasher, PartitionId, Position, TableKind, Teid};

fuzz_target!(|bytes: &[u8]| {
    let hasher = KeyHasher::new(HashSeed::new(1, 2));
    let fib = PartialFib::new(FibConfig::new(hasher).short_keys(64).long_keys(8));
    let keys: Vec<FlowKey> = (0..20).map(|n| FlowKey::teid(Teid::new(n))).collect();
    for (n, key) in (0..).zip(&keys) {
        fib.insert(key, hasher.hash(key), [n, n]).unwrap();
    }
    let mut payload = encode_ops(keys.iter().take(3).map(|key| FibOp::Set(*key, [7, 7]))).unwrap();
    match bytes.split_first() {
        Some((0, edits)) => edits.chunks_exact(2).for_each(|edit| {
            let at = usize::from(edit[0]) % payload.len();
            payload[at] = edit[1];
        }),
        Some((_, whole)) => payload = whole.to_vec(),
        None => {}
    }
    let (position, previous) = (Position(1), Position(0));
    let delta = Delta { kind: TableKind::Fib, partition: PartitionId(0), position, previous, payload };
    if fib.apply(&delta).is_err() {
        assert_eq!(fib.len(), keys.len());
        for (n, key) in (0..).zip(&keys) {
            assert_eq!(fib.get(key, hasher.hash(key)), Some([n, n]));
        }
    }
});
