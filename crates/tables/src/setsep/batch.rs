//! Batches of operations: a batch is applied completely or not at all, and every touched group is solved
//! once.
//!
//! 1. The operations are sorted by block (and keep their order within a block), so that a block's memory is
//!    fetched once, and prefetched.
//! 2. They are applied to keys and choices, block by block, with an undo log.
//! 3. The touched groups of a block are passed on while they are in the cache, and solved, many at a time,
//!    into a list.
//! 4. If everything fits, the list becomes the blocks' bits, and the differences become deltas. Otherwise all
//!    is undone.

use super::balance::Move;
use super::block::{self, Block, BlockError, Moves};
use super::control_blocks::ControlBlocks;
use super::fallback::lines_for;
use super::layout::choice;
use super::payload::PayloadWriter;
use super::solver::{self, Solver};
use super::structure::{LocalTable, Op};
use crate::op_order::{OrderedOp, sort};
use crate::prefetch::prefetch_read;
use crate::published::{Full, UpdateError};
use scalebricks_types::PartitionId;
use std::ops::Range;

/// How many operations ahead of the current one the keys are prefetched.
const AHEAD: usize = 12;

/// How many operations ahead the block's choices and counters are prefetched: they say where the keys are.
const FAR_AHEAD: usize = 32;

/// How many touched blocks ahead of the one to be written the bits are prefetched, and the index word in the owner's table.
const BLOCKS_AHEAD: usize = 3;

/// Groups solved together: as many as stay in the cache.
const QUEUE: usize = 256;

/// A batch of at most this many operations solves its groups one by one: side by side, three groups take as
/// long as sixteen.
const FEW: usize = 2;

/// One step of the undo log.
#[derive(Debug, Clone, Copy)]
enum Undo {
    Take(u64),
    Put(u64, u8),
    Set(u64, u8),
    Move(Move),
}

/// A block that a batch has changed.
#[derive(Debug)]
struct Touched {
    slot: u32,
    /// Number of keys in the fallback before the batch.
    fallback_keys: u32,
    /// One bit per group: set if its keys, values or members changed.
    dirty: u64,
    undo: Range<u32>,
    /// Index of the first solution of its dirty groups.
    solutions: u32,
    /// Whether a bucket has moved.
    moved: bool,
    /// Unsolved groups: those before the batch, until [`Batch::settle`] stores those after it.
    marks: u64,
}

/// A batch in progress on the blocks of one shape. It is reused to avoid allocating for each batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    order: Vec<OrderedOp>,
    spare: Vec<OrderedOp>,
    touched: Vec<Touched>,
    undo: Vec<Undo>,
    /// Packed solutions: as many words per group as its solution needs.
    solutions: Vec<u64>,
    /// The groups without a solution, by their index in `solutions`.
    unsolved: Vec<u32>,
    pub(super) moves: Moves,
    /// The touched partitions, ascending, with the fallback lines they need.
    pub(super) needs: Vec<(PartitionId, u32)>,
}

