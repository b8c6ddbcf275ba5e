//! Updates tables from successive lists of flows while packets are looked up.
//!
//! Every node of a cluster builds its own tables from the same list. Changes are found by comparison with the previous
//! list, and only these are applied: packets of other flows are not affected.

use super::{Change, FlowSpec, FlowTables, FlowTablesError, Layout, PinnedState};
use scalebricks_graph::Mark;
use scalebricks_tables::compact::{Control, Op, Table};
use scalebricks_types::{FlowKey, KeyHasher, NodeId};
use std::collections::HashMap;
use std::time::Duration;

/// Key changes applied together; afterwards the GPT may need maintenance.
const STEP: usize = 4_096;

/// The changes made by a new list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// New flows.
    pub added: usize,
    /// Flows with another node, tunnel or base station.
    pub changed: usize,
    /// Removed flows.
    pub removed: usize,
    /// Unchanged flows.
    pub kept: usize,
}

/// A key's state in the current list.
#[derive(Debug, Clone, Copy)]
struct ListedKey {
    node: NodeId,
    state: PinnedState,
    /// The last list that contained it.
    list: u32,
}

/// One node's tables and their current list. The counts of removed flows are lost.
#[derive(Debug)]
pub struct FlowList {
    tables: FlowTables,
    /// The control structure of the GPT, if it has one.
    control: Option<Control>,
    hasher: KeyHasher,
    /// Both keys of every flow of the cluster.
    keys: HashMap<FlowKey, ListedKey>,
    lists: u32,
}

impl FlowList {
    /// Empty tables of node `id`, for `workers` workers.
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

    /// Changes the tables to this list, in which every key and uplink TEID must be unique; calls `told` from time to
    /// time with the number of flows processed. Cost: per changed flow, that of two keys [set](FlowTables::set) and
    /// changed in the GPT; a third of a microsecond per unchanged flow.
    ///
    /// # Errors
    /// [`FlowTablesError`]: the tables are then between the two lists, and the next list starts from there.
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

    /// Plans the changes to a flow's keys. Returns whether there are none.
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

    /// Executes the plan.
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

    /// Frees the slots of flows that left with an earlier list, if all workers have passed since, and drops their
    /// counts: they go to no other node.
    fn let_depart(&mut self) {
        while self.tables.expire(Duration::ZERO) {}
        self.tables.take_departed();
    }
}
