//! Sixteen attempts to balance a block, side by side.
//!
//! Buckets are assigned by size, largest first, each to the least loaded of its four candidate groups. This
//! is done sixteen times with different random tie-breaking, and the best result is kept. An attempt costs
//! little because sixteen share each instruction. The load of the fullest group is then determined by the
//! number of keys of the block.
//!
//! A lane of a group's *cell* holds, from the top: the group's load in this attempt, two bits of the group's
//! own noise, and two zero bits. A bucket ORs the number of the choice into each candidate's cell and takes
//! the minimum. The minimum is the least loaded candidate; among equal loads the one with least noise; among
//! those the first. The low bits of the minimum are the choice. No branch depends on the data, and all
//! attempts take the same steps.
//!
//! The complete definition:
//! * The order is by size, descending, then by number; sizes of 31 and more count as equal. Empty buckets
//!   choose 0.
//! * The noise of a group in an attempt is a fixed pseudo-random number.
//! * The best attempt has the lowest maximum load; then the lowest sum, over all groups, of the squared
//!   distance to the mean load (rounded up), with distances of 31 and more counted as 31; then the lowest
//!   number.

use super::super::balance::{Choices, Counts};
use super::super::geometry::{BUCKETS, CANDIDATES, CANDIDATES_PER_BUCKET, GROUPS, mix64};
use super::AvailableIsa;
use crate::isa::Isa;
use std::hint::black_box;

/// Number of attempts.
pub(in crate::setsep) const RUNS: usize = 16;

/// One number per attempt. The compiler vectorises loops over all attempts.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Runs([u16; RUNS]);

impl Runs {
    const ZERO: Self = Self([0; RUNS]);

    #[inline(always)]
    fn map(mut self, f: impl Fn(u16) -> u16) -> Self {
        for run in 0..RUNS {
            self.0[run] = f(self.0[run]);
        }
        self
    }

    #[inline(always)]
    fn zip(mut self, other: Self, f: impl Fn(u16, u16) -> u16) -> Self {
        for run in 0..RUNS {
            self.0[run] = f(self.0[run], other.0[run]);
        }
        self
    }
}

/// Number of sizes that the order distinguishes.
pub(in crate::setsep) const SIZES: usize = 32;

/// Number of parts of the buckets that are sorted side by side.
const QUARTERS: usize = 4;

/// Lowest bit of the load in a cell. A block has fewer than 2^12 keys, so the load always fits.
pub(in crate::setsep) const LOAD: u32 = 4;

/// Larger distances from the mean count as this one: the sum of its square over [`GROUPS`] groups stays below
/// 2^16.
pub(in crate::setsep) const FARTHEST: u16 = 31;

/// The cells of empty groups.
static EMPTY: [Runs; GROUPS] = empty();

const fn empty() -> [Runs; GROUPS] {
    let mut cells = [Runs::ZERO; GROUPS];
    let mut at = 0;
    while at < GROUPS * RUNS {
        cells[at / RUNS].0[at % RUNS] = (mix64(at as u64 + 1) & 3) as u16 * CANDIDATES_PER_BUCKET as u16;
        at += 1;
    }
    cells
}

/// Balances blocks with the instruction set it is given.
#[derive(Debug, Clone, Copy)]
pub(in crate::setsep) struct Balancer(AvailableIsa);

impl Balancer {
    /// A balancer for this instruction set.
    pub(in crate::setsep) fn new(isa: Isa) -> Self {
        Self(AvailableIsa::new(isa))
    }

    /// The best of sixteen attempts, the same for every instruction set. A block must have fewer than 2^12
    /// keys.
    ///
    /// Cost: a microsecond with AVX2, 1.6 without.
    pub(in crate::setsep) fn balance(self, counts: &Counts) -> Choices {
        match self.0.isa() {
            Isa::Portable => balance(counts),
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code, reason = "see SAFETY")]
            // SAFETY: `AvailableIsa` holds only instruction sets detected on this processor, and all but
            // `Portable` include AVX2.
            _ => unsafe { balance_avx2(counts) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => balance(counts),
        }
    }
}

