#![cfg(not(loom))]

use super::*;
use crate::huge::HugeSlice;
use crate::huge::guard_pages::{GuardedEnd, between};
use crate::touched_lines::lines_of;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};
use std::hint::black_box;

/// Spreads the first word and folds in the rest: good enough for tests, and cheap.
#[derive(Debug, Clone, Copy)]
pub(super) struct TestHasher;

impl<const K: usize> HashWords<K> for TestHasher {
    fn hash_words(&self, key: &[u64; K]) -> KeyHash {
        let fold = |hash: u64, &word: &u64| {
            let mixed = (hash ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (mixed ^ (mixed >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB).rotate_left(27)
        };
        KeyHash::new(key.iter().fold(7, fold))
    }
}

pub(super) fn hash<const K: usize>(key: &[u64; K]) -> KeyHash {
    TestHasher.hash_words(key)
}

/// Keys that share their first words, as flows of one server do, and differ only in the last word.
pub(super) fn key<const K: usize>(n: u64) -> [u64; K] {
    let mut key = [1; K];
    key[K - 1] = n + 1;
    key
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    Get(u64),
    Batch(Vec<u64>),
    Iterate,
    Grow(usize),
    GrowBegin(usize),
    GrowStep(usize),
    /// Inserted as a run, by a writer that grows the table automatically.
    Run(Vec<u64>, u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let k = 0u64..60;
    let op = prop_oneof![
        8 => (k.clone(), any::<u64>()).prop_map(|(k, v)| Op::Insert(k, v)),
        2 => (k.clone(), any::<u64>()).prop_map(|(k, v)| Op::Update(k, v)),
        3 => k.clone().prop_map(Op::Remove),
        3 => k.clone().prop_map(Op::Get),
        1 => prop::collection::vec(k.clone(), 0..70).prop_map(Op::Batch),
        1 => Just(Op::Iterate),
        1 => (0usize..80).prop_map(Op::Grow),
        1 => (0usize..120).prop_map(Op::GrowBegin),
        4 => (0usize..6).prop_map(Op::GrowStep),
        1 => (prop::collection::vec(k, 0..10), any::<u64>()).prop_map(|(ks, v)| Op::Run(ks, v)),
    ];
    // The only case under the interpreter must not be an empty one.
    prop::collection::vec(op, if cfg!(miri) { 12..20 } else { 0..200 })
}

/// Runs the operations on a table and on a plain map; both must agree on every answer.
fn check<const K: usize, const V: usize>(ops: &[Op]) -> Result<(), TestCaseError> {
    let table = CuckooTable::<K, V, _>::new(24, 3, TestHasher);
    let mut reader = table.reader();
    let mut plain: HashMap<[u64; K], [u64; V]> = HashMap::new();
    for op in ops {
        match *op {
            Op::Insert(k, v) => {
                let (k, v) = (key(k), [v; V]);
                match table.insert(&k, hash(&k), &v) {
                    Ok(()) => prop_assert_eq!(plain.insert(k, v), None),
                    Err(FibError::Exists) => prop_assert!(plain.contains_key(&k)),
                    Err(FibError::Full { len, slots }) => {
                        prop_assert!(!plain.contains_key(&k));
                        prop_assert_eq!((len, slots), (plain.len(), table.slots()));
                        prop_assert!(len * 2 >= slots, "full at {} of {}", len, slots);
                        prop_assert_eq!(table.get(&k, hash(&k)), None);
                    }
                    Err(other) => prop_assert!(false, "{}", other),
                }
            }
            Op::Update(k, v) => {
                let (k, v) = (key(k), [v; V]);
                let old = table.update(&k, hash(&k), &v).ok();
                prop_assert_eq!(old, plain.get_mut(&k).map(|old| std::mem::replace(old, v)));
            }
            Op::Remove(k) => {
                let k = key(k);
                prop_assert_eq!(table.remove(&k, hash(&k)).ok(), plain.remove(&k));
            }
            Op::Get(k) => {
                let k = key(k);
                prop_assert_eq!(table.get(&k, hash(&k)), plain.get(&k).copied());
                prop_assert_eq!(reader.get(&k, hash(&k)), plain.get(&k).copied());
            }
            Op::Batch(ref ks) => {
                let keys: Vec<[u64; K]> = ks.iter().map(|&k| key(k)).collect();
                let hashes: Vec<KeyHash> = keys.iter().map(hash).collect();
                let mut values = vec![Some([9; V]); keys.len()];
                table.get_batch(&keys, &hashes, &mut values);
                let want: Vec<_> = keys.iter().map(|k| plain.get(k).copied()).collect();
                prop_assert_eq!(values, want);
            }
            Op::Iterate => {
                let mut seen = HashMap::new();
                table.for_each(|k, v| assert!(seen.insert(k, v).is_none(), "a key visited twice"));
                prop_assert_eq!(&seen, &plain);
            }
            Op::Grow(slots) => {
                let before = table.slots();
                match table.grow(slots) {
                    Ok(()) => prop_assert!(table.slots() >= slots && !table.write().is_growing()),
                    Err(FibError::Full { .. }) => prop_assert_eq!(table.slots(), before),
                    Err(other) => prop_assert!(false, "{}", other),
                }
            }
            Op::GrowBegin(slots) => {
                let refused = slots.div_ceil(4).max(2) * 4 < plain.len();
                prop_assert_eq!(table.write().grow_begin(slots).is_err(), refused);
                prop_assert!(refused || table.slots() >= slots);
            }
            Op::GrowStep(buckets) => {
                let before = table.slots();
                let done = table.write().grow_step(buckets).unwrap();
                prop_assert_eq!(done, !table.write().is_growing());
                prop_assert!(table.slots() >= before);
            }
            Op::Run(ref ks, v) => {
                let keys: Vec<[u64; K]> = ks.iter().map(|&k| key(k)).collect();
                let hashes: Vec<KeyHash> = keys.iter().map(hash).collect();
                let done = table.write().insert_all_growing(&keys, &hashes, &vec![[v; V]; keys.len()]);
                let exists = keys.iter().position(|key| {
                    let exists = plain.contains_key(key);
                    plain.entry(*key).or_insert([v; V]);
                    exists
                });
                prop_assert_eq!(
                    done,
                    exists.map_or(Ok(()), |at| Err(RunError { at, error: FibError::Exists }))
                );
            }
        }
        prop_assert_eq!(table.len(), plain.len());
        let one = Store::<K, V>::bytes_for(table.slots().div_ceil(SLOTS))
            + version::bytes_for(table.slots() / SLOTS);
        prop_assert!(table.table_bytes() == one || table.write().is_growing() && table.table_bytes() > one);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_word_keys_behave_as_a_map(ops in ops()) {
        check::<1, 1>(&ops)?;
    }

    #[test]
    fn two_word_keys_behave_as_a_map(ops in ops()) {
        check::<2, 2>(&ops)?;
    }

    #[test]
    fn five_word_keys_behave_as_a_map(ops in ops()) {
        check::<5, 3>(&ops)?;
    }
}

/// Fills a table until it refuses a key, then looks up every key. Returns the percentage of slots filled.
fn fill<const K: usize>(slots: usize, seed: u64) -> usize {
    let table = CuckooTable::<K, 2, _>::new(slots, seed, TestHasher);
    let value = |n: u64| [n, !n];
    let mut n = 0;
    let refused = loop {
        let k = key::<K>(n);
        if let Err(error) = table.insert(&k, hash(&k), &value(n)) {
            break error;
        }
        n += 1;
    };
    assert_eq!(refused, FibError::Full { len: n as usize, slots: table.slots() });
    assert_eq!(table.len() as u64, n);
    let all = |n: u64| {
        for i in 0..n {
            let k = key::<K>(i);
            assert_eq!(table.get(&k, hash(&k)), Some(value(i)), "key {i} of {n}");
        }
    };
    all(n);
    let k = key::<K>(n);
    assert_eq!(table.get(&k, hash(&k)), None, "the refused key is absent");
    let mut count = 0;
    table.for_each(|_, _| count += 1);
    assert_eq!(count, n);
    table.grow(table.slots() * 11 / 10).unwrap();
    all(n);
    table.insert(&k, hash(&k), &value(n)).unwrap();
    n as usize * 100 / slots
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn a_million_slots_fill_to_95_percent() {
    let slots = 1 << 20;
    for seed in 1..=3 {
        let load = fill::<2>(slots, seed);
        assert!(load >= DESIGN_LOAD_PERCENT, "seed {seed}: full at {load} %");
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn odd_sizes_and_long_keys_fill_to_95_percent() {
    let load = fill::<5>(300_004, 11);
    assert!(load >= DESIGN_LOAD_PERCENT, "full at {load} %");
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn a_table_made_for_n_keys_holds_n() {
    for n in 1..700 {
        let table = CuckooTable::<2, 1, _>::new(CuckooTable::<2, 1, TestHasher>::slots_for(n), 5, TestHasher);
        for i in 0..n as u64 {
            let k = key(i);
            assert_eq!(table.insert(&k, hash(&k), &[i]), Ok(()), "key {i} of {n} in {} slots", table.slots());
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn a_table_of_two_buckets_fills_to_the_last_slot() {
    for seed in 0..50 {
        let table = CuckooTable::<1, 1, _>::new(0, seed, TestHasher);
        assert_eq!(table.slots(), 8);
        for k in (0..8).map(key::<1>) {
            assert_eq!(table.insert(&k, hash(&k), &[1]), Ok(()), "a key's two buckets differ");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn keys_of_one_hash_range_fill_a_table_as_well() {
    // A node of a partitioned cluster sees only hashes with its own top bits.
    let slots = 100_000;
    let table = CuckooTable::<2, 2, _>::new(slots, 1, TestHasher);
    let in_range = (0..).map(key::<2>).filter(|k| hash(k).get() >> 58 == 17);
    let full = in_range.map(|k| table.insert(&k, hash(&k), &[0; 2])).find(Result::is_err);
    assert!(matches!(full, Some(Err(FibError::Full { .. }))));
    assert!(table.len() * 100 >= DESIGN_LOAD_PERCENT * slots, "{} of {slots}", table.len());
}

#[test]
fn the_zero_key_is_refused_and_never_found() {
    let table = CuckooTable::<2, 2, _>::new(64, 0, TestHasher);
    let zero = [0; 2];
    assert_eq!(table.insert(&zero, hash(&zero), &[1; 2]), Err(FibError::ZeroKey));
    assert_eq!(table.get(&zero, hash(&zero)), None);
    assert_eq!(table.update(&zero, hash(&zero), &[1; 2]), Err(FibError::Missing));
    assert_eq!(table.remove(&zero, hash(&zero)), Err(FibError::Missing));
    let mut values = [Some([1; 2]); 3];
    table.get_batch(&[zero; 3], &[hash(&zero); 3], &mut values);
    assert_eq!(values, [None; 3]);
    assert!(table.is_empty());
}

#[test]
fn batches_of_every_length_equal_single_lookups() {
    let table = CuckooTable::<2, 2, _>::new(200, 9, TestHasher);
    let held = if cfg!(miri) { 20 } else { 120 };
    for k in (0..held).map(key::<2>) {
        table.insert(&k, hash(&k), &[k[1]; 2]).unwrap();
    }
    for n in (0..=100).step_by(if cfg!(miri) { 50 } else { 1 }) {
        let keys: Vec<_> = (0..n).map(|i| key(i * 7 % (2 * held))).collect();
        let hashes: Vec<_> = keys.iter().map(hash).collect();
        let mut values = vec![Some([8; 2]); keys.len()];
        table.get_batch(&keys, &hashes, &mut values);
        let single: Vec<_> = keys.iter().map(|k| table.get(k, hash(k))).collect();
        assert_eq!(values, single, "batch of {n}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter; the model tests grow in steps as well")]
fn every_key_is_found_after_every_step_of_growth() {
    let table = CuckooTable::<2, 2, _>::new(200, 3, TestHasher);
    let n = 180;
    let keys: Vec<_> = (0..n).map(key::<2>).collect();
    let hashes: Vec<_> = keys.iter().map(hash).collect();
    let values: Vec<_> = (0..n).map(|n| [n, n]).collect();
    table.write().insert_all(&keys, &hashes, &values).unwrap();
    // Grows by half, then shrinks to just enough slots, then to fewer than the keys need at first, which
    // takes a third store.
    for slots in [300, 200, 184] {
        let bytes = table.table_bytes();
        table.write().grow_begin(slots).unwrap();
        let mut found = vec![None; keys.len()];
        loop {
            assert!(table.table_bytes() > bytes / 2);
            table.get_batch(&keys, &hashes, &mut found);
            assert!(found.iter().zip(&values).all(|(found, value)| *found == Some(*value)));
            assert!(keys.iter().zip(&hashes).all(|(key, &hash)| table.get(key, hash).is_some()));
            assert_eq!(table.get(&key(n), hash(&key::<2>(n))), None);
            let mut seen = 0;
            table.for_each(|key, value| seen += u64::from(key[1] == value[0] + 1));
            assert_eq!(seen, n);
            if table.write().grow_step(1).unwrap() {
                break;
            }
        }
        assert!(table.slots() >= slots);
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn a_table_that_was_shrunk_too_far_grows_again() {
    let table = CuckooTable::<2, 1, _>::new(64, 0, TestHasher);
    for k in (0..8).map(key::<2>) {
        table.insert(&k, hash(&k), &[1]).unwrap();
    }
    // Room for 8 keys, and 8 in the old store: new keys fill it before any key has moved.
    table.write().grow_begin(8).unwrap();
    for k in (8..40).map(key::<2>) {
        table.write().insert_growing(&k, hash(&k), &[1]).unwrap();
    }
    assert!(table.write().grow_step(usize::MAX).unwrap());
    assert!((0..40).map(key::<2>).all(|k| table.get(&k, hash(&k)) == Some([1])));
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn inserting_with_growth_never_refuses() {
    let table = CuckooTable::<2, 1, _>::new(0, 0, TestHasher);
    let n = 20_000;
    for k in (0..n).map(key::<2>) {
        table.write().insert_growing(&k, hash(&k), &[k[1]]).unwrap();
        assert_eq!(table.write().insert_growing(&k, hash(&k), &[0]), Err(FibError::Exists));
    }
    for k in (0..n).map(key::<2>) {
        assert_eq!(table.get(&k, hash(&k)), Some([k[1]]));
    }
    assert!(table.slots() < 4 * n as usize);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn memory_is_what_was_asked_for() {
    type Table = CuckooTable<2, 2, TestHasher>;
    let bytes = 1 << 20;
    let table = Table::new(Table::slots_within(bytes), 0, TestHasher);
    assert!(table.table_bytes() <= bytes && table.table_bytes() > bytes - 132, "{}", table.table_bytes());
    assert_eq!(Table::slots_within(100), 0);
    assert_eq!(Table::new(4000, 0, TestHasher).table_bytes(), 1000 * (4 * 32 + 4) + 1024 * 8);
}

/// For keys in the table and absent keys, while the table has one store and while it grows.
#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe beyond the model tests")]
fn the_lines_told_of_a_key_are_those_that_its_lookup_reads() {
    fn assert_told<const K: usize>(table: &CuckooTable<K, 1, TestHasher>, n: u64) {
        let key = key::<K>(n);
        let read = lines_of(|| _ = black_box(table.get(&key, hash(&key))));
        let mut reported = Vec::new();
        table.touched(&key, hash(&key), &mut |at| reported.push(at.addr() / 64));
        assert_eq!(reported.iter().copied().collect::<BTreeSet<_>>(), read, "key {n}");
        assert_eq!(reported.len(), read.len(), "each once");
        assert!(!reported.is_empty(), "tags at the least");
    }
    let keys = if cfg!(miri) { 60 } else { 2000 };
    let (short, long) =
        (CuckooTable::new(keys + 200, 3, TestHasher), CuckooTable::new(keys + 200, 4, TestHasher));
    for n in 0..keys as u64 {
        short.insert(&key::<2>(n), hash(&key::<2>(n)), &[n]).unwrap();
        long.insert(&key::<7>(n), hash(&key::<7>(n)), &[n]).unwrap();
    }
    for grown in [false, true] {
        if grown {
            let mut writer = short.write();
            writer.grow_begin(2 * keys).unwrap();
            writer.grow_step(keys / 8).unwrap();
        }
        for n in 0..2 * keys as u64 {
            assert_told(&short, n);
            assert_told(&long, n);
        }
    }
}

/// Batches of every length around the stages of a lookup, on a full table, with tags, entries and keys next
/// to guard pages.
#[test]
#[cfg_attr(miri, ignore = "there are no walls under the interpreter, which needs none")]
fn no_lookup_leaves_its_memory() {
    const LONGEST: usize = 2 * 256 + 1;
    for flush in GuardedEnd::BOTH {
        let table = between(flush, || CuckooTable::<2, 2, _>::new(512, 1, TestHasher));
        let (mut keys, mut hashes) = between(flush, || {
            (HugeSlice::<[u64; 2]>::zeroed(LONGEST), HugeSlice::<KeyHash>::zeroed(LONGEST))
        });
        let held =
            (0..2048).take_while(|&n| table.insert(&key(n), hash(&key::<2>(n)), &[n; 2]).is_ok()).count();
        assert!(held > 480, "{held}");
        for len in 0..=LONGEST {
            let part = flush.part(LONGEST, len);
            for (at, n) in part.clone().zip(len as u64..) {
                (keys[at], hashes[at]) = (key(n), hash(&key::<2>(n)));
            }
            let mut values = vec![None; len];
            table.get_batch(&keys[part.clone()], &hashes[part], &mut values);
            for (n, value) in (len as u64..).zip(values) {
                assert_eq!(value, (n < held as u64).then_some([n; 2]), "{len} {flush:?}");
            }
        }
    }
}
