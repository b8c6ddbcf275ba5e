//! Batches of operations: all or none, every touched group solved once.
//!
//! 1. The operations are put in the order of their blocks (and within a block in their own), so that a block's memory
//!    is fetched once, and fetched ahead.
//! 2. They are carried out on keys and choices, leaving a way back, block by block.
//! 3. The groups they touched in a block are handed on while they are in the cache, and solved, many at a time, into a
//!    list.
//! 4. If everything fits, the list becomes the blocks' bits, and what differs becomes deltas; else all is undone.

use super::balance::Move;
use super::block::{self, Moves, Refused};
use super::face::lines_for;
use super::geometry::GROUPS;
use super::held::Held;
use super::image::choice;
use super::ops::{Full, Op, UpdateError};
use super::payload::PayloadWriter;
use super::solver::{self, Fields, Solver};
use crate::prefetch::prefetch_read;
use scalebricks_types::PartitionId;
use std::ops::Range;

/// Operations whose keys are asked for ahead of the one at work.
const AHEAD: usize = 8;

/// Operations whose block's choices are: they say where the keys are.
const FAR_AHEAD: usize = 24;

/// Operations that are themselves, for they are met in the order of their blocks.
const FARTHEST_AHEAD: usize = 40;

/// Groups solved together: as many as stay in the cache.
const QUEUE: usize = 256;

/// Operations of a batch whose groups are solved one by one: side by side, three take as long as sixteen.
const FEW: usize = 2;

/// A step back.
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
    /// One bit a group: keys, values or members changed.
    dirty: u64,
    /// Keys in the fallback before.
    fallback_keys: usize,
    undo: Range<u32>,
    /// Where the solutions of its dirty groups begin.
    solutions: u32,
    /// Unsolved groups, after.
    marks: u64,
}

/// A batch at work on the blocks of one shape. Kept to not allocate for each.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Block in the store and operation, packed, then sorted.
    order: Vec<u64>,
    spare: Vec<u64>,
    touched: Vec<Touched>,
    undo: Vec<Undo>,
    /// As many words a group as there are value bits.
    solutions: Vec<u64>,
    pub(super) moves: Moves,
    /// The partitions touched, ascending, with the fallback lines they need.
    pub(super) needs: Vec<(PartitionId, u32)>,
}

