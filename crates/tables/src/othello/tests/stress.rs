//! Readers concurrent with a writer: every answer is the name's value before or after the update in progress,
//! and all other names have the correct value at every moment.

use super::*;
use crate::isa::Isa;
use crate::tests::readers::{WatchedKeys, check_beside};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A batched lookup with this instruction set.
pub(super) fn reader_of(table: &Arc<Othello>, isa: Isa) -> impl FnMut(&[KeyHash], &mut [u16]) + use<> {
    let mut reader = OthelloReader::with_isa(Arc::clone(table), isa).unwrap();
    move |hashes, values| reader.lookup_batch(hashes, values)
}

/// Names that stay and never change, names that change, and names that are added and removed, all in the same
/// full ranges.
fn churn(params: Params, isa: Isa, rounds: u64) {
    let (stay, value_bits) = (1000, params.value_bits());
    let kept = entries(stay, value_bits, 0);
    let mut control = OthelloBuilder::new(params).build(&kept).unwrap();
    let table = Arc::new(control.export());
    let watched = WatchedKeys::new(&kept);
    // Names with odd numbers change between two values; names with even numbers never change.
    let mask = u16::MAX >> (16 - value_bits);
    check_beside(
        &watched,
        &format!("othello {value_bits} bits"),
        isa,
        || reader_of(&table, isa),
        || {
            for round in 0..rounds {
                let at = (mix64(round) % (stay / 2)) as usize * 2 + 1;
                let value = watched.value(at) ^ mask;
                let mut ops = vec![Op::Update(kept[at].0, value)];
                if round % 3 == 0 {
                    ops.push(Op::Insert(entry(round, value_bits, 7).0, value));
                }
                if round % 3 == 2 && round >= 602 {
                    ops.push(Op::Remove(entry(round - 602, value_bits, 7).0));
                }
                watched.change(at, value, || {
                    if round % 2 == 0 {
                        let _ = control.batch_with(&table, &ops).unwrap();
                    } else {
                        for delta in control.batch(&ops).unwrap() {
                            let _ = table.apply(&delta).unwrap();
                        }
                    }
                });
            }
        },
    );
    assert!(control.stats().reseeded > 3, "{:?}", control.stats());
    let held: Vec<_> = control.iter().collect();
    assert_answers(&table, &held);
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

#[test]
#[cfg_attr(miri, ignore = "too slow to interleave; loom checks the protocol")]
fn readers_see_before_or_after_and_others_unchanged_by_all_instructions() {
    for isa in Isa::available() {
        for (value_bits, check_bits) in [(2, 0), (13, 0), (8, 6)] {
            let params = Params::new(partitions(2), 3, [256; 2], value_bits).unwrap();
            churn(params.with_check_bits(check_bits).unwrap(), isa, 5000);
        }
    }
}

/// A dozen names and few updates, each to memory used before: for the interpreter (Miri).
#[test]
fn a_reader_beside_a_writer() {
    for isa in Isa::available() {
        let kept = entries(12, 3, 0);
        let params = Params::new(partitions(1), 1, [32; 2], 3).unwrap();
        let mut control = OthelloControl::new(params);
        for &(hash, value) in &kept {
            let _ = control.insert(hash, value).unwrap();
        }
        let (table, watched) = (Arc::new(control.export()), WatchedKeys::new(&kept));
        check_beside(
            &watched,
            "othello tiny",
            isa,
            || reader_of(&table, isa),
            || {
                for (round, &(hash, value)) in kept.iter().enumerate().take(6) {
                    let new = value ^ 7;
                    watched.change(round, new, || {
                        let _ = table.apply(&control.update(hash, new).unwrap()).unwrap();
                    });
                }
            },
        );
    }
}

/// A deliberate data race, which ThreadSanitizer must find: scripts/test.sh runs this test by name.
#[cfg(tsan)]
#[cfg_attr(tsan, test)]
fn planted_race_of_readers_without_a_pin() {
    let isa = Isa::from_name(&std::env::var("PLANTED_ISA").unwrap()).unwrap();
    let kept = entries(12, 3, 0);
    let mut control = OthelloBuilder::new(params(12, 3, 1)).build(&kept).unwrap();
    let (table, watched) = (Arc::new(control.export()), WatchedKeys::new(&kept));
    let reader = || {
        let mut reader = OthelloReader::with_isa(Arc::clone(&table), isa).unwrap().blind();
        move |hashes: &[KeyHash], values: &mut [u16]| reader.lookup_batch(hashes, values)
    };
    check_beside(&watched, "othello without a pin", isa, reader, || {
        for round in 0..4000 {
            let at = round % 12;
            let new = watched.value(at) ^ 7;
            watched.change(at, new, || {
                let _ = table.apply(&control.update(kept[at].0, new).unwrap()).unwrap();
            });
        }
    });
}

/// A reader that stays pinned blocks reuse of only the memory that it may see: updates continue until the
/// spare slots are used up, and then wait for it.
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
