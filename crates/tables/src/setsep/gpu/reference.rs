//! The kernels of `kernels.cu` in Rust: the same arrays and the same steps, with loops over thread blocks and threads.

use super::plan::{NOTHING_WRONG, Plan, THREADS, TILE, WARP};
use crate::setsep::balance::{self, group_under};
use crate::setsep::geometry::{BUCKETS, CANDIDATES_PER_BUCKET, GROUPS, bucket_of, mix64};
use crate::setsep::kernels::balance::{FARTHEST, LOAD, RUNS, SIZES};
use crate::setsep::layout::CHOICE_WORDS;
use crate::setsep::linear::{FieldLayout, Rows};
use crate::setsep::solver::Fields;

/// The arrays in device memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrays {
    /// What is wrong with the input.
    pub(super) status: [u64; 2],
    /// The words of all blocks.
    pub(super) table: Vec<u64>,
    /// For each block, one bit per group without a solution.
    pub(super) marks: Vec<u64>,
    /// The keys, block after block, and their values.
    pub(super) hashes: Vec<u64>,
    pub(super) values: Vec<u8>,
    /// Keys of each block.
    pub(super) counts: Vec<u32>,
    /// The first key of each block, from the first of its tile.
    pub(super) starts: Vec<u32>,
    /// The first key of each tile.
    pub(super) totals: Vec<u32>,
}

impl Arrays {
    /// The keys of a block in `hashes` and `values`.
    pub(super) fn keys_of(&self, block: usize) -> std::ops::Range<usize> {
        let start = (self.starts[block] + self.totals[block / TILE]) as usize;
        start..start + self.counts[block] as usize
    }
}

/// Runs all kernels. After an error in the status words, nothing is scattered.
pub(super) fn run(plan: &Plan, hashes: &[u64], values: &[u8]) -> Arrays {
    let blocks = plan.params.blocks() as usize;
    let mut arrays = Arrays {
        status: [NOTHING_WRONG; 2],
        table: vec![0; plan.table_words()],
        marks: vec![0; blocks],
        hashes: vec![0; hashes.len()],
        values: vec![0; values.len()],
        counts: vec![0; blocks],
        starts: vec![0; blocks],
        totals: vec![0; plan.tiles()],
    };
    let ranks = histogram(plan, hashes, values, &mut arrays);
    scan_tiles(plan, &mut arrays);
    scan_totals(&mut arrays.totals);
    if arrays.status == [NOTHING_WRONG; 2] {
        scatter(plan, hashes, values, &ranks, &mut arrays);
        for block in 0..blocks {
            build_block(plan, block, &mut arrays);
        }
    }
    arrays
}

fn histogram(plan: &Plan, hashes: &[u64], values: &[u8], to: &mut Arrays) -> Vec<u16> {
    let keys = hashes.iter().zip(values).enumerate();
    let rank = keys.map(|(at, (&hash, &value))| {
        if !plan.params.is_value(value) {
            to.status[0] = to.status[0].min((at as u64) << 8 | u64::from(value));
        }
        let count = &mut to.counts[bucket_of(hash, plan.params.blocks()).0 as usize];
        let rank = *count as u16; // wraps if the block is too full, and then nothing is scattered
        *count += 1;
        rank
    });
    rank.collect()
}

/// Exclusive prefix sums plus `base`, in place, by one thread block. Returns the sum.
fn scan_tile(numbers: &mut [u32], base: u32) -> u32 {
    const PER_THREAD: usize = TILE / THREADS;
    let number = |numbers: &[u32], at: usize| numbers.get(at).copied().unwrap_or(0);
    let own: Vec<[u32; PER_THREAD]> = (0..THREADS)
        .map(|thread| std::array::from_fn(|i| number(numbers, thread * PER_THREAD + i)))
        .collect();
    let mut sums: Vec<u32> = own.iter().map(|own| own.iter().sum()).collect();
    let mut step = 1;
    while step < THREADS {
        let before = sums.clone(); // all read before any writes
        for thread in step..THREADS {
            sums[thread] += before[thread - step];
        }
        step *= 2;
    }
    for (thread, own) in own.iter().enumerate() {
        let mut start = base + sums[thread] - own.iter().sum::<u32>();
        for (i, &count) in own.iter().enumerate() {
            if let Some(number) = numbers.get_mut(thread * PER_THREAD + i) {
                *number = start;
            }
            start += count;
        }
    }
    sums[THREADS - 1]
}

