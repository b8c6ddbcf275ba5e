//! The second pass of a build: counts the keys of a stretch, balances its buckets, places the keys in their
//! groups, and solves the groups.

use super::super::balance::{Counts, balance, group_under};
use super::super::block;
use super::super::format::Format;
use super::super::geometry::{BUCKETS, GROUPS};
use super::super::kernels::search::{SearchBits, SearchSolver};
use super::super::kernels::{Balancer, Tile, Word};
use super::super::layout::{CHOICE_WORDS, set_choice};
use super::super::params::Params;
use super::super::solver;
use super::super::store::{SpilledKey, StoreSlice};
use super::BuildError;
use super::STRETCH;
use super::passes::Job;
use crate::isa::Isa;
use crate::partition_pass::RecordPacking;
use crate::published::Full;
use scalebricks_types::KeyHash;

/// One worker's scratch memory.
#[derive(Debug)]
pub(super) struct Assembler<'a> {
    params: &'a Params,
    packing: &'a RecordPacking,
    solver: Solver,
    places: KeyPlacement,
}

/// Where the keys of a stretch are placed.
#[derive(Debug)]
struct KeyPlacement {
    balancer: Balancer,
    /// The bucket of each key, numbered within the stretch.
    buckets: Vec<u16>,
    counts: Vec<u16>,
    /// The group of each bucket, numbered within the stretch.
    group_of: Vec<u16>,
    loads: Vec<u16>,
}

/// How groups are solved.
#[derive(Debug)]
enum Solver {
    Linear(Tile<u32>),
    Dense(Tile<u64>),
    Search(SearchSolver),
}

/// A fallback list: the block and its pairs, ascending.
pub(super) type List = (u32, Vec<(u64, u8)>);

impl<'a> Assembler<'a> {
    pub(super) fn new(params: &'a Params, packing: &'a RecordPacking, isa: Isa, bits: SearchBits) -> Self {
        let solver = match params.format() {
            Format::Linear => Solver::Linear(Tile::new(params, isa)),
            Format::Dense => Solver::Dense(Tile::new(params, isa)),
            _ => Solver::Search(SearchSolver::new(params, isa).with_bits(bits)),
        };
        let places = KeyPlacement {
            balancer: Balancer::new(isa),
            buckets: Vec::new(),
            counts: vec![0; STRETCH * BUCKETS],
            group_of: vec![0; STRETCH * BUCKETS],
            loads: vec![0; STRETCH * GROUPS],
        };
        Self { params, packing, solver, places }
    }

    /// Builds the blocks of a stretch. Keys are placed in their rows if they are to be kept, or if a search
    /// needs them there.
    pub(super) fn assemble(
        &mut self,
        job: Job<'_>,
        span: &mut StoreSlice<'_>,
        keep_keys: bool,
    ) -> Result<(), BuildError> {
        let Self { params, packing, solver, places } = self;
        places.count(params, packing, job);
        places.balance(params, job.numbers, span)?;
        match solver {
            Solver::Linear(tile) => places.solve(tile, packing, job, span, keep_keys),
            Solver::Dense(tile) => places.solve(tile, packing, job, span, keep_keys),
            Solver::Search(search) => {
                places.scatter(packing, job, span, |_, _, _| ());
                places.search(search, params, span);
            }
        }
        Ok(())
    }

    /// The fallback lists of the blocks just assembled.
    pub(super) fn lists(&self, job: Job<'_>, span: &StoreSlice<'_>) -> Vec<List> {
        let marked = (0..span.heads.len()).filter(|&at| span.heads[at].marks != 0);
        let list = |at| match self.solver {
            Solver::Search(_) => block::fallback(&span.view(at), span.slots),
            _ => self.places.list(self.packing, job, at, span.heads[at].marks),
        };
        marked.map(|at| (job.numbers[at], list(at))).collect()
    }

