//! Compares every form with the definition: [`evaluate`] and the fallback list of the block.

use crate::huge::HugeSlice;
use crate::huge::guard_pages::{GuardedEnd, between};
use crate::isa;
use crate::reclaim::cache_line::Line;
use crate::setsep::format::Format;
use crate::setsep::geometry::{BUCKETS, GROUPS, bucket_of, mix64};
use crate::setsep::layout::{Layout, group_of, set_choice};
use crate::setsep::linear::FieldLayout;
use crate::setsep::params::Params;
use crate::setsep::solver::{Fields, evaluate, is_marked, marked};
use crate::setsep::structure::{Generation, SetSep, SetSepReader};
use crate::touched_lines::lines_of;
use scalebricks_types::{KeyHash, PartitionCount, PartitionId, Position};
use std::hint::black_box;
use std::sync::Arc;

const BLOCKS: u32 = 5;
/// All batch lengths up to this one are tested.
const LONGEST: usize = if cfg!(miri) { 40 } else { 200 };

/// A group of arbitrary but valid fields; one in sixteen is marked.
fn fields(params: &Params, random: u64) -> Fields {
    if random.is_multiple_of(16) {
        return marked(params);
    }
    let bits = usize::from(params.value_bits());
    let field = |bit: usize| if bit < bits { mix64(random ^ bit as u64) } else { 0 };
    if params.format().is_linear() {
        let shape = FieldLayout::of(params);
        let vectors = std::array::from_fn(|bit| field(bit) & shape.column_mask());
        shape.fields(vectors, (random >> 32) as u32 % shape.seeds())
    } else {
        let mask = u64::MAX >> (64 - params.format().field_bits());
        std::array::from_fn(|bit| field(bit) & mask & !1) // no index is the marker, whose bits are all set
    }
}

/// A table of arbitrary blocks. Most of them have a fallback list with half of their `hashes`.
fn table(params: Params, hashes: &[KeyHash]) -> SetSep {
    let layout = Layout::of(&params);
    let (mut memory, mut lists) = (Generation::memory(&params), Vec::new());
    let blocks = memory.chunks_exact_mut(layout.words / 8);
    for (block, lines) in (0..BLOCKS).zip(blocks) {
        let mut words = vec![0; layout.words];
        for bucket in 0..BUCKETS {
            set_choice(&mut words, bucket, mix64(u64::from(block) << 16 ^ bucket as u64) as u8 & 3);
        }
        for group in 0..GROUPS {
            let random = mix64(params.seed() ^ u64::from(block) << 32 ^ group as u64);
            layout.set_group(&mut words, group, &fields(&params, random));
        }
        let mut listed: Vec<(u64, u8)> = hashes
            .iter()
            .map(|hash| hash.get())
            .filter(|&hash| hash & 1 == 0 && bucket_of(hash, BLOCKS).0 == block)
            .filter(|&hash| layout.marks(&words) >> group_of(&words, hash, BLOCKS) & 1 == 1)
            .map(|hash| (hash, (mix64(hash) & ((1 << params.value_bits()) - 1)) as u8))
            .collect();
        listed.sort_unstable();
        listed.dedup();
        for (line, words) in lines.iter_mut().zip(words.as_chunks().0) {
            *line = Line::new(*words);
        }
        if block > 0 {
            lists.push((block, listed));
        }
    }
    SetSep::with_memory(params, vec![Position(0)], memory, lists)
}

/// The value according to the definition.
fn expected(table: &SetSep, hash: KeyHash) -> u8 {
    let generations = table.generations.load();
    let table = &generations.now;
    let (words, listed) = table.state(bucket_of(hash.get(), BLOCKS).0);
    let fields = table.layout.group(&words, group_of(&words, hash.get(), BLOCKS));
    if is_marked(&fields, &table.params) {
        listed.iter().find(|pair| pair.0 == hash.get()).map_or(0, |pair| pair.1)
    } else {
        evaluate(&fields, hash.get(), &table.params)
    }
}

/// Hashes of all kinds, including those at the ends of the range and of blocks.
fn hashes(count: usize) -> Vec<KeyHash> {
    let ends = (0..=u64::from(BLOCKS)).map(|block| (u64::MAX / u64::from(BLOCKS)).wrapping_mul(block));
    let ends = ends.flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)]);
    (0..count as u64).map(mix64).chain(ends).map(KeyHash::new).collect()
}

