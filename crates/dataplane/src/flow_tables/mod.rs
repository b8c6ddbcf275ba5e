//! One node's tables: which node a packet goes to, what is done with it there, and what each flow has carried.
//!
//! [`FlowTables`] are changed while workers look packets up in them. Three feeders say what they hold, and none of them changes a
//! table by itself:
//!
//! | feeder | what it has |
//! |---|---|
//! | [`list`] | whole lists of flows, one after the other: finds what changed and applies that |
//! | [`log`] | the log's word on single keys, and deltas for the GPT |
//! | [`bulk`] | all flows of a cluster at once, for the tables of several nodes |
//!
//! **Where things stand**, by architecture:
//!
//! | architecture | "which node?" at every node | "which flow?" |
//! |---|---|---|
//! | full duplication, VLB | the FIB itself: it holds every flow, with its node | the same table |
//! | hash partition | computed; and a table of the locations of 1/n of the flows | the node's own flows |
//! | ScaleBricks | SetSep or Othello over all flows | the node's own flows |
//!
//! A flow has two keys, one a direction: packets of both arrive anywhere. Readers take no lock, and see a key's value before or
//! after each change.
//!
//! **Counters move with their flow.** The uplink TEID names a flow, and all its keys count at one place. When its last key
//! has left this node, the place is kept until no worker can count there any more, which the workers say themselves by
//! their [`Turns`]. Then [`FlowTables::expire`] reads it for the last time, [`FlowTables::take_departed`] hands the
//! counts out, and only then may another flow have the place. At the flow's next node they come in by
//! [`FlowTables::carry_over`] and are kept beside the counters, which none but workers write. So a packet is counted at
//! one place, and a count is at one node or under way.
//!
//! ```text
//! here ─ last key leaves ─▶ leaving ─ expire ─▶ waited for ─ all workers have passed, expire ─▶ departed, place free
//!   ▲                          │                    │
//!   └───── a key comes ────────┴────────────────────┘
//! ```
//!
//! Memory for each key of a flow with two: the FIB's 34.7 bytes at load 0.95, 16 of counters for each worker, and 11 to 22 to
//! know whose they are; with 8 M keys and two workers 83 in all. No key is kept but in the FIB. While the FIB grows, its old and
//! its new memory are both there.

pub mod bulk;
pub mod capacity;
mod carried;
mod counts;
mod flows;
mod layout;
pub mod list;
mod locator;
pub mod log;
mod state;
#[cfg(test)]
mod tests;
mod turns;
mod which;

pub use carried::STRAY_PATIENCE;
pub use counts::DEPARTURES;
pub use layout::{FlowTablesError, Layout, PARTITIONS};
pub use locator::Locator;
pub use state::{FlowSpec, PinnedState};
pub use turns::Turns;

use crate::flow::{FlowCounters, FlowState};
use crate::node::NodeTables;
use carried::Carried;
use flows::Flows;
use scalebricks_tables::compact::Table;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::{Fib, FibError, FibValue};
use scalebricks_types::{FlowIndex, FlowKey, KeyHash, KeyHasher, NodeId, PartitionCount, Teid};
use std::collections::HashMap;
use std::sync::Arc;
use turns::Marks;
use which::WhichNode;

/// What tables hold, and how large they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableSizes {
    /// Keys in the FIB.
    pub keys_here: usize,
    /// Flows that are handled here.
    pub flows_here: usize,
    /// Flows that have left, and for which a worker may still count.
    pub flows_leaving: usize,
    /// Bytes of "which node?", beyond the FIB.
    pub gpt_bytes: usize,
    /// Bytes of the FIB.
    pub fib_bytes: usize,
    /// Bytes of the counters of all workers.
    pub counter_bytes: usize,
    /// Bytes that it takes to know which flow counts where; about.
    pub flow_bytes: usize,
}

/// A change of one key, for [`FlowTables::apply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// As [`FlowTables::set`].
    Set(FlowKey, NodeId, PinnedState),
    /// As [`FlowTables::remove`].
    Remove(FlowKey),
}

impl Change {
    /// The key that is changed.
    pub const fn key(&self) -> &FlowKey {
        match self {
            Self::Set(key, ..) | Self::Remove(key) => key,
        }
    }
}

