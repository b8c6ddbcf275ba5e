//! Which candidate group each bucket chooses, computed from the buckets' sizes alone.
//!
//! A new block is balanced as the paper says (§4.4): buckets in descending order of size, each to its least
//! loaded candidate, ties broken at random, several runs, the best kept. The "random" choices are fixed for
//! each run, so the result depends only on the sizes. A block that changes is only relieved: one or two
//! buckets move, if that brings every affected group back under the target. In the linear formats, groups of a
//! new block that are fuller than that are relieved, too: one key more in the fullest group can be one too many
//! for its equations.

use super::format::Format;
use super::geometry::{BUCKETS, CANDIDATES, CANDIDATES_PER_BUCKET, GROUPS, MEMBERS};
use super::kernels::Balancer;

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

/// How far a group's load may stay above its target. A group above that is improved; if no moves do it in a block that
/// changes, the block is balanced anew.
pub(super) const TOLERANCE: u16 = 2;

/// How often [`balance`] goes through the groups that are too full.
pub(super) const ROUNDS: usize = 8;

/// The load that a group should not exceed in a block of this many keys.
pub(super) fn target(format: Format, keys: u32) -> u16 {
    let mean = keys.div_ceil(GROUPS as u32) as u16; // at most a block's capacity / GROUPS
    format.target_load().max(mean + 1)
}

/// The choices of a new block: a function of its buckets' sizes. See [`Balancer`] for the first step. In the linear
/// formats, [`improve`] then treats the groups more than [`TOLERANCE`] above the target one by one, up to [`ROUNDS`]
/// times or until nothing moves.
///
/// Cost: a microsecond or two, and some microseconds for each group that is too full.
pub(super) fn balance(balancer: Balancer, counts: &Counts, format: Format) -> Choices {
    let mut choices = balancer.balance(counts);
    if format.is_linear() {
        settle(counts, &mut choices, target(format, counts.iter().map(|&count| u32::from(count)).sum()));
    }
    choices
}

/// The second step of [`balance`].
pub(super) fn settle(counts: &Counts, choices: &mut Choices, target: u16) {
    let mut loads = loads(counts, choices);
    for _ in 0..ROUNDS {
        let mut has_moved = false;
        for group in 0..GROUPS {
            if loads[group] <= target + TOLERANCE {
                continue;
            }
            let Some((first, second)) = improve(counts, choices, &loads, group, target) else { continue };
            has_moved = true;
            for (bucket, to) in [Some(first), second].into_iter().flatten() {
                let bucket = usize::from(bucket);
                loads[group_under(bucket, choices[bucket])] -= counts[bucket];
                loads[group_under(bucket, to)] += counts[bucket];
                choices[bucket] = to;
            }
        }
        if !has_moved {
            break;
        }
    }
}

/// Relieves a group that is more than [`TOLERANCE`] above the target: to the target if possible, else to the tolerated
/// load, else by any number of keys. No group that the moves touch becomes fuller than the relieved one was.
pub(super) fn improve(
    counts: &Counts,
    choices: &Choices,
    loads: &Loads,
    group: usize,
    target: u16,
) -> Option<Relief> {
    let targets = [target, target + TOLERANCE, loads[group] - 1];
    targets.into_iter().find_map(|target| relieve(counts, choices, loads, group, target))
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
    use crate::isa::Isa;

    /// The first step alone.
    fn balance(counts: &Counts) -> Choices {
        Balancer::new(Isa::best()).balance(counts)
    }

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

    /// Blocks as full as the linear formats have them: on average, and four standard deviations above. A group of the
    /// dense format has 60 unknowns or more.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
    fn groups_of_full_blocks_settle() {
        for (format, deviations, settled, fullest) in [
            (Format::Linear, 0, 1_000, 28),
            (Format::Linear, 4, 1_000, 29),
            (Format::Dense, 0, 995, 61),
            (Format::Dense, 4, 450, 64),
        ] {
            let keys = format.keys_per_block() + deviations * format.keys_per_block().isqrt();
            let most = target(format, keys as u32) + TOLERANCE;
            let mut held = 0;
            for seed in 0..1_000 {
                let counts = counts(seed << 20 | keys, keys);
                let first = balance(&counts);
                let choices = super::balance(Balancer::new(Isa::best()), &counts, format);
                let (before, after) = (max(&loads(&counts, &first)), max(&loads(&counts, &choices)));
                assert_eq!(before <= most, first == choices, "{format}, seed {seed}");
                assert!(after <= before.min(fullest), "{format}, seed {seed}: {after}");
                held += u32::from(after <= most);
            }
            assert!(held >= settled, "{format}, {keys} keys in a block: {held}");
        }
    }

    #[test]
    fn one_bucket_with_all_keys_stays_where_it_is() {
        let mut counts = [0; BUCKETS];
        (counts[7], counts[8]) = (4_000, 3);
        let choices = super::balance(Balancer::new(Isa::best()), &counts, Format::Dense);
        assert_eq!(choices, balance(&counts));
    }
}