/// The same code for all attempts, which the compiler translates to AVX2 instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn balance_avx2(counts: &Counts) -> Choices {
    balance(counts)
}

#[inline(always)]
fn balance(counts: &Counts) -> Choices {
    let mut order = [0; BUCKETS];
    let filled = sort(counts, &mut order);
    let mut cells = EMPTY;
    let mut taken = [Runs::ZERO; BUCKETS];
    for &bucket in order.iter().take(filled) {
        let bucket = usize::from(bucket);
        let size = counts[bucket] << LOAD;
        let (mut groups, mut held, mut bids) = ([0; 4], [Runs::ZERO; 4], [Runs::ZERO; 4]);
        for choice in 0..CANDIDATES_PER_BUCKET {
            groups[choice] = usize::from(CANDIDATES[bucket][choice]) % GROUPS;
            held[choice] = cells[groups[choice]];
            bids[choice] = held[choice].map(|cell| cell | choice as u16);
        }
        let least = bids[0].zip(bids[1], u16::min).zip(bids[2].zip(bids[3], u16::min), u16::min);
        taken[bucket] = least;
        for choice in 0..CANDIDATES_PER_BUCKET {
            let added = bids[choice].zip(least, |bid, least| if bid == least { size } else { 0 });
            cells[groups[choice]] = held[choice].zip(added, |cell, added| cell + added);
        }
    }
    let run = best(&cells, counts);
    let mut choices = [0; BUCKETS];
    for (choice, least) in choices.iter_mut().zip(&taken) {
        *choice = (least.0[run] % CANDIDATES_PER_BUCKET as u16) as u8;
    }
    choices
}

/// The non-empty buckets sorted by size, and their number: a counting sort. Each quarter of the buckets has
/// its own counters, because reading a counter that was just written is slow.
#[inline(always)]
fn sort(counts: &Counts, order: &mut [u8; BUCKETS]) -> usize {
    let mut classes = [0; BUCKETS];
    for (class, &count) in classes.iter_mut().zip(counts) {
        *class = (SIZES - 1) as u8 - count.min(SIZES as u16 - 1) as u8;
    }
    let mut places = [[0u16; QUARTERS]; SIZES];
    let class = |place: usize, quarter: usize| usize::from(classes[place + quarter * BUCKETS / QUARTERS]);
    for place in 0..BUCKETS / QUARTERS {
        for quarter in 0..QUARTERS {
            places[class(place, quarter) % SIZES][quarter] += 1;
        }
    }
    let mut start = 0;
    for place in places.as_flattened_mut() {
        (*place, start) = (start, start + *place);
    }
    let filled = places[SIZES - 1][0];
    for place in 0..BUCKETS / QUARTERS {
        for quarter in 0..QUARTERS {
            let to = &mut places[class(place, quarter) % SIZES][quarter];
            order[usize::from(*to) % BUCKETS] = (place + quarter * BUCKETS / QUARTERS) as u8;
            *to += 1;
        }
    }
    filled.into()
}

