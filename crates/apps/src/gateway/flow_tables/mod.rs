//! The tables of a node: which node handles a packet, the state of each flow, and its counters.
//!
//! [`FlowTables`] change while workers look packets up. They are fed in three ways:
//!
//! | module | source |
//! |---|---|
//! | [`list`] | successive lists of all flows: applies the differences |
//! | [`log`] | the log's values for single keys, and deltas for the GPT |
//! | [`bulk`] | all flows of a cluster at once, for the tables of several nodes |
//!
//! The tables by architecture:
//!
//! | architecture | which node handles a packet | state of flows |
//! |---|---|---|
//! | full duplication, VLB | the FIB, which has all flows with their nodes | the same table |
//! | hash partition | computed from the key; and a table of the locations of 1/n of the flows | the node's own flows |
//! | ScaleBricks | SetSep or Othello over all flows | the node's own flows |
//!
//! A flow has two keys, one per direction, as packets of both directions arrive at any node. Readers take no lock, and
//! see a key's value before or after each change.
//!
//! # Counters
//!
//! Counters move with their flow. All keys of a flow count in one slot, which belongs to its uplink TEID. When the last
//! key leaves this node, the slot is kept until no worker can count in it, which workers declare by their [`Mark`]. Then
//! [`FlowTables::expire`] reads it for the last time, [`FlowTables::take_departed`] returns the counts, and another flow
//! may get the slot. At the flow's next node, [`FlowTables::carry_over`] stores the counts next to the counters, which
//! only workers write. So each packet is counted once, and each count is at one node or in transit.
//!
//! ```text
//! here ─ last key leaves ─▶ leaving ─ expire ─▶ grace period ─ all workers passed, expire ─▶ departed, slot free
//!   ▲                          │                    │
//!   └───── a key arrives ──────┴────────────────────┘
//! ```
//!
//! Memory per key of a flow with two keys: 34.7 bytes in the FIB at load 0.95, 16 for counters per worker, and 11 to 22 to
//! map flows to slots; with 8 M keys and two workers 83 in total. Keys are stored in the FIB only. While the FIB grows,
//! both its old and its new memory are in use.

pub mod bulk;
pub mod capacity;
mod change;
mod counts;
mod flows;
mod layout;
pub mod list;
mod locator;
pub mod log;
mod moved_counts;
mod node_lookup;
mod quiescence;
mod state;
#[cfg(test)]
mod tests;

pub use change::Change;
pub use counts::DEPARTURES;
pub use layout::{FlowTablesError, Layout, PARTITIONS};
pub use locator::Locator;
pub use moved_counts::STRAY_PATIENCE;
pub use state::{FlowSpec, PinnedState};

use crate::gateway::architecture::Architecture;
use crate::gateway::node::NodeTables;
use flows::Flows;
use moved_counts::MovedCounts;
use node_lookup::NodeLookup;
use quiescence::Marks;
use scalebricks_elements::gateway::flow::{FlowCounters, FlowState};
use scalebricks_graph::{GracePeriod, Mark};
use scalebricks_tables::Fib;
use scalebricks_tables::compact::Table;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_types::{FlowKey, KeyHasher, NodeId, PartitionCount, Teid};
use std::sync::Arc;

/// Sizes of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableSizes {
    /// Keys in the FIB.
    pub keys_here: usize,
    /// Flows that are handled here.
    pub flows_here: usize,
    /// Flows that have left but that a worker may still count.
    pub flows_leaving: usize,
    /// Bytes of the table that names nodes, beyond the FIB.
    pub gpt_bytes: usize,
    /// Bytes of the FIB.
    pub fib_bytes: usize,
    /// Bytes of the counters of all workers.
    pub counter_bytes: usize,
    /// Approximate bytes for mapping flows to counters.
    pub flow_bytes: usize,
}

/// One node's tables. See the [module](self).
///
/// ```
/// use scalebricks_elements::gateway::BaseStationId;
/// use scalebricks_apps::gateway::{FlowSpec, FlowTables};
/// use scalebricks_tables::compact::{Params, Structure};
/// use scalebricks_types::{FlowKey, HashSeed, KeyHasher, NodeId, PartitionCount, Teid};
/// use std::time::Duration;
///
/// let params = Params::for_keys(Structure::SetSep, 1_000, 4, PartitionCount::ONE)?;
/// let hasher = KeyHasher::new(HashSeed::from_u64(1));
/// let here = NodeId::new(0);
/// let mut tables = FlowTables::for_log(here, params, hasher, 1, 1_000);
///
/// let spec = FlowSpec {
///     key: FlowKey::ue(std::net::IpAddr::from([10, 45, 0, 2])),
///     uplink_teid: Teid::new(7),
///     downlink_teid: Teid::new(8),
///     base_station: BaseStationId(0),
///     qfi: None,
///     node: here,
/// };
/// for key in spec.keys() {
///     tables.set(&key, here, &(&spec).into())?;
/// }
/// // A worker: `mark.pass()` before each turn of its node over these tables.
/// let (_node_tables, mut mark) = (tables.node_tables(0), tables.mark(0).ok_or("no such worker")?);
/// mark.pass();
///
/// for key in spec.keys() {
///     tables.remove(&key);
/// }
/// tables.expire(Duration::from_secs(1));
/// mark.pass();
/// tables.expire(Duration::from_secs(2));
/// assert_eq!(tables.take_departed(), [(Teid::new(7), Default::default())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FlowTables {
    architecture: Architecture,
    id: NodeId,
    hasher: KeyHasher,
    /// The GPT's partitions, if it has any.
    partitions: PartitionCount,
    node_lookup: NodeLookup,
    fib: Arc<PartialFib>,
    /// Key limit of an exact table.
    max_keys: usize,
    /// One per worker, which alone writes it.
    counters: Vec<Arc<FlowCounters>>,
    flows: Flows,
    carried: MovedCounts,
    marks: Marks,
    /// The workers' positions when the last flows left, during the grace period.
    since: Option<Vec<GracePeriod>>,
}