fn scan_tiles(plan: &Plan, to: &mut Arrays) {
    let limit = plan.params.format().block_capacity();
    for (block, &count) in to.counts.iter().enumerate() {
        if count as usize > limit {
            to.status[1] = to.status[1].min((block as u64) << 32 | u64::from(count));
        }
    }
    to.starts.copy_from_slice(&to.counts);
    for (tile, total) in to.starts.chunks_mut(TILE).zip(&mut to.totals) {
        *total = scan_tile(tile, 0);
    }
}

fn scan_totals(totals: &mut [u32]) {
    let mut base = 0;
    for chunk in totals.chunks_mut(TILE) {
        base += scan_tile(chunk, base);
    }
}

fn scatter(plan: &Plan, hashes: &[u64], values: &[u8], ranks: &[u16], to: &mut Arrays) {
    for ((&hash, &value), &rank) in hashes.iter().zip(values).zip(ranks) {
        let block = bucket_of(hash, plan.params.blocks()).0 as usize;
        let at = to.keys_of(block).start + usize::from(rank);
        (to.hashes[at], to.values[at]) = (hash, value);
    }
}

/// The buckets of a block and how they are balanced: `Scratch` of the kernel.
#[derive(Debug)]
struct Balance {
    sizes: [u32; BUCKETS],
    groups: [usize; BUCKETS],
    choices: [u64; BUCKETS],
}

impl Balance {
    fn of(plan: &Plan, hashes: &[u64]) -> Self {
        let mut sizes = [0; BUCKETS];
        for &hash in hashes {
            sizes[bucket_of(hash, plan.params.blocks()).1] += 1;
        }
        let order = sorted(&sizes);
        let attempts = (0..RUNS).map(|run| attempt(&sizes, &order, run, hashes.len() as u32));
        let (_, mut choices) = attempts.min_by_key(|attempt| attempt.0).unwrap();
        let target = balance::target(plan.params.format(), hashes.len() as u32);
        balance::settle(&sizes.map(|size| size as u16), &mut choices, target);
        let groups = std::array::from_fn(|bucket| group_under(bucket, choices[bucket]));
        Self { sizes, groups, choices: choices.map(u64::from) }
    }
}

/// Buckets with keys, largest first: the place of each is the number of buckets before it.
fn sorted(sizes: &[u32; BUCKETS]) -> Vec<usize> {
    let capped = sizes.map(|size| size.min(SIZES as u32 - 1));
    let mut order = vec![0; capped.iter().filter(|&&size| size > 0).count()];
    for (bucket, &own) in capped.iter().enumerate().filter(|(_, own)| **own > 0) {
        let before = |&(other, &size): &(usize, &u32)| size > own || (size == own && other < bucket);
        order[capped.iter().enumerate().filter(before).count()] = bucket;
    }
    order
}

/// One thread's attempt: its score, and the choice of each bucket.
fn attempt(sizes: &[u32; BUCKETS], order: &[usize], run: usize, keys: u32) -> (u64, [u8; BUCKETS]) {
    let mut cells: [u16; GROUPS] =
        std::array::from_fn(|group| (mix64((group * RUNS + run + 1) as u64) & 3) as u16 * 4);
    let mut choices = [0; BUCKETS];
    for &bucket in order {
        let bids = (0..CANDIDATES_PER_BUCKET as u8)
            .map(|choice| cells[group_under(bucket, choice)] | u16::from(choice));
        let choice = (bids.min().unwrap() & 3) as u8;
        choices[bucket] = choice;
        cells[group_under(bucket, choice)] += (sizes[bucket] << LOAD) as u16;
    }
    let mean = keys.div_ceil(GROUPS as u32);
    let loads = cells.map(|cell| u32::from(cell >> LOAD));
    let distances = loads.map(|load| load.abs_diff(mean).min(FARTHEST.into()));
    let spread: u32 = distances.iter().map(|distance| distance * distance).sum();
    let most = loads.into_iter().max().unwrap();
    (u64::from(most) << 32 | u64::from(spread << 16) | run as u64, choices)
}