impl Batch {
    /// Forgets the last batch.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.touched.clear();
        self.undo.clear();
        self.solutions.clear();
        self.needs.clear();
        self.moves = Moves::default();
    }

    /// Adds an operation, by its block.
    pub(super) fn add(&mut self, slot: usize, op: usize) {
        self.order.push((slot as u64) << 32 | op as u64);
    }

    /// Carries out the operations on keys and choices. The first error by place in the batch, if any is before `limit`.
    pub(super) fn perform(
        &mut self,
        held: &mut Held,
        solver: &mut Solver,
        ops: &[Op],
        limit: usize,
    ) -> Option<(usize, UpdateError)> {
        sort(&mut self.order, &mut self.spare);
        let mut first_error: Option<(usize, UpdateError)> = None;
        let mut at = 0;
        while let Some(&entry) = self.order.get(at) {
            let slot = (entry >> 32) as usize;
            let mut touched = Touched {
                slot: slot as u32,
                dirty: 0,
                fallback_keys: block::fallback_keys(held.store.view(slot).head),
                undo: self.undo.len() as u32..0,
                solutions: 0,
                marks: 0,
            };
            while let Some(&entry) = self.order.get(at).filter(|&&entry| (entry >> 32) as usize == slot) {
                if let Some(&ahead) = self.order.get(at + FARTHEST_AHEAD) {
                    prefetch_read(&ops[ahead as u32 as usize]);
                }
                if let Some(&ahead) = self.order.get(at + FAR_AHEAD) {
                    held.prefetch_choices((ahead >> 32) as usize);
                }
                if let Some(&ahead) = self.order.get(at + AHEAD) {
                    held.prefetch((ahead >> 32) as usize, ops[ahead as u32 as usize].hash().get());
                }
                at += 1;
                let op = entry as u32 as usize;
                if op >= first_error.as_ref().map_or(limit, |error| error.0) {
                    continue;
                }
                if let Err(refused) = self.one(held, slot, ops[op], &mut touched.dirty) {
                    first_error = Some((op, named(refused, held, slot, op)));
                }
            }
            touched.undo.end = self.undo.len() as u32;
            self.ask(held, solver, &mut touched);
            self.touched.push(touched);
        }
        solve(solver, &mut self.solutions, held.params.value_bits().into());
        first_error
    }

    /// Asks for the solutions of a block's changed groups, while their keys are in the cache.
    fn ask(&mut self, held: &Held, solver: &mut Solver, touched: &mut Touched) {
        let bits = usize::from(held.params.value_bits());
        let (slots, marked) = (held.store.slots(), solver::marked(&held.params));
        let view = held.store.view(touched.slot as usize);
        touched.solutions = (self.solutions.len() / bits) as u32;
        for (tag, group) in (touched.solutions..).zip(groups(touched.dirty)) {
            let load = usize::from(view.head.loads[group]);
            let row = group * slots..group * slots + load.min(slots);
            if let Some(single) = solver.single().filter(|_| self.order.len() <= FEW && load <= slots) {
                let solved = single.solve(&view.hashes[row.clone()], &view.values[row]);
                self.solutions.extend_from_slice(&solved.unwrap_or(marked)[..bits]);
                continue;
            }
            self.solutions.extend_from_slice(&marked[..bits]);
            if load <= slots {
                solver.push(tag, &view.hashes[row.clone()], &view.values[row]);
            }
        }
        if solver.len() >= QUEUE {
            solve(solver, &mut self.solutions, bits);
        }
    }

    fn one(&mut self, held: &mut Held, slot: usize, op: Op, dirty: &mut u64) -> Result<(), Refused> {
        let mut block = held.block(slot);
        let hash = op.hash().get();
        match op {
            Op::Insert(_, value) => {
                let group = block.put(hash, value)?;
                self.undo.push(Undo::Take(hash));
                *dirty |= 1 << group;
                let undo = &mut self.undo;
                block.make_room(group, dirty, &mut self.moves, &mut |back| undo.push(Undo::Move(back)));
            }
            Op::Update(_, value) => {
                let (old, group) = block.set(hash, value)?;
                self.undo.push(Undo::Set(hash, old));
                *dirty |= 1 << group;
            }
            Op::Remove(_) => {
                let (old, group) = block.take(hash)?;
                self.undo.push(Undo::Put(hash, old));
                *dirty |= 1 << group;
            }
        }
        Ok(())
    }

    /// Makes the blocks what they were.
    pub(super) fn undo(&mut self, held: &mut Held) {
        for touched in self.touched.drain(..).rev() {
            let mut block = held.block(touched.slot as usize);
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

    /// Checks the room for the groups without solution: for each partition touched, the fallback lines it needs.
    pub(super) fn settle(&mut self, held: &Held) -> Result<(), Full> {
        let bits = usize::from(held.params.value_bits());
        let needs = &mut self.needs;
        for touched in &mut self.touched {
            let head = held.store.view(touched.slot as usize).head;
            let mut marks = head.marks & !touched.dirty;
            for (tag, group) in (touched.solutions as usize..).zip(groups(touched.dirty)) {
                let unsolved = solver::is_marked(&fields_at(&self.solutions, tag, bits), &held.params);
                marks |= u64::from(unsolved) << group;
            }
            touched.marks = marks;
            let now: usize = groups(marks).map(|group| usize::from(head.loads[group])).sum();
            let partition = held.partition_of_slot(touched.slot as usize);
            if needs.last().is_none_or(|last| last.0 != partition) {
                needs.push((partition, held.lines_used[usize::from(partition.0)]));
            }
            if let Some((_, need)) = needs.last_mut() {
                *need = *need + lines_for(now) - lines_for(touched.fallback_keys);
            }
        }
        let limit = held.params.fallback_lines();
        match needs.iter().find(|(_, need)| *need > limit) {
            Some(&(partition, need)) => Err(Full::Fallback { partition, need, limit }),
            None => Ok(()),
        }
    }

    /// Makes the solutions the bits of the blocks of one partition, and writes what differs.
    pub(super) fn commit(&self, held: &mut Held, partition: PartitionId, writer: &mut PayloadWriter) {
        let bits = usize::from(held.params.value_bits());
        let first = self.touched.partition_point(|t| held.partition_of_slot(t.slot as usize) < partition);
        if let Ok(need) = self.needs.binary_search_by_key(&partition, |need| need.0) {
            held.lines_used[usize::from(partition.0)] = self.needs[need].1;
        }
        let run = &self.touched[first..];
        let len = run.partition_point(|t| held.partition_of_slot(t.slot as usize) == partition);
        writer.section(&held.params, len as u32); // at most all blocks
        let mut changed = Vec::with_capacity(GROUPS);
        for touched in &run[..len] {
            let slot = touched.slot as usize;
            let number = held.number_of_slot(slot);
            let view = held.store.view_mut(slot);
            changed.clear();
            for (tag, group) in (touched.solutions as usize..).zip(groups(touched.dirty)) {
                let fields = fields_at(&self.solutions, tag, bits);
                if held.layout.replace_group(view.words, group, &fields) {
                    changed.push((group as u8, fields));
                }
            }
            let listed = (view.head.marks | touched.marks) & touched.dirty != 0;
            view.head.marks = touched.marks;
            let moved = self.moved(touched, view.words);
            let list = listed.then(|| held.fallback(&held.store.view(slot)));
            writer.block(number, &moved, &changed, list.as_deref());
        }
    }

    /// Calls `act` with each block that a committed batch has changed: partition, number, words, and its fallback list if
    /// it has or had one.
    pub(super) fn each_block(
        &self,
        held: &Held,
        mut act: impl FnMut(PartitionId, u32, &[u64], Option<&[(u64, u8)]>),
    ) {
        for touched in &self.touched {
            let slot = touched.slot as usize;
            let view = held.store.view(slot);
            let listed = touched.fallback_keys > 0 || touched.marks != 0;
            let list = listed.then(|| held.fallback(&view));
            act(held.partition_of_slot(slot), held.number_of_slot(slot), view.words, list.as_deref());
        }
    }

    /// The buckets of a block whose choice is another than before the batch, ascending.
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

/// Solves the groups that wait, and puts their solutions where their tags say.
fn solve(solver: &mut Solver, solutions: &mut [u64], bits: usize) {
    solver.drain(|tag, fields| {
        if let Some(fields) = fields {
            solutions[tag as usize * bits..][..bits].copy_from_slice(&fields[..bits]);
        }
    });
}

/// The groups of these bits, ascending.
pub(super) fn groups(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let group = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(group)
    })
}

