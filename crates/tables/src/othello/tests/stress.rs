//! Readers beside a writer: every answer is the name's value before or after the update under way, and all other names
//! answer right at every moment.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Names that stay and never change, names that change, and names that come and go, all in the same crowded ranges.
fn churn(value_bits: u8, rounds: u64) {
    let stay = 1000;
    let params = Params::new(partitions(2), 3, [256; 2], value_bits).unwrap();
    let kept = entries(stay, value_bits, 0);
    let mut control = OthelloBuilder::new(params).build(&kept).unwrap();
    let table = Arc::new(control.export());
    let (stop, looked_up) = (AtomicBool::new(false), AtomicU64::new(0));
    let wrong = Mutex::new(Vec::new());
    // The names with odd numbers change between two values; those with even numbers never.
    let mask = u16::MAX >> (16 - value_bits);
    thread::scope(|scope| {
        for turn in 0..2 {
            let (table, kept, stop, looked_up, wrong) = (&table, &kept, &stop, &looked_up, &wrong);
            scope.spawn(move || {
                let isa = if turn == 0 { crate::isa::Isa::best() } else { crate::isa::Isa::Portable };
                let mut reader = OthelloReader::with_isa(Arc::clone(table), isa).unwrap();
                let hashes: Vec<KeyHash> = kept.iter().map(|e| e.0).collect();
                let mut values = vec![0; hashes.len()];
                while !stop.load(Ordering::Relaxed) {
                    reader.lookup_batch(&hashes, &mut values);
                    for (at, &value) in values.iter().enumerate() {
                        let legal = value == kept[at].1 || at % 2 == 1 && value == kept[at].1 ^ mask;
                        if !legal {
                            wrong.lock().unwrap().push((at, value));
                        }
                    }
                    looked_up.fetch_add(values.len() as u64, Ordering::Relaxed);
                }
            });
        }
        let mut flipped = vec![false; stay as usize];
        for round in 0..rounds {
            let at = (mix64(round) % (stay / 2)) as usize * 2 + 1;
            flipped[at] = !flipped[at];
            let value = if flipped[at] { kept[at].1 ^ mask } else { kept[at].1 };
            let mut ops = vec![Op::Update(kept[at].0, value)];
            if round % 3 == 0 {
                ops.push(Op::Insert(entry(round, value_bits, 7).0, value));
            }
            if round % 3 == 2 && round >= 602 {
                ops.push(Op::Remove(entry(round - 602, value_bits, 7).0));
            }
            let deltas = if round % 2 == 0 {
                control.batch_with(&table, &ops).unwrap()
            } else {
                control.batch(&ops).unwrap()
            };
            if round % 2 == 1 {
                for delta in &deltas {
                    let _ = table.apply(delta).unwrap();
                }
            }
        }
        // On few cores the readers may not have run yet.
        while looked_up.load(Ordering::Relaxed) < 10 * stay {
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong.into_inner().unwrap(), []);
    assert!(control.stats().reseeded > 3, "{:?}", control.stats());
    let held: Vec<_> = control.iter().collect();
    assert_answers(&table, &held);
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

#[test]
#[cfg_attr(miri, ignore = "too slow to interleave; loom checks the protocol")]
fn readers_of_two_bit_values_see_before_or_after_and_others_unchanged() {
    churn(2, 20_000);
}

#[test]
#[cfg_attr(miri, ignore = "too slow to interleave; loom checks the protocol")]
fn readers_of_thirteen_bit_values_see_before_or_after_and_others_unchanged() {
    churn(13, 20_000);
}

/// A reader that stays pinned holds back the memory it may see, and only that: updates go on until the spare slots
/// are used up, and then wait for it.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_stalled_reader_still_sees_its_version() {
    let entries = entries(200, 4, 0);
    let mut control = OthelloBuilder::new(params(200, 4, 1)).build(&entries).unwrap();
    let table = Arc::new(control.export());
    let applied = AtomicU64::new(0);
    let mut reader = OthelloReader::new(Arc::clone(&table));
    thread::scope(|scope| {
        let pin = reader.pin();
        scope.spawn(|| {
            for entry in entries.iter().take(80) {
                let _ = table.apply(&control.update(entry.0, entry.1 ^ 1).unwrap()).unwrap();
                applied.fetch_add(1, Ordering::SeqCst);
            }
        });
        while applied.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        for entry in &entries {
            let now = pin.get(entry.0);
            assert!(now == entry.1 || now == entry.1 ^ 1);
        }
        assert!(applied.load(Ordering::SeqCst) < 80, "the writer passed a pinned reader");
        drop(pin);
    });
    assert_eq!(applied.into_inner(), 80);
}
