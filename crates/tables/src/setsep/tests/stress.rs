//! Readers concurrent with a writer: every answer is the key's value before or after the update in progress.

use super::*;
use crate::isa::Isa;
use crate::published::tests::stress::{self as common, reader_of};
use crate::tests::readers::{WatchedKeys, check_beside};

/// Some keys stay and change their values. Other keys are inserted and removed to force buckets to move and
/// groups into the fallback.
fn churn(format: Format, value_bits: u8, isa: Isa, rounds: u64) {
    let stay = 1000;
    let params = params_in(format, 1024, value_bits, 1);
    let kept = entries(stay, value_bits, 0);
    let mut control = SetSepBuilder::new(params).build(&kept).unwrap();
    let table = Arc::new(control.export());
    let watched = WatchedKeys::new(&kept);
    let mask = u8::MAX >> (8 - value_bits);
    // More keys than a group can hold, in one bucket.
    let crowd = if format == Format::Dense { 64 } else { 30 };
    let (mut fallback_seen, mut emptied) = (0, 0);
    check_beside(
        &watched,
        &format!("setsep {format}"),
        isa,
        || reader_of(&table, isa),
        || {
            for round in 0..rounds {
                let at = (mix64(round) % stay) as usize;
                let new = (watched.value(at) as u8 ^ (mix64(!round) as u8 | 1)) & mask;
                watched.change(at, new.into(), || {
                    let _ = table.apply(&control.update(kept[at].0, new).unwrap()).unwrap();
                });
                // Keys fill the bucket of a key that stays, then are removed: bucket moves, entry to the
                // fallback, exit from it.
                let near = kept[(round / 8 * 5 % stay) as usize].0.get();
                let key = |i: u64| KeyHash::new(near ^ (i + 1) << 8);
                let value = |i: u64| mix64(i ^ (round / 8)) as u8 & mask;
                let ops: Vec<Op> = match round % 8 {
                    1 => (0..6).map(|i| Op::Insert(key(i), value(i))).collect(),
                    3 => (6..crowd).map(|i| Op::Insert(key(i), value(i))).collect(),
                    5 => (0..crowd).map(|i| Op::Remove(key(i))).collect(),
                    _ => continue,
                };
                for delta in control.batch(&ops).unwrap() {
                    let _ = table.apply(&delta).unwrap();
                }
                let fallback = table.stats().fallback_keys;
                fallback_seen += u64::from(fallback > 0);
                emptied += u64::from(fallback == 0 && round % 8 == 5);
            }
        },
    );
    let moves = control.stats().moves;
    assert!(moves.single + moves.double + moves.rebalanced > 0, "{moves:?}");
    // In this format a full group is rarely solved, with or without the extra keys.
    let always = format == Format::Paper8x16;
    assert!(
        fallback_seen > 0 && (emptied > 0 || always),
        "{format}: {fallback_seen} entries, {emptied} exits"
    );
    let held: Vec<_> = control.iter().collect();
    assert_answers(&table, &held);
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

#[test]
#[cfg_attr(miri, ignore = "too slow to interleave; loom checks the protocol")]
fn readers_see_before_or_after_by_all_instructions() {
    for isa in Isa::available() {
        for bits in [2, 8] {
            churn(Format::Linear, bits, isa, 800);
        }
        churn(Format::Dense, 3, isa, 400);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too slow to interleave; loom checks the protocol")]
fn readers_of_the_searched_formats_see_before_or_after() {
    for format in Format::ALL.into_iter().filter(|format| !format.is_linear()) {
        churn(format, 2, Isa::best(), 400);
    }
}

/// A dozen keys and few updates, each to memory used before: for the interpreter (Miri).
#[test]
fn a_reader_beside_a_writer() {
    common::a_reader_beside_a_writer::<SetSepStructure>("setsep", params(12, 1, 1), 1);
}

/// A deliberate data race, which ThreadSanitizer must find: scripts/test.sh runs this test by name.
#[cfg(tsan)]
#[cfg_attr(tsan, test)]
fn planted_race_of_readers_without_a_pin() {
    common::planted_race::<SetSepStructure>("setsep", params(12, 1, 1), 1);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_stalled_reader_still_sees_its_version() {
    common::a_stalled_reader_still_sees_its_version::<SetSepStructure>(params(200, 4, 1));
}
