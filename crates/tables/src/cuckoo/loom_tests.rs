//! Lookups concurrent with the writer, both with the table's own code, in the interleavings of loom's memory
//! model.

use super::*;
use crate::reclaim::loom_shims::check;
use loom::thread;

/// An arbitrary hash function.
#[derive(Debug, Clone, Copy)]
struct ModelHasher;

impl HashWords<1> for ModelHasher {
    fn hash_words(&self, key: &[u64; 1]) -> KeyHash {
        KeyHash::new(crate::mix::mix64(key[0]))
    }
}

type Table = CuckooTable<1, 1, ModelHasher>;

fn hash(key: u64) -> KeyHash {
    ModelHasher.hash_words(&[key])
}

/// Runs `write` concurrently with a reader that looks key 7 up once, alone or in a batch. The result must be
/// one of these.
fn beside_a_reader(
    in_batch: bool,
    keys: &'static [u64],
    allowed: &'static [Option<u64>],
    write: impl Fn(&Table) + Send + Sync + Copy + 'static,
) {
    // A disturbed batch continues with single lookups, so it has many steps.
    check(if in_batch { 1 } else { 2 }, move || {
        let table = Arc::new(Table::new(8, 1, ModelHasher));
        for &key in keys {
            table.insert(&[key], hash(key), &[key * 10]).unwrap();
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let mut found = [None];
                if in_batch {
                    table.get_batch(&[[7]], &[hash(7)], &mut found);
                } else {
                    found[0] = table.get(&[7], hash(7));
                }
                let found = found[0].map(|[value]| value);
                assert!(allowed.contains(&found), "{found:?}");
            })
        };
        write(&table);
        reader.join().unwrap();
    });
}

/// The writer moves the key to its other bucket, and puts another key in its old slot.
fn displace(table: &Table) {
    let writer = table.write();
    let store = writer.state.stores.newest();
    let places = store.places(hash(7));
    let from = store.view().find(&[7], places).unwrap();
    let other = places.first ^ places.second ^ from.bucket;
    store.shift(from, store.free_slot_in(other).unwrap(), places.tag);
    store.put(from, store.places(hash(8)).tag, &[8], &[80]);
}

#[test]
fn loom_a_displaced_key_is_found_whole() {
    beside_a_reader(false, &[7], &[Some(70)], displace);
}

#[test]
fn loom_a_displaced_key_is_found_whole_in_a_batch() {
    beside_a_reader(true, &[7], &[Some(70)], displace);
}

#[test]
fn loom_a_changed_key_has_the_old_value_or_the_new() {
    for in_batch in [false, true] {
        beside_a_reader(in_batch, &[7], &[Some(70), Some(71), None], |table| {
            table.update(&[7], hash(7), &[71]).unwrap();
            table.remove(&[7], hash(7)).unwrap();
            table.insert(&[8], hash(8), &[80]).unwrap();
        });
    }
}

#[test]
fn loom_a_key_is_found_while_the_table_grows() {
    for in_batch in [false, true] {
        beside_a_reader(in_batch, &[7], &[Some(70)], |table| {
            let mut writer = table.write();
            writer.grow_begin(12).unwrap();
            assert!(writer.grow_step(usize::MAX).unwrap());
        });
    }
}
