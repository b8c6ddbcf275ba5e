//! Readers concurrent with a writer: every answer is the name's value before or after the update in progress,
//! and all other names have the correct value at every moment.

use super::*;
use crate::isa::Isa;
use crate::published::tests::stress::{self as common, reader_of};
use crate::tests::readers::{WatchedKeys, check_beside};

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
    let params = Params::new(partitions(1), 1, [32; 2], 3).unwrap();
    common::a_reader_beside_a_writer::<OthelloStructure>("othello", params, 3);
}

/// A deliberate data race, which ThreadSanitizer must find: scripts/test.sh runs this test by name.
#[cfg(tsan)]
#[cfg_attr(tsan, test)]
fn planted_race_of_readers_without_a_pin() {
    common::planted_race::<OthelloStructure>("othello", params(12, 3, 1), 3);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_stalled_reader_still_sees_its_version() {
    common::a_stalled_reader_still_sees_its_version::<OthelloStructure>(params(200, 4, 1));
}
