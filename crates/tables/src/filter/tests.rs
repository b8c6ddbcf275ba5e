use super::*;
use crate::touched_lines::lines_of;
use proptest::prelude::*;
use scalebricks_types::KeyHash;
use std::collections::{BTreeSet, HashMap};
use std::hint::black_box;

/// Hashes without a pattern.
fn name(number: u64) -> KeyHash {
    KeyHash::new(crate::mix::mix64(number.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ 0x1234_5678))
}

#[test]
fn the_lines_told_are_those_read() {
    let names = if cfg!(miri) { 50 } else { 500 };
    let filter = BloomFilter::new(FilterParams::for_names(names, 0.01).unwrap());
    (0..names).for_each(|number| filter.insert(name(number)));
    for name in (0..2 * names).map(name) {
        let read = lines_of(|| _ = black_box(filter.contains(name)));
        let mut reported = BTreeSet::new();
        filter.touched(name, &mut |at| assert!(reported.insert(at.addr() / 64), "each line once"));
        assert_eq!(reported, read);
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of names")]
fn aliens_are_let_through_as_theory_says() {
    let (names, aliens) = (40_000, 400_000);
    for wanted in [0.1, 0.01, 0.001, 0.0001] {
        for seed in [0, 7] {
            let params = FilterParams::for_names(names, wanted).unwrap().with_seed(seed);
            let theory = params.false_positive_rate(names);
            assert!(theory <= wanted * 1.000_001 && theory > wanted * 0.95, "{wanted}: {theory}");
            let filter = BloomFilter::new(params);
            (0..names).for_each(|number| filter.insert(name(number)));
            let through = (names..names + aliens).filter(|&number| filter.contains(name(number))).count();
            let expected = theory * aliens as f64;
            // Six standard deviations, and 2 % for what the formulas neglect.
            let slack = 6.0 * expected.sqrt() + 0.02 * expected;
            let off = (through as f64 - expected).abs();
            assert!(off <= slack, "{wanted}: {through} for {expected}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "bisection of long sums")]
fn bits_a_name_are_the_documented_ones() {
    for (rate, wanted) in [(0.01, 9.9), (0.001, 15.5), (0.0001, 21.9)] {
        let bits = FilterParams::for_names(1_000_000, rate).unwrap().bits() as f64 / 1e6;
        assert!((bits - wanted).abs() < 0.06, "at {rate}: {bits}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
fn what_cannot_be_is_refused() {
    for rate in [0.0, 1e-10, 0.6, f64::NAN, -1.0] {
        let refused = FilterParams::for_names(10, rate);
        assert!(matches!(refused, Err(FilterParamsError::Rate(_))));
    }
    let huge = FilterParams::for_names(u64::MAX, 0.01);
    assert!(matches!(huge, Err(FilterParamsError::Lines(_))));
    assert_eq!(FilterParams::of_lines(1, 0), Err(FilterParamsError::Hashes(0)));
    assert_eq!(FilterParams::of_lines(1, 33), Err(FilterParamsError::Hashes(33)));
    let full = CountingFilter::new(FilterParams::of_lines(1, 4).unwrap()).remove(name(1));
    assert_eq!(full, Err(UnknownName(name(1))));
}

#[test]
fn a_counter_that_is_full_keeps_its_bit() {
    let mut control = CountingFilter::new(FilterParams::of_lines(1, 3).unwrap());
    (0..20).for_each(|_| control.insert(name(5)));
    (0..20).for_each(|_| control.remove(name(5)).unwrap());
    assert!(control.contains(name(5)), "their number is lost");
    assert_eq!(control.names(), 0);
}

#[test]
fn readers_miss_nothing_while_names_come_and_go() {
    let rounds = if cfg!(miri) { 2 } else { 300 };
    {
        let mut control = CountingFilter::new(FilterParams::of_lines(1, 4).unwrap());
        (0..32).for_each(|number| control.insert(name(number)));
        let filter = control.export();
        control.take_delta();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!((0..32).all(|number| filter.contains(name(number))));
                }
            });
            for round in 1..=rounds {
                let others = (1000 * round..1000 * round + 16).map(name);
                others.clone().for_each(|name| control.insert(name));
                filter.apply(&control.take_delta()).unwrap();
                others.for_each(|name| control.remove(name).unwrap());
                filter.apply(&control.take_delta()).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random inserts and removals, compared with a map: no name in the map is ever refused, and a filter
    /// that follows by deltas has the same bits.
    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn no_name_is_ever_missed(
        lines in 1u64..9, hashes in 1u8..=32, seed: u64,
        batches in prop::collection::vec(prop::collection::vec((0u64..40, any::<bool>()), 0..30), 0..8),
    ) {
        let params = FilterParams::of_lines(lines, hashes).unwrap().with_seed(seed);
        let mut control = CountingFilter::new(params);
        let follower = control.export();
        let mut held: HashMap<u64, u32> = HashMap::new();
        for batch in batches {
            for (number, comes) in batch {
                if comes && held.get(&number) != Some(&3) {
                    control.insert(name(number));
                    *held.entry(number).or_default() += 1;
                } else if let Some(count) = held.get_mut(&number).filter(|count| **count > 0) {
                    control.remove(name(number)).unwrap();
                    *count -= 1;
                }
            }
            let delta = control.take_delta();
            follower.apply(&delta).unwrap();
            follower.apply(&delta).unwrap();
            let exported = control.export();
            prop_assert!(follower.words().eq(exported.words()));
            prop_assert_eq!(control.names(), held.values().map(|&count| u64::from(count)).sum::<u64>());
            for (&number, _) in held.iter().filter(|(_, count)| **count > 0) {
                prop_assert!(follower.contains(name(number)) && control.contains(name(number)));
            }
        }
    }

    /// All query methods agree with the definition of the bit positions.
    #[test]
    fn all_ways_to_ask_agree(lines in 1u64..200, hashes in 1u8..=32, seed: u64, names in 0u64..100, asked in 0u64..150) {
        let (names, asked) = if cfg!(miri) { (names % 8, asked % 20) } else { (names, asked) };
        let params = FilterParams::of_lines(lines, hashes).unwrap().with_seed(seed);
        let filter = BloomFilter::new(params);
        (0..names).for_each(|number| filter.insert(name(number)));
        let hashes: Vec<KeyHash> = (0..asked).map(name).collect();
        let mut answers = vec![false; hashes.len()];
        filter.contains_batch(&hashes, &mut answers);
        for (&hash, &answer) in hashes.iter().zip(&answers) {
            let wanted = params.places(hash).bits().iter().all(|&bit| filter.get(bit));
            prop_assert_eq!(answer, wanted);
            prop_assert_eq!(filter.contains(hash), wanted);
        }
        prop_assert!(answers.iter().take(names as usize).all(|&answer| answer));
    }

    /// A delta of a larger filter is refused, and changes nothing.
    #[test]
    fn a_delta_of_a_larger_filter_is_refused(number: u64) {
        let mut control = CountingFilter::new(FilterParams::of_lines(1000, 3).unwrap());
        control.insert(name(number));
        let filter = BloomFilter::new(FilterParams::of_lines(1, 3).unwrap());
        let delta = control.take_delta();
        let last = delta.bits.last().unwrap().0;
        prop_assert_eq!(filter.apply(&delta).is_err(), last >= 512);
        prop_assert_eq!(filter.words().any(|word| word != 0), last < 512);
    }
}
