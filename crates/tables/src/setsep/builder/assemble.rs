//! The second pass of a build: the keys of a stretch are counted, balanced, put into their groups, and solved.

use super::super::balance::{self, Counts, group_under};
use super::super::geometry::{BUCKETS, GROUPS};
use super::super::image::set_choice;
use super::super::ops::Full;
use super::super::params::Params;
use super::super::solver::{self, Solver};
use super::super::store::{Span, Spilled};
use super::BuildError;
use super::deal::{Packing, STRETCH};
use super::passes::Job;
use crate::isa::Isa;
use scalebricks_types::KeyHash;

/// One worker's scratch.
#[derive(Debug)]
pub(super) struct Assembler<'a> {
    params: &'a Params,
    packing: &'a Packing,
    solver: Solver,
    /// Keys of the stretch: hash and value.
    keys: Vec<(u64, u8)>,
    /// The bucket of each, counted through the stretch.
    buckets: Vec<u16>,
    counts: Vec<u16>,
    /// The group of each bucket, counted through the stretch.
    group_of: Vec<u16>,
    loads: Vec<u16>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(params: &'a Params, packing: &'a Packing, isa: Isa) -> Self {
        Self {
            params,
            packing,
            solver: Solver::new(params, isa),
            keys: Vec::new(),
            buckets: Vec::new(),
            counts: vec![0; STRETCH * BUCKETS],
            group_of: vec![0; STRETCH * BUCKETS],
            loads: vec![0; STRETCH * GROUPS],
        }
    }

    /// Builds the blocks of a stretch; returns how many keys there were.
    pub(super) fn assemble(&mut self, job: Job<'_>, span: &mut Span<'_>) -> Result<usize, BuildError> {
        self.collect(job);
        self.balance(job.numbers, span)?;
        self.scatter(span);
        self.solve(span);
        Ok(self.keys.len())
    }

    /// Reads the stretch's records and counts the keys of each bucket.
    fn collect(&mut self, Job { stretch, numbers, dealt }: Job<'_>) {
        let buckets = u64::from(self.params.blocks()) * BUCKETS as u64;
        let contiguous = numbers.last().map_or(0, |last| last - numbers[0] + 1) as usize == numbers.len();
        let first = u64::from(numbers[0]) * BUCKETS as u64;
        self.keys.clear();
        self.buckets.clear();
        self.counts.fill(0);
        let Self { keys, buckets: places, counts, packing, .. } = self;
        let mut add = |hash: u64, value: u8| {
            let bucket = ((u128::from(hash) * u128::from(buckets)) >> 64) as u64;
            let place = if contiguous {
                bucket - first
            } else {
                let block =
                    numbers.partition_point(|&number| u64::from(number) * (BUCKETS as u64) <= bucket) - 1;
                block as u64 * BUCKETS as u64 + bucket % BUCKETS as u64
            };
            keys.push((hash, value));
            places.push(place as u16); // at most STRETCH * BUCKETS
            counts[place as usize] += 1;
        };
        for dealt in dealt {
            packing.unpack(stretch, dealt.records(stretch), &mut add);
            dealt.listed(stretch).for_each(|(hash, value)| add(hash, value));
        }
    }

    /// Chooses a group for every bucket.
    fn balance(&mut self, numbers: &[u32], span: &mut Span<'_>) -> Result<(), BuildError> {
        let limit = self.params.format().block_capacity();
        let blocks =
            self.counts.as_chunks::<BUCKETS>().0.iter().zip(self.group_of.as_chunks_mut::<BUCKETS>().0);
        for (at, ((counts, group_of), &number)) in blocks.zip(numbers).enumerate() {
            let counts: &Counts = counts;
            let need = counts.iter().map(|&count| usize::from(count)).sum();
            if need > limit {
                return Err(Full::Block { block: number, need, limit }.into());
            }
            let choices = balance::balance(counts, self.params.seed(), number);
            let words = span.words_mut(at);
            for (bucket, &choice) in choices.iter().enumerate() {
                set_choice(words, bucket, choice);
                group_of[bucket] = (at * GROUPS + group_under(bucket, choice)) as u16;
            }
            let head = &mut span.heads[at];
            head.counts = *counts;
            head.keys = need as u32; // at most a block's capacity
            head.spill.clear();
        }
        Ok(())
    }

    /// Puts every key into its group's row.
    fn scatter(&mut self, span: &mut Span<'_>) {
        self.loads.fill(0);
        let slots = span.slots;
        for (&(hash, value), &bucket) in self.keys.iter().zip(&self.buckets) {
            let group = usize::from(self.group_of[usize::from(bucket)]);
            let load = usize::from(self.loads[group]);
            self.loads[group] += 1;
            if load < slots {
                span.hashes[group * slots + load] = hash;
                span.values[group * slots + load] = value;
            } else {
                let spilled = Spilled { group: (group % GROUPS) as u8, value, hash };
                span.heads[group / GROUPS].spill.push(spilled);
            }
        }
        for (head, loads) in span.heads.iter_mut().zip(self.loads.as_chunks::<GROUPS>().0) {
            head.loads = *loads;
        }
    }

    fn solve(&mut self, span: &mut Span<'_>) {
        let slots = span.slots;
        for head in &mut *span.heads {
            head.marks = 0;
        }
        let groups = span.heads.len() * GROUPS;
        for (group, &load) in self.loads[..groups].iter().enumerate() {
            let load = usize::from(load);
            if load <= slots {
                let row = group * slots..group * slots + load;
                self.solver.push(group as u32, &span.hashes[row.clone()], &span.values[row]);
            } else {
                span.heads[group / GROUPS].marks |= 1 << (group % GROUPS);
            }
        }
        let layout = span.layout;
        self.solver.drain(|group, fields| {
            let (block, group) = (group as usize / GROUPS, group as usize % GROUPS);
            match fields {
                Some(fields) => layout.set_group(span.words_mut(block), group, &fields),
                None => span.heads[block].marks |= 1 << group,
            }
        });
        let marked = solver::marked(self.params);
        for at in 0..span.heads.len() {
            let marks = span.heads[at].marks;
            super::super::batch::groups(marks)
                .for_each(|group| layout.set_group(span.words_mut(at), group, &marked));
        }
    }

    /// An error if a key is there twice.
    pub(super) fn check_duplicates(&self, span: &Span<'_>) -> Result<(), BuildError> {
        let slots = span.slots;
        for (group, &load) in self.loads[..span.heads.len() * GROUPS].iter().enumerate() {
            let row = &span.hashes[group * slots..][..usize::from(load).min(slots)];
            if let Some(twice) = twice(row) {
                return Err(BuildError::Duplicate(KeyHash::new(twice)));
            }
            if usize::from(load) > slots {
                let head = &span.heads[group / GROUPS];
                let spilled = head.spill.iter().filter(|key| usize::from(key.group) == group % GROUPS);
                let mut all: Vec<u64> = row.iter().copied().chain(spilled.map(|key| key.hash)).collect();
                all.sort_unstable();
                if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(BuildError::Duplicate(KeyHash::new(pair[0])));
                }
            }
        }
        Ok(())
    }
}

/// A hash that is in the row twice. Cost: all pairs, without a branch for each.
fn twice(row: &[u64]) -> Option<u64> {
    let same = |at: usize| row[..at].iter().fold(0, |same, &hash| same | u8::from(hash == row[at]));
    (1..row.len()).find(|&at| same(at) != 0).map(|at| row[at])
}
