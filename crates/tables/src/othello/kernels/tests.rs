//! Compares every form with the definition, on arbitrary contents.

use crate::huge::HugeSlice;
use crate::huge::guard_pages::{GuardedEnd, between};
use crate::isa;
use crate::mix::mix64;
use crate::othello::params::Params;
use crate::othello::structure::{Generation, Othello, OthelloReader};
use crate::touched_lines::lines_of;
use scalebricks_types::{KeyHash, PartitionCount, PartitionId, Position};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;

/// All batch lengths up to this one are tested.
const LONGEST: usize = if cfg!(miri) { 20 } else { 200 };

/// A table of arbitrary contents with arbitrary seeds.
fn table(params: Params) -> Othello {
    let mut memory = Generation::memory(&params);
    for (number, cell) in (0..).zip(memory.iter_mut().flat_map(|line| &mut line.0)) {
        *cell = crate::reclaim::sync::AtomicU64::new(mix64(number));
    }
    let seeds = (0..params.ranges()).map(|range| (range, mix64(range.into()) as u8));
    Othello::with_memory(params, vec![Position(0)], memory, seeds)
}

/// The XOR of a name's slots according to the definition.
fn expected(table: &Othello, hash: KeyHash) -> u32 {
    let generations = table.generations.load();
    let layout = generations.now.layout;
    let (words, seed) = generations.now.state(layout.places.range(hash.get()));
    let [a, b] = layout.places.pair(hash.get(), seed);
    layout.get(&words, a) ^ layout.get(&words, b)
}

/// Hashes of all kinds, including those at the ends of the hash range and of ranges.
fn hashes(count: usize, ranges: u32) -> Vec<KeyHash> {
    let ends = (0..=u64::from(ranges)).map(|range| (u64::MAX / u64::from(ranges)).wrapping_mul(range));
    let ends = ends.flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)]);
    (0..count as u64).map(mix64).chain(ends).map(KeyHash::new).collect()
}

/// All slot widths, in ranges of many sizes; in some of them the last slot ends where the range ends.
fn cases() -> impl Iterator<Item = Params> {
    (1..=24).flat_map(|width: u8| {
        let slots: &[[u32; 2]] =
            if cfg!(miri) { &[[64, 64]] } else { &[[256, 256], [64, 64], [1, 1], [300, 41], [5, 700]] };
        slots.iter().map(move |&slots| {
            let params = Params::new(PartitionCount::ONE, 5, slots, width.min(16)).unwrap();
            params.with_check_bits(width - width.min(16)).unwrap().with_seed(mix64(width.into()))
        })
    })
}

/// Moves a table's last range to the end of its memory.
fn move_to_the_end(table: &Othello) {
    let generations = table.generations.load_full();
    let last = generations.now.params.ranges() - 1;
    let (words, seed) = generations.now.state(last);
    let mut local = table.lock_local();
    while generations.now.slot(last) as usize != generations.now.arena.slots() - 1 {
        local.publish(PartitionId(0), last, &words, seed);
    }
}

fn every_form() {
    GuardedEnd::BOTH.into_iter().for_each(every_form_between_walls);
}

/// With tables, names and results next to guard pages.
fn every_form_between_walls(flush: GuardedEnd) {
    let hashes = hashes(3 * LONGEST, 5);
    let (mut asked, mut found) =
        between(flush, || (HugeSlice::<KeyHash>::zeroed(LONGEST + 1), HugeSlice::<u16>::zeroed(LONGEST + 1)));
    for params in cases() {
        let table = Arc::new(between(flush, || table(params)));
        if flush == GuardedEnd::End {
            move_to_the_end(&table);
        }
        let wanted: Vec<u32> = hashes.iter().map(|&hash| expected(&table, hash)).collect();
        let mask = (1u32 << params.value_bits()) - 1;
        let values: Vec<u16> = wanted.iter().map(|&difference| (difference & mask) as u16).collect();
        for isa in isa::compared() {
            let mut reader = OthelloReader::with_isa(Arc::clone(&table), isa).unwrap();
            assert_eq!(reader.isa(), isa);
            for len in 0..=LONGEST {
                let at = len * 7 % (hashes.len() - LONGEST);
                let part = flush.part(LONGEST + 1, len);
                asked[part.clone()].copy_from_slice(&hashes[at..at + len]);
                found.fill(0xEEEE);
                reader.lookup_batch(&asked[part.clone()], &mut found[part.clone()]);
                assert_eq!(found[part.clone()], values[at..at + len], "{isa} {params:?} {len} {flush:?}");
                let others = found[..part.start].iter().chain(&found[part.end..]);
                assert!(others.copied().all(|value| value == 0xEEEE), "{isa} {params:?} {len} {flush:?}");
            }
            let mut found = vec![0; hashes.len()];
            reader.lookup_batch(&hashes, &mut found);
            assert_eq!(found, values, "{isa} {params:?}");
            let mut found = vec![None; hashes.len()];
            reader.check_batch(&hashes, &mut found);
            let places = table.generations.load().now.layout.places;
            for ((&hash, &found), &difference) in hashes.iter().zip(&found).zip(&wanted) {
                assert_eq!(found, places.value(hash, difference), "{isa} {params:?}");
                let pin = reader.pin();
                assert_eq!((pin.get(hash), pin.check(hash)), ((difference & mask) as u16, found));
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter; the tests of tables read through the same kernels")]
fn every_form_gives_the_defined_value_in_batches_of_every_length() {
    every_form();
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter; the portable form is the same as of near tables")]
fn every_form_of_far_tables_does_so_too() {
    crate::published::span::ALL_FAR.set(true);
    every_form();
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
fn the_lines_told_of_a_name_are_those_that_its_lookup_reads() {
    let hashes = hashes(LONGEST, 5);
    for params in cases() {
        let mut reader = OthelloReader::new(Arc::new(table(params)));
        let pin = reader.pin();
        for &hash in &hashes {
            let read = lines_of(|| _ = black_box(pin.get(hash)));
            let mut reported = Vec::new();
            pin.touched(hash, &mut |at| reported.push(at.addr() / 64));
            assert_eq!(reported.iter().copied().collect::<BTreeSet<_>>(), read, "{params:?} {hash:?}");
            assert_eq!(reported.len(), read.len(), "each once");
        }
    }
}
