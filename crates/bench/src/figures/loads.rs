//! Distributes keys to groups: directly by hash, and through buckets that choose a group.

use crate::keys::mix;
use rayon::prelude::*;
use scalebricks_tables::setsep::{BUCKETS, CANDIDATES_PER_BUCKET, GROUPS};
use scalebricks_types::KeyHash;
use std::cmp::Reverse;

/// Greedy runs per block, of which the best counts.
const RUNS: u64 = 8;

/// Numbers of groups by load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loads {
    groups: Vec<u64>,
}

impl Loads {
    fn add(&mut self, load: usize, groups: u64) {
        if self.groups.len() <= load {
            self.groups.resize(load + 1, 0);
        }
        self.groups[load] += groups;
    }

    fn merge(mut self, other: Self) -> Self {
        for (load, groups) in other.groups.into_iter().enumerate() {
            self.add(load, groups);
        }
        self
    }

    /// Keys in the fullest group.
    pub fn max(&self) -> usize {
        self.groups.iter().rposition(|&groups| groups > 0).unwrap_or(0)
    }

    /// The share of groups for each load that occurs.
    pub fn shares(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let all: u64 = self.groups.iter().sum();
        let there = self.groups.iter().enumerate().filter(|(_, groups)| **groups > 0);
        there.map(move |(load, &groups)| (load, groups as f64 / all as f64))
    }

    /// The share of keys lost if each group loses a share that depends on its load.
    pub fn keys_lost(&self, lost: impl Fn(usize) -> f64) -> f64 {
        let (mut gone, mut all) = (0.0, 0.0);
        for (load, share) in self.shares() {
            all += share * load as f64;
            gone += share * load as f64 * lost(load);
        }
        if all > 0.0 { gone / all } else { 0.0 }
    }
}

/// Hashes each key directly to a group.
pub fn direct(hashes: &[KeyHash], keys_per_group: u64) -> Loads {
    let groups = (hashes.len() as u64).div_ceil(keys_per_group).max(1);
    let mut filled = vec![0_usize; groups as usize];
    for hash in hashes {
        filled[scaled(*hash, groups)] += 1;
    }
    let mut loads = Loads::default();
    for load in filled {
        loads.add(load, 1);
    }
    loads
}

/// Hashes keys to buckets, and assigns each bucket of a block to one of four candidate groups: largest bucket
/// first, to its emptiest candidate (§4.4). All blocks share the candidates, and each group is a candidate of
/// equally many buckets.
pub fn balanced(hashes: &[KeyHash], keys_per_group: u64) -> Loads {
    let blocks = (hashes.len() as u64).div_ceil(keys_per_group * GROUPS as u64).max(1);
    let mut buckets = vec![0_u16; blocks as usize * BUCKETS];
    for hash in hashes {
        buckets[scaled(*hash, blocks * BUCKETS as u64)] += 1;
    }
    let candidates = candidates();
    let block = |(number, sizes): (usize, &[u16])| {
        let runs = (0..RUNS).map(|run| greedy(sizes, &candidates, mix(number as u64 * RUNS + run)));
        let best = runs.min_by_key(|loads| loads.iter().max().copied());
        let mut loads = Loads::default();
        best.into_iter().flatten().for_each(|load| loads.add(load.into(), 1));
        loads
    };
    buckets.par_chunks(BUCKETS).enumerate().map(block).reduce(Loads::default, Loads::merge)
}

/// Scales a hash to `places` positions.
const fn scaled(hash: KeyHash, places: u64) -> usize {
    ((hash.get() as u128 * places as u128) >> 64) as usize
}

type Candidates = [[u8; CANDIDATES_PER_BUCKET]; BUCKETS];

/// Four groups per bucket: its own number plus four offsets that differ between the quarters of the buckets.
fn candidates() -> Candidates {
    std::array::from_fn(|bucket| {
        let mut found = [0; CANDIDATES_PER_BUCKET];
        let (mut count, mut draw) = (0, 0);
        while count < CANDIDATES_PER_BUCKET {
            let offset = mix((bucket / GROUPS) as u64 * 1_000 + draw) as usize;
            let group = ((bucket + offset) % GROUPS) as u8;
            if !found[..count].contains(&group) {
                found[count] = group;
                count += 1;
            }
            draw += 1;
        }
        found
    })
}

fn greedy(sizes: &[u16], candidates: &Candidates, ties: u64) -> [u16; GROUPS] {
    let mut order: [usize; BUCKETS] = std::array::from_fn(|bucket| bucket);
    order.sort_by_cached_key(|&bucket| (Reverse(sizes[bucket]), mix(ties ^ bucket as u64)));
    let mut loads = [0; GROUPS];
    for bucket in order {
        let noise = |group: u8| mix(ties ^ (bucket << 8 | usize::from(group)) as u64);
        let least =
            candidates[bucket].into_iter().min_by_key(|&group| (loads[usize::from(group)], noise(group)));
        if let Some(group) = least {
            loads[usize::from(group)] += sizes[bucket];
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    fn hashes(count: u64) -> Vec<KeyHash> {
        (0..count).map(keys::hash).collect()
    }

    #[test]
    fn every_group_serves_equally_many_buckets() {
        let mut served = [0; GROUPS];
        for row in candidates() {
            for group in row {
                served[usize::from(group)] += 1;
            }
            assert!((1..4).all(|at| !row[..at].contains(&row[at])));
        }
        assert_eq!(served, [16; GROUPS]);
    }

    #[test]
    fn straight_hashing_is_poisson() {
        let loads = direct(&hashes(1 << 20), 16);
        // A share of e^-16 · 16^16 / 16! of the groups has 16 keys.
        let at = loads.shares().find(|&(load, _)| load == 16).unwrap().1;
        assert!((at - 0.0992).abs() < 0.004, "{at}");
        assert!((34..48).contains(&loads.max()), "{}", loads.max());
    }

    #[test]
    fn choices_level_the_groups() {
        let hashes = hashes(1 << 20);
        for (per_group, most) in [(16, 21), (23, 30), (50, 60)] {
            let loads = balanced(&hashes, per_group);
            let mean: f64 = loads.shares().map(|(load, share)| load as f64 * share).sum();
            assert!((mean - per_group as f64).abs() < 0.1, "{mean}");
            assert!((per_group as usize + 1..=most).contains(&loads.max()), "{}", loads.max());
        }
    }

    #[test]
    fn keys_lost_count_keys_not_groups() {
        let mut loads = Loads::default();
        loads.add(10, 1);
        loads.add(30, 1);
        assert!((loads.keys_lost(|load| if load > 20 { 1.0 } else { 0.0 }) - 0.75).abs() < 1e-12);
        assert!(Loads::default().keys_lost(|_| 1.0).abs() < 1e-12);
    }
}
