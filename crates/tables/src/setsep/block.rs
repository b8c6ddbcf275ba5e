//! One block of the control structure: where its keys are stored, and how buckets move to make room.
//!
//! Keys and choices change operation by operation. Groups are solved later, once for all operations of a
//! batch.

use super::balance::{self, Choices, Counts, Move, group_under};
use super::batch::groups;
use super::geometry::{BUCKETS, GROUPS, bucket_of};
use super::kernels::{Balancer, Finder};
use super::layout::{Layout, choice, set_choice};
use super::params::Params;
use super::solver::{self, Solver};
use super::store::{BlockHeader, BlockMut, BlockRef, SpilledKey};
use crate::isa::Isa;

/// How often blocks had to be rearranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moves {
    /// How often one bucket moved to another of its candidate groups.
    pub single: u64,
    /// How often two buckets moved to make room.
    pub double: u64,
    /// How often a whole block was rebalanced.
    pub rebalanced: u64,
}

impl Moves {
    /// Adds these counts.
    pub(super) const fn add(&mut self, more: Self) {
        self.single += more.single;
        self.double += more.double;
        self.rebalanced += more.rebalanced;
    }
}

/// Why a key cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockError {
    Exists,
    Missing,
    Full,
}

/// A block with the parameters that define its layout.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) params: &'a Params,
    pub(super) view: BlockMut<'a>,
    finder: Finder,
    slots: usize,
}

/// The group of a bucket under these choices.
#[inline]
pub(super) fn group_in(words: &[u64], bucket: usize) -> usize {
    group_under(bucket, choice(words, bucket))
}

/// The index of a hash in its group's row; an index of `slots` or more is in the spill.
#[inline]
fn find(
    finder: Finder,
    (hashes, spill): (&[u64], &[SpilledKey]),
    head: &BlockHeader,
    group: usize,
    slots: usize,
    hash: u64,
) -> Option<usize> {
    let load = usize::from(head.loads[group]);
    let row = &hashes[group * slots..][..slots];
    if let Some(at) = finder.find(row, load.min(slots), hash) {
        return Some(at);
    }
    if load <= slots {
        return None;
    }
    let spilled = spill.iter().position(|key| usize::from(key.group) == group && key.hash == hash);
    spilled.map(|at| slots + at)
}

/// The value of a hash in a block.
pub(super) fn get(view: &BlockRef<'_>, params: &Params, finder: Finder, hash: u64) -> Option<u8> {
    let group = group_in(view.words, bucket_of(hash, params.blocks()).1);
    let slots = params.format().group_slots();
    let at = find(finder, (view.hashes, view.spill), view.head, group, slots, hash)?;
    Some(if at < slots { view.values[group * slots + at] } else { view.spill[at - slots].value })
}

/// All keys of a group with their values, in no particular order.
pub(super) fn group_keys<'a>(
    view: &'a BlockRef<'_>,
    slots: usize,
    group: usize,
) -> impl Iterator<Item = (u64, u8)> + 'a {
    let load = usize::from(view.head.loads[group]);
    let row = group * slots..group * slots + load.min(slots);
    let spilled = view.spill.iter().filter(move |key| load > slots && usize::from(key.group) == group);
    let held = view.hashes[row.clone()].iter().copied().zip(view.values[row].iter().copied());
    held.chain(spilled.map(|key| (key.hash, key.value)))
}

/// Calls `act` with the keys of a block and their values, row by row, and then with the spilled keys one by
/// one.
pub(super) fn each_row(view: &BlockRef<'_>, slots: usize, mut act: impl FnMut(&[u64], &[u8])) {
    for (group, &load) in view.head.loads.iter().enumerate() {
        let row = group * slots..group * slots + usize::from(load).min(slots);
        act(&view.hashes[row.clone()], &view.values[row]);
    }
    view.spill.iter().for_each(|key| act(&[key.hash], &[key.value]));
}

/// All keys of a block with their values, in ascending order.
pub(super) fn sorted_keys(view: &BlockRef<'_>, slots: usize) -> Vec<(u64, u8)> {
    let mut keys: Vec<_> = (0..GROUPS).flat_map(|group| group_keys(view, slots, group)).collect();
    keys.sort_unstable();
    keys
}