/// The number of the best attempt.
#[inline(always)]
fn best(cells: &[Runs; GROUPS], counts: &Counts) -> usize {
    let mean = counts.iter().sum::<u16>().div_ceil(GROUPS as u16);
    let (mut most, mut spread) = (Runs::ZERO, Runs::ZERO);
    for group in 0..GROUPS {
        // `black_box` hides the loop from the compiler, which would otherwise vectorise over the groups, at
        // three times the cost.
        let loads = cells[black_box(group) % GROUPS].map(|cell| cell >> LOAD);
        most = most.zip(loads, u16::max);
        let distance = loads.map(|load| load.abs_diff(mean).min(FARTHEST));
        spread = spread.zip(distance, |spread, distance| spread + distance * distance);
    }
    let scores = most.0.iter().zip(&spread.0).zip(0..);
    let score = |((&most, &spread), run)| u64::from(most) << 32 | u64::from(spread) << 16 | run;
    scores.map(score).fold(u64::MAX, u64::min) as usize % RUNS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setsep::balance::{loads, max};
    use proptest::prelude::*;

    /// The definition, implemented one attempt at a time.
    fn obvious(counts: &Counts) -> Choices {
        let mut order: Vec<usize> = (0..BUCKETS).filter(|&bucket| counts[bucket] > 0).collect();
        order.sort_by_key(|&bucket| std::cmp::Reverse(counts[bucket].min(31)));
        let mean = u64::from(counts.iter().sum::<u16>().div_ceil(64));
        let attempt = |run: usize| {
            let (mut choices, mut loads) = ([0; BUCKETS], [0; GROUPS]);
            for &bucket in &order {
                let groups = CANDIDATES[bucket].map(usize::from);
                let noise = |group: usize| mix64((group * RUNS + run + 1) as u64) % 4;
                let key = |&choice: &usize| (loads[groups[choice]], noise(groups[choice]), choice);
                let choice = (0..4).min_by_key(key).unwrap();
                loads[groups[choice]] += counts[bucket];
                choices[bucket] = choice as u8;
            }
            let squares: u64 = loads.iter().map(|&load| u64::from(load).abs_diff(mean).min(31).pow(2)).sum();
            ((max(&loads), squares, run), choices)
        };
        (0..RUNS).map(attempt).min_by_key(|attempt| attempt.0).unwrap().1
    }

    pub(super) fn block(seed: u64, keys: u64) -> Counts {
        let mut counts = [0; BUCKETS];
        (0..keys).for_each(|i| counts[(mix64(seed ^ mix64(i)) >> 56) as usize] += 1);
        counts
    }

    fn check(counts: &Counts) {
        let choices = obvious(counts);
        for isa in crate::isa::compared() {
            assert_eq!(Balancer::new(isa).balance(counts), choices, "{isa}");
        }
    }

    #[test]
    fn empty_full_and_lopsided_blocks_equal_the_definition() {
        check(&[0; BUCKETS]);
        if cfg!(miri) {
            return; // each takes seconds
        }
        check(&[15; BUCKETS]);
        let mut counts = [0; BUCKETS];
        (counts[7], counts[70], counts[200]) = (4000, 31, 1);
        check(&counts);
        (counts[7], counts[8]) = (32, 31);
        check(&counts);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None,
            ..ProptestConfig::default() })]
        #[test]
        #[cfg_attr(miri, ignore = "minutes under the interpreter, whose form is safe")]
        fn any_block_equals_the_definition(seed: u64, keys in 0u64..4033) {
            check(&block(seed, keys));
        }
    }

    /// The fullest groups of blocks with a multiple of 64 keys. The number of keys varies as in
    /// Poisson-distributed blocks.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
    fn the_fullest_group_is_little_fuller_than_the_mean() {
        for (mean, most) in [(16_u64, 19), (23, 28), (50, 61)] {
            let fullest = |seed: u64| {
                let keys = (64 * mean).saturating_add_signed(spread(seed, 64 * mean));
                let counts = block(seed << 32, keys);
                max(&loads(&counts, &Balancer::new(Isa::best()).balance(&counts)))
            };
            let worst = (0..1024).map(fullest).max().unwrap();
            assert!(worst <= most, "{worst} keys in a group, {mean} on average");
        }
    }

    /// An approximately normally distributed number around 0 with this variance: the sum of twelve uniform
    /// numbers from 0 to 1, minus 6.
    fn spread(seed: u64, variance: u64) -> i64 {
        let sum: f64 = (0..12).map(|i| mix64(mix64(seed) + i) as f64 / u64::MAX as f64).sum();
        ((sum - 6.0) * (variance as f64).sqrt()).round() as i64
    }
}
