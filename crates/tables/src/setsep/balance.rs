//! Which candidate group each bucket chooses, computed from the buckets' sizes alone.
//!
//! A new block is balanced as the paper says (§4.4): buckets in descending order of size, each to its least
//! loaded candidate, ties broken at random, several runs, the best kept. The "random" choices are fixed for
//! each run, so the result depends only on the sizes. A block that changes is only relieved: one or two
//! buckets move, if that brings every affected group back under the target.

use super::geometry::{BUCKETS, CANDIDATES, CANDIDATES_PER_BUCKET, GROUPS, MEMBERS};
use super::kernels::Balancer;
use crate::isa::Isa;

/// A choice for every bucket of a block.
pub(super) type Choices = [u8; BUCKETS];
/// Number of keys in every group of a block.
pub(super) type Loads = [u16; GROUPS];
/// Number of keys in every bucket of a block.
pub(super) type Counts = [u16; BUCKETS];

/// A bucket and the choice it changes to.
pub(super) type Move = (u8, u8);

/// One move, or two.
pub(super) type Relief = (Move, Option<Move>);

/// The group of a bucket under a choice.
#[inline]
pub(super) fn group_under(bucket: usize, choice: u8) -> usize {
    usize::from(CANDIDATES[bucket][usize::from(choice)])
}

/// The load of every group.
pub(super) fn loads(counts: &Counts, choices: &Choices) -> Loads {
    let mut loads = [0; GROUPS];
    for bucket in 0..BUCKETS {
        loads[group_under(bucket, choices[bucket])] += counts[bucket];
    }
    loads
}

/// The load of the fullest group.
pub(super) fn max(loads: &Loads) -> u16 {
    loads.iter().copied().max().unwrap_or(0)
}

/// The choices of a new block: a function of its buckets' sizes. See [`Balancer`] for the definition.
///
/// Cost: a microsecond or two.
pub(super) fn balance(counts: &Counts) -> Choices {
    Balancer::new(Isa::best()).balance(counts)
}

/// Finds one or two moves after which `group` and every group they touch hold at most `target` keys. Of all
/// such moves it returns those that leave the lowest maximum among these groups, then the first by bucket and
/// choice.
///
/// Cost: at most 16 buckets x 3 places, and for two moves 16 x 3 again for each.
pub(super) fn relieve(
    counts: &Counts,
    choices: &Choices,
    loads: &Loads,
    group: usize,
    target: u16,
) -> Option<Relief> {
    let mut best: Option<(u16, Relief)> = None;
    let offer = |best: &mut Option<(u16, Relief)>, highest: u16, moves| {
        if highest <= target && best.is_none_or(|(held, _)| highest < held) {
            *best = Some((highest, moves));
        }
    };
    for (bucket, to, size) in ways_out(counts, choices, group) {
        let place = group_under(usize::from(bucket), to);
        offer(&mut best, (loads[group] - size).max(loads[place] + size), ((bucket, to), None));
    }
    if let Some((_, moves)) = best {
        return Some(moves);
    }
    for (bucket, to, size) in ways_out(counts, choices, group) {
        let place = group_under(usize::from(bucket), to);
        let (rest, crowded) = (loads[group] - size, loads[place] + size);
        for (second, onward, moved) in ways_out(counts, choices, place) {
            let end = group_under(usize::from(second), onward);
            // In a swap, the second bucket moves to the group that the first one left.
            let (rest, end) = if end == group { (rest + moved, 0) } else { (rest, loads[end] + moved) };
            let highest = rest.max(end).max(crowded - moved);
            offer(&mut best, highest, ((bucket, to), Some((second, onward))));
        }
    }
    best.map(|(_, moves)| moves)
}

/// The non-empty buckets of a group, with the other choices each has: (bucket, choice, keys).
fn ways_out<'a>(
    counts: &'a Counts,
    choices: &'a Choices,
    group: usize,
) -> impl Iterator<Item = (u8, u8, u16)> + 'a {
    let here = MEMBERS[group].iter().filter(|&&(bucket, choice)| {
        choices[usize::from(bucket)] == choice && counts[usize::from(bucket)] > 0
    });
    here.flat_map(move |&(bucket, choice)| {
        let others = (0..CANDIDATES_PER_BUCKET as u8).filter(move |&other| other != choice);
        others.map(move |other| (bucket, other, counts[usize::from(bucket)]))
    })
}

#[cfg(test)]
mod tests {
    use super::super::geometry::mix64;
    use super::*;

    fn counts(seed: u64, keys: u64) -> Counts {
        let mut counts = [0; BUCKETS];
        (0..keys).for_each(|i| counts[(mix64(seed ^ mix64(i)) >> 56) as usize] += 1);
        counts
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
    fn a_full_block_balances_to_within_two_keys_of_the_mean() {
        for seed in 0..200 {
            let counts = counts(seed, 1024);
            let choices = balance(&counts);
            assert!(max(&loads(&counts, &choices)) <= 18, "seed {seed}");
            assert_eq!(choices, balance(&counts));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
    fn relief_brings_the_group_under_the_target_and_no_other_above() {
        let (mut one, mut two) = (0, 0);
        for seed in 0..300 {
            let mut counts = counts(seed, 1060);
            let choices = balance(&counts);
            let bucket = (mix64(seed) & 0xFF) as usize;
            counts[bucket] += 6;
            let before = loads(&counts, &choices);
            let group = group_under(bucket, choices[bucket]);
            let target = 18.max(before[group] - 4);
            if before[group] <= target {
                continue;
            }
            let Some((first, second)) = relieve(&counts, &choices, &before, group, target) else { continue };
            let mut moved = choices;
            moved[usize::from(first.0)] = first.1;
            if let Some((bucket, choice)) = second {
                moved[usize::from(bucket)] = choice;
            }
            let after = loads(&counts, &moved);
            assert!(after[group] <= target, "seed {seed}");
            assert!((0..GROUPS).all(|g| after[g] <= target.max(before[g])), "seed {seed}");
            *if second.is_some() { &mut two } else { &mut one } += 1;
        }
        assert!(one > 0 && two > 0, "{one} single moves, {two} double");
    }
}
