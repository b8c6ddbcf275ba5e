//! Readers concurrent with a writer: what they see must be consistent, and they must not miss any key.

#![cfg(not(loom))]

use super::tests::{TestHasher, hash, key};
use super::*;
use std::sync::atomic::AtomicBool;
use std::thread;

const SLOTS: usize = if cfg!(miri) { 24 } else { 4096 };
/// Number of keys that stay: 70 % of the slots. The other keys, up to a load of 95 % and more, are inserted
/// and removed and displace them.
const STAY: u64 = SLOTS as u64 * 7 / 10;
const CHURN: u64 = match (cfg!(miri), cfg!(tsan)) {
    (true, _) => 30,
    (_, true) => 60_000,
    _ => 400_000,
};
/// The interpreter's threads share its time.
const READERS: usize = if cfg!(miri) { 1 } else { 2 };

/// The value of a key in its n-th generation: every word follows from key and generation.
fn value<const K: usize, const V: usize>(key: &[u64; K], generation: u64) -> [u64; V] {
    std::array::from_fn(|word| (generation << 20 | key[K - 1]).rotate_left(word as u32 * 16))
}

fn assert_whole<const K: usize, const V: usize>(key: &[u64; K], found: Option<[u64; V]>) {
    let found = found.unwrap_or_else(|| panic!("key {key:?} missed"));
    assert_eq!(found[0] & 0xF_FFFF, key[K - 1], "another key's value");
    assert_eq!(found, value(key, found[0] >> 20), "a torn value");
}

/// Reads all keys that stay, one by one and in batches, until stopped. Returns the number of rounds.
fn read<const K: usize, const V: usize>(table: &CuckooTable<K, V, TestHasher>, stop: &AtomicBool) -> u64 {
    let keys: Vec<[u64; K]> = (0..STAY).map(key).collect();
    let hashes: Vec<KeyHash> = keys.iter().map(hash).collect();
    let mut values = vec![None; keys.len()];
    let mut reader = table.reader();
    let mut rounds = 0;
    while rounds == 0 || !stop.load(Ordering::Relaxed) {
        table.get_batch(&keys, &hashes, &mut values);
        for (key, &found) in keys.iter().zip(&values) {
            assert_whole(key, found);
        }
        for (key, &hash) in keys.iter().zip(&hashes).step_by(7) {
            assert_whole(key, table.get(key, hash));
            assert_whole(key, reader.get(key, hash));
        }
        let absent = key::<K>(u64::from(u32::MAX) + rounds);
        assert_eq!(table.get(&absent, hash(&absent)), None, "a key that was never there");
        assert_eq!(reader.get(&absent, hash(&absent)), None, "a key that was never there");
        rounds += 1;
    }
    rounds
}

/// Stops the readers, also when the code they run with has failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `change` round by round, concurrent with readers.
fn beside_readers<const K: usize, const V: usize>(
    table: &CuckooTable<K, V, TestHasher>,
    change: impl FnOnce(),
) {
    for key in (0..STAY).map(key) {
        table.insert(&key, hash(&key), &value(&key, 0)).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| read(table, &stop))).collect();
        let stop_on_drop = Stop(&stop);
        change();
        drop(stop_on_drop);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

/// Fills the table completely with temporary keys, removes the oldest, and repeats; meanwhile updates the
/// keys that stay.
fn churn<const K: usize, const V: usize>() {
    println!("beside readers: cuckoo {K} and {V} words");
    let table = CuckooTable::<K, V, _>::new(SLOTS, 1, TestHasher);
    beside_readers(&table, || {
        let (mut oldest, mut next, mut most) = (STAY, STAY, 0);
        for round in 1..=CHURN {
            let stays = key(round * 13 % STAY);
            table.update(&stays, hash(&stays), &value(&stays, round)).unwrap();
            let passing = key(next);
            match table.insert(&passing, hash(&passing), &value(&passing, round)) {
                Ok(()) => next += 1,
                Err(FibError::Full { len, .. }) => {
                    most = most.max(len);
                    for _ in 0..SLOTS / 20 {
                        let gone = key(oldest);
                        table.remove(&gone, hash(&gone)).unwrap();
                        oldest += 1;
                    }
                }
                Err(other) => panic!("{other}"),
            }
        }
        let moves = table.write().moves();
        assert!(moves > 0, "nothing was displaced");
        assert!(cfg!(miri) || (most > SLOTS * 95 / 100 && moves > CHURN / 4), "{most} keys, {moves} moves");
    });
}

