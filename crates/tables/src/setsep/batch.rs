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
use super::control::SetSepControl;
use super::face::lines_for;
use super::geometry::GROUPS;
use super::held::Held;
use super::image::choice;
use super::ops::{Full, Op, UpdateError};
use super::params::Params;
use super::payload::PayloadWriter;
use super::query::{Own, SetSep};
use super::solver::{self, Fields, Solver};
use crate::isa::Isa;
use crate::prefetch::prefetch_read;
use scalebricks_types::{Delta, PartitionId};
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
struct Batch {
    /// Block in the store and operation, packed, then sorted.
    order: Vec<u64>,
    spare: Vec<u64>,
    touched: Vec<Touched>,
    undo: Vec<Undo>,
    /// As many words a group as there are value bits.
    solutions: Vec<u64>,
    moves: Moves,
    /// The partitions touched, ascending, with the fallback lines they need.
    needs: Vec<(PartitionId, u32)>,
}

/// Blocks in one shape, with what it takes to change them.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) held: Held,
    pub(super) solver: Solver,
    batch: Batch,
}

impl Shape {
    pub(super) fn new(held: Held, isa: Isa) -> Self {
        let solver = Solver::new(&held.params, isa);
        Self { held, solver, batch: Batch::default() }
    }

    pub(super) const fn params(&self) -> &Params {
        &self.held.params
    }

    fn perform(&mut self, ops: &[Op], limit: usize) -> Option<(usize, UpdateError)> {
        self.batch.perform(&mut self.held, &mut self.solver, ops, limit)
    }

    fn undo(&mut self) {
        self.batch.undo(&mut self.held);
    }

    fn settle(&mut self) -> Result<(), Full> {
        self.batch.settle(&self.held)
    }

    fn copy_to(&self, own: &mut Own<'_>, is_new: bool) {
        for touched in &self.batch.touched {
            let slot = touched.slot as usize;
            let view = self.held.store.view(slot);
            let listed = touched.fallback_keys > 0 || touched.marks != 0;
            let list = listed.then(|| self.held.fallback(&view));
            let (partition, number) = (self.held.partition_of_slot(slot), self.held.number_of_slot(slot));
            own.publish(is_new, partition, number, view.words, list.as_deref());
        }
    }

    fn commit(&mut self, partition: PartitionId, writer: &mut PayloadWriter) {
        self.batch.commit(&mut self.held, partition, writer);
    }
}

impl Batch {
    /// Forgets the last batch.
    fn clear(&mut self) {
        self.order.clear();
        self.touched.clear();
        self.undo.clear();
        self.solutions.clear();
        self.needs.clear();
        self.moves = Moves::default();
    }

    /// Adds an operation, by its block.
    fn add(&mut self, slot: usize, op: usize) {
        self.order.push((slot as u64) << 32 | op as u64);
    }

