//! One block of the control structure: its keys, where they go, and the bits that follow.

use super::balance::{self, Choices, Counts, Loads, group_under};
use super::geometry::{BUCKETS, GROUPS, MEMBERS, bucket_of};
use super::image::{Layout, set_choice};
use super::params::Params;
use super::solver::{self, GroupKeys};

/// How far above its target a group may stay before the whole block is balanced anew.
const REBALANCE_ABOVE: u16 = 2;

/// How often blocks had to be rearranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moves {
    /// Times one bucket moved to another of its groups.
    pub single: u64,
    /// Times two buckets moved to make room.
    pub double: u64,
    /// Times a whole block was balanced anew.
    pub rebalanced: u64,
}

/// A block with its keys. About 10 bytes a key and 1.4 KiB.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) number: u32,
    /// Ascending, hence ordered by bucket.
    pub(super) keys: Vec<u64>,
    pub(super) values: Vec<u8>,
    /// Where each bucket's keys begin, and the end.
    starts: Box<[u16; BUCKETS + 1]>,
    pub(super) choices: Choices,
    pub(super) loads: Loads,
    /// One bit a group: unsolved.
    pub(super) marks: u64,
    pub(super) words: Box<[u64]>,
}

/// Why a key cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Exists,
    Missing,
    Full,
}

impl Block {
    pub(super) fn empty(params: &Params, number: u32) -> Self {
        Self {
            number,
            keys: Vec::new(),
            values: Vec::new(),
            starts: Box::new([0; BUCKETS + 1]),
            choices: [0; BUCKETS],
            loads: [0; GROUPS],
            marks: 0,
            words: vec![0; params.slot_words()].into(),
        }
    }

    /// A block with these keys, ascending, different and its own, at most the format's capacity, but no bits yet.
    pub(super) fn with_keys(params: &Params, number: u32, keys: Vec<u64>, values: Vec<u8>) -> Self {
        let mut block = Self { keys, values, ..Self::empty(params, number) };
        for &key in &block.keys {
            block.starts[bucket_of(key, params.blocks()).1 + 1] += 1;
        }
        for bucket in 0..BUCKETS {
            block.starts[bucket + 1] += block.starts[bucket];
        }
        block
    }

    /// Balances the block and solves its groups, as a function of its keys alone.
    pub(super) fn build(&mut self, params: &Params, scratch: &mut GroupKeys) {
        self.choose(balance::balance(&self.counts(), params.seed(), self.number));
        self.solve(params, u64::MAX, scratch);
    }

    /// Takes on bits that were solved before.
    pub(super) fn restore(&mut self, params: &Params, words: Box<[u64]>) {
        self.words = words;
        self.choose(std::array::from_fn(|bucket| super::image::choice(&self.words, bucket)));
        self.marks = Layout::of(params).marks(&self.words);
    }

    fn choose(&mut self, choices: Choices) {
        self.choices = choices;
        self.loads = balance::loads(&self.counts(), &choices);
    }

    fn counts(&self) -> Counts {
        std::array::from_fn(|bucket| self.starts[bucket + 1] - self.starts[bucket])
    }

    fn range(&self, bucket: usize) -> std::ops::Range<usize> {
        self.starts[bucket].into()..self.starts[bucket + 1].into()
    }

    /// Where a hash is (`Ok`), or would be inserted.
    fn find(&self, bucket: usize, hash: u64) -> Result<usize, usize> {
        let range = self.range(bucket);
        let found = self.keys[range.clone()].binary_search(&hash);
        found.map(|at| at + range.start).map_err(|at| at + range.start)
    }

    /// The value of a hash.
    pub(super) fn get(&self, params: &Params, hash: u64) -> Option<u8> {
        self.find(bucket_of(hash, params.blocks()).1, hash).ok().map(|at| self.values[at])
    }

    fn group(&self, bucket: usize) -> usize {
        group_under(bucket, self.choices[bucket])
    }

    /// Adds a key without looking at loads; returns its bucket.
    pub(super) fn put(&mut self, params: &Params, hash: u64, value: u8) -> Result<usize, Refused> {
        let (_, bucket) = bucket_of(hash, params.blocks());
        let Err(at) = self.find(bucket, hash) else { return Err(Refused::Exists) };
        if self.keys.len() >= params.format().block_capacity() {
            return Err(Refused::Full);
        }
        self.keys.insert(at, hash);
        self.values.insert(at, value);
        self.starts[bucket + 1..].iter_mut().for_each(|start| *start += 1);
        self.loads[self.group(bucket)] += 1;
        Ok(bucket)
    }

