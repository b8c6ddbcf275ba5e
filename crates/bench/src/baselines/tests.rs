use super::buffalo::{Buffalo, SideBySide, Sizes};
use super::orthogonal::Orthogonal;
use super::sorted::Sorted;
use super::tuple_space::TupleSpace;
use super::*;
use std::collections::HashMap;

/// A pseudo-random name.
fn name(number: u64) -> KeyHash {
    KeyHash::new(mix(number ^ 0x5EED_0000_0000))
}

/// Names with actions below `2^bits`; lower actions have more names.
fn population(count: u64, bits: u8) -> Vec<(KeyHash, u16)> {
    let action = |number: u64| {
        let (a, b) = (mix(number) & 0xFFFF, mix(!number) & 0xFFFF);
        (a.min(b) >> (16 - bits)) as u16
    };
    (0..count).map(|number| (name(number), action(number))).collect()
}

fn counts(names: &[(KeyHash, u16)], actions: usize) -> Vec<u64> {
    let mut counts = vec![0; actions];
    for &(_, action) in names {
        counts[usize::from(action)] += 1;
    }
    counts
}

/// Checks the answer for each name; returns how many were picked among several, and the mean lines per query.
fn check(table: &impl Baseline, names: &[(KeyHash, u16)]) -> (usize, f64) {
    let (mut picked, mut lines) = (0, 0);
    for &(name, action) in names {
        match table.look_up(name) {
            Answer::Picked(_) => picked += 1,
            answer => assert_eq!(answer, Answer::Action(action)),
        }
        lines += table.lines(name);
    }
    (picked, lines as f64 / names.len() as f64)
}

/// At most the theoretical count plus six standard deviations.
fn assert_rare(found: usize, of: u64, rate: f64) {
    let expected = rate * of as f64;
    assert!(found as f64 <= expected + 6.0 * expected.sqrt() + 1.0, "{found} for {expected}");
}

#[test]
fn a_binary_search_knows_every_name_and_no_other() {
    for bits in [1, 2, 8, 16] {
        for count in [0, 1, 2, 3, 1000] {
            let names = population(count, bits);
            let table = Sorted::build(&names).unwrap();
            assert_eq!(check(&table, &names).0, 0);
            assert!((5000..7000).map(name).all(|alien| table.look_up(alien) == Answer::Unknown));
        }
    }
    let twice = [(name(1), 1), (name(2), 1), (name(1), 2)];
    assert_eq!(Sorted::build(&twice).err(), Some(BaselineError::Twice(name(1))));
}

#[test]
fn a_binary_search_reads_a_line_for_nearly_every_step() {
    let names = population(4096, 8);
    let table = Sorted::build(&names).unwrap();
    let (_, lines) = check(&table, &names);
    // 12 steps, the last three of them in one line, and the action's line.
    assert!((10.0..=12.0).contains(&lines), "{lines}");
    assert_eq!(table.table_bytes(), 40_960);
}

#[test]
fn buffalo_finds_every_names_action_and_tells_where_others_fit() {
    // Two to 65,536 actions, with measurable rates.
    for (bits, count, rate) in [(1, 20_000, 0.01), (4, 20_000, 0.01), (8, 4_000, 0.01), (16, 300, 0.1)] {
        let names = population(count, bits);
        let sizes = Sizes::for_rate(&counts(&names, 1 << bits), rate, 3).unwrap();
        let table = Buffalo::build(&names, &sizes).unwrap();
        let (picked, _) = check(&table, &names);
        assert_rare(picked, count, rate);
        let aliens = (1_000_000..1_000_000 + count).map(name);
        let through = aliens.filter(|&alien| table.look_up(alien) != Answer::Unknown).count();
        assert_rare(through, count, rate);
        assert!(bits == 16 || through > 0, "{bits}");
    }
}

