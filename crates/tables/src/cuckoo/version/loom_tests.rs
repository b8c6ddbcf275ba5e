//! The protocol with two tables of two buckets of one slot, in the interleavings of loom's memory model.

use super::*;
use loom::sync::Arc;
use loom::thread;

/// A slot is a key word and a value word.
struct Model {
    versions: Versions,
    slots: [[AtomicU64; 2]; 2],
}

impl Model {
    /// Key 7 with value 70 in bucket 0, bucket 1 empty.
    fn new() -> Arc<Self> {
        Arc::new(Self::holding(7, 70))
    }

    fn holding(key: u64, value: u64) -> Self {
        let slot = |key, value| [AtomicU64::new(key), AtomicU64::new(value)];
        Self { versions: Versions::for_buckets(2), slots: [slot(key, value), slot(0, 0)] }
    }

    fn set(&self, bucket: usize, key: u64, value: u64) {
        self.slots[bucket][1].store(value, Ordering::Relaxed);
        self.slots[bucket][0].store(key, Ordering::Relaxed);
    }

    /// One attempt to look up `key`, checked by the clock or by the stamps; `None` if it must be repeated.
    fn try_get(&self, key: u64, by_stamps: bool) -> Option<Option<u64>> {
        let seen = self.versions.begin();
        let mut found = None;
        for slot in &self.slots {
            if slot[0].load(Ordering::Relaxed) == key {
                found = Some(slot[1].load(Ordering::Relaxed));
            }
        }
        Versions::end_of_reads();
        let whole = match by_stamps {
            true => self.versions.unchanged(0, seen) && self.versions.unchanged(1, seen),
            false => self.versions.quiet(seen),
        };
        whole.then_some(found)
    }
}

fn a_moving_key_is_never_missed(by_stamps: bool) {
    loom::model(move || {
        let table = Model::new();
        let writer = thread::spawn({
            let table = table.clone();
            move || {
                table.versions.change(0, 1, || {
                    table.set(1, 7, 70);
                    table.set(0, 0, 70);
                });
                table.versions.change(0, 0, || table.set(0, 8, 80)); // its old slot is used at once
            }
        });
        if let Some(found) = table.try_get(7, by_stamps) {
            assert_eq!(found, Some(70));
        }
        writer.join().unwrap();
        assert_eq!(table.try_get(7, by_stamps), Some(Some(70)), "an idle table answers at the first try");
    });
}

fn a_value_is_never_mixed(by_stamps: bool) {
    loom::model(move || {
        let table = Model::new();
        let writer = thread::spawn({
            let table = table.clone();
            move || {
                table.versions.change(0, 0, || table.set(0, 7, 71));
                table.versions.change(0, 0, || table.set(0, 9, 90));
            }
        });
        if let Some(found) = table.try_get(7, by_stamps) {
            assert!(matches!(found, Some(70 | 71) | None), "{found:?}");
        }
        if let Some(Some(value)) = table.try_get(9, by_stamps) {
            assert_eq!(value, 90);
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_moving_key_is_never_missed_by_the_clock() {
    a_moving_key_is_never_missed(false);
}

#[test]
fn loom_a_moving_key_is_never_missed_by_the_stamps() {
    a_moving_key_is_never_missed(true);
}

#[test]
fn loom_a_value_is_never_mixed_by_the_clock() {
    a_value_is_never_mixed(false);
}

#[test]
fn loom_a_value_is_never_mixed_by_the_stamps() {
    a_value_is_never_mixed(true);
}

/// A bucket that the writer keeps changing does not block readers of the other bucket. The reader is the
/// spawned thread: the writer reads the clock before it stores to it, and reading it in the main thread would
/// hide the reader's accesses from loom, which would then try only one order.
#[test]
fn loom_a_change_elsewhere_disturbs_nobody() {
    loom::model(|| {
        let table = Model::new();
        let reader = thread::spawn({
            let table = table.clone();
            move || {
                let seen = table.versions.begin();
                let found = table.slots[0][1].load(Ordering::Relaxed);
                Versions::end_of_reads();
                assert!(table.versions.unchanged(0, seen) && found == 70);
            }
        });
        table.versions.change(1, 1, || table.set(1, 9, 90));
        reader.join().unwrap();
    });
}

/// Growth: two tables, and the list of tables that readers read. A key is put into the newer table before it
/// is cleared in the older one. A list is published before any key moves by it, and a reader that has found
/// nothing checks whether the list is still the one it used. The key is found at every moment.
#[test]
fn loom_a_key_that_moves_to_a_newer_table_is_never_missed() {
    loom::model(|| {
        let tables = Arc::new([Model::holding(7, 70), Model::holding(0, 0), Model::holding(0, 0)]);
        // The list of generation `g` consists of tables `g` and `g + 1`.
        let generation = Arc::new(AtomicU64::new(0));
        let writer = thread::spawn({
            let (tables, generation) = (tables.clone(), generation.clone());
            move || {
                for (from, to) in [(0, 1), (1, 2)] {
                    tables[to].versions.change(0, 0, || tables[to].set(0, 7, 70));
                    tables[from].versions.change(0, 0, || tables[from].set(0, 0, 70));
                    generation.store(to as u64, Ordering::Release);
                }
            }
        });
        // Bounded: a reader that the writer disturbs too often has returned nothing wrong.
        for _ in 0..2 {
            let list = generation.load(Ordering::Acquire) as usize;
            let mut answers = (list..(list + 2).min(3)).map(|table| tables[table].try_get(7, false));
            match answers.find(|answer| *answer != Some(None)) {
                Some(Some(found)) => {
                    assert_eq!(found, Some(70));
                    break;
                }
                Some(None) => {} // disturbed: try again
                None => assert_ne!(
                    generation.load(Ordering::Relaxed) as usize,
                    list,
                    "missed although the list is the current one"
                ),
            }
        }
        writer.join().unwrap();
    });
}