impl FlowTables {
    /// Empty tables of node `id`, for `workers` workers, with room for this many flows of the cluster; they grow.
    ///
    /// Cost: zeroes their memory.
    ///
    /// # Errors
    /// [`FlowTablesError::Params`] for a cluster whose GPT is impossible.
    pub fn new(
        layout: &Layout,
        id: NodeId,
        workers: usize,
        expected_flows: usize,
    ) -> Result<Self, FlowTablesError> {
        let keys = 2 * (expected_flows + SPARE);
        let share = keys / layout.size.get() + SPARE;
        let hasher = KeyHasher::new(layout.seed);
        let table = layout.has_compact_gpt().then(|| layout.gpt_params(keys as u64)).transpose()?;
        let node_lookup = NodeLookup::new(layout, table.map(Table::new), || fib_for(hasher, share, 0));
        let here = if node_lookup.is_fib() { keys } else { share };
        Ok(Self::with(layout.architecture, id, hasher, node_lookup, fib_for(hasher, here, 0), workers))
    }

    /// Empty tables with these parts.
    fn with(
        architecture: Architecture,
        id: NodeId,
        hasher: KeyHasher,
        node_lookup: NodeLookup,
        fib: PartialFib,
        workers: usize,
    ) -> Self {
        Self {
            architecture,
            id,
            hasher,
            partitions: node_lookup.partitions(),
            node_lookup,
            fib: Arc::new(fib),
            max_keys: usize::MAX,
            counters: (0..workers).map(|_| Arc::new(FlowCounters::new(0))).collect(),
            flows: Flows::default(),
            carried: MovedCounts::default(),
            marks: Marks::new(workers),
            since: None,
        }
    }

    /// Limits the FIB's keys to what the machine has memory for; never raises the limit.
    #[must_use]
    pub fn with_max_keys(self, max_keys: usize) -> Self {
        Self { max_keys: max_keys.min(self.max_keys), ..self }
    }

    /// Number of keys in the FIB, and its limit.
    pub fn room(&self) -> (usize, usize) {
        (self.fib.len(), self.max_keys)
    }

    /// A worker's readers and counters. To count, it also needs its [`Mark`].
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn node_tables(&self, worker: usize) -> NodeTables {
        let fib: Arc<dyn Fib> = Arc::<PartialFib>::clone(&self.fib);
        let (gpt, lookup) = self.node_lookup.readers(&self.fib);
        let counters = Arc::clone(&self.counters[worker]);
        NodeTables { architecture: self.architecture, gpt, lookup, fib, counters }
    }

    /// The mark by which a worker declares that it is between two turns. Returned once; `None` after that, or if there
    /// is no such worker. Every worker is waited for until it passes, leaves, or drops its mark: if a mark is never
    /// taken, no flow ever departs.
    pub fn mark(&mut self, worker: usize) -> Option<Mark> {
        self.marks.take(worker)
    }

    /// The sizes of the tables. Cost: reads no key.
    pub fn sizes(&self) -> TableSizes {
        let (flows_here, flows_leaving) = self.flows.here_and_leaving();
        TableSizes {
            keys_here: self.fib.len(),
            flows_here,
            flows_leaving,
            gpt_bytes: self.node_lookup.table_bytes(),
            fib_bytes: self.fib.table_bytes(),
            counter_bytes: self.counters.iter().map(|counters| counters.bytes()).sum(),
            flow_bytes: self.flows.bytes(),
        }
    }

    /// The state of a key's flow, if the key is in the FIB.
    pub fn flow(&self, key: &FlowKey) -> Option<FlowState> {
        self.fib.get(key, self.hasher.hash(key)).map(FlowState::decode)
    }

    /// The uplink TEID of a key's flow, by which it is counted, if the flow is handled here.
    pub fn uplink(&self, key: &FlowKey) -> Option<Teid> {
        let flow = self.flow(key).filter(|flow| flow.node == self.id)?;
        self.flows.uplink(flow.index)
    }

    /// A locator of flows that is independent of these tables.
    pub fn locator(&self) -> Locator {
        Locator::new(self.node_lookup.readers(&self.fib).0, self.hasher)
    }

    /// Bits per value of the GPT, if it is compact.
    pub fn value_bits(&self) -> Option<u8> {
        self.node_lookup.table().map(|table| table.params().value_bits())
    }
}

/// Initial spare room of tables, in flows.
const SPARE: usize = 1_024;

/// A FIB for this many keys that can grow.
fn fib_for(hasher: KeyHasher, short_keys: usize, long_keys: usize) -> PartialFib {
    PartialFib::new(FibConfig::new(hasher).short_keys(short_keys).long_keys(long_keys).grow_when_full())
}