fn cases() -> impl Iterator<Item = Params> {
    Format::ALL.into_iter().flat_map(|format| {
        (1..=8).map(move |bits| {
            let params = Params::new(BLOCKS.into(), bits, PartitionCount::ONE).unwrap().with_format(format);
            params.unwrap().with_seed(mix64(u64::from(bits)))
        })
    })
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter; the tests of tables read through the same kernels")]
fn every_form_gives_the_defined_value_in_batches_of_every_length() {
    every_form(&hashes(3 * LONGEST), &(0..=LONGEST).collect::<Vec<_>>());
}

/// The same for far tables, with more keys than are in flight at once, and than one pin covers.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter; the portable form is the same as of near tables")]
fn every_form_of_far_tables_does_so_too() {
    crate::published::span::ALL_FAR.set(true);
    let sampled = (LONGEST..=6 * LONGEST).step_by(if cfg!(miri) { 50 } else { 67 });
    every_form(&hashes(7 * LONGEST), &(0..=LONGEST).chain(sampled).collect::<Vec<_>>());
}

/// Moves a table's last block to the end of its memory.
fn move_to_the_end(table: &SetSep) {
    let (last, generations) = (BLOCKS - 1, table.generations.load_full());
    let (words, _) = generations.now.state(last);
    let slots = generations.now.arena.slots();
    let mut local = table.lock_local();
    while generations.now.slot(last) as usize != slots - 1 {
        local.publish(false, PartitionId(0), last, &words, None);
    }
}

/// Batches of these lengths, the last one the longest, on arbitrary tables.
fn every_form(hashes: &[KeyHash], lengths: &[usize]) {
    for flush in GuardedEnd::BOTH {
        every_form_between_walls(hashes, lengths, flush);
    }
}

/// The same with tables, keys and results next to guard pages.
fn every_form_between_walls(hashes: &[KeyHash], lengths: &[usize], flush: GuardedEnd) {
    let longest = lengths[lengths.len() - 1];
    let (mut asked, mut values) =
        between(flush, || (HugeSlice::<KeyHash>::zeroed(longest + 1), HugeSlice::<u8>::zeroed(longest + 1)));
    let (mut from_lists, mut from_groups) = (0, 0);
    for isa in isa::compared() {
        for params in cases() {
            let table = Arc::new(between(flush, || table(params, hashes)));
            if flush == GuardedEnd::End {
                move_to_the_end(&table);
            }
            from_lists += table.stats().fallback_keys;
            let wanted: Vec<u8> = hashes.iter().map(|&hash| expected(&table, hash)).collect();
            from_groups += wanted.iter().filter(|&&value| value != 0).count();
            let mut reader = SetSepReader::with_isa(Arc::clone(&table), isa).unwrap();
            assert_eq!(reader.isa(), isa);
            for &len in lengths {
                let at = len * 7 % (hashes.len() - longest);
                let part = flush.part(longest + 1, len);
                asked[part.clone()].copy_from_slice(&hashes[at..at + len]);
                values.fill(0xEE);
                reader.lookup_batch(&asked[part.clone()], &mut values[part.clone()]);
                let case = (isa, params.format(), params.value_bits(), len, flush);
                assert_eq!(values[part.clone()], wanted[at..at + len], "{case:?}");
                let others = values[..part.start].iter().chain(&values[part.end..]);
                assert!(others.copied().all(|value| value == 0xEE), "{case:?}");
            }
            let mut values = vec![0; hashes.len()]; // more than one pin
            reader.lookup_batch(hashes, &mut values);
            assert_eq!(values, wanted, "{isa} {} {}", params.format(), params.value_bits());
        }
    }
    assert!(from_lists > 100 && from_groups > 1000, "{from_lists} {from_groups}");
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and the way of the portable batches")]
fn a_single_lookup_gives_the_defined_value() {
    let hashes = hashes(3 * LONGEST);
    for params in cases() {
        let table = Arc::new(table(params, &hashes));
        let mut reader = SetSepReader::new(Arc::clone(&table));
        let pin = reader.pin();
        for &hash in &hashes {
            assert_eq!(pin.get(hash), expected(&table, hash), "{} {}", params.format(), params.value_bits());
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
fn the_lines_told_of_a_key_are_those_that_its_lookup_reads() {
    let hashes = hashes(LONGEST);
    for params in cases() {
        let table = Arc::new(table(params, &hashes));
        let mut reader = SetSepReader::new(Arc::clone(&table));
        let pin = reader.pin();
        for &hash in &hashes {
            let read = lines_of(|| _ = black_box(pin.get(hash)));
            let mut reported = Vec::new();
            pin.touched(hash, &mut |at| reported.push(at.addr() / 64));
            let case = (params.format(), params.value_bits(), hash);
            assert!((3..=5).contains(&reported.len()), "{case:?}: {reported:?}");
            assert!(read.iter().all(|line| reported.contains(line)), "{case:?}: {read:?}, {reported:?}");
            // A search ends at the first function of a marked group.
            let (words, _) = table.generations.load().now.state(bucket_of(hash.get(), BLOCKS).0);
            let group =
                table.generations.load().now.layout.group(&words, group_of(&words, hash.get(), BLOCKS));
            assert!(
                read.len() == reported.len() || is_marked(&group, &params),
                "{case:?}: {read:?}, {reported:?}"
            );
        }
    }
}
