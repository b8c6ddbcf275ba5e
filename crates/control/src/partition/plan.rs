//! The plan of an entry's changes, before any of them is made.

use crate::record::{Closures, Session};
use scalebricks_tables::compact::Op;
use scalebricks_types::{FlowKey, KeyHash};
use std::collections::HashMap;

/// The effect of one change on one key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) key: FlowKey,
    pub(super) hash: KeyHash,
    pub(super) before: Option<Session>,
    pub(super) after: Option<Session>,
}

/// The steps of one entry, in their order.
#[derive(Debug, Default)]
pub(super) struct Plan {
    steps: Vec<Step>,
    /// By step, the one before it of the same key.
    previous: Vec<Option<usize>>,
    /// By hash, the first and the newest step of each key.
    touched: HashMap<KeyHash, (usize, usize)>,
    /// The partition's closures and those of the entry, if it has any.
    pub(super) closures: Option<Closures>,
}

impl Plan {
    pub(super) fn add(&mut self, step: Step) {
        let at = self.steps.len();
        let (_, newest) = self.touched.entry(step.hash).or_insert((at, at));
        self.previous.push((*newest != at).then_some(*newest));
        *newest = at;
        self.steps.push(step);
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The newest state of a key that an earlier change of the entry touched.
    pub(super) fn newest(&self, hash: KeyHash) -> Option<&Step> {
        let (_, newest) = self.touched.get(&hash)?;
        self.steps.get(*newest)
    }

    /// Whether an earlier change of the entry touched a key.
    pub(super) fn has_touched(&self, hash: KeyHash) -> bool {
        self.touched.contains_key(&hash)
    }

    /// The newest step of each key, in no order.
    pub(super) fn newest_of_each(&self) -> impl Iterator<Item = &Step> {
        self.touched.values().filter_map(|(_, newest)| self.steps.get(*newest))
    }

    /// The first and the newest step of each key, in the order in which keys came first.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (&Step, &Step)> {
        self.steps.iter().enumerate().filter_map(|(at, step)| {
            let &(first, newest) = self.touched.get(&step.hash)?;
            (first == at).then_some((step, self.steps.get(newest)?))
        })
    }

    /// Takes back all steps but the first `len`.
    pub(super) fn take_back(&mut self, len: usize) {
        while self.steps.len() > len {
            let (Some(step), Some(previous)) = (self.steps.pop(), self.previous.pop()) else { return };
            match (previous, self.touched.get_mut(&step.hash)) {
                (Some(previous), Some((_, newest))) => *newest = previous,
                _ => drop(self.touched.remove(&step.hash)),
            }
        }
    }
}

/// The GPT's part of steps: only changes of the node.
pub(super) fn gpt_ops(steps: &[Step]) -> Vec<Op> {
    let op = |step: &Step| match (step.before, step.after) {
        (None, Some(after)) => Some(Op::Insert(step.hash, after.node.get())),
        (Some(before), Some(after)) if before.node != after.node => {
            Some(Op::Update(step.hash, after.node.get()))
        }
        (Some(_), None) => Some(Op::Remove(step.hash)),
        _ => None,
    };
    steps.iter().filter_map(op).collect()
}
