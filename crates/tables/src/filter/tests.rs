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

const LAYOUTS: [Layout; 2] = [Layout::Classic, Layout::Blocked];

#[test]
fn the_lines_told_are_those_read() {
    for layout in LAYOUTS {
        let filter = BloomFilter::new(FilterParams::for_names(500, 0.01, layout).unwrap());
        (0..500).for_each(|number| filter.insert(name(number)));
        for name in (0..1000).map(name) {
            let read = lines_of(|| _ = black_box(filter.contains(name)));
            let mut reported = BTreeSet::new();
            filter.touched(name, &mut |at| assert!(reported.insert(at.addr() / 64), "each line once"));
            assert_eq!(reported, read, "{layout:?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of thousands of names")]
fn aliens_are_let_through_as_theory_says() {
    let (names, aliens) = (40_000, 400_000);
    for layout in LAYOUTS {
        for wanted in [0.1, 0.01, 0.001, 0.0001] {
            for seed in [0, 7] {
                let params = FilterParams::for_names(names, wanted, layout).unwrap().with_seed(seed);
                let theory = params.false_positive_rate(names);
                assert!(
                    theory <= wanted * 1.000_001 && theory > wanted * 0.95,
                    "{layout:?} {wanted}: {theory}"
                );
                let filter = BloomFilter::new(params);
                (0..names).for_each(|number| filter.insert(name(number)));
                let through = (names..names + aliens).filter(|&number| filter.contains(name(number))).count();
                let expected = theory * aliens as f64;
                // Six standard deviations, and 2 % for what the formulas neglect.
                let slack = 6.0 * expected.sqrt() + 0.02 * expected;
                let off = (through as f64 - expected).abs();
                assert!(off <= slack, "{layout:?} {wanted}: {through} for {expected}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of names")]
fn a_filter_as_full_as_it_is_made_for_is_half_full() {
    let params = FilterParams::for_names(50_000, 0.001, Layout::Classic).unwrap();
    let filter = BloomFilter::new(params);
    (0..50_000).for_each(|number| filter.insert(name(number)));
    let share = filter.ones() as f64 / params.bits() as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

#[test]
#[cfg_attr(miri, ignore = "bisection of long sums")]
fn bits_a_name_are_the_documented_ones() {
    let documented = [(0.01, 9.6, 9.9), (0.001, 14.4, 15.5), (0.0001, 19.2, 21.9)];
    for (rate, classic, blocked) in documented {
        for (layout, wanted) in LAYOUTS.into_iter().zip([classic, blocked]) {
            let bits = FilterParams::for_names(1_000_000, rate, layout).unwrap().bits() as f64 / 1e6;
            assert!((bits - wanted).abs() < 0.06, "{layout:?} at {rate}: {bits}");
        }
    }
}

/// Compares the formula with the table of m/n and k that Cao published beside "Summary cache" ("Bloom
/// filters: the math").
#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
fn theory_agrees_with_published_tables() {
    for (bits_per_name, hashes, published) in
        [(6.0, 4.0, 0.0561), (8.0, 5.0, 0.0217), (8.0, 6.0, 0.0216), (16.0, 8.0, 0.000_574)]
    {
        let rate: f64 = theory::classic_rate(bits_per_name, hashes);
        assert!((rate / published - 1.0).abs() < 0.01, "{bits_per_name} {hashes}: {rate}");
    }
    assert!((theory::classic_bits_per_name(0.01) - 9.585).abs() < 0.001);
    let capped = theory::classic_bits_per_name_at_most(1e-4 / 256.0, 8);
    assert!((theory::classic_rate(capped, 8.0) * 256.0 / 1e-4 - 1.0).abs() < 1e-6);
    assert!(capped > theory::classic_bits_per_name(1e-4 / 256.0));
}

#[test]
fn what_cannot_be_is_refused() {
    for rate in [0.0, 1e-10, 0.6, f64::NAN, -1.0] {
        let refused = FilterParams::for_names(10, rate, Layout::Classic);
        assert!(matches!(refused, Err(FilterParamsError::Rate(_))));
    }
    let huge = FilterParams::for_names(u64::MAX, 0.01, Layout::Classic);
    assert!(matches!(huge, Err(FilterParamsError::Lines(_))));
    assert_eq!(FilterParams::of_lines(1, 0, Layout::Blocked), Err(FilterParamsError::Hashes(0)));
    assert_eq!(FilterParams::of_lines(1, 33, Layout::Blocked), Err(FilterParamsError::Hashes(33)));
    let full = CountingFilter::new(FilterParams::of_lines(1, 4, Layout::Blocked).unwrap()).remove(name(1));
    assert_eq!(full, Err(UnknownName(name(1))));
}

#[test]
fn a_counter_that_is_full_keeps_its_bit() {
    let mut control = CountingFilter::new(FilterParams::of_lines(1, 3, Layout::Classic).unwrap());
    (0..20).for_each(|_| control.insert(name(5)));
    (0..20).for_each(|_| control.remove(name(5)).unwrap());
    assert!(control.contains(name(5)), "nobody knows any more how many they were");
    assert_eq!(control.names(), 0);
}

#[test]
fn readers_miss_nothing_while_names_come_and_go() {
    let rounds = if cfg!(miri) { 2 } else { 300 };
    for layout in LAYOUTS {
        let mut control = CountingFilter::new(FilterParams::of_lines(1, 4, layout).unwrap());
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

#[test]
fn its_bytes_are_these() {
    let filter = BloomFilter::new(FilterParams::of_lines(1, 2, Layout::Blocked).unwrap().with_seed(3));
    let bytes = filter.encode();
    assert_eq!(bytes[..24], *b"SBBF\x01\0\0\0\x01\x02\0\0\x01\0\0\0\x03\0\0\0\0\0\0\0");
    assert_eq!(bytes.len(), 24 + 64 + 4);
    let mut reserved = bytes;
    reserved[10] = 1;
    assert_eq!(
        BloomFilter::decode(&reserved).err(),
        Some(FilterBytesError::Params(FilterParamsError::Reserved))
    );
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Classic), Just(Layout::Blocked)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random inserts and removals, compared with a map: no name in the map is ever refused, and a filter
    /// that follows by encoded deltas has the same bits.
    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn no_name_is_ever_missed(
        layout in layouts(), lines in 1u64..9, hashes in 1u8..=32, seed: u64,
        batches in prop::collection::vec(prop::collection::vec((0u64..40, any::<bool>()), 0..30), 0..8),
    ) {
        let params = FilterParams::of_lines(lines, hashes, layout).unwrap().with_seed(seed);
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
            let sent = FilterDelta::decode(&delta.encode(), &params).unwrap();
            prop_assert_eq!(&sent, &delta);
            follower.apply(&sent).unwrap();
            follower.apply(&sent).unwrap();
            let exported = control.export();
            prop_assert!(follower.words().eq(exported.words()));
            prop_assert!(BloomFilter::decode(&exported.encode()).unwrap().words().eq(exported.words()));
            prop_assert_eq!(control.names(), held.values().map(|&count| u64::from(count)).sum::<u64>());
            for (&number, _) in held.iter().filter(|(_, count)| **count > 0) {
                prop_assert!(follower.contains(name(number)) && control.contains(name(number)));
            }
        }
    }

    /// All query methods agree with the definition of the bit positions.
    #[test]
    fn all_ways_to_ask_agree(layout in layouts(), lines in 1u64..200, hashes in 1u8..=32, seed: u64, names in 0u64..100, asked in 0u64..150) {
        let (names, asked) = if cfg!(miri) { (names % 8, asked % 20) } else { (names, asked) };
        let params = FilterParams::of_lines(lines, hashes, layout).unwrap().with_seed(seed);
        let filter = BloomFilter::new(params);
        (0..names).for_each(|number| filter.insert(name(number)));
        let hashes: Vec<KeyHash> = (0..asked).map(name).collect();
        let mut answers = vec![false; hashes.len()];
        filter.contains_batch(&hashes, &mut answers);
        for (&hash, &answer) in hashes.iter().zip(&answers) {
            let wanted = params.places(hash).bits().iter().all(|&bit| filter.get(bit));
            prop_assert_eq!(answer, wanted);
            prop_assert_eq!(filter.contains(hash), wanted);
            // Enough words, too few, and those of another seed.
            for words in [ProbeWords::of(hash, seed, 32), ProbeWords::of(hash, seed, 2), ProbeWords::of(hash, !seed, 32)] {
                let mut read = 0;
                prop_assert_eq!(filter.contains_words(&words, |_| read += 1), wanted);
                let most = if layout == Layout::Blocked { 1 } else { params.hashes() };
                prop_assert!(read <= most);
            }
        }
        prop_assert!(answers.iter().take(names as usize).all(|&answer| answer));
    }

    /// Untrusted bytes are refused or decoded correctly.
    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn hostile_bytes_do_no_harm(lines in 1u64..4, mut bytes in prop::collection::vec(any::<u8>(), 0..200), flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..3), cut: prop::sample::Index) {
        let params = FilterParams::of_lines(lines, 3, Layout::Blocked).unwrap();
        if let Ok(delta) = FilterDelta::decode(&bytes, &params) {
            prop_assert_eq!(delta.encode(), bytes.clone());
            BloomFilter::new(params).apply(&delta).unwrap();
        }
        prop_assert!(BloomFilter::decode(&bytes).is_err());
        let filter = BloomFilter::new(params);
        (0..20).for_each(|number| filter.insert(name(number)));
        bytes = filter.encode();
        prop_assert!(BloomFilter::decode(&bytes[..cut.index(bytes.len())]).is_err());
        let whole = bytes.clone();
        for (at, to) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= to;
        }
        prop_assert_eq!(BloomFilter::decode(&bytes).is_ok(), bytes == whole);
    }
}