fn fields_at(solutions: &[u64], tag: usize, bits: usize) -> Fields {
    let mut fields = [0; 8];
    fields[..bits].copy_from_slice(&solutions[tag * bits..][..bits]);
    fields
}

#[cold]
fn named(refused: Refused, held: &Held, slot: usize, op: usize) -> UpdateError {
    match refused {
        Refused::Exists => UpdateError::Exists { op },
        Refused::Missing => UpdateError::Missing { op },
        Refused::Full => UpdateError::Full(Full::Block {
            block: held.number_of_slot(slot),
            need: held.store.view(slot).head.keys as usize + 1,
            limit: held.params.format().block_capacity(),
        }),
    }
}

/// Sorts entries whose low halves ascend already: by their high half, in order.
fn sort(order: &mut Vec<u64>, spare: &mut Vec<u64>) {
    const DIGITS: usize = 1 << 11;
    if order.len() < 4 * DIGITS {
        order.sort_unstable();
        return;
    }
    spare.resize(order.len(), 0);
    let all = order.iter().fold(0, |all, entry| all | entry >> 32);
    for shift in (32..64).step_by(11).take_while(|shift| all >> (shift - 32) != 0) {
        let digit = |entry: u64| (entry >> shift) as usize % DIGITS;
        let mut starts = [0u32; DIGITS + 1];
        for &entry in &*order {
            starts[digit(entry) + 1] += 1;
        }
        (0..DIGITS).for_each(|digit| starts[digit + 1] += starts[digit]);
        for &entry in &*order {
            let at = &mut starts[digit(entry)];
            spare[*at as usize] = entry;
            *at += 1;
        }
        std::mem::swap(order, spare);
    }
}
