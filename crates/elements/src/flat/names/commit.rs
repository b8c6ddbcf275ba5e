//! Executes a plan, and makes room for it first.
//!
//! Readers stay correct because changes become visible in this order: new actions, then names, then the filter's bits,
//! then the removal of unused actions (`Actions::meaning`).

use super::super::action::{ActionId, MAX_ACTIONS};
use super::super::fib::Generation;
use super::interner::Interner;
use super::plan::{Plan, Step};
use super::{Changes, NameError, NameTable, filter_params, generation, params, spread};
use scalebricks_tables::Spread;
use scalebricks_tables::filter::CountingFilter;
use scalebricks_tables::othello::{Op, OthelloBuilder, Params};
use scalebricks_types::{KeyHash, PartitionId};
use std::collections::HashMap;
use std::sync::Arc;

/// The table grows before a change if less than this fraction (1/8) of its capacity would be free.
const SLACK: u64 = 8;

/// Threads that rebuild a table.
const BUILD_THREADS: usize = 0; // one per core

impl NameTable {
    /// Executes a plan.
    pub(super) fn commit(&mut self, plan: Plan) -> Result<Changes, NameError> {
        let done = changes(&plan);
        if plan.steps.is_empty() {
            return Ok(done);
        }
        let names = (self.names.len() + done.added - done.removed) as u64;
        let ids = self.interner.given() + plan.new_actions;
        if self.is_worn(ids, plan.new_actions) || !self.make_room(names, ids) {
            self.make_anew(&plan)?;
        } else if !self.change(&plan) {
            // No seed suited a range, or one was full despite room on average: extremely unlikely.
            self.make_anew(&plan)?;
        }
        for step in plan.steps {
            if step.after.is_none() {
                self.names.remove(&step.name);
            }
        }
        self.grow_filter();
        Ok(done)
    }

    /// Whether this many IDs, including unused ones, exceed the value width while those in use fit with room to spare.
    /// Then actions are renumbered: wider values would cost every name a bit.
    fn is_worn(&self, ids: usize, new: usize) -> bool {
        let values = 1_usize << self.control.params().value_bits();
        ids > MAX_ACTIONS || (ids > values && self.interner.live() + new <= values - values / 4)
    }

    /// Changes the table in place. Returns false, and changes nothing, if it has no room.
    fn change(&mut self, plan: &Plan) -> bool {
        let Some(ids) = acquire(&mut self.interner, &plan.steps) else { return false };
        let generation = self.fib.generation.load_full();
        self.tell_actions(&generation);
        let spread = generation.spread;
        let ops: Vec<Op> =
            plan.steps.iter().zip(&ids).filter_map(|(step, id)| op(step, *id, spread)).collect();
        if self.control.batch_with(&generation.othello, &ops).is_err() {
            ids.into_iter().flatten().for_each(|id| self.interner.release(id));
            self.tell_actions(&generation);
            return false;
        }
        if let Some(filter) = &mut self.filter {
            change_filter(filter, &plan.steps);
            let delta = filter.take_delta();
            if let Some(shared) = &*generation.filter.load() {
                // Both tables have the same parameters.
                let _applied = shared.apply(&delta);
            }
        }
        self.settle(&plan.steps, &ids);
        self.tell_actions(&generation);
        true
    }

    /// Publishes the current actions to readers.
    fn tell_actions(&mut self, generation: &Generation) {
        if let Some(actions) = self.interner.news() {
            generation.actions.0.store(Arc::new(actions));
        }
    }

    /// Stores the names' new IDs and releases the old ones.
    fn settle(&mut self, steps: &[Step], ids: &[Option<ActionId>]) {
        for (step, id) in steps.iter().zip(ids) {
            if let Some(id) = *id {
                self.names.insert(step.name.clone(), id);
            }
            if let Some(before) = step.before {
                self.interner.release(before);
            }
        }
    }

    /// Reshapes the table for this many names and IDs if needed; false if it could not.
    fn make_room(&mut self, names: u64, ids: usize) -> bool {
        let now = *self.control.params();
        let is_tight = names > u64::from(now.ranges()) * now.names_per_range();
        let needed_bits = params(&self.config, names, ids).map_or(u8::MAX, |params| params.value_bits());
        if !is_tight && needed_bits <= now.value_bits() {
            return true;
        }
        if self.config.spreads_aliens && needed_bits > now.value_bits() {
            return false;
        }
        let wanted = if is_tight { names + names / 4 } else { 0 };
        let ranges = params(&self.config, wanted, ids).map_or(0, |params| params.ranges_per_partition());
        let to = now
            .with_ranges(ranges.max(now.ranges_per_partition()))
            .and_then(|to| to.with_value_bits(needed_bits.max(now.value_bits())));
        to.is_ok_and(|to| self.reshape(to))
    }

