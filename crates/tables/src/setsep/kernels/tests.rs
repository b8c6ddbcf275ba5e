//! Compares every kernel with its definition, for every instruction set that this processor supports.

use super::super::format::Format;
use super::super::geometry::mix64;
use super::super::layout::Layout;
use super::super::linear;
use super::super::params::Params;
use super::super::solver::{self, GroupKeys, Solver};
use super::*;
use crate::isa::Isa;
use proptest::prelude::*;
use scalebricks_types::PartitionCount;

fn params(dense: bool, bits: u8, seed: u64) -> Params {
    let format = if dense { Format::Dense } else { Format::Linear };
    Params::new(1, bits, PartitionCount::ONE).unwrap().with_format(format).unwrap().with_seed(seed)
}

/// Distinct keys; if `twins`, some pairs of them always have equal rows.
fn group(load: u64, seed: u64, bits: u8, twins: bool) -> GroupKeys {
    let mut keys = GroupKeys::default();
    for i in 0..load {
        let hash = mix64(seed ^ mix64(i));
        let value = (mix64(!seed ^ i) & ((1 << bits) - 1)) as u8;
        keys.push(if twins && i % 8 == 7 { keys.hashes[0] } else { hash }, value);
    }
    keys
}

fn check(groups: &[GroupKeys], params: &Params) -> usize {
    let solved: Vec<_> = groups.iter().map(|keys| linear::solve(keys, params)).collect();
    let bits = usize::from(params.value_bits());
    let layout = Layout::of(params);
    for isa in crate::isa::compared() {
        let mut solver = Solver::new(params, isa);
        for turn in 0..if cfg!(miri) { 1 } else { 2 } {
            for (tag, keys) in groups.iter().enumerate().skip(turn) {
                solver.push(tag as u32, &keys.hashes, &keys.values);
            }
            assert_eq!(solver.len(), groups.len() - turn);
            let mut tags = turn as u32..;
            solver.drain(|tag, packed| {
                assert_eq!(Some(tag), tags.next());
                assert_eq!(
                    packed.map(|packed| layout.unpack(packed)),
                    solved[tag as usize],
                    "{isa}, group {tag}, {params:?}"
                );
            });
            assert_eq!((solver.len(), tags.next()), (0, Some(groups.len() as u32)));
        }
        let expected = |group: usize| solved[group].unwrap_or(solver::marked(params));
        let check = |at: usize, field: u64| assert_eq!(field, expected(at / bits)[at % bits], "{isa}");
        if params.format() == Format::Linear {
            in_tile::<u32>(groups, params, isa).into_iter().enumerate().for_each(|(i, f)| check(i, f.into()));
        } else {
            in_tile::<u64>(groups, params, isa).into_iter().enumerate().for_each(|(i, f)| check(i, f));
        }
    }
    solved.iter().filter(|fields| fields.is_none()).count()
}

fn in_tile<W: Word>(groups: &[GroupKeys], params: &Params, isa: Isa) -> Vec<W> {
    let mut tile = Tile::<W>::new(params, isa);
    tile.clear(groups.len());
    let most = groups.iter().map(|keys| keys.hashes.len()).max().unwrap_or(0);
    for at in 0..most {
        for (group, keys) in groups.iter().enumerate().filter(|(_, keys)| at < keys.hashes.len()) {
            tile.push(group, keys.hashes[at], keys.values[at]);
        }
    }
    let fields = tile.solve().to_vec();
    let none = (0..groups.len()).filter(|&group| linear::solve(&groups[group], params).is_none());
    assert!(none.eq(tile.unsolved().iter().map(|&group| group as usize)));
    fields
}

#[test]
fn every_load_and_width_equals_the_definition() {
    for dense in [false, true] {
        let most = if dense { 66 } else { 34 };
        let widths = match (cfg!(miri), dense) {
            (false, _) => 1..=8,
            (true, false) => 1..=1,
            (true, true) => 8..=8,
        };
        for bits in widths {
            let loads = (0..=if cfg!(miri) { 9 } else { most }).step_by(if cfg!(miri) { 9 } else { 1 });
            let groups: Vec<_> = loads.map(|load| group(load, load << 32 | 5, bits, false)).collect();
            let unsolved = check(&groups, &params(dense, bits, 77));
            assert!(unsolved >= 2 || cfg!(miri), "{unsolved} unsolved");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn groups_that_are_much_too_full_are_unsolved_and_disturb_no_other() {
    let groups: Vec<_> = [20, 31, 300, 5, 33, 0].map(|load| group(load, load, 2, false)).into();
    assert_eq!(check(&groups, &params(false, 2, 1)), 2);
    let mut groups = groups;
    groups.push(group(65, 3, 2, false));
    assert_eq!(check(&groups, &params(true, 2, 1)), 2);
}

#[test]
fn a_level_this_processor_lacks_is_never_used() {
    assert!(Isa::ALL.into_iter().all(|isa| AvailableIsa::new(isa).isa().is_available()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 60 }, failure_persistence: None,
        ..ProptestConfig::default() })]
    #[test]
    fn mixed_batches_equal_the_definition(
        seed: u64, bits in 1u8..=8, dense: bool, full in 0u64..8, many in 1usize..120, twins: bool,
    ) {
        let most = if dense { 65 } else { 33 };
        let (most, full, many) = if cfg!(miri) { (9, 0, many % 4 + 1) } else { (most, full, many) };
        let groups: Vec<_> = (0..many as u64)
            .map(|i| {
                let noise = mix64(seed ^ i << 32);
                let load = if noise % 8 < full { most - 1 - noise % 6 } else { noise >> 8 };
                group(load % (most + 1), noise, bits, twins && i % 3 == 0)
            })
            .collect();
        check(&groups, &params(dense, bits, seed));
    }
}