    /// An error if a key occurs twice.
    pub(super) fn check_duplicates(&self, span: &StoreSlice<'_>) -> Result<(), BuildError> {
        let slots = span.slots;
        for (group, &load) in self.places.loads[..span.heads.len() * GROUPS].iter().enumerate() {
            let row = &span.hashes[group * slots..][..usize::from(load).min(slots)];
            if let Some(twice) = twice(row) {
                return Err(BuildError::Duplicate(KeyHash::new(twice)));
            }
            if usize::from(load) > slots {
                let spill = &span.spills[group / GROUPS];
                let spilled = spill.iter().filter(|key| usize::from(key.group) == group % GROUPS);
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

impl KeyPlacement {
    /// The keys of a block's marked groups. Reads the records again, which is rarely necessary.
    fn list(&self, packing: &RecordPacking, job: Job<'_>, block: usize, marks: u64) -> Vec<(u64, u8)> {
        let mut list = Vec::new();
        each_placed(&self.buckets, &self.group_of, packing, job, |group, hash, value| {
            if group / GROUPS == block && marks >> (group % GROUPS) & 1 == 1 {
                list.push((hash, value));
            }
        });
        list.sort_unstable();
        list
    }

    /// Reads the stretch's records and counts the keys of each bucket.
    fn count(&mut self, params: &Params, packing: &RecordPacking, job: Job<'_>) {
        let numbers = job.numbers;
        let buckets = u64::from(params.blocks()) * BUCKETS as u64;
        let contiguous = numbers.last().map_or(0, |last| last - numbers[0] + 1) as usize == numbers.len();
        let first = u64::from(numbers[0]) * BUCKETS as u64;
        self.buckets.clear();
        self.counts.fill(0);
        let keys: usize = job.records.iter().map(|records| records.keys(packing, job.stretch)).sum();
        self.buckets.resize(keys, 0);
        let Self { buckets: places, counts, .. } = self;
        let Some(counts) = counts.first_chunk_mut::<{ STRETCH * BUCKETS }>() else {
            unreachable!("made so long")
        };
        let mut places = places.iter_mut();
        let mut add = |place: u64| {
            let place = place as usize % (STRETCH * BUCKETS); // it is below
            if let Some(to) = places.next() {
                *to = place as u16;
            }
            counts[place] += 1;
        };
        let bucket = |hash: u64| ((u128::from(hash) * u128::from(buckets)) >> 64) as u64;
        if contiguous {
            each_key(packing, job, |hash, _| add(bucket(hash) - first));
        } else {
            each_key(packing, job, |hash, _| {
                let bucket = bucket(hash);
                let before = |&number: &u32| u64::from(number) * BUCKETS as u64 <= bucket;
                let block = numbers.partition_point(before) - 1;
                add(block as u64 * BUCKETS as u64 + bucket % BUCKETS as u64);
            });
        }
    }

    /// Chooses a group for every bucket.
    fn balance(
        &mut self,
        params: &Params,
        numbers: &[u32],
        span: &mut StoreSlice<'_>,
    ) -> Result<(), BuildError> {
        let limit = params.format().block_capacity();
        let blocks =
            self.counts.as_chunks::<BUCKETS>().0.iter().zip(self.group_of.as_chunks_mut::<BUCKETS>().0);
        for (at, ((counts, group_of), &number)) in blocks.zip(numbers).enumerate() {
            let counts: &Counts = counts;
            let need = counts.iter().map(|&count| usize::from(count)).sum();
            if need > limit {
                return Err(Full::Block { block: number, need, limit }.into());
            }
            let choices = balance(self.balancer, counts, params.format());
            let words = span.words_mut(at);
            for (bucket, &choice) in choices.iter().enumerate() {
                set_choice(words, bucket, choice);
                group_of[bucket] = (at * GROUPS + group_under(bucket, choice)) as u16;
            }
            let head = &mut span.heads[at];
            head.counts = *counts;
            head.keys = need as u32; // at most a block's capacity
            head.marks = 0;
            span.spills[at].clear();
        }
        Ok(())
    }

    /// Places every key in its group's row, and passes it to `also`.
    fn scatter(
        &mut self,
        packing: &RecordPacking,
        job: Job<'_>,
        span: &mut StoreSlice<'_>,
        mut also: impl FnMut(usize, u64, u8),
    ) {
        self.loads.fill(0);
        let slots = span.slots;
        let Self { buckets, group_of, loads, .. } = self;
        each_placed(buckets, group_of, packing, job, |group, hash, value| {
            let load = usize::from(loads[group]);
            loads[group] += 1;
            if load < slots {
                span.hashes[group * slots + load] = hash;
                span.values[group * slots + load] = value;
            } else {
                let spilled = SpilledKey { group: (group % GROUPS) as u8, value, hash };
                span.spills[group / GROUPS].push(spilled);
            }
            also(group, hash, value);
        });
        for (head, loads) in span.heads.iter_mut().zip(self.loads.as_chunks::<GROUPS>().0) {
            head.loads = *loads;
        }
    }

    /// Solves the groups of a stretch side by side and writes their fields to the blocks' words.
    fn solve<W: Word>(
        &mut self,
        tile: &mut Tile<W>,
        packing: &RecordPacking,
        job: Job<'_>,
        span: &mut StoreSlice<'_>,
        keep_keys: bool,
    ) {
        tile.clear(span.heads.len() * GROUPS);
        let push = |group, hash, value| tile.push(group, hash, value);
        if keep_keys {
            self.scatter(packing, job, span, push);
        } else {
            each_placed(&self.buckets, &self.group_of, packing, job, push);
        }
        let each = GROUPS * usize::from(span.layout.params.value_bits());
        for (at, fields) in tile.solve().chunks_exact(each).enumerate() {
            W::pack(fields, &mut span.words_mut(at)[CHOICE_WORDS..]);
        }
        for &group in tile.unsolved() {
            let group = group as usize;
            span.heads[group / GROUPS].marks |= 1 << (group % GROUPS);
        }
    }

    fn search(&self, search: &SearchSolver, params: &Params, span: &mut StoreSlice<'_>) {
        let (slots, layout) = (span.slots, span.layout);
        let marked = solver::marked(params);
        for (group, &load) in self.loads[..span.heads.len() * GROUPS].iter().enumerate() {
            let load = usize::from(load);
            let row = group * slots..group * slots + load.min(slots);
            let solved = (load <= slots).then(|| search.solve(&span.hashes[row.clone()], &span.values[row]));
            let (block, group) = (group / GROUPS, group % GROUPS);
            let fields = solved.flatten();
            span.heads[block].marks |= u64::from(fields.is_none()) << group;
            layout.set_group(span.words_mut(block), group, &layout.pack(&fields.unwrap_or(marked)));
        }
    }
}

/// A hash that occurs twice in the row. Cost: compares all pairs, without a branch per pair.
fn twice(row: &[u64]) -> Option<u64> {
    let same = |at: usize| row[..at].iter().fold(0, |same, &hash| same | u8::from(hash == row[at]));
    (1..row.len()).find(|&at| same(at) != 0).map(|at| row[at])
}

/// Calls `each` with every key of a stretch and its value.
#[inline(always)]
fn each_key(packing: &RecordPacking, job: Job<'_>, mut each: impl FnMut(u64, u8)) {
    for records in job.records {
        packing.unpack(job.stretch, records.records(job.stretch), |hash, value| each(hash, value as u8)); // it came as one
        records.listed(job.stretch).for_each(|(hash, value)| each(hash, value as u8));
    }
}

/// Calls `each` with the group, numbered within the stretch, of every key, the key and its value.
#[inline(always)]
fn each_placed(
    buckets: &[u16],
    group_of: &[u16],
    packing: &RecordPacking,
    job: Job<'_>,
    mut each: impl FnMut(usize, u64, u8),
) {
    let mut buckets = buckets.iter();
    each_key(packing, job, |hash, value| {
        let group = buckets.next().map_or(0, |&bucket| usize::from(group_of[usize::from(bucket)]));
        each(group, hash, value);
    });
}