fn build_block(plan: &Plan, block: usize, to: &mut Arrays) {
    let keys = to.keys_of(block);
    let (hashes, values) = (&to.hashes[keys.clone()], &to.values[keys]);
    let balance = Balance::of(plan, hashes);
    let slot_words = plan.params.slot_words();
    let words = &mut to.table[block * slot_words..][..slot_words];
    for (at, word) in words[..CHOICE_WORDS].iter_mut().enumerate() {
        *word = (0..32).fold(0, |word, i| word | balance.choices[at * 32 + i] << (2 * i));
    }
    let mut loads = [0; GROUPS];
    for (&group, &size) in balance.groups.iter().zip(&balance.sizes) {
        loads[group] += size as usize;
    }
    let firsts: [usize; GROUPS] = std::array::from_fn(|group| loads[..group].iter().sum());
    let (mut placed, mut members) = ([0; GROUPS], vec![0u16; hashes.len()]);
    for (at, &hash) in hashes.iter().enumerate() {
        let group = balance.groups[bucket_of(hash, plan.params.blocks()).1];
        members[firsts[group] + placed[group]] = at as u16;
        placed[group] += 1;
    }
    let shape = FieldLayout::of(&plan.params);
    for group in 0..GROUPS {
        let members = &members[firsts[group]..][..loads[group]];
        let keys: Vec<_> = members.iter().map(|&at| (hashes[at as usize], values[at as usize])).collect();
        let fields = solve_group(plan, &keys);
        to.marks[block] |= u64::from(fields.is_none()) << group;
        let fields = fields.unwrap_or(shape.marked());
        for (bit, &field) in fields.iter().enumerate().take(plan.params.value_bits().into()) {
            let at = (group * usize::from(plan.params.value_bits()) + bit) * shape.width as usize;
            words[CHOICE_WORDS + at / 64] |= field << (at % 64);
        }
    }
}

/// One warp: tries the seeds in order. Row `r` is in lane `r % 32`.
fn solve_group(plan: &Plan, keys: &[(u64, u8)]) -> Option<Fields> {
    let (shape, rows) = (FieldLayout::of(&plan.params), Rows::of(&plan.params));
    let lane_rows = shape.width as usize / WARP;
    if keys.len() > shape.width as usize {
        return None;
    }
    (0..shape.seeds()).find_map(|seed| {
        let mut lanes = [[(0u64, 0u8); 2]; WARP];
        for (at, &(hash, value)) in keys.iter().enumerate() {
            lanes[at % WARP][at / WARP] = (rows.row(hash, seed), value);
        }
        for at in 0..keys.len() {
            let (row, value) = lanes[at % WARP][at / WARP]; // __shfl_sync
            if row == 0 {
                if value != 0 {
                    return None;
                }
                continue;
            }
            let pivot = row & row.wrapping_neg();
            for (lane, rows) in lanes.iter_mut().enumerate() {
                for (i, (other, values)) in rows.iter_mut().enumerate().take(lane_rows) {
                    if *other & pivot != 0 && at != lane + i * WARP {
                        (*other, *values) = (*other ^ row, *values ^ value);
                    }
                }
            }
        }
        let mut vectors = Fields::default();
        for &(row, values) in lanes.as_flattened() {
            let set = vectors.iter_mut().enumerate().filter(|(bit, _)| values >> bit & 1 == 1);
            set.for_each(|(_, vector)| *vector |= row & row.wrapping_neg());
        }
        Some(shape.fields(vectors, seed))
    })
}