#[test]
fn readers_of_short_keys_see_whole_values_of_displaced_keys() {
    churn::<2, 2>();
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and the code of short keys")]
fn readers_of_long_keys_see_whole_values_of_displaced_keys() {
    churn::<5, 4>();
}

#[test]
fn nothing_is_lost_while_the_table_grows() {
    let table = CuckooTable::<2, 2, _>::new(SLOTS, 1, TestHasher);
    let rounds = if cfg!(miri) { 1 } else { 60 };
    beside_readers(&table, || {
        for round in 0..rounds {
            let slots = if round % 2 == 0 { SLOTS * 3 } else { SLOTS };
            table.grow(slots).unwrap();
            assert_eq!(table.slots(), slots);
            let added = key(STAY + round);
            table.insert(&added, hash(&added), &value(&added, round)).unwrap();
            assert!(table.get(&added, hash(&added)).is_some(), "a reader that comes after finds it");
        }
        assert_eq!(table.len() as u64, STAY + rounds);
    });
}

/// Growth and shrinking in single steps, with keys that are inserted, changed and removed between the steps.
#[test]
fn nothing_is_missed_while_the_table_grows_in_steps() {
    let table = CuckooTable::<2, 2, _>::new(SLOTS, 1, TestHasher);
    let rounds = if cfg!(miri) { 1 } else { 40 };
    beside_readers(&table, || {
        let mut next = STAY;
        for round in 1..=rounds {
            let slots = if round % 2 == 1 { SLOTS * 3 / 2 } else { SLOTS };
            table.write().grow_begin(slots).unwrap();
            while !table.write().grow_step(if cfg!(miri) { 4 } else { 1 }).unwrap() {
                let stays = key(next * 13 % STAY);
                table.update(&stays, hash(&stays), &value(&stays, round)).unwrap();
                let passing = key(next);
                table.insert(&passing, hash(&passing), &value(&passing, round)).unwrap();
                assert!(table.get(&passing, hash(&passing)).is_some(), "a reader that comes after finds it");
                next += 1;
                if next - STAY > 100 {
                    let gone = key(next - 100);
                    table.remove(&gone, hash(&gone)).unwrap();
                }
            }
            assert_eq!(table.slots(), slots);
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and the steps of the test above")]
fn nothing_is_missed_while_the_table_grows_by_itself() {
    let table = CuckooTable::<2, 2, _>::new(0, 1, TestHasher);
    let n = STAY + 300_000;
    for key in (0..STAY).map(key) {
        table.write().insert_growing(&key, hash(&key), &value(&key, 0)).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| read(&table, &stop))).collect();
        let stop_on_drop = Stop(&stop);
        for key in (STAY..n).map(key) {
            table.write().insert_growing(&key, hash(&key), &value(&key, 0)).unwrap();
        }
        drop(stop_on_drop);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert!(
        table.slots() < 2 * n as usize && (0..n).map(key).all(|key| table.get(&key, hash(&key)).is_some())
    );
}

#[test]
fn a_key_that_comes_and_goes_is_there_or_not() {
    let table = CuckooTable::<2, 2, _>::new(SLOTS, 1, TestHasher);
    let (passing, stop) = (key::<2>(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if let Some(found) = table.get(&passing, hash(&passing)) {
                    assert_whole(&passing, Some(found));
                }
            }
        });
        let stop_on_drop = Stop(&stop);
        for round in 0..CHURN {
            table.insert(&passing, hash(&passing), &value(&passing, round)).unwrap();
            table.remove(&passing, hash(&passing)).unwrap();
        }
        drop(stop_on_drop);
        reader.join().unwrap();
    });
}
