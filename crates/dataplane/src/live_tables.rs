//! One node's tables, brought from one list of flows to another while packets are looked up in them.
//!
//! Every node of a cluster makes its own from the same list. What a list changes is found by comparing it with the one
//! before, and only that is touched: packets of all other flows never notice. New state is there before the GPT names
//! this node for it, and old state goes after the GPT has stopped to.

use crate::architecture::Architecture;
use crate::cluster::FlowSpec;
use crate::flow::{FlowCount, FlowCounters, FlowState};
use crate::node::NodeTables;
use crate::table_set::{Layout, TableSetError};
use scalebricks_tables::compact::{Control, Op, Table, UpdateError};
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::full_copy::FullCopy;
use scalebricks_tables::hash_partition::HashPartition;
use scalebricks_tables::{Fib, FibError, Gpt};
use scalebricks_types::{ApplyError, FlowIndex, FlowKey, KeyHash, KeyHasher, NodeId};
use std::collections::HashMap;
use std::sync::Arc;

/// GPT operations applied together; then the table may need a little care.
const STEP: usize = 4_096;

/// Room that tables have for more flows from the start.
const SPARE: usize = 1_024;

/// Why tables could not be brought to a list of flows.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// A FIB refused a flow.
    #[error("FIB: {0}")]
    Fib(#[from] FibError),
    /// The GPT refused one.
    #[error("GPT: {0}")]
    Gpt(#[from] UpdateError),
    /// The GPT is not where its owner believes it is.
    #[error("GPT: {0}")]
    Apply(#[from] ApplyError),
}

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

/// What tables hold, and how large they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LiveSizes {
    /// Flows in the cluster.
    pub flows: usize,
    /// Flows handled here.
    pub flows_here: usize,
    /// Bytes of "which node?", beyond the FIB.
    pub gpt_bytes: usize,
    /// Bytes of the FIB.
    pub fib_bytes: usize,
    /// Bytes that the GPT's owner needs to change it.
    pub control_bytes: usize,
}

/// The GPT of this node, as its architecture has it.
#[derive(Debug)]
enum Which {
    /// Compact, with what it takes to change it.
    Compact { control: Control, table: Table },
    /// The FIB itself, which holds all flows.
    Full,
    /// Computed, with the locations of this node's share of the keys.
    Partition { partition: HashPartition, locations: Arc<PartialFib> },
}

/// A key of a flow as the tables have it.
#[derive(Debug, Clone, Copy)]
struct Held {
    state: FlowState,
    /// The last list that had it.
    list: u32,
}

/// One node's tables.
#[derive(Debug)]
pub struct LiveTables {
    id: NodeId,
    hasher: KeyHasher,
    which: Which,
    fib: Arc<PartialFib>,
    /// One a worker: each writes its own.
    counters: Vec<Arc<FlowCounters>>,
    /// Both keys of every flow of the cluster.
    keys: HashMap<FlowKey, Held>,
    /// Keys of flows handled here.
    keys_here: usize,
    lists: u32,
    indices: Indices,
}

/// Places of counters. One that a flow has left is given away a list later, when no worker counts there any more.
#[derive(Debug, Default)]
struct Indices {
    next: u32,
    free: Vec<FlowIndex>,
    left: Vec<FlowIndex>,
}

impl LiveTables {
    /// Empty tables of node `id`, for as many workers.
    ///
    /// # Errors
    /// [`TableSetError::Params`] for a cluster whose GPT cannot be.
    pub fn new(
        layout: &Layout,
        id: NodeId,
        workers: usize,
        expected_flows: usize,
    ) -> Result<Self, TableSetError> {
        let size = layout.size;
        let hasher = KeyHasher::new(layout.seed);
        let keys = 2 * (expected_flows + SPARE);
        let share = keys / size.get() + SPARE;
        let fib =
            |keys: usize| Arc::new(PartialFib::new(FibConfig::new(hasher).short_keys(keys).grow_when_full()));
        let (which, fib) = match layout.architecture {
            Architecture::ScaleBricks => {
                let control = Control::build(layout.gpt_params(keys as u64)?, &[])?;
                let table = control.export();
                (Which::Compact { control, table }, fib(share))
            }
            Architecture::FullDuplication | Architecture::Vlb => (Which::Full, fib(keys)),
            Architecture::HashPartition => {
                (Which::Partition { partition: HashPartition::new(size), locations: fib(share) }, fib(share))
            }
        };
        Ok(Self {
            id,
            hasher,
            which,
            fib,
            counters: (0..workers).map(|_| Arc::new(FlowCounters::new(0))).collect(),
            keys: HashMap::new(),
            keys_here: 0,
            lists: 0,
            indices: Indices::default(),
        })
    }

    /// What a worker is given: readers of its own, counters of its own.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn node_tables(&self, worker: usize) -> NodeTables {
        let fib: Arc<dyn Fib> = Arc::<PartialFib>::clone(&self.fib);
        let full =
            |fib: &Arc<PartialFib>| Arc::new(FullCopy::new(Arc::clone(fib), FlowState::node_of)).reader();
        let (gpt, lookup) = match &self.which {
            Which::Compact { table, .. } => (table.gpt_reader(), None),
            Which::Full => (full(&self.fib), None),
            Which::Partition { partition, locations } => {
                (Arc::new(*partition).reader(), Some(full(locations)))
            }
        };
        NodeTables { gpt, lookup, fib, counters: Arc::clone(&self.counters[worker]) }
    }

    /// What the tables hold.
    pub fn sizes(&self) -> LiveSizes {
        let (gpt_bytes, control_bytes) = match &self.which {
            Which::Compact { control, table } => (table.table_bytes(), control.control_bytes()),
            Which::Full => (0, 0),
            Which::Partition { locations, .. } => (locations.table_bytes(), 0),
        };
        LiveSizes {
            flows: self.keys.len() / 2,
            flows_here: self.keys_here / 2,
            gpt_bytes,
            fib_bytes: self.fib.table_bytes(),
            control_bytes,
        }
    }

    /// What a flow has carried here, all workers together.
    pub fn count(&self, index: FlowIndex) -> FlowCount {
        self.counters.iter().map(|counters| counters.read(index)).sum()
    }

    /// The state of a key's flow, wherever it is handled.
    pub fn flow(&self, key: &FlowKey) -> Option<FlowState> {
        self.keys.get(key).map(|held| held.state)
    }

    /// Brings the tables to this list, in which no key and no uplink TEID stands twice; calls `told` now and then with
    /// the flows dealt with. Cost: about a microsecond for each flow that changes, a third for each other.
    ///
    /// # Errors
    /// [`LiveError`]: tables then are between the two lists, and the next list starts from there.
    pub fn change_to(
        &mut self,
        list: &[FlowSpec],
        mut told: impl FnMut(usize),
    ) -> Result<Changes, LiveError> {
        let mut changes = Changes::default();
        let mut work = Work::default();
        self.lists += 1;
        self.indices.free.append(&mut self.indices.left);
        for (at, spec) in list.iter().enumerate() {
            match self.plan(spec, &mut work) {
                Planned::Added => changes.added += 1,
                Planned::Changed => changes.changed += 1,
                Planned::Kept => changes.kept += 1,
            }
            if work.len() >= STEP {
                self.perform(&mut work)?;
                told(at);
            }
        }
        self.perform(&mut work)?;
        let lists = self.lists;
        let gone: Vec<FlowKey> =
            self.keys.iter().filter(|(_, held)| held.list != lists).map(|(key, _)| *key).collect();
        for step in gone.chunks(STEP) {
            for key in step {
                changes.removed += usize::from(!key.is_teid());
                self.plan_removal(*key, &mut work);
            }
            self.perform(&mut work)?;
        }
        told(list.len());
        Ok(changes)
    }

    /// Whether this node's FIB holds the flows of a node.
    fn holds(&self, node: NodeId) -> bool {
        node == self.id || matches!(self.which, Which::Full)
    }

    fn new_index(&mut self) -> FlowIndex {
        let index = self.indices.free.pop().unwrap_or_else(|| {
            self.indices.next += 1;
            FlowIndex(self.indices.next - 1)
        });
        for counters in &self.counters {
            counters.reserve(index.0 as usize + 1);
            counters.reset(index);
        }
        index
    }

    /// Plans what brings a flow's keys to what the list says of them.
    fn plan(&mut self, spec: &FlowSpec, work: &mut Work) -> Planned {
        let before = self.keys.get(&spec.key).map(|held| held.state);
        let was_here = before.filter(|state| state.node == self.id);
        let index = match (was_here, spec.node == self.id) {
            (Some(state), true) => state.index,
            (None, true) => self.new_index(),
            (_, false) => FlowIndex(0),
        };
        if let Some(state) = was_here
            && spec.node != self.id
        {
            self.indices.left.push(state.index);
        }
        let state = spec.state(index);
        let mut kept = true;
        for key in [spec.key, FlowKey::teid(spec.uplink_teid)] {
            let held = self.keys.get_mut(&key);
            if let Some(held) = held
                && held.state == state
            {
                held.list = self.lists;
                continue;
            }
            kept = false;
            work.put.push((key, self.hasher.hash(&key), state));
        }
        match before {
            None => Planned::Added,
            Some(_) if kept => Planned::Kept,
            Some(_) => Planned::Changed,
        }
    }

    fn plan_removal(&mut self, key: FlowKey, work: &mut Work) {
        let Some(held) = self.keys.get(&key) else { return };
        // Both keys of a flow have its index: it is given back once.
        if held.state.node == self.id && !key.is_teid() {
            self.indices.left.push(held.state.index);
        }
        work.remove.push((key, self.hasher.hash(&key)));
    }

    /// Does what was planned: state first, then the GPT, then what is no longer needed.
    fn perform(&mut self, work: &mut Work) -> Result<(), LiveError> {
        let mut ops = Vec::with_capacity(work.len());
        let mut left = Vec::new();
        for (key, hash, state) in &work.put {
            let before = self.keys.get(key).map(|held| held.state.node);
            let node = state.node.get();
            match before {
                None => ops.push(Op::Insert(*hash, node)),
                Some(before) if before != state.node => ops.push(Op::Update(*hash, node)),
                Some(_) => {}
            }
            if self.holds(state.node) {
                put(&self.fib, key, *hash, state)?;
            } else if before.is_some_and(|before| self.holds(before)) {
                left.push((*key, *hash));
            }
            if let Which::Partition { partition, locations } = &self.which
                && partition.node(*hash) == self.id
            {
                put(locations, key, *hash, state)?;
            }
        }
        ops.extend(work.remove.iter().map(|(_, hash)| Op::Remove(*hash)));
        if let Which::Compact { control, table } = &mut self.which {
            control.batch_with(table, &ops)?;
            while let Some(delta) = control.maintain()? {
                let _applied = table.apply(&delta)?;
            }
        }
        for (key, hash) in left {
            remove(&self.fib, &key, hash)?;
        }
        for (key, hash) in work.remove.drain(..) {
            remove(&self.fib, &key, hash)?;
            if let Which::Partition { locations, .. } = &self.which {
                remove(locations, &key, hash)?;
            }
            let before = self.keys.remove(&key);
            self.keys_here -= usize::from(before.is_some_and(|held| held.state.node == self.id));
        }
        for (key, _, state) in work.put.drain(..) {
            let before = self.keys.insert(key, Held { state, list: self.lists });
            self.keys_here += usize::from(state.node == self.id);
            self.keys_here -= usize::from(before.is_some_and(|held| held.state.node == self.id));
        }
        Ok(())
    }
}

enum Planned {
    Added,
    Changed,
    Kept,
}

/// Planned and not yet done.
#[derive(Debug, Default)]
struct Work {
    put: Vec<(FlowKey, KeyHash, FlowState)>,
    remove: Vec<(FlowKey, KeyHash)>,
}

impl Work {
    const fn len(&self) -> usize {
        self.put.len() + self.remove.len()
    }
}

fn put(fib: &PartialFib, key: &FlowKey, hash: KeyHash, state: &FlowState) -> Result<(), FibError> {
    match fib.update(key, hash, state.encode()) {
        Ok(_) => Ok(()),
        Err(FibError::Missing) => fib.insert(key, hash, state.encode()),
        Err(error) => Err(error),
    }
}

/// What is not there need not go.
fn remove(fib: &PartialFib, key: &FlowKey, hash: KeyHash) -> Result<(), FibError> {
    match fib.remove(key, hash) {
        Ok(_) | Err(FibError::Missing) => Ok(()),
        Err(error) => Err(error),
    }
}
