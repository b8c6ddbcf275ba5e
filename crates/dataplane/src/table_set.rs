//! The tables of all nodes, as one architecture spreads them.
//!
//! | architecture | "which node?" at every node | "which flow?" |
//! |---|---|---|
//! | full duplication, VLB | the FIB itself: it holds every flow, with its node | the same table |
//! | hash partition | computed; and a table of the locations of 1/n of the flows | the node's own flows |
//! | ScaleBricks | SetSep or Othello over all flows | the node's own flows |
//!
//! A flow has two keys, one a direction: packets of both arrive anywhere. Every node has tables of its own, as nodes
//! on machines of their own have, though they share one process here.

use crate::architecture::Architecture;
use crate::cluster::FlowSpec;
use crate::flow::{FlowCounters, FlowState};
use crate::node::NodeTables;
use rayon::prelude::*;
use scalebricks_tables::compact::{BuildError, Control, Params, ParamsError, Structure};
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::full_copy::FullCopy;
use scalebricks_tables::hash_partition::HashPartition;
use scalebricks_tables::{Fib, FibError, FibValue, Gpt};
use scalebricks_types::{
    ClusterSize, FlowIndex, FlowKey, HashSeed, KeyHash, KeyHasher, NodeId, PartitionCount,
};
use std::sync::Arc;

/// Update streams a cluster's tables are cut into.
pub const PARTITIONS: u32 = 64;

/// Why tables could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum TableSetError {
    /// Two flows share a key: the later one is named.
    #[error("flow {flow} has the same {key} as an earlier flow")]
    Duplicate {
        /// The later flow's place in the list.
        flow: usize,
        /// Which of its keys.
        key: &'static str,
    },
    /// A FIB refused a flow.
    #[error("FIB of {node}: {error}")]
    Fib {
        /// The node.
        node: NodeId,
        /// What it said.
        error: FibError,
    },
    /// No GPT of this size.
    #[error("GPT: {0}")]
    Params(#[from] ParamsError),
    /// The GPT could not be built.
    #[error("GPT: {0}")]
    Build(#[from] BuildError),
}

/// What a cluster's tables are made of: the same at all nodes.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Nodes.
    pub size: ClusterSize,
    /// How the FIB is spread over them.
    pub architecture: Architecture,
    /// What the GPT is made of, where the architecture has one.
    pub gpt: Structure,
    /// The secret of the key hash.
    pub seed: HashSeed,
}

impl Layout {
    /// The parameters of the GPT for this many keys.
    pub(crate) fn gpt_params(&self, keys: u64) -> Result<Params, ParamsError> {
        let partitions = PartitionCount::new(PARTITIONS).unwrap_or(PartitionCount::ONE);
        Params::for_keys(self.gpt, keys, self.size.value_bits(), partitions)
    }
}

/// One node's tables.
#[derive(Debug)]
struct NodeSet {
    gpt: Arc<dyn Gpt>,
    lookup: Option<Arc<dyn Gpt>>,
    fib: Arc<PartialFib>,
    counters: Arc<FlowCounters>,
    gpt_bytes: usize,
}

/// The tables of all nodes.
#[derive(Debug)]
pub struct TableSet {
    nodes: Vec<NodeSet>,
}

/// A key of a flow, with what the FIB holds for it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    flow: usize,
    is_uplink: bool,
    key: FlowKey,
    hash: KeyHash,
    state: FlowState,
}

impl Entry {
    const fn duplicate(&self) -> TableSetError {
        let key = if self.is_uplink { "uplink TEID" } else { "downstream key" };
        TableSetError::Duplicate { flow: self.flow, key }
    }
}