    /// Adds a key and, if its group is now too full, moves buckets. Marks the groups to solve in `dirty`.
    pub(super) fn insert(
        &mut self,
        params: &Params,
        hash: u64,
        value: u8,
        dirty: &mut u64,
        moves: &mut Moves,
    ) -> Result<(), Refused> {
        let bucket = self.put(params, hash, value)?;
        let group = self.group(bucket);
        *dirty |= 1 << group;
        let mean = self.keys.len().div_ceil(GROUPS) as u16; // at most a block's capacity / GROUPS
        let target = params.format().target_load().max(mean + 1);
        if self.loads[group] > target {
            self.relieve(params, group, target, dirty, moves);
        }
        Ok(())
    }

    fn relieve(&mut self, params: &Params, group: usize, target: u16, dirty: &mut u64, moves: &mut Moves) {
        let counts = self.counts();
        if let Some((first, second)) = balance::relieve(&counts, &self.choices, &self.loads, group, target) {
            *if second.is_some() { &mut moves.double } else { &mut moves.single } += 1;
            let mut choices = self.choices;
            for (bucket, choice) in [Some(first), second].into_iter().flatten() {
                choices[usize::from(bucket)] = choice;
            }
            self.change_choices(choices, dirty);
        } else if self.loads[group] > target + REBALANCE_ABOVE {
            let choices = balance::balance(&counts, params.seed(), self.number);
            if balance::max(&balance::loads(&counts, &choices)) < balance::max(&self.loads) {
                moves.rebalanced += 1;
                self.change_choices(choices, dirty);
            }
        }
    }

    fn change_choices(&mut self, choices: Choices, dirty: &mut u64) {
        for (bucket, &choice) in choices.iter().enumerate() {
            if choice != self.choices[bucket] && !self.range(bucket).is_empty() {
                *dirty |= 1 << self.group(bucket) | 1 << group_under(bucket, choice);
            }
        }
        self.choose(choices);
    }

    /// Replaces a key's value; returns the old one.
    pub(super) fn update(
        &mut self,
        params: &Params,
        hash: u64,
        value: u8,
        dirty: &mut u64,
    ) -> Result<u8, Refused> {
        let (_, bucket) = bucket_of(hash, params.blocks());
        let at = self.find(bucket, hash).map_err(|_| Refused::Missing)?;
        *dirty |= 1 << self.group(bucket);
        Ok(std::mem::replace(&mut self.values[at], value))
    }

    /// Takes a key out; returns its value.
    pub(super) fn remove(&mut self, params: &Params, hash: u64, dirty: &mut u64) -> Result<u8, Refused> {
        let (_, bucket) = bucket_of(hash, params.blocks());
        let at = self.find(bucket, hash).map_err(|_| Refused::Missing)?;
        let group = self.group(bucket);
        *dirty |= 1 << group;
        self.keys.remove(at);
        self.starts[bucket + 1..].iter_mut().for_each(|start| *start -= 1);
        self.loads[group] -= 1;
        Ok(self.values.remove(at))
    }

    /// Writes the choices, and solves the groups whose bit is set.
    pub(super) fn solve(&mut self, params: &Params, groups: u64, scratch: &mut GroupKeys) {
        let layout = Layout::of(params);
        for (bucket, &choice) in self.choices.iter().enumerate() {
            set_choice(&mut self.words, bucket, choice);
        }
        for group in (0..GROUPS).filter(|group| groups >> group & 1 == 1) {
            scratch.clear();
            for &(bucket, choice) in &MEMBERS[group] {
                if self.choices[usize::from(bucket)] == choice {
                    for at in self.range(bucket.into()) {
                        scratch.push(self.keys[at], self.values[at]);
                    }
                }
            }
            let solved = solver::solve(scratch, params);
            let fields = solved.unwrap_or(solver::marked(params));
            layout.set_group(&mut self.words, group, &fields);
            self.marks = self.marks & !(1 << group) | u64::from(solved.is_none()) << group;
        }
    }

    /// Keys that the fallback answers.
    pub(super) fn fallback_keys(&self) -> usize {
        (0..GROUPS)
            .filter(|group| self.marks >> group & 1 == 1)
            .map(|group| usize::from(self.loads[group]))
            .sum()
    }

    /// The fallback list: the keys of marked groups with their values, ascending.
    pub(super) fn fallback(&self) -> Vec<(u64, u8)> {
        if self.marks == 0 {
            return Vec::new();
        }
        let marked = (0..BUCKETS).filter(|&bucket| self.marks >> self.group(bucket) & 1 == 1);
        marked.flat_map(|bucket| self.range(bucket).map(|at| (self.keys[at], self.values[at]))).collect()
    }
}
