//! Compares every form with the definitions.

use super::*;
use crate::setsep::brute::{self, HALVES, MARKER, MOST_KEYS, RETRIES, WordSource};
use crate::setsep::geometry::mix64;
use proptest::prelude::*;
use scalebricks_types::PartitionCount;

const SEARCHED: [Format; 4] = [Format::Paper16x8, Format::Paper8x16, Format::Paper16x16, Format::Brute];

fn params(format: Format, bits: u8, seed: u64) -> Params {
    Params::new(1, bits, PartitionCount::ONE).unwrap().with_format(format).unwrap().with_seed(seed)
}

/// The definition of `brute`: every index from 0, one cell at a time.
fn obvious(hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    let words = WordSource::of(params);
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

fn check(format: Format, n: usize, bits: u8, seed: u64) -> Result<(), TestCaseError> {
    let params = params(format, bits, seed);
    let (hashes, values) = group(n, bits, seed);
    let expected = definition(&hashes, &values, &params);
    for isa in crate::isa::compared() {
        for at_once in [SearchBits::Pairs, SearchBits::Together] {
            let solved = SearchSolver::new(&params, isa).with_bits(at_once).solve(&hashes, &values);
            prop_assert_eq!(solved, expected, "{} {:?}", isa, at_once);
        }
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
        for isa in crate::isa::compared() {
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

/// The share of groups of one value bit that have no solution equals that of `docs/kernels-search.md` within
/// four standard errors.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn groups_fail_as_often_as_they_should() {
    for (format, share) in [(Format::Paper16x8, 0.022_f64), (Format::Brute, 0.042)] {
        let params = params(format, 1, 7);
        let solver = SearchSolver::new(&params, Isa::best());
        let count = 4000;
        let failed = |n: usize| {
            let groups = (0..count).map(|i| group(n, 1, mix64(i << 8 | n as u64)));
            groups.filter(|(hashes, values)| solver.solve(hashes, values).is_none()).count()
        };
        assert_eq!(failed(18), 0, "{format}");
        let (found, error) =
            (failed(21) as f64 / count as f64, (share * (1.0 - share) / count as f64).sqrt());
        assert!((found - share).abs() < 4.0 * error, "{format}: {found}, not {share}");
    }
}