#[test]
fn filters_side_by_side_say_the_same_and_read_a_line_a_row() {
    for (bits, count, rate) in [(1, 20_000, 0.01), (4, 20_000, 0.01), (8, 4_000, 0.01), (16, 300, 0.1)] {
        let names = population(count, bits);
        let table = SideBySide::build(&names, 1 << bits, rate, 3).unwrap();
        let (picked, lines) = check(&table, &names);
        assert_rare(picked, count, rate);
        assert!(picked > 0 || bits == 16, "{bits}");
        let aliens = (1_000_000..1_000_000 + count).map(name);
        let through = aliens.filter(|&alien| table.look_up(alien) != Answer::Unknown).count();
        assert_rare(through, count, rate);
        // Rows of up to 512 bits are one line; those of 65,536 bits are 128.
        let most = if bits == 16 { 8.0 * 128.0 } else { 8.0 };
        assert!(lines <= most && lines > 0.9 * most.min(8.0), "{lines}");
    }
    let beyond = SideBySide::build(&[(name(1), 2)], 2, 0.01, 1).err();
    assert_eq!(beyond, Some(BaselineError::Action { action: 2, actions: 2 }));
}

#[test]
fn one_of_those_that_fit_is_picked_evenly() {
    // Each name gets all three actions.
    let names: Vec<(KeyHash, u16)> =
        (0..3000).map(|number| (name(number / 3), (number % 3) as u16)).collect();
    let table = Buffalo::build(&names, &Sizes::for_rate(&[1000; 3], 1e-3, 1).unwrap()).unwrap();
    let mut shares = [0; 3];
    for number in 0..1000 {
        match table.look_up(name(number)) {
            Answer::Picked(action) => shares[usize::from(action)] += 1,
            other => unreachable!("{other:?}"),
        }
    }
    assert!(shares.iter().all(|share| (250..420).contains(share)), "{shares:?}");
}

#[test]
fn orthogonal_filters_tell_the_bits() {
    for (bits, count, rate) in [(1, 20_000, 0.01), (4, 20_000, 0.01), (8, 20_000, 0.01), (16, 5000, 0.01)] {
        let names = population(count, bits);
        let table = Orthogonal::build(&names, bits, rate, 3).unwrap();
        let (picked, lines) = check(&table, &names);
        assert_rare(picked, count, rate);
        assert!(picked > 0 || bits == 16);
        // A row per hash; the number of hashes is log2 of the rate per pair.
        let hashes = (f64::from(bits) / rate).log2().round();
        assert!(lines <= hashes && lines > 0.9 * hashes, "{lines}");
        let aliens = (1_000_000..1_000_000 + count).map(name);
        // One filter of each pair must fit. That is either of two filters for one pair, and very unlikely for
        // more.
        let through = aliens.filter(|&alien| table.look_up(alien) != Answer::Unknown).count();
        assert_rare(through, count, if bits == 1 { 2.0 * rate } else { 1e-5 });
    }
    let error = Orthogonal::build(&[(name(1), 4)], 2, 0.01, 1).err();
    assert_eq!(error, Some(BaselineError::Action { action: 4, actions: 4 }));
}

#[test]
fn a_tuple_space_finds_what_a_map_of_masked_headers_does() {
    let mask = [0xFF00, u64::MAX, 0, 3];
    let header = |number: u64| {
        let dice = mix(number);
        [dice << 4, dice >> 40 & 7, dice, dice >> 24]
    };
    let masked = |header: [u64; 4]| std::array::from_fn::<u64, 4, _>(|at| header[at] & mask[at]);
    let (mut space, mut map) = (TupleSpace::new(mask), HashMap::new());
    for step in 0..3000_u64 {
        let (header, action) = (header(step), mix(!step) as u16);
        space.insert(&header, action);
        map.insert(masked(header), action);
    }
    for number in 2000..6000 {
        let header = header(number);
        assert_eq!(space.look_up(&header), map.get(&masked(header)).copied());
        assert!(space.lines(&header) >= 2);
    }
    assert!(space.table_bytes() >= 2 * 64 * map.len() as u64);
}
