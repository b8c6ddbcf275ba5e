//! Fed by lists of flows, one after the other, while packets are looked up.
//!
//! Every node of a cluster makes its own tables from the same list. What a list changes is found by comparing it with the one
//! before, and only that is touched: packets of all other flows never notice.

use super::{Change, FlowSpec, FlowTables, FlowTablesError, Layout, PinnedState};
use scalebricks_graph::Mark;
use scalebricks_tables::compact::{Control, Op, Table};
use scalebricks_types::{FlowKey, KeyHasher, NodeId};
use std::collections::HashMap;
use std::time::Duration;

/// Changes of keys applied together; then the GPT may need a little care.
const STEP: usize = 4_096;

/// What a new list changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Flows that were not there before.
    pub added: usize,
    /// Flows with another node, tunnel or base station.
    pub changed: usize,
    /// Flows that are gone.
    pub removed: usize,
    /// Flows that stayed as they were.
    pub kept: usize,
}

/// A key as the last lists have it.
#[derive(Debug, Clone, Copy)]
struct ListedKey {
    node: NodeId,
    state: PinnedState,
    /// The last list that had it.
    list: u32,
}

/// One node's tables, and the list that they hold. What flows have carried that a list takes away is gone.
#[derive(Debug)]
pub struct FlowList {
    tables: FlowTables,
    /// What it takes to change the GPT, if there is one that is changed.
    control: Option<Control>,
    hasher: KeyHasher,
    /// Both keys of every flow of the cluster.
    keys: HashMap<FlowKey, ListedKey>,
    lists: u32,
}

impl FlowList {
    /// Empty tables of node `id`, for as many workers.
    ///
    /// # Errors
    /// As [`FlowTables::new`].
    pub fn new(
        layout: &Layout,
        id: NodeId,
        workers: usize,
        expected_flows: usize,
    ) -> Result<Self, FlowTablesError> {
        let tables = FlowTables::new(layout, id, workers, expected_flows)?;
        let control = tables.node_lookup.table().map(|table| Control::new(table.params()));
        Ok(Self { tables, control, hasher: KeyHasher::new(layout.seed), keys: HashMap::new(), lists: 0 })
    }

    /// The tables.
    pub const fn tables(&self) -> &FlowTables {
        &self.tables
    }

    /// As [`FlowTables::mark`].
    pub fn mark(&mut self, worker: usize) -> Option<Mark> {
        self.tables.mark(worker)
    }

    /// Flows in the cluster.
    pub fn flows(&self) -> usize {
        self.keys.len() / 2
    }

    /// Brings the tables to this list, in which no key and no uplink TEID stands twice; calls `told` now and then with
    /// the flows dealt with. Cost: for each flow that changes that of two keys [set](FlowTables::set) and changed in the GPT; a third of
    /// a microsecond for each other.
    ///
    /// # Errors
    /// [`FlowTablesError`]: tables then are between the two lists, and the next list starts from there.
    pub fn change_to(
        &mut self,
        list: &[FlowSpec],
        mut told: impl FnMut(usize),
    ) -> Result<Changes, FlowTablesError> {
        self.let_depart();
        let mut changes = Changes::default();
        let mut step = Vec::new();
        self.lists += 1;
        for (at, spec) in list.iter().enumerate() {
            let was_there = self.keys.contains_key(&spec.key);
            let is_kept = self.plan(spec, &mut step);
            match (was_there, is_kept) {
                (false, _) => changes.added += 1,
                (true, true) => changes.kept += 1,
                (true, false) => changes.changed += 1,
            }
            if step.len() >= STEP {
                self.perform(&mut step)?;
                told(at);
            }
        }
        self.perform(&mut step)?;
        let lists = self.lists;
        let gone: Vec<FlowKey> =
            self.keys.iter().filter(|(_, held)| held.list != lists).map(|(key, _)| *key).collect();
        changes.removed = gone.iter().filter(|key| !key.is_teid()).count();
        for part in gone.chunks(STEP) {
            step.extend(part.iter().map(|key| Change::Remove(*key)));
            self.perform(&mut step)?;
        }
        self.let_depart();
        told(list.len());
        Ok(changes)
    }

    /// Plans what brings a flow's keys to what the list says of them. Whether that is nothing.
    fn plan(&mut self, spec: &FlowSpec, step: &mut Vec<Change>) -> bool {
        let (node, state) = (spec.node, PinnedState::from(spec));
        let before = step.len();
        for key in spec.keys() {
            match self.keys.get_mut(&key) {
                Some(held) if (held.node, held.state) == (node, state) => held.list = self.lists,
                _ => step.push(Change::Set(key, node, state)),
            }
        }
        step.len() == before
    }

    /// Does what was planned.
    fn perform(&mut self, step: &mut Vec<Change>) -> Result<(), FlowTablesError> {
        let (keys, hasher, control) = (&self.keys, self.hasher, &mut self.control);
        let op = |change: &Change| {
            let (key, hash) = (change.key(), hasher.hash(change.key()));
            match (change, keys.get(key)) {
                (Change::Set(_, node, _), None) => Some(Op::Insert(hash, node.get())),
                (Change::Set(_, node, _), Some(held)) if held.node != *node => {
                    Some(Op::Update(hash, node.get()))
                }
                (Change::Set(..), Some(_)) | (Change::Remove(_), None) => None,
                (Change::Remove(_), Some(_)) => Some(Op::Remove(hash)),
            }
        };
        self.tables.apply(step, |table: &Table| {
            let Some(control) = control else { return Ok(()) };
            let ops: Vec<Op> = step.iter().filter_map(op).collect();
            control.batch_with(table, &ops)?;
            while let Some(delta) = control.maintain()? {
                let _applied = table.apply(&delta)?;
            }
            Ok(())
        })?;
        for change in step.drain(..) {
            match change {
                Change::Set(key, node, state) => {
                    self.keys.insert(key, ListedKey { node, state, list: self.lists });
                }
                Change::Remove(key) => {
                    self.keys.remove(&key);
                }
            }
        }
        Ok(())
    }

    /// Frees the places of flows that left with an earlier list, if all workers have passed since, and forgets their counts: there is
    /// no other node that they go to.
    fn let_depart(&mut self) {
        while self.tables.expire(Duration::ZERO) {}
        self.tables.take_departed();
    }
}
