//! The reference and the kernels, run as C++, give the bits of [`SetSepBuilder`].

use super::finish;
use super::host::{Keys, Order, Program};
use super::plan::{KERNELS, Plan};
use super::reference::{self, Arrays};
use crate::cuckoo::HashWords;
use crate::published::{BuildError, Full};
use crate::setsep::geometry::{BUCKETS, mix64};
use crate::setsep::{Format, Params, SetSep, SetSepBuilder};
use proptest::prelude::*;
use scalebricks_types::{HashSeed, KeyHash, KeyHasher, PartitionCount, PartitionId};

fn params(format: Format, bits: u8, blocks: u32, seed: u64) -> Params {
    let params = Params::new(blocks.into(), bits, PartitionCount::ONE).unwrap();
    params.with_format(format).unwrap().with_seed(seed).with_fallback_lines(100 + 600 * blocks).unwrap()
}

fn keys(count: usize, bits: u8, salt: u64) -> (Vec<u64>, Vec<u8>) {
    let number = |at: usize| mix64(salt ^ mix64(at as u64 + 1));
    let value = |at: usize| (number(at + count) & ((1 << bits) - 1)) as u8;
    ((0..count).map(number).collect(), (0..count).map(value).collect())
}

/// The table that the arrays and the host's part give.
fn finished(plan: &Plan, arrays: &Arrays) -> Result<SetSep, BuildError> {
    finish::check(&plan.params, arrays.status)?;
    finish::table(plan.params, &arrays.table, &arrays.marks, |block| {
        let keys = arrays.keys_of(block as usize);
        Ok(arrays.hashes[keys.clone()].iter().copied().zip(arrays.values[keys].iter().copied()).collect())
    })
}

fn built(params: Params, hashes: &[u64], values: &[u8]) -> Result<SetSep, BuildError> {
    let hashes: Vec<KeyHash> = hashes.iter().map(|&hash| KeyHash::new(hash)).collect();
    SetSepBuilder::new(params).build_table(&hashes, values)
}

/// Equal results: the same error, or tables with equal bits and fallback lists.
fn assert_same(got: Result<SetSep, BuildError>, want: Result<SetSep, BuildError>) {
    match (got, want) {
        (Err(got), Err(want)) => assert_eq!(got, want),
        (got, want) => {
            let (got, want) = (got.unwrap(), want.unwrap());
            assert_eq!(got.stats().fallback_keys, want.stats().fallback_keys);
            for partition in (0..want.params().partitions().get()).map(|number| PartitionId(number as u16)) {
                assert_eq!(got.digest(partition), want.digest(partition));
            }
        }
    }
}

