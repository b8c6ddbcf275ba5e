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

/// The ways to look a key up.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Single,
    Reader,
    Batch,
}

const WAYS: [Way; 3] = [Way::Single, Way::Reader, Way::Batch];

/// Runs `write` concurrently with a reader that looks key 7 up once. The result must be one of these.
fn beside_a_reader(
    way: Way,
    keys: &'static [u64],
    allowed: &'static [Option<u64>],
    write: impl Fn(&Table) + Send + Sync + Copy + 'static,
) {
    // A disturbed batch continues with single lookups, so it has many steps.
    check(if way == Way::Batch { 1 } else { 2 }, move || {
        let table = Arc::new(Table::new(8, 1, ModelHasher));
        for &key in keys {
            table.insert(&[key], hash(key), &[key * 10]).unwrap();
        }
        let reader = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let mut found = [None];
                match way {
                    Way::Single => found[0] = table.get(&[7], hash(7)),
                    Way::Reader => found[0] = table.reader().get(&[7], hash(7)),
                    Way::Batch => table.get_batch(&[[7]], &[hash(7)], &mut found),
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
    beside_a_reader(Way::Single, &[7], &[Some(70)], displace);
}

#[test]
fn loom_a_displaced_key_is_found_whole_in_a_batch() {
    beside_a_reader(Way::Batch, &[7], &[Some(70)], displace);
}

#[test]
fn loom_a_changed_key_has_the_old_value_or_the_new() {
    for way in WAYS {
        beside_a_reader(way, &[7], &[Some(70), Some(71), None], |table| {
            table.update(&[7], hash(7), &[71]).unwrap();
            table.remove(&[7], hash(7)).unwrap();
            table.insert(&[8], hash(8), &[80]).unwrap();
        });
    }
}

#[test]
fn loom_a_key_is_found_while_the_table_grows() {
    for way in WAYS {
        beside_a_reader(way, &[7], &[Some(70)], |table| {
            let mut writer = table.write();
            writer.grow_begin(12).unwrap();
            assert!(writer.grow_step(usize::MAX).unwrap());
        });
    }
}

/// A reader finds a key that was inserted after the table grew, also if the reader was made before.
#[test]
fn loom_a_reader_from_before_the_growth_finds_what_came_after() {
    check(1, || {
        let table = Arc::new(Table::new(8, 1, ModelHasher));
        table.insert(&[7], hash(7), &[70]).unwrap();
        let inserted = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let reader = {
            let (table, inserted) = (Arc::clone(&table), Arc::clone(&inserted));
            thread::spawn(move || {
                let mut reader = table.reader();
                let was_inserted = inserted.load(Ordering::Acquire);
                let found = reader.get(&[8], hash(8));
                assert!(found == Some([80]) || found.is_none() && !was_inserted, "{found:?}");
            })
        };
        table.grow(12).unwrap();
        table.insert(&[8], hash(8), &[80]).unwrap();
        inserted.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}
