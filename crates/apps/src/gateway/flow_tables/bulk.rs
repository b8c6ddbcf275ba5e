//! Fills the tables of several nodes with all flows of a cluster at once: for in-process clusters and measurements.
//!
//! Every node has its own tables, as on separate machines, and they can be changed afterwards like any others.

use super::node_lookup::NodeLookup;
use super::{FlowSpec, FlowTables, FlowTablesError, Layout, PinnedState, fib_for};
use rayon::prelude::*;
use scalebricks_tables::compact::{Control, Table};
use scalebricks_tables::fib::PartialFib;
use scalebricks_tables::hash_partition::HashPartition;
use scalebricks_types::{FlowKey, KeyHash, KeyHasher, NodeId};

/// The tables of these nodes, in order, each for `workers` workers, filled with the flows of a cluster. The flows are
/// iterated a few times per node instead of being kept in memory.
///
/// # Errors
/// [`FlowTablesError`]: a duplicate flow, or a table's refusal.
pub fn fill(
    layout: &Layout,
    nodes: impl IntoIterator<Item = NodeId>,
    workers: usize,
    flows: &(impl Iterator<Item = FlowSpec> + Clone + Send + Sync),
) -> Result<Vec<FlowTables>, FlowTablesError> {
    let control = layout.has_compact_gpt().then(|| build(layout, flows)).transpose()?;
    let nodes: Vec<(NodeId, Option<Table>)> =
        nodes.into_iter().map(|id| (id, control.as_ref().map(Control::export))).collect();
    drop(control);
    nodes.into_par_iter().map(|(id, table)| one(layout, id, workers, table, flows)).collect()
}

/// The GPT of all nodes.
fn build(
    layout: &Layout,
    flows: &(impl Iterator<Item = FlowSpec> + Clone),
) -> Result<Control, FlowTablesError> {
    let hasher = KeyHasher::new(layout.seed);
    let keys: Vec<(KeyHash, u8)> =
        flows.clone().flat_map(|spec| spec.keys().map(|key| (hasher.hash(&key), spec.node.get()))).collect();
    Control::build(layout.gpt_params(keys.len() as u64)?, &keys).map_err(|error| {
        let later = error.duplicate().and_then(|hash| {
            let of = |(flow, spec): (usize, FlowSpec)| spec.keys().map(|key| (flow, key));
            flows.clone().enumerate().flat_map(of).filter(|(_, key)| hasher.hash(key) == hash).last()
        });
        later.map_or_else(|| error.into(), |(flow, key)| duplicate(flow, &key))
    })
}

/// The tables of one node, each exactly as large as needed.
fn one(
    layout: &Layout,
    id: NodeId,
    workers: usize,
    table: Option<Table>,
    flows: &(impl Iterator<Item = FlowSpec> + Clone),
) -> Result<FlowTables, FlowTablesError> {
    let (hasher, holds_all) = (KeyHasher::new(layout.seed), layout.architecture.holds_all_flows());
    let keys = || flows.clone().flat_map(|spec| spec.keys().map(|key| (spec.node, key)));
    let fib = fib_of(hasher, keys().filter(|(node, _)| holds_all || *node == id));
    let partition = HashPartition::new(layout.size);
    let locations = || fib_of(hasher, keys().filter(|(_, key)| partition.node(hasher.hash(key)) == id));
    let node_lookup = NodeLookup::new(layout, table, locations);
    let mut tables = FlowTables::with(layout.architecture, id, hasher, node_lookup, fib, workers);
    for (flow, spec) in flows.clone().enumerate() {
        let state = PinnedState::from(&spec);
        for key in spec.keys() {
            let put = tables.put(&key, hasher.hash(&key), spec.node, &state);
            if put.map_err(|error| FlowTablesError::Fib { node: id, error })? {
                return Err(duplicate(flow, &key));
            }
        }
    }
    Ok(tables)
}

/// An empty FIB for exactly these keys.
fn fib_of(hasher: KeyHasher, keys: impl Iterator<Item = (NodeId, FlowKey)>) -> PartialFib {
    let (mut short, mut long) = (0, 0);
    for (_, key) in keys {
        match key {
            FlowKey::Short(_) => short += 1,
            FlowKey::Long(_) => long += 1,
        }
    }
    fib_for(hasher, short, long)
}

const fn duplicate(flow: usize, key: &FlowKey) -> FlowTablesError {
    let key = if key.is_teid() { "uplink TEID" } else { "downstream key" };
    FlowTablesError::Duplicate { flow, key }
}