impl Batch {
    /// Clears the previous batch.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.touched.clear();
        self.undo.clear();
        self.solutions.clear();
        self.unsolved.clear();
        self.needs.clear();
        self.moves = Moves::default();
    }

    /// Adds an operation, with its block.
    pub(super) fn add(&mut self, slot: usize, op: usize, hash: u64) {
        self.order.push(OrderedOp { slot: slot as u32, op: op as u32, hash }); // at most 2^24 blocks; a batch fits memory
    }

    /// Applies the operations to keys and choices. Returns the first error by position in the batch, if there
    /// is one before `limit`.
    pub(super) fn perform(
        &mut self,
        blocks: &mut ControlBlocks,
        solver: &mut Solver,
        ops: &[Op],
        limit: usize,
    ) -> Option<(usize, UpdateError)> {
        sort(&mut self.order, &mut self.spare);
        let order = std::mem::take(&mut self.order);
        let mut limit = (limit, None);
        order.iter().take(FAR_AHEAD).for_each(|entry| blocks.prefetch_choices(entry.slot as usize));
        order.iter().take(AHEAD).for_each(|entry| prefetch_ahead(blocks, ops, entry));
        let mut at = 0;
        for run in order.chunk_by(|one, next| one.slot == next.slot) {
            let window = |from: usize| order.len().min(at + from)..order.len().min(at + run.len() + from);
            for far in order[window(FAR_AHEAD - 1)].windows(2).filter(|pair| pair[0].slot != pair[1].slot) {
                blocks.prefetch_choices(far[1].slot as usize);
            }
            order[window(AHEAD)].iter().for_each(|entry| prefetch_ahead(blocks, ops, entry));
            at += run.len();
            let mut touched = self.run(blocks, run, ops, &mut limit);
            self.ask(blocks, solver, &mut touched, order.len());
            self.touched.push(touched);
        }
        self.order = order;
        self.solve(solver, blocks);
        limit.1.map(|error| (limit.0, error))
    }

    /// Applies the operations on one block that are before `limit`. An error sets `limit` to its position.
    #[inline]
    fn run(
        &mut self,
        blocks: &mut ControlBlocks,
        run: &[OrderedOp],
        ops: &[Op],
        limit: &mut (usize, Option<UpdateError>),
    ) -> Touched {
        let slot = run[0].slot;
        let mut block = blocks.block(slot as usize);
        let undo = self.undo.len() as u32;
        let mut touched = Touched {
            slot,
            fallback_keys: block::fallback_keys(block.view.head) as u32, // at most a block's keys
            dirty: 0,
            undo: undo..undo,
            solutions: 0,
            moved: false,
            marks: block.view.head.marks,
        };
        let moves = self.moves;
        for entry in run {
            let op = entry.op as usize;
            if op >= limit.0 {
                continue;
            }
            if let Err(refused) =
                one(&mut block, ops[op], &mut touched.dirty, &mut self.undo, &mut self.moves)
            {
                *limit = (op, Some(named(refused, blocks, slot as usize, op)));
                block = blocks.block(slot as usize);
            }
        }
        touched.undo.end = self.undo.len() as u32;
        touched.moved = moves != self.moves;
        touched
    }

    /// Requests the solutions of a block's changed groups while their keys are in the cache.
    fn ask(&mut self, blocks: &ControlBlocks, solver: &mut Solver, touched: &mut Touched, ops: usize) {
        let words = blocks.layout.group_words;
        let slots = blocks.store.slots();
        let view = blocks.store.view(touched.slot as usize);
        let single = solver.single().filter(|_| ops <= FEW);
        touched.solutions = (self.solutions.len() / words) as u32;
        for (tag, group) in (touched.solutions..).zip(groups(touched.dirty)) {
            let load = usize::from(view.head.loads[group]);
            let row = group * slots..group * slots + load.min(slots);
            let solved = single.filter(|_| load <= slots);
            if let Some(solved) =
                solved.and_then(|single| single.solve(&view.hashes[row.clone()], &view.values[row.clone()]))
            {
                self.solutions.extend_from_slice(&blocks.layout.pack(&solved)[..words]);
                continue;
            }
            (0..words).for_each(|_| self.solutions.push(0));
            if load > slots || single.is_some() {
                self.unsolved.push(tag);
            } else {
                solver.push(tag, &view.hashes[row.clone()], &view.values[row]);
            }
        }
        if solver.len() >= QUEUE {
            self.solve(solver, blocks);
        }
    }

    /// Solves the waiting groups, and stores each solution where its tag says.
    fn solve(&mut self, solver: &mut Solver, blocks: &ControlBlocks) {
        if solver.len() == 0 {
            return; // as for every batch whose groups were solved one by one
        }
        let words = blocks.layout.group_words;
        solver.drain(|tag, solution| match solution {
            Some(solution) => {
                let to = &mut self.solutions[tag as usize * words..][..words];
                to.iter_mut().zip(solution).for_each(|(to, word)| *to = *word);
            }
            None => self.unsolved.push(tag),
        });
    }

    /// Restores the blocks to their state before the batch.
    pub(super) fn undo(&mut self, blocks: &mut ControlBlocks) {
        for touched in self.touched.drain(..).rev() {
            let mut block = blocks.block(touched.slot as usize);
            for step in self.undo.drain(touched.undo.start as usize..).rev() {
                let undone = match step {
                    Undo::Take(hash) => block.take(hash).map(drop),
                    Undo::Put(hash, value) => block.put(hash, value).map(drop),
                    Undo::Set(hash, value) => block.set(hash, value).map(drop),
                    Undo::Move((bucket, choice)) => {
                        block.move_bucket(bucket.into(), choice);
                        Ok(())
                    }
                };
                if undone.is_err() {
                    unreachable!("a step that was just done can be undone");
                }
            }
        }
    }

    /// Checks that there is room for the groups without a solution: computes the fallback lines that each
    /// touched partition needs.
    pub(super) fn settle(&mut self, blocks: &ControlBlocks) -> Result<(), Full> {
        if !self.unsolved.is_empty() {
            let words = blocks.layout.group_words;
            let marked = blocks.layout.pack(&solver::marked(&blocks.params));
            self.unsolved.sort_unstable();
            for &tag in &self.unsolved {
                self.solutions[tag as usize * words..][..words].copy_from_slice(&marked[..words]);
            }
        }
        let mut unsolved = self.unsolved.iter().copied().peekable();
        let needs = &mut self.needs;
        for touched in &mut self.touched {
            let partition = blocks.partition_of_slot(touched.slot as usize);
            if needs.last().is_none_or(|last| last.0 != partition) {
                needs.push((partition, blocks.lines_used[usize::from(partition.0)]));
            }
            let end = touched.solutions + touched.dirty.count_ones();
            if touched.marks == 0 && unsolved.peek().is_none_or(|&tag| tag >= end) {
                continue; // as nearly always: nothing in the fallback, before or after
            }
            touched.marks &= !touched.dirty;
            for (tag, group) in (touched.solutions..).zip(groups(touched.dirty)) {
                touched.marks |= u64::from(unsolved.next_if_eq(&tag).is_some()) << group;
            }
            let loads = &blocks.store.view(touched.slot as usize).head.loads;
            let now: usize = groups(touched.marks).map(|group| usize::from(loads[group])).sum();
            if let Some((_, need)) = needs.last_mut() {
                *need = *need + lines_for(now) - lines_for(touched.fallback_keys as usize);
            }
        }
        let limit = blocks.params.fallback_lines();
        match needs.iter().find(|(_, need)| *need > limit) {
            Some(&(partition, need)) => Err(Full::Fallback { partition, need, limit }),
            None => Ok(()),
        }
    }

    /// Writes the solutions to the bits of the blocks of one partition, writes the differences to the delta,
    /// and copies the blocks to the owner's table, if there is one.
    pub(super) fn commit(
        &self,
        blocks: &mut ControlBlocks,
        partition: PartitionId,
        writer: &mut PayloadWriter,
        mut local: Option<(&mut LocalTable<'_>, bool)>,
    ) {
        let group_words = blocks.layout.group_words;
        let first = self.touched.partition_point(|t| blocks.partition_of_slot(t.slot as usize) < partition);
        if let Ok(need) = self.needs.binary_search_by_key(&partition, |need| need.0) {
            blocks.lines_used[usize::from(partition.0)] = self.needs[need].1;
        }
        let run = &self.touched[first..];
        let run = &run[..run.partition_point(|t| blocks.partition_of_slot(t.slot as usize) == partition)];
        let dirty = run.iter().map(|touched| touched.dirty.count_ones() as usize).sum();
        writer.section(&blocks.layout, run.len() as u32, dirty); // at most all blocks
        for (at, touched) in run.iter().enumerate() {
            if let Some((local, is_new)) = &mut local
                && let Some(ahead) = run.get(at + BLOCKS_AHEAD)
            {
                blocks.prefetch_words(ahead.slot as usize);
                local.prefetch_word(*is_new, blocks.number_of_slot(ahead.slot as usize));
            }
            let slot = touched.slot as usize;
            let number = blocks.number_of_slot(slot);
            let view = blocks.store.view_mut(slot);
            let solutions = || {
                (touched.solutions as usize..)
                    .zip(groups(touched.dirty))
                    .map(|(tag, group)| (group, &self.solutions[tag * group_words..][..group_words]))
            };
            let mut changed = 0;
            for (group, solution) in solutions() {
                changed |= u64::from(blocks.layout.set_group(view.words, group, solution)) << group;
            }
            let (mut listed, mut list) = (false, None);
            if touched.marks != 0 || touched.fallback_keys != 0 {
                listed = (view.head.marks | touched.marks) & touched.dirty != 0;
                view.head.marks = touched.marks;
                list = Some(blocks.fallback(&blocks.store.view(slot)));
            }
            let words = blocks.store.view(slot).words;
            let moved = if touched.moved { self.moved(touched, words) } else { Vec::new() };
            let groups = solutions().filter(|(group, _)| changed >> group & 1 == 1);
            writer.block(number, &moved, changed.count_ones(), groups, list.as_deref().filter(|_| listed));
            if let Some((local, is_new)) = &mut local {
                local.publish(*is_new, partition, number, words, list.as_deref());
            }
        }
    }

    /// The buckets of a block whose choice the batch changed, ascending.
    fn moved(&self, touched: &Touched, words: &[u64]) -> Vec<Move> {
        let mut first: Vec<Move> = Vec::new();
        for step in &self.undo[touched.undo.start as usize..touched.undo.end as usize] {
            if let Undo::Move(before) = *step
                && first.iter().all(|held| held.0 != before.0)
            {
                first.push(before);
            }
        }
        first.sort_unstable();
        first.retain_mut(|(bucket, held)| std::mem::replace(held, choice(words, (*bucket).into())) != *held);
        first
    }
}