impl TableSet {
    /// Fills the tables of all nodes.
    ///
    /// # Errors
    /// [`TableSetError`]: a flow that stands twice in the list, or what a table refused.
    pub fn build(layout: &Layout, flows: &[FlowSpec]) -> Result<Self, TableSetError> {
        let size = layout.size;
        let hasher = KeyHasher::new(layout.seed);
        let (entries, counts) = entries(size, hasher, flows);
        let counters = |id: NodeId| Arc::new(FlowCounters::new(counts[id.index()]));
        let owned = |id: NodeId| move |entry: &&Entry| entry.state.node == id;
        let nodes: Vec<NodeSet> = match layout.architecture {
            Architecture::FullDuplication | Architecture::Vlb => {
                in_parallel(size, |id| {
                    let fib = fill(id, hasher, entries.iter())?;
                    let gpt = Arc::new(FullCopy::new(Arc::clone(&fib), FlowState::node_of));
                    // One table answers both questions: its bytes are the FIB's.
                    Ok(NodeSet { gpt, lookup: None, fib, counters: counters(id), gpt_bytes: 0 })
                })?
            }
            Architecture::HashPartition => {
                let partition = HashPartition::new(size);
                in_parallel(size, |id| {
                    let fib = fill(id, hasher, entries.iter().filter(owned(id)))?;
                    let share = entries.iter().filter(|entry| partition.node(entry.hash) == id);
                    let locations = fill(id, hasher, share)?;
                    let gpt_bytes = locations.table_bytes();
                    let lookup: Arc<dyn Gpt> = Arc::new(FullCopy::new(locations, FlowState::node_of));
                    let gpt = Arc::new(partition);
                    Ok(NodeSet { gpt, lookup: Some(lookup), fib, counters: counters(id), gpt_bytes })
                })?
            }
            Architecture::ScaleBricks => {
                let keys: Vec<(KeyHash, u8)> =
                    entries.iter().map(|entry| (entry.hash, entry.state.node.get())).collect();
                let params = layout.gpt_params(keys.len() as u64)?;
                let control = Control::build(params, &keys).map_err(|error| {
                    let later = error.duplicate().and_then(|hash| later_of(&entries, hash));
                    later.map_or_else(|| error.into(), Entry::duplicate)
                })?;
                drop(keys);
                in_parallel(size, |id| {
                    let fib = fill(id, hasher, entries.iter().filter(owned(id)))?;
                    let gpt = control.export().gpt();
                    let gpt_bytes = gpt.table_bytes();
                    Ok(NodeSet { gpt, lookup: None, fib, counters: counters(id), gpt_bytes })
                })?
            }
        };
        Ok(Self { nodes })
    }

    /// What a node is given: readers of its own.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn node_tables(&self, id: NodeId) -> NodeTables {
        let set = &self.nodes[id.index()];
        let fib: Arc<dyn Fib> = Arc::<PartialFib>::clone(&set.fib);
        NodeTables {
            gpt: Arc::clone(&set.gpt).reader(),
            lookup: set.lookup.as_ref().map(|lookup| Arc::clone(lookup).reader()),
            fib,
            counters: Arc::clone(&set.counters),
        }
    }

    /// A node's GPT, to apply updates to; `None` if there is no such node.
    pub fn gpt(&self, id: NodeId) -> Option<&Arc<dyn Gpt>> {
        self.nodes.get(id.index()).map(|set| &set.gpt)
    }

    /// Bytes a node spends on "which node?" beyond its FIB; 0 if there is no such node.
    pub fn gpt_bytes(&self, id: NodeId) -> usize {
        self.nodes.get(id.index()).map_or(0, |set| set.gpt_bytes)
    }

    /// Bytes of a node's FIB; 0 if there is no such node.
    pub fn fib_bytes(&self, id: NodeId) -> usize {
        self.nodes.get(id.index()).map_or(0, |set| set.fib.table_bytes())
    }
}

/// Both keys of every flow, hashed once, and the number of flows pinned to each node.
fn entries(size: ClusterSize, hasher: KeyHasher, flows: &[FlowSpec]) -> (Vec<Entry>, Vec<usize>) {
    let mut counts = vec![0; size.get()];
    let mut entries = Vec::with_capacity(2 * flows.len());
    for (flow, spec) in flows.iter().enumerate() {
        let index = FlowIndex(counts[spec.node.index()] as u32); // flows fit 32 bits: so do their TEIDs
        counts[spec.node.index()] += 1;
        for (is_uplink, key) in [(false, spec.key), (true, FlowKey::teid(spec.uplink_teid))] {
            entries.push(Entry { flow, is_uplink, key, hash: hasher.hash(&key), state: spec.state(index) });
        }
    }
    (entries, counts)
}

/// The later of two entries with the same hash.
fn later_of(entries: &[Entry], hash: KeyHash) -> Option<&Entry> {
    entries.iter().rev().find(|entry| entry.hash == hash)
}

fn in_parallel<T: Send>(
    size: ClusterSize,
    make: impl Fn(NodeId) -> Result<T, TableSetError> + Send + Sync,
) -> Result<Vec<T>, TableSetError> {
    let nodes: Vec<NodeId> = size.nodes().collect();
    nodes.into_par_iter().map(make).collect()
}

/// A FIB of just the size for these entries, filled.
fn fill<'a>(
    node: NodeId,
    hasher: KeyHasher,
    entries: impl Iterator<Item = &'a Entry> + Clone,
) -> Result<Arc<PartialFib>, TableSetError> {
    let (mut short, mut long) = (0, 0);
    for entry in entries.clone() {
        match entry.key {
            FlowKey::Short(_) => short += 1,
            FlowKey::Long(_) => long += 1,
        }
    }
    let config = FibConfig::new(hasher).short_keys(short).long_keys(long).grow_when_full();
    let fib = PartialFib::new(config);
    for entry in entries {
        let value: FibValue = entry.state.encode();
        fib.insert(&entry.key, entry.hash, value).map_err(|error| match error {
            FibError::Exists => entry.duplicate(),
            error => TableSetError::Fib { node, error },
        })?;
    }
    Ok(Arc::new(fib))
}
