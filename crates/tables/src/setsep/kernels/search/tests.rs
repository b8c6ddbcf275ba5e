//! Every form against the definitions, and how fast they are.

use super::*;
use crate::setsep::brute::{self, HALVES, MARKER, MOST_KEYS, RETRIES, Words};
use crate::setsep::geometry::mix64;
use proptest::prelude::*;
use scalebricks_types::PartitionCount;
use std::hint::black_box;
use std::time::Instant;

const SEARCHED: [Format; 4] = [Format::Paper16x8, Format::Paper8x16, Format::Paper16x16, Format::Brute];

fn params(format: Format, bits: u8, seed: u64) -> Params {
    Params::new(1, bits, PartitionCount::ONE).unwrap().with_format(format).unwrap().with_seed(seed)
}

/// The definition of `brute`: every index from 0, one cell at a time.
fn obvious(hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    let words = Words::of(params);
    let mut fields = [0; 8];
    for bit in 0..params.value_bits() {
        fields[usize::from(bit)] = (0..MARKER).find_map(|index| {
            let mut cells = [None; 8];
            for (&hash, &value) in hashes.iter().zip(values) {
                let word = words.word(hash, index / (HALVES * HALVES));
                let half = if word >= 1 << 31 { index / HALVES % HALVES } else { index % HALVES };
                let row = |byte: u32| word >> (8 * byte) & 0x7F;
                let parity = |byte: u32| (row(byte) & (64 + half)).count_ones() % 2;
                let cell = &mut cells[(parity(3) + 2 * parity(2) + 4 * parity(1)) as usize];
                let want = value >> bit & 1;
                if *cell.get_or_insert(want) != want {
                    return None;
                }
            }
            let array = cells.iter().rev().fold(0, |array, cell| array << 1 | cell.unwrap_or(0));
            Some(u64::from(index) | u64::from(array) << 16)
        })?;
    }
    (hashes.len() <= MOST_KEYS).then_some(fields)
}

fn definition(hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    match params.format() {
        Format::Brute => obvious(hashes, values, params),
        _ => paper::solve(hashes, values, params),
    }
}

fn group(n: usize, bits: u8, seed: u64) -> (Vec<u64>, Vec<u8>) {
    let keys = 0..n as u64;
    keys.map(|i| (mix64(seed ^ i << 40), (mix64(!seed ^ i) & ((1 << bits) - 1)) as u8)).unzip()
}

fn forms() -> impl Iterator<Item = Isa> {
    for isa in Isa::ALL.iter().filter(|isa| !isa.is_available()) {
        println!("skipped: {isa}");
    }
    Isa::available()
}

fn check(format: Format, n: usize, bits: u8, seed: u64) -> Result<(), TestCaseError> {
    let params = params(format, bits, seed);
    let (hashes, values) = group(n, bits, seed);
    let expected = definition(&hashes, &values, &params);
    for isa in forms() {
        let solved = SearchSolver::new(&params, isa).solve(&hashes, &values);
        prop_assert_eq!(solved, expected, "{}", isa);
    }
    for (&hash, &value) in hashes.iter().zip(&values) {
        let Some(fields) = expected else { break };
        prop_assert_eq!(crate::setsep::solver::evaluate(&fields, hash, &params), value);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 400 }, failure_persistence: None,
        ..ProptestConfig::default() })]
    #[test]
    fn every_form_equals_the_definition(n in 0usize..=24, bits in 1u8..=8, seed: u64, format in 0usize..4) {
        let n = if cfg!(miri) { n / 3 } else { n };
        check(SEARCHED[format], n, bits, seed)?;
    }

    #[test]
    fn every_form_agrees_on_large_groups_and_equal_values(n in 24usize..=70, value: u8, format in 0usize..4, seed: u64) {
        let params = params(SEARCHED[format], 8, seed);
        let (hashes, _) = group(n, 8, seed);
        let values = vec![value; n];
        let expected = definition(&hashes, &values, &params);
        prop_assert_eq!(expected.is_some(), n <= MOST_KEYS || SEARCHED[format] != Format::Brute);
        for isa in forms() {
            prop_assert_eq!(SearchSolver::new(&params, isa).solve(&hashes, &values), expected, "{}", isa);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn groups_without_a_solution_have_none_in_any_form() {
    for format in SEARCHED {
        for (n, seed) in [(25, 1), (32, 2), (33, 3)] {
            check(format, n, 1, seed).unwrap();
        }
    }
}

#[test]
fn the_marker_is_no_index() {
    assert_eq!(RETRIES * HALVES * HALVES - 1, MARKER);
    assert!(brute::is_marked(brute::field(MARKER, 0)));
}

/// Groups of 13 to 19 keys, as balancing leaves them: how long one takes. Run by name, in a release build.
#[test]
#[ignore = "a measurement"]
fn speed() {
    for format in [Format::Paper16x8, Format::Brute, Format::Paper8x16, Format::Paper16x16] {
        for isa in forms() {
            for bits in [1, 2, 4, 8] {
                if isa == Isa::Portable && bits > 2 {
                    continue;
                }
                let params = params(format, bits, 7);
                let (count, rounds) = if isa == Isa::Portable { (500, 3) } else { (8000, 25) };
                let groups: Vec<_> = (0..count).map(|i| group(load(i), bits, mix64(i))).collect();
                let solver = SearchSolver::new(&params, isa);
                let keys: usize = groups.iter().map(|group| group.0.len()).sum();
                let best = (0..rounds).map(|_| {
                    let start = Instant::now();
                    for (hashes, values) in &groups {
                        black_box(solver.solve(black_box(hashes), black_box(values)));
                    }
                    start.elapsed().as_secs_f64()
                });
                let ns = best.fold(f64::MAX, f64::min) * 1e9 / keys as f64;
                println!(
                    "{format:10} {isa:12} l={bits}: {ns:6.2} ns a key, {:.0} a group",
                    ns * keys as f64 / count as f64
                );
            }
        }
    }
}

/// 13 to 19, mostly 16.
fn load(i: u64) -> usize {
    let bits = mix64(i ^ 0x99) & 0x3F;
    13 + bits.count_ones() as usize
}

/// How many groups of each load have no solution.
#[test]
#[ignore = "a measurement"]
fn failures() {
    for format in [Format::Paper16x8, Format::Brute] {
        for n in 14..=21 {
            let params = params(format, 1, 7);
            let solver = SearchSolver::new(&params, Isa::best());
            let count = 2_000_000;
            let failed = (0..count)
                .filter(|&i| {
                    let (hashes, values) = group(n, 1, mix64(i << 8 | n as u64));
                    solver.solve(&hashes, &values).is_none()
                })
                .count();
            println!("{format} {n}: {failed} of {count}, {:.2e}", failed as f64 / f64::from(count as u32));
        }
    }
}

/// How many keys of a whole table end in the fallback.
#[test]
#[ignore = "a measurement"]
fn fallback() {
    use crate::setsep::SetSepBuilder;
    use scalebricks_types::KeyHash;
    let count = 4_000_000;
    for format in [Format::Paper16x8, Format::Brute] {
        for bits in [1, 2, 4] {
            let params = Params::for_keys_in(format, count, bits, PartitionCount::ONE).unwrap();
            let (hashes, values) = group(count as usize, bits, 5);
            let entries: Vec<_> = hashes.into_iter().map(KeyHash::new).zip(values).collect();
            let stats = SetSepBuilder::new(params).build(&entries).unwrap().stats();
            println!("{format} l={bits}: {} keys of {count} in the fallback", stats.fallback_keys);
        }
    }
}