fn check_reference(params: Params, hashes: &[u64], values: &[u8]) {
    let plan = Plan::new(params).unwrap();
    let arrays = reference::run(&plan, hashes, values);
    assert_same(finished(&plan, &arrays), built(params, hashes, values));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Blocks from empty to so full that most groups have no solution.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
    fn the_reference_builds_the_builders_table(
        dense: bool, bits in 1u8..=8, blocks in 1u32..4, seed: u64, fill in 0usize..140,
    ) {
        let format = if dense { Format::Dense } else { Format::Linear };
        let count = format.keys_per_block() as usize * blocks as usize * fill / 100;
        let (hashes, values) = keys(count, bits, seed);
        check_reference(params(format, bits, blocks, seed), &hashes, &values);
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
fn hostile_input_gives_the_builders_error() {
    let params = params(Format::Linear, 2, 2, 7);
    let (mut hashes, mut values) = keys(2500, 2, 1);
    let same = |hashes: &[u64], values: &[u8]| check_reference(params, hashes, values);
    same(&[], &[]);
    // A key twice: with one value it is one key, with two values the builder refuses it.
    (hashes[9], values[9]) = (hashes[8], values[8]);
    same(&hashes, &values);
    values[9] ^= 1;
    assert_eq!(built(params, &hashes, &values).err(), Some(BuildError::Duplicate(KeyHash::new(hashes[8]))));
    same(&hashes, &values);
    // A value of three bits; the first is reported.
    (values[700], values[300]) = (9, 6);
    assert_eq!(built(params, &hashes, &values).err(), Some(BuildError::Value { value: 6, bits: 2 }));
    same(&hashes, &values);
    // All keys in the lower block.
    let (lower, values): (Vec<u64>, _) = (hashes.iter().map(|hash| hash >> 1).collect(), vec![0; 2500]);
    let full = Full::Block { block: 0, need: 2500, limit: 1984 };
    assert_eq!(built(params, &lower, &values).err(), Some(full.into()));
    same(&lower, &values);
    // One bucket with all keys of a block.
    let bucket = u64::MAX / (2 * BUCKETS as u64);
    let one: Vec<u64> = hashes.iter().map(|hash| hash % bucket).take(1900).collect();
    same(&one, &values[..1900]);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
fn prefix_sums_run_over_many_tiles() {
    // 2,600 blocks are three tiles, the last one incomplete. Some blocks are empty.
    let params = Params::new(2600, 1, PartitionCount::ONE).unwrap();
    let (hashes, values) = keys(5200, 1, 3);
    let plan = Plan::new(params).unwrap();
    let arrays = reference::run(&plan, &hashes, &values);
    let mut next = 0;
    for block in 0..2600 {
        let keys = arrays.keys_of(block);
        assert_eq!(keys.start, next);
        next = keys.end;
    }
    assert_eq!(next, 5200);
    assert!(arrays.counts.contains(&0) && plan.tiles() == 3);
    assert_same(finished(&plan, &arrays), built(params, &hashes, &values));
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe")]
fn searched_formats_are_refused() {
    for format in Format::ALL {
        let params = params(format, 2, 1, 0);
        assert_eq!(Plan::new(params).err(), (!format.is_linear()).then_some(format));
    }
}

/// The arrays with the keys of each block in order: threads may place them in any.
fn ordered(mut arrays: Arrays) -> Arrays {
    for block in 0..arrays.counts.len() {
        let keys = arrays.keys_of(block);
        let pairs =
            arrays.hashes[keys.clone()].iter().copied().zip(arrays.values[keys.clone()].iter().copied());
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        for (at, (hash, value)) in keys.zip(pairs) {
            (arrays.hashes[at], arrays.values[at]) = (hash, value);
        }
    }
    arrays
}

/// Compiles the kernels, runs them in both orders, and compares every array with the reference's.
fn check_kernels(params: Params, words_per_key: usize, loads: &[usize]) {
    let plan = Plan::new(params).unwrap();
    let Some(program) = Program::compile(plan, KERNELS) else { return };
    let hasher = KeyHasher::new(HashSeed::from_u64(params.seed()));
    for (salt, &count) in (0..).zip(loads) {
        let (words, _) = keys(count * words_per_key.max(1), 1, salt);
        let (_, values) = keys(count, params.value_bits(), !salt);
        let (hashes, keys) = match words_per_key {
            0 => (words.clone(), Keys::Hashes(&words)),
            1 => {
                let hash = |word: &u64| hasher.hash_bytes(&word.to_le_bytes()).get();
                (words.iter().map(hash).collect(), Keys::Words(&words, 1, hasher.state()))
            }
            _ => {
                let hash = |words: &[u64; 2]| hasher.hash_words(words).get();
                let hashes: Vec<u64> = words.as_chunks().0.iter().map(hash).collect();
                (hashes, Keys::Words(&words, 2, hasher.state()))
            }
        };
        let want = ordered(reference::run(&plan, &hashes, &values));
        for order in [Order::Forward, Order::Backward] {
            let got = ordered(program.run(&keys, &values, order));
            assert_eq!(got.status, want.status, "{count} keys, {order:?}");
            assert!(got == want, "{count} keys, {order:?}: another table");
            assert_same(finished(&plan, &got), built(params, &hashes, &values));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "runs a compiler")]
fn the_kernels_build_linear_tables_from_hashes() {
    // Empty, as sized, and with groups that no seed solves.
    check_kernels(params(Format::Linear, 2, 3, 5), 0, &[0, 3 * 1472, 3 * 1700]);
}

#[test]
#[cfg_attr(miri, ignore = "runs a compiler")]
fn the_kernels_build_linear_tables_of_wide_values_from_keys_of_a_word() {
    check_kernels(params(Format::Linear, 7, 2, 11), 1, &[2 * 1472]);
}

#[test]
#[cfg_attr(miri, ignore = "runs a compiler")]
fn the_kernels_build_dense_tables_from_keys_of_two_words() {
    check_kernels(params(Format::Dense, 1, 2, 13), 2, &[2 * 3400, 2 * 3700]);
}

#[test]
#[cfg_attr(miri, ignore = "runs a compiler")]
fn the_kernels_report_blocks_that_are_too_full_and_sum_over_many_tiles() {
    let params = params(Format::Linear, 3, 1100, 17);
    let plan = Plan::new(params).unwrap();
    let Some(program) = Program::compile(plan, KERNELS) else { return };
    let (mut hashes, mut values) = keys(2500, 3, 19);
    for hash in &mut hashes {
        *hash = *hash >> 11 | 1 << 63;
    }
    for wide in [false, true] {
        if wide {
            (values[2000], values[2100]) = (8, 9);
        }
        for order in [Order::Forward, Order::Backward] {
            let got = program.run(&Keys::Hashes(&hashes), &values, order);
            let want = reference::run(&plan, &hashes, &values);
            assert_eq!((got.status, &got.counts), (want.status, &want.counts));
            assert_eq!((&got.starts, &got.totals), (&want.starts, &want.totals));
            assert_same(finished(&plan, &got), built(params, &hashes, &values));
        }
    }
}

/// A planted race is found: warps solve groups before all keys are placed.
#[test]
#[cfg_attr(miri, ignore = "runs a compiler")]
fn a_missing_barrier_changes_the_table() {
    let plan = Plan::new(params(Format::Linear, 1, 1, 23)).unwrap();
    let barrier = "(u16)at;\n    }\n    __syncthreads();";
    assert_eq!(KERNELS.matches(barrier).count(), 1);
    let source = KERNELS.replace(barrier, "(u16)at;\n    }");
    let Some(program) = Program::compile(plan, &source) else { return };
    let (hashes, values) = keys(1472, 1, 29);
    let want = reference::run(&plan, &hashes, &values);
    let differs = |order| program.run(&Keys::Hashes(&hashes), &values, order).table != want.table;
    assert!(differs(Order::Forward) || differs(Order::Backward));
}