/// The fallback list: the keys of the marked groups with their values, in ascending order.
pub(super) fn fallback(view: &BlockRef<'_>, slots: usize) -> Vec<(u64, u8)> {
    let marked = (0..GROUPS).filter(|group| view.head.marks >> group & 1 == 1);
    let mut keys: Vec<_> = marked.flat_map(|group| group_keys(view, slots, group)).collect();
    keys.sort_unstable();
    keys
}

/// Number of keys that the fallback answers.
pub(super) fn fallback_keys(head: &BlockHeader) -> usize {
    let marked = (0..GROUPS).filter(|group| head.marks >> group & 1 == 1);
    if head.marks == 0 { 0 } else { marked.map(|group| usize::from(head.loads[group])).sum() }
}

impl<'a> Block<'a> {
    #[inline]
    pub(super) const fn new(params: &'a Params, view: BlockMut<'a>, finder: Finder) -> Self {
        Self { params, view, finder, slots: params.format().group_slots() }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        bucket_of(hash, self.params.blocks()).1
    }

    #[inline]
    fn find(&self, group: usize, hash: u64) -> Option<usize> {
        find(self.finder, (self.view.hashes, self.view.spill), self.view.head, group, self.slots, hash)
    }

    /// Appends a key to a group's row, without counting it in its bucket.
    #[inline]
    pub(super) fn append(&mut self, group: usize, hash: u64, value: u8) {
        let load = usize::from(self.view.head.loads[group]);
        self.view.head.loads[group] += 1;
        if load < self.slots {
            self.view.hashes[group * self.slots + load] = hash;
            self.view.values[group * self.slots + load] = value;
        } else {
            self.view.spill.push(SpilledKey { group: group as u8, value, hash });
        }
    }

    /// Removes the key at this index from a group's row; the last key of the row takes its place.
    fn cut(&mut self, group: usize, at: usize) -> u8 {
        let head = &mut *self.view.head;
        head.loads[group] -= 1;
        let load = usize::from(head.loads[group]);
        if at >= self.slots {
            return self.view.spill.swap_remove(at - self.slots).value;
        }
        let at = group * self.slots + at;
        let value = self.view.values[at];
        if load < self.slots {
            let last = group * self.slots + load;
            self.view.hashes[at] = self.view.hashes[last];
            self.view.values[at] = self.view.values[last];
        } else if let Some(spilled) = self.view.spill.iter().position(|key| usize::from(key.group) == group) {
            let key = self.view.spill.swap_remove(spilled);
            (self.view.hashes[at], self.view.values[at]) = (key.hash, key.value);
        }
        value
    }

    /// Begins anew, without keys in the rows, for buckets of these sizes. Returns each bucket's group.
    pub(super) fn begin(&mut self, counts: &Counts) -> [u8; BUCKETS] {
        let choices = balance::balance(Balancer::new(Isa::best()), counts, self.params.format());
        choices.iter().enumerate().for_each(|(bucket, &choice)| set_choice(self.view.words, bucket, choice));
        let keys = counts.iter().map(|&count| u32::from(count)).sum();
        *self.view.head = BlockHeader { keys, counts: *counts, ..BlockHeader::empty() };
        self.view.spill.clear();
        std::array::from_fn(|bucket| group_under(bucket, choices[bucket]) as u8)
    }

    /// Solves all groups.
    pub(super) fn solve_all(&mut self, layout: &Layout, solver: &mut Solver) {
        let BlockMut { words, head, hashes, values, .. } = &mut self.view;
        let mut marks = 0;
        for group in 0..GROUPS {
            let load = usize::from(head.loads[group]);
            if load <= self.slots {
                let row = group * self.slots..group * self.slots + load;
                solver.push(group as u32, &hashes[row.clone()], &values[row]);
            } else {
                marks |= 1 << group;
            }
        }
        solver.drain(|group, packed| match packed {
            Some(packed) => _ = layout.set_group(words, group as usize, packed),
            None => marks |= 1 << group,
        });
        let marked = layout.pack(&solver::marked(self.params));
        for group in groups(marks) {
            layout.set_group(words, group, &marked);
        }
        head.marks = marks;
    }

    /// Adds a key without checking loads; returns its group.
    pub(super) fn put(&mut self, hash: u64, value: u8) -> Result<usize, BlockError> {
        let bucket = self.bucket(hash);
        let group = group_in(self.view.words, bucket);
        if self.find(group, hash).is_some() {
            return Err(BlockError::Exists);
        }
        if self.view.head.keys as usize >= self.params.format().block_capacity() {
            return Err(BlockError::Full);
        }
        self.append(group, hash, value);
        self.view.head.keys += 1;
        self.view.head.counts[bucket] += 1;
        Ok(group)
    }