    /// Converts the table partition by partition while it is read; false if a partition could not be converted.
    fn reshape(&mut self, to: Params) -> bool {
        self.reshaped += 1;
        let othello = Arc::clone(&self.fib.generation.load().othello);
        if self.control.reshape(to).is_err() {
            return false;
        }
        let partitions = to.partitions().get();
        (0..partitions).all(|partition| {
            // Partition numbers have 16 bits.
            match self.control.reshape_step(PartitionId(partition as u16)) {
                Ok(Some(delta)) => othello.apply(&delta).is_ok(),
                Ok(None) => true,
                Err(_) => false,
            }
        })
    }

    /// Builds a new table for the state after a plan, with IDs from 0 on, and replaces the old one by one store.
    fn make_anew(&mut self, plan: &Plan) -> Result<(), NameError> {
        let mut interner = Interner::default();
        let mut names = HashMap::with_capacity(self.names.len());
        let planned: HashMap<_, _> = plan.steps.iter().map(|step| (&step.name, step.after)).collect();
        let kept = self.iter().filter(|(name, _)| !planned.contains_key(name));
        let planned = planned.iter().filter_map(|(&name, &after)| Some((name, after?)));
        let mut entries: Vec<(KeyHash, u16)> = Vec::with_capacity(self.names.len());
        for (name, action) in kept.chain(planned) {
            let id = interner.acquire(action).ok_or(NameError::TooManyActions(MAX_ACTIONS + 1))?;
            entries.push((name.hash(&self.config.hasher), id.0));
            names.insert(name.clone(), id);
        }
        let wanted = (entries.len() as u64 + entries.len() as u64 / SLACK).max(self.config.expected);
        let shape = params(&self.config, wanted, interner.given())?;
        let masks = spread(&self.config, &shape);
        for (hash, value) in &mut entries {
            *value = masks.mask(*hash, *value);
        }
        let control = OthelloBuilder::new(shape).threads(BUILD_THREADS).may_grow().build(&entries)?;
        let filter = self.config.filter_rate.map(|rate| filter_params(rate, wanted)).transpose()?;
        let filter = filter.map(|params| filter_of(CountingFilter::new(params), &entries));
        let next = generation(&self.config, &control, &interner, filter.as_ref());
        self.fib.generation.store(Arc::new(next));
        (self.names, self.interner, self.control, self.filter) = (names, interner, control, filter);
        self.reshaped += 1;
        Ok(())
    }

    /// Builds a larger filter when too many foreign names pass. If that fails, the old filter stays: it never refuses a
    /// name of the table.
    fn grow_filter(&mut self) {
        let (Some(filter), Some(rate)) = (&self.filter, self.config.filter_rate) else { return };
        let names = self.names.len() as u64;
        if filter.params().false_positive_rate(names) <= rate * 1.25 {
            return;
        }
        let Ok(params) = filter_params(rate, names + names / 2) else { return };
        let mut larger = CountingFilter::new(params);
        self.names.keys().for_each(|name| larger.insert(name.hash(&self.config.hasher)));
        let _all_of_it = larger.take_delta();
        self.fib.generation.load().filter.store(Some(Arc::new(larger.export())));
        self.filter = Some(larger);
        self.reshaped += 1;
    }
}

fn changes(plan: &Plan) -> Changes {
    let mut changes = Changes::default();
    for step in &plan.steps {
        match (step.before, step.after) {
            (None, _) => changes.added += 1,
            (Some(_), Some(_)) => changes.altered += 1,
            (Some(_), None) => changes.removed += 1,
        }
    }
    changes
}

/// The IDs for the new actions of names; `None`, with nothing changed, if there are not enough.
fn acquire(interner: &mut Interner, steps: &[Step]) -> Option<Vec<Option<ActionId>>> {
    let mut ids = Vec::with_capacity(steps.len());
    for step in steps {
        let id = step.after.map(|action| interner.acquire(action));
        if id == Some(None) {
            ids.into_iter().flatten().for_each(|id| interner.release(id));
            return None;
        }
        ids.push(id.flatten());
    }
    Some(ids)
}

fn op(step: &Step, id: Option<ActionId>, spread: Spread) -> Option<Op> {
    match (step.before, id.map(|id| spread.mask(step.hash, id.0))) {
        (None, Some(value)) => Some(Op::Insert(step.hash, value)),
        (Some(_), Some(value)) => Some(Op::Update(step.hash, value)),
        (Some(_), None) => Some(Op::Remove(step.hash)),
        (None, None) => None,
    }
}

fn change_filter(filter: &mut CountingFilter, steps: &[Step]) {
    for step in steps {
        match (step.before, step.after) {
            (None, Some(_)) => filter.insert(step.hash),
            (Some(_), None) => {
                // Every name of the table is in the filter.
                let _there = filter.remove(step.hash);
            }
            _ => {}
        }
    }
}

fn filter_of(mut filter: CountingFilter, entries: &[(KeyHash, u16)]) -> CountingFilter {
    for &(hash, _) in entries {
        filter.insert(hash);
    }
    let _all_of_it = filter.take_delta();
    filter
}