    /// Carries out the operations on keys and choices. The first error by place in the batch, if any is before `limit`.
    fn perform(
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
            match solver.single().filter(|_| self.order.len() <= FEW && load <= slots) {
                Some(single) => {
                    let solved = single.solve(&view.hashes[row.clone()], &view.values[row]);
                    self.solutions.extend_from_slice(&solved.unwrap_or(marked)[..bits]);
                }
                None => {
                    self.solutions.extend_from_slice(&marked[..bits]);
                    if load <= slots {
                        solver.push(tag, &view.hashes[row.clone()], &view.values[row]);
                    }
                }
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
    fn undo(&mut self, held: &mut Held) {
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
    fn settle(&mut self, held: &Held) -> Result<(), Full> {
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
    fn commit(&self, held: &mut Held, partition: PartitionId, writer: &mut PayloadWriter) {
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

impl SetSepControl {
    /// Applies a batch, with the outcome of its operations one after another: all, or none. Returns one delta for
    /// each partition touched, ascending; each of them advances by one position. The limit on fallback lines
    /// is that of the state after the batch; all other checks are made operation by operation.
    ///
    /// Cost: each group that the batch touches is solved once. Large batches (a few operations a block) cost least.
    ///
    /// # Errors
    /// [`UpdateError`] of the first operation that cannot be done; nothing is then changed.
    pub fn batch(&mut self, ops: &[Op]) -> Result<Vec<Delta>, UpdateError> {
        self.batch_on(None, ops)
    }

    /// As [`batch`](Self::batch), and at once on the query structure beside it, which must be at the same positions in
    /// the same shape: what the owner of a partition does to its own copy. Blocks are copied to it, not decoded from
    /// the deltas; those are for the other nodes.
    ///
    /// # Errors
    /// As [`batch`](Self::batch); [`UpdateError::OutOfStep`] if the table is at another position or in another shape:
    /// nothing is then changed, and the table needs the deltas it missed.
    pub fn batch_with(&mut self, table: &SetSep, ops: &[Op]) -> Result<Vec<Delta>, UpdateError> {
        self.batch_on(Some(table), ops)
    }

    fn batch_on(&mut self, table: Option<&SetSep>, ops: &[Op]) -> Result<Vec<Delta>, UpdateError> {
        let refused = self.distribute(ops);
        let limit = refused.as_ref().map_or(ops.len(), |refused| refused.0);
        let mut failed = self.now.perform(ops, limit);
        if let Some(next) = &mut self.next {
            let limit = failed.as_ref().map_or(limit, |failed| failed.0);
            failed = next.shape.perform(ops, limit).or(failed);
        }
        let failed = failed.or(refused).map(|(_, error)| error);
        let own = table.map(SetSep::own);
        let failed = failed.or_else(|| self.settle().err());
        if let Some(error) = failed.or_else(|| self.out_of_step(own.as_ref())) {
            self.now.undo();
            if let Some(next) = &mut self.next {
                next.shape.undo();
            }
            return Err(error);
        }
        self.moves.add(self.now.batch.moves);
        for op in ops {
            match op {
                Op::Insert(..) => self.keys += 1,
                Op::Remove(_) => self.keys -= 1,
                Op::Update(..) => {}
            }
        }
        let mut touched: Vec<PartitionId> = self.now.batch.needs.iter().map(|need| need.0).collect();
        if let Some(next) = &self.next {
            self.moves.add(next.shape.batch.moves);
            touched.extend(next.shape.batch.needs.iter().map(|need| need.0));
            touched.sort_unstable();
            touched.dedup();
        }
        let deltas: Vec<Delta> = touched.into_iter().map(|partition| self.delta(partition)).collect();
        if let Some(mut own) = own {
            self.copy_to(&mut own, &deltas);
        }
        Ok(deltas)
    }

    /// An error if a table is not where this structure is.
    fn out_of_step(&self, own: Option<&Own<'_>>) -> Option<UpdateError> {
        let own = own?;
        let next = self.next.as_ref();
        let needs =
            self.now.batch.needs.iter().chain(next.into_iter().flat_map(|next| &next.shape.batch.needs));
        let mut partitions = needs.map(|need| need.0);
        let at = |partition: PartitionId| self.positions[usize::from(partition.0)];
        let shapes = (*self.params(), next.map(|next| *next.shape.params()));
        let found = partitions.find(|&partition| !own.is_at(partition, at(partition), shapes));
        found.map(|partition| UpdateError::OutOfStep { partition })
    }

    /// Copies the blocks the batch has changed to the table.
    fn copy_to(&self, own: &mut Own<'_>, deltas: &[Delta]) {
        self.now.copy_to(own, false);
        if let Some(next) = &self.next {
            next.shape.copy_to(own, true);
        }
        deltas.iter().for_each(|delta| own.advance(delta.partition, delta.position));
    }

    /// Gives every operation to the shape that its block is in, up to the first that cannot be done anywhere.
    fn distribute(&mut self, ops: &[Op]) -> Option<(usize, UpdateError)> {
        self.now.batch.clear();
        if let Some(next) = &mut self.next {
            next.shape.batch.clear();
        }
        let bits = self.value_bits();
        for (op, change) in ops.iter().enumerate() {
            let hash = change.hash().get();
            let wide = change.value().filter(|&value| u32::from(value) >> bits != 0);
            let error = match (self.now.held.slot_of(hash), wide) {
                (Err(partition), _) => UpdateError::NotMine { op, partition },
                (_, Some(value)) => UpdateError::Value { op, value, bits },
                (Ok(slot), None) => {
                    match self.next.as_mut().and_then(|next| next.slot_of(&self.now.held, slot, hash)) {
                        Some((shape, slot)) => shape.batch.add(slot, op),
                        None => self.now.batch.add(slot, op),
                    }
                    continue;
                }
            };
            return Some((op, error));
        }
        None
    }

    fn settle(&mut self) -> Result<(), UpdateError> {
        self.now.settle()?;
        if let Some(next) = &mut self.next {
            next.shape.settle()?;
        }
        Ok(())
    }

    /// Commits what the batch did to a partition.
    fn delta(&mut self, partition: PartitionId) -> Delta {
        let reshaping = self.next.as_ref().map(|next| next.reshaping(partition));
        let mut writer = PayloadWriter::new(&self.now.held.layout, reshaping);
        self.now.commit(partition, &mut writer);
        if let Some(next) = &mut self.next {
            next.shape.commit(partition, &mut writer);
        }
        self.advance(partition, writer)
    }
}