    /// Removes a key; returns its value and group.
    pub(super) fn take(&mut self, hash: u64) -> Result<(u8, usize), BlockError> {
        let bucket = self.bucket(hash);
        let group = group_in(self.view.words, bucket);
        let at = self.find(group, hash).ok_or(BlockError::Missing)?;
        self.view.head.keys -= 1;
        self.view.head.counts[bucket] -= 1;
        Ok((self.cut(group, at), group))
    }

    /// Replaces a key's value; returns the old value and the group.
    pub(super) fn set(&mut self, hash: u64, value: u8) -> Result<(u8, usize), BlockError> {
        let group = group_in(self.view.words, self.bucket(hash));
        let at = self.find(group, hash).ok_or(BlockError::Missing)?;
        let held = match at.checked_sub(self.slots) {
            None => &mut self.view.values[group * self.slots + at],
            Some(spilled) => &mut self.view.spill[spilled].value,
        };
        Ok((std::mem::replace(held, value), group))
    }

    /// Changes a bucket's choice and moves its keys.
    pub(super) fn move_bucket(&mut self, bucket: usize, to: u8) {
        let from = group_in(self.view.words, bucket);
        set_choice(self.view.words, bucket, to);
        let to = group_under(bucket, to);
        if from == to {
            return;
        }
        let mut at = 0;
        let mut left = self.view.head.counts[bucket];
        while left > 0 {
            let held = usize::from(self.view.head.loads[from]).min(self.slots);
            if at < held {
                let hash = self.view.hashes[from * self.slots + at];
                if self.bucket(hash) != bucket {
                    at += 1;
                    continue;
                }
                let value = self.cut(from, at);
                self.append(to, hash, value);
            } else {
                let blocks = self.params.blocks();
                let of_bucket = |key: &SpilledKey| {
                    usize::from(key.group) == from && bucket_of(key.hash, blocks).1 == bucket
                };
                let Some(spilled) = self.view.spill.iter().position(of_bucket) else { break };
                let hash = self.view.spill[spilled].hash;
                let value = self.cut(from, self.slots + spilled);
                self.append(to, hash, value);
            }
            left -= 1;
        }
    }

    /// Makes room in a group that has just grown, if it is too full. Records in `moved` which buckets moved,
    /// and from where; marks the groups to solve in `dirty`.
    pub(super) fn make_room(
        &mut self,
        group: usize,
        dirty: &mut u64,
        moves: &mut Moves,
        moved: &mut impl FnMut(Move),
    ) {
        let head = &*self.view.head;
        let target = balance::target(self.params.format(), head.keys);
        let load = head.loads[group];
        if load <= target {
            return;
        }
        let choices: Choices = std::array::from_fn(|bucket| choice(self.view.words, bucket));
        let is_far = load > target + balance::TOLERANCE;
        let find = if is_far { balance::improve } else { balance::relieve };
        if let Some((first, second)) = find(&head.counts, &choices, &head.loads, group, target) {
            *if second.is_some() { &mut moves.double } else { &mut moves.single } += 1;
            for (bucket, to) in [Some(first), second].into_iter().flatten() {
                self.change(bucket, to, dirty, moved);
            }
        } else if is_far {
            let fresh = balance::balance(Balancer::new(Isa::best()), &head.counts, self.params.format());
            if balance::max(&balance::loads(&head.counts, &fresh)) < balance::max(&head.loads) {
                moves.rebalanced += 1;
                for bucket in (0..BUCKETS).filter(|&bucket| choices[bucket] != fresh[bucket]) {
                    self.change(bucket as u8, fresh[bucket], dirty, moved);
                }
            }
        }
    }

    fn change(&mut self, bucket: u8, to: u8, dirty: &mut u64, moved: &mut impl FnMut(Move)) {
        let at = usize::from(bucket);
        moved((bucket, choice(self.view.words, at)));
        if self.view.head.counts[at] > 0 {
            *dirty |= 1 << group_in(self.view.words, at) | 1 << group_under(at, to);
        }
        self.move_bucket(at, to);
    }
}
