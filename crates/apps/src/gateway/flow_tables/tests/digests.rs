//! Digests of the FIB's content, compared with those of the log's content.

use super::*;
use scalebricks_tables::fib::FibDigest;
use std::collections::HashMap;

/// The digests that an owner computes for these keys.
fn of_log(log: &HashMap<FlowKey, FibValue>, partitions: PartitionCount) -> Vec<FibDigest> {
    let mut digests = vec![FibDigest::default(); partitions.get() as usize];
    for (key, value) in log {
        let hash = hasher().hash(key);
        digests[usize::from(partitions.of(hash).0)] += FibDigest::of(hash, *value);
    }
    digests
}

/// Tables of some flows with two keys each, and their log.
fn filled(flows: u32) -> (FlowTables, HashMap<FlowKey, FibValue>) {
    let mut tables = tables(1, 1, 64);
    let mut log = HashMap::new();
    for n in 1..=flows {
        let value = state(n, n).encode();
        let other = if n % 3 == 0 { long_key(n) } else { short_key(n) };
        for key in [other, FlowKey::teid(Teid::new(n))] {
            tables.set_logged(&key, value).unwrap();
            log.insert(key, value);
        }
    }
    (tables, log)
}

#[test]
fn digests_are_those_of_the_log_while_the_fib_grows_and_shrinks() {
    let (mut tables, mut log) = filled(2_000);
    assert_eq!(tables.fib_digests(), of_log(&log, tables.partitions));
    for n in (1..2_000).step_by(3) {
        tables.remove(&short_key(n));
        log.remove(&short_key(n));
        let value = state(n + 10_000, n).encode();
        tables.set_logged(&FlowKey::teid(Teid::new(n)), value).unwrap();
        log.insert(FlowKey::teid(Teid::new(n)), value);
    }
    assert_eq!(tables.fib_digests(), of_log(&log, tables.partitions));
    let left = FibDigest::of(hasher().hash(&short_key(2)), log[&short_key(2)]);
    assert_eq!(tables.entry_digest(&short_key(2)), left);
    assert_eq!(tables.entry_digest(&short_key(1)), FibDigest::default());
}

/// A flipped bit of an entry, a lost key or an additional key changes the digest of its partition, and no other. After
/// the keys are set again, keys and flows are as before, and all flows depart with their keys.
#[test]
fn every_damage_shows_and_is_mended() {
    let (mut tables, log) = filled(60);
    let right = tables.fib_digests();
    let fib = tables.node_tables(0).fib;
    let flows = tables.sizes().flows_here;
    let damaged = |tables: &FlowTables, key: &FlowKey| {
        let at = usize::from(tables.partitions.of(hasher().hash(key)).0);
        let digests = tables.fib_digests();
        let differ: Vec<usize> = (0..right.len()).filter(|at| digests[*at] != right[*at]).collect();
        assert_eq!(differ, [at], "{key:?}");
    };
    for n in [1, 3] {
        let (key, hash) = (FlowKey::teid(Teid::new(n)), hasher().hash(&FlowKey::teid(Teid::new(n))));
        for bit in 0..128 {
            let mut entry = fib.remove(&key, hash).unwrap();
            entry[bit / 64] ^= 1 << (bit % 64);
            fib.insert(&key, hash, entry).unwrap();
            damaged(&tables, &key);
            tables.set_logged(&key, log[&key]).unwrap();
            tables.recount();
            assert_eq!(tables.fib_digests(), right, "bit {bit}");
        }
        fib.remove(&key, hash).unwrap();
        damaged(&tables, &key);
        tables.set_logged(&key, log[&key]).unwrap();
        tables.recount();
    }
    let stray = short_key(9_999);
    fib.insert(&stray, hasher().hash(&stray), [u64::MAX, u64::MAX]).unwrap();
    damaged(&tables, &stray);
    tables.remove(&stray);
    tables.recount();
    assert_eq!((tables.fib_digests(), tables.sizes().flows_here), (right, flows));

    let mut mark = tables.mark(0).unwrap();
    for key in log.keys() {
        tables.remove(key);
    }
    for round in 1..4 {
        tables.expire(Duration::from_secs(round));
        mark.pass();
    }
    assert_eq!((tables.sizes().flows_here, tables.take_departed().len()), (0, flows));
}