/// Prefetches what an operation will read. The choices of its block are already in the cache.
#[inline]
fn prefetch_ahead(blocks: &ControlBlocks, ops: &[Op], entry: &OrderedOp) {
    prefetch_read(&ops[entry.op as usize]);
    blocks.prefetch(entry.slot as usize, entry.hash);
}

/// Applies one operation to its block.
#[inline]
fn one(
    block: &mut Block<'_>,
    op: Op,
    dirty: &mut u64,
    undo: &mut Vec<Undo>,
    moves: &mut Moves,
) -> Result<(), BlockError> {
    let hash = op.hash().get();
    match op {
        Op::Insert(_, value) => {
            let group = block.put(hash, value)?;
            undo.push(Undo::Take(hash));
            *dirty |= 1 << group;
            block.make_room(group, dirty, moves, &mut |back| undo.push(Undo::Move(back)));
        }
        Op::Update(_, value) => {
            let (old, group) = block.set(hash, value)?;
            undo.push(Undo::Set(hash, old));
            *dirty |= 1 << group;
        }
        Op::Remove(_) => {
            let (old, group) = block.take(hash)?;
            undo.push(Undo::Put(hash, old));
            *dirty |= 1 << group;
        }
    }
    Ok(())
}

/// The groups whose bits are set, ascending.
pub(super) fn groups(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let group = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(group)
    })
}

#[cold]
fn named(refused: BlockError, blocks: &ControlBlocks, slot: usize, op: usize) -> UpdateError {
    match refused {
        BlockError::Exists => UpdateError::Exists { op },
        BlockError::Missing => UpdateError::Missing { op },
        BlockError::Full => UpdateError::Full(Full::Block {
            block: blocks.number_of_slot(slot),
            need: blocks.store.view(slot).head.keys as usize + 1,
            limit: blocks.params.format().block_capacity(),
        }),
    }
}