/// One node's tables. See the [module](self).
///
/// ```
/// use scalebricks_dataplane::{BaseStationId, FlowSpec, FlowTables};
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
/// // A worker: `turns.pass()` before each turn of its node over these tables.
/// let (_node_tables, mut turns) = (tables.node_tables(0), tables.turns(0).ok_or("no such worker")?);
/// turns.pass();
///
/// for key in spec.keys() {
///     tables.remove(&key);
/// }
/// tables.expire(Duration::from_secs(1));
/// turns.pass();
/// tables.expire(Duration::from_secs(2));
/// assert_eq!(tables.take_departed(), [(Teid::new(7), Default::default())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FlowTables {
    id: NodeId,
    hasher: KeyHasher,
    /// Those of the GPT, if it has any.
    partitions: PartitionCount,
    which: WhichNode,
    fib: Arc<PartialFib>,
    /// Keys in an exact table, at most.
    max_keys: usize,
    /// One a worker: each writes its own.
    counters: Vec<Arc<FlowCounters>>,
    flows: Flows,
    carried: Carried,
    marks: Marks,
    /// Where the workers were when the last ones left, while they are waited for.
    since: Option<Vec<u64>>,
}

impl FlowTables {
    /// Empty tables of node `id`, for as many workers, with room for so many flows of the cluster; they grow.
    ///
    /// Cost: zeroes their memory.
    ///
    /// # Errors
    /// [`FlowTablesError::Params`] for a cluster whose GPT cannot be.
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
        let which = WhichNode::new(layout, table.map(Table::new), || fib_for(hasher, share, 0));
        let here = if which.is_fib() { keys } else { share };
        Ok(Self::with(id, hasher, which, fib_for(hasher, here, 0), workers))
    }

    /// Empty tables of these.
    fn with(id: NodeId, hasher: KeyHasher, which: WhichNode, fib: PartialFib, workers: usize) -> Self {
        Self {
            id,
            hasher,
            partitions: which.partitions(),
            which,
            fib: Arc::new(fib),
            max_keys: usize::MAX,
            counters: (0..workers).map(|_| Arc::new(FlowCounters::new(0))).collect(),
            flows: Flows::default(),
            carried: Carried::default(),
            marks: Marks::new(workers),
            since: None,
        }
    }

    /// The same, with a FIB that takes so many keys at most, and no more than before: what the machine has memory for.
    #[must_use]
    pub fn with_max_keys(self, max_keys: usize) -> Self {
        Self { max_keys: max_keys.min(self.max_keys), ..self }
    }

    /// Keys in the FIB, and how many it takes.
    pub fn room(&self) -> (usize, usize) {
        (self.fib.len(), self.max_keys)
    }

    /// What a worker is given: readers of its own, counters of its own. To count there, it needs its [`Turns`] as well.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn node_tables(&self, worker: usize) -> NodeTables {
        let fib: Arc<dyn Fib> = Arc::<PartialFib>::clone(&self.fib);
        let (gpt, lookup) = self.which.readers(&self.fib);
        NodeTables { gpt, lookup, fib, counters: Arc::clone(&self.counters[worker]) }
    }

    /// What a worker says with that it is between two turns. Handed out once; `None` after that, or if there is no such
    /// worker. Every worker is waited for until it passes, rests, or drops it: if one is never taken, no flow ever departs.
    pub fn turns(&mut self, worker: usize) -> Option<Turns> {
        self.marks.take(worker)
    }

    /// What the tables hold. Cost: looks at no key.
    pub fn sizes(&self) -> TableSizes {
        let (flows_here, flows_leaving) = self.flows.here_and_leaving();
        TableSizes {
            keys_here: self.fib.len(),
            flows_here,
            flows_leaving,
            gpt_bytes: self.which.table_bytes(),
            fib_bytes: self.fib.table_bytes(),
            counter_bytes: self.counters.iter().map(|counters| counters.bytes()).sum(),
            flow_bytes: self.flows.bytes(),
        }
    }

    /// A key is one of this flow now, which is handled at `node`, whether the key was there or not. It stands wherever the
    /// architecture has it here; at a node that does not have it, it goes from the FIB, if it is there.
    ///
    /// Alone, this changes no GPT that takes deltas: such a GPT must have stopped to name this node before a key leaves it.
    ///
    /// A key whose uplink TEID is another now belongs to that other flow, and counts there from now on; what it has counted
    /// stays with the flow it was of. Cost: a microsecond or two; now and then that of a map of all flows here that doubles,
    /// some 100 ms with 4 M of them, in which readers go on.
    ///
    /// # Errors
    /// [`FibError::Full`] if a table has all the keys it takes or cannot grow further, or with 2^26 flows here; [`FibError::ZeroKey`]
    /// for a key that no constructor makes. Nothing is then changed.
    pub fn set(&mut self, key: &FlowKey, node: NodeId, state: &PinnedState) -> Result<(), FibError> {
        let hash = self.hasher.hash(key);
        self.put(key, hash, node, state)?;
        if !self.holds(node) {
            self.take_out(key, hash);
        }
        Ok(())
    }

    /// Takes a key out, if it is there. Cost: two lookups.
    pub fn remove(&mut self, key: &FlowKey) {
        let hash = self.hasher.hash(key);
        self.take_out(key, hash);
        if let Some(locations) = self.which.locations(self.id, hash) {
            let _missing = locations.remove(key, hash);
        }
    }

    /// Makes changes so that no packet of a flow that goes on is lost here: first all that comes is put in, then `gpt` changes the
    /// compact table, if there is one, and then what left is taken out. Of several changes of one key only the last is made.
    ///
    /// # Errors
    /// What [`FlowTables::set`] or `gpt` refused. Some changes are then made, and any may be made again.
    pub fn apply(
        &mut self,
        changes: &[Change],
        gpt: impl FnOnce(&Table) -> Result<(), FlowTablesError>,
    ) -> Result<(), FlowTablesError> {
        let last: HashMap<&FlowKey, usize> =
            changes.iter().enumerate().map(|(at, change)| (change.key(), at)).collect();
        let is_last = |at: usize, change: &Change| last.get(change.key()) == Some(&at);
        let changes = || changes.iter().enumerate().filter(|(at, change)| is_last(*at, change));
        let mut left = Vec::new();
        for (_, change) in changes() {
            let Change::Set(key, node, state) = change else { continue };
            let hash = self.hasher.hash(key);
            self.put(key, hash, *node, state)
                .map_err(|error| FlowTablesError::Fib { node: self.id, error })?;
            if !self.holds(*node) {
                left.push((key, hash));
            }
        }
        if let Some(table) = self.which.table() {
            gpt(table)?;
        }
        for (key, hash) in left {
            self.take_out(key, hash);
        }
        for (_, change) in changes() {
            if let Change::Remove(key) = change {
                self.remove(key);
            }
        }
        Ok(())
    }

    /// The state of a key's flow, if the key is in the FIB.
    pub fn flow(&self, key: &FlowKey) -> Option<FlowState> {
        self.fib.get(key, self.hasher.hash(key)).map(FlowState::decode)
    }

    /// The uplink TEID of a key's flow, by which it is counted, if the key is one of a flow that is handled here.
    pub fn uplink(&self, key: &FlowKey) -> Option<Teid> {
        let flow = self.flow(key).filter(|flow| flow.node == self.id)?;
        self.flows.uplink(flow.index)
    }

    /// What says where flows are; it needs the tables no more.
    pub fn locator(&self) -> Locator {
        Locator::new(self.which.readers(&self.fib).0, self.hasher)
    }

    /// Bits of the GPT's values, if it is compact.
    pub fn value_bits(&self) -> Option<u8> {
        self.which.table().map(|table| table.params().value_bits())
    }

    /// Whether this node's FIB holds the flows of a node.
    fn holds(&self, node: NodeId) -> bool {
        node == self.id || self.which.is_fib()
    }

    /// Puts a key wherever it shall stand here, and takes it out nowhere. Whether it stood in one of the tables.
    fn put(
        &mut self,
        key: &FlowKey,
        hash: KeyHash,
        node: NodeId,
        state: &PinnedState,
    ) -> Result<bool, FibError> {
        let locations = self.which.locations(self.id, hash).cloned();
        let location = locations.as_deref().map(|table| (table, state.at(node, NO_PLACE).encode()));
        // A place that is new leads nobody astray: it comes first, as it may be refused. Others follow the flow's state.
        let new_location = location.filter(|(table, _)| table.get(key, hash).is_none());
        let mut was_there = location.is_some() && new_location.is_none();
        if let Some((table, value)) = new_location {
            self.has_room(table)?;
            table.insert(key, hash, value)?;
        }
        if self.holds(node) {
            match self.put_flow(key, hash, node, state) {
                Ok(was_in_fib) => was_there |= was_in_fib,
                Err(error) => {
                    if let Some((table, _)) = new_location {
                        let _there = table.remove(key, hash);
                    }
                    return Err(error);
                }
            }
        }
        if let Some((table, value)) = location.filter(|_| new_location.is_none()) {
            table.update(key, hash, value)?;
        }
        Ok(was_there)
    }

    /// Puts a key into the FIB. Whether it was there.
    fn put_flow(
        &mut self,
        key: &FlowKey,
        hash: KeyHash,
        node: NodeId,
        state: &PinnedState,
    ) -> Result<bool, FibError> {
        let entry = self.fib.get(key, hash);
        if entry.is_none() {
            self.has_room(&self.fib)?;
        }
        let before = entry.and_then(|entry| self.place(entry));
        let is_here = node == self.id;
        let known = self.flows.index(state.uplink_teid).filter(|_| is_here);
        let place = match known {
            None if is_here => Some(self.add_flow(state.uplink_teid)?),
            known => known,
        };
        let value = state.at(node, place.unwrap_or(NO_PLACE)).encode();
        let done = match entry {
            Some(_) => self.fib.update(key, hash, value).map(drop),
            None => self.fib.insert(key, hash, value),
        };
        if let Err(error) = done {
            if let Some(place) = place.filter(|_| known.is_none()) {
                self.flows.cancel(place);
            }
            return Err(error);
        }
        if before != place {
            place.into_iter().for_each(|place| self.flows.join(place));
            before.into_iter().for_each(|before| self.flows.leave(before));
        }
        Ok(entry.is_some())
    }

    /// Takes a key out of the FIB, if it is there.
    fn take_out(&mut self, key: &FlowKey, hash: KeyHash) {
        if let Ok(entry) = self.fib.remove(key, hash)
            && let Some(place) = self.place(entry)
        {
            self.flows.leave(place);
        }
    }

    fn has_room(&self, table: &PartialFib) -> Result<(), FibError> {
        let len = table.len();
        if len < self.max_keys { Ok(()) } else { Err(FibError::Full { len, slots: self.max_keys }) }
    }

    /// Counters for a flow that has none.
    fn add_flow(&mut self, uplink: Teid) -> Result<FlowIndex, FibError> {
        let (places, has_free) = self.flows.places();
        if places >= FlowCounters::MAX_FLOWS && !has_free {
            return Err(FibError::Full { len: self.fib.len(), slots: self.fib.short_slots() });
        }
        let index = self.flows.add(uplink);
        for counters in &self.counters {
            if !has_free {
                counters.reserve(places + 1);
            }
            counters.reset(index);
        }
        Ok(index)
    }

    /// What the log has for a key with this entry in the FIB; `None` if the entry is another node's, or counts at no place of a flow,
    /// which no change of a key makes.
    fn logged(&self, entry: FibValue) -> Option<FibValue> {
        let flow = FlowState::decode(entry);
        let uplink_teid = self.flows.uplink(flow.index)?;
        let state = PinnedState {
            downlink_teid: flow.teid,
            uplink_teid,
            base_station: flow.base_station,
            qfi: flow.qfi,
        };
        (state.at(self.id, flow.index).encode() == entry).then(|| state.encode())
    }

    /// Where an entry's flow counts; `None` for another node's, and for one that no change of a key makes.
    fn place(&self, entry: FibValue) -> Option<FlowIndex> {
        self.logged(entry).map(|_| FlowState::decode(entry).index)
    }
}

/// Room that tables have for more flows from the start.
const SPARE: usize = 1_024;

/// What stands for the place of a flow that is counted elsewhere.
const NO_PLACE: FlowIndex = FlowIndex(0);

/// A FIB for so many keys, which grows.
fn fib_for(hasher: KeyHasher, short_keys: usize, long_keys: usize) -> PartialFib {
    PartialFib::new(FibConfig::new(hasher).short_keys(short_keys).long_keys(long_keys).grow_when_full())
}
