//! One node's tables, as the control plane feeds them: the GPT by deltas, the FIB key by key.
//!
//! What comes from outside is the log's word on a key: a [`PinnedState`], opaque on its way. Here it becomes the FIB's
//! [`FlowState`], with this node's number and the place of the flow's counters. Readers take no lock, and see a key's
//! value before or after each change.
//!
//! **Counters move with their flow.** The uplink TEID names a flow, and all its keys count at one place. When its last key
//! has left this node, the place is kept until no worker can count there any more, which the workers say themselves by
//! their [`Turns`]. Then [`PinnedTables::expire`] reads it for the last time, [`PinnedTables::take_departed`] hands the
//! counts out, and only then may another flow have the place. At the flow's next node they come in by
//! [`PinnedTables::carry_over`] and are kept beside the counters, which none but workers write. So a packet is counted at
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

mod carried;
mod flows;
mod locator;
mod look;
mod state;
#[cfg(test)]
mod tests;
mod turns;

pub use carried::STRAY_PATIENCE;
pub use locator::Locator;
pub use look::KeyReader;
pub use state::PinnedState;
pub use turns::Turns;

use crate::flow::{FlowCount, FlowCounters, FlowState};
use crate::node::NodeTables;
use carried::Carried;
use flows::Flows;
use scalebricks_tables::compact::{Params, Table};
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::{Fib, FibError, FibValue};
use scalebricks_types::{
    Applied, ApplyError, Delta, FlowIndex, FlowKey, KeyHasher, NodeId, PartitionCount, PartitionId, Position,
    Teid,
};
use std::sync::Arc;
use std::time::Duration;
use turns::Marks;

/// Flows that depart in one call of [`PinnedTables::expire`] at most: some 50 ms of work.
pub const DEPARTURES: usize = 1 << 16;

/// Keys that the FIB takes, unless told otherwise: two for each flow that can be counted.
pub const MAX_KEYS: usize = 1 << 27;

/// What tables hold, and how large they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PinnedSizes {
    /// Keys in the FIB.
    pub keys_here: usize,
    /// Flows that have keys here, or had until a moment ago.
    pub flows_here: usize,
    /// Bytes of the GPT.
    pub gpt_bytes: usize,
    /// Bytes of the FIB.
    pub fib_bytes: usize,
    /// Bytes of the counters of all workers.
    pub counter_bytes: usize,
    /// Bytes that it takes to know which flow counts where; about.
    pub flow_bytes: usize,
}

/// One node's tables. See the [module](self).
///
/// ```
/// use scalebricks_dataplane::{BaseStationId, FlowSpec, PinnedTables};
/// use scalebricks_tables::compact::{Params, Structure};
/// use scalebricks_types::{FlowKey, HashSeed, KeyHasher, NodeId, PartitionCount, Teid};
/// use std::time::Duration;
///
/// let params = Params::for_keys(Structure::SetSep, 1_000, 4, PartitionCount::ONE)?;
/// let hasher = KeyHasher::new(HashSeed::from_u64(1));
/// let mut tables = PinnedTables::new(NodeId::new(0), params, hasher, 1, 1_000);
///
/// let spec = FlowSpec {
///     key: FlowKey::ue(std::net::IpAddr::from([10, 45, 0, 2])),
///     uplink_teid: Teid::new(7),
///     downlink_teid: Teid::new(8),
///     base_station: BaseStationId(0),
///     qfi: None,
///     node: NodeId::new(0),
/// };
/// for (key, value) in spec.entries() {
///     tables.set(&key, value)?;
/// }
/// // A worker: `turns.pass()` before each turn of its node over these tables.
/// let (_node_tables, mut turns) = (tables.node_tables(0), tables.turns(0).ok_or("no such worker")?);
/// turns.pass();
///
/// for (key, _) in spec.entries() {
///     tables.remove(&key);
/// }
/// tables.expire(Duration::from_secs(1));
/// turns.pass();
/// tables.expire(Duration::from_secs(2));
/// assert_eq!(tables.take_departed(), [(Teid::new(7), Default::default())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PinnedTables {
    id: NodeId,
    hasher: KeyHasher,
    /// Those of the GPT, which are those of the log.
    partitions: PartitionCount,
    gpt: Table,
    fib: Arc<PartialFib>,
    /// Keys in it, at most.
    max_keys: usize,
    /// One a worker: each writes its own.
    counters: Vec<Arc<FlowCounters>>,
    flows: Flows,
    carried: Carried,
    marks: Marks,
    /// Where the workers were when the last ones left, while they are waited for.
    since: Option<Vec<u64>>,
}

impl PinnedTables {
    /// Empty tables of node `id`, for as many workers; the FIB with room for `expected_keys_here`, and it grows.
    ///
    /// Cost: zeroes their memory.
    pub fn new(
        id: NodeId,
        params: Params,
        hasher: KeyHasher,
        workers: usize,
        expected_keys_here: usize,
    ) -> Self {
        let config = FibConfig::new(hasher).short_keys(expected_keys_here).grow_when_full();
        Self {
            id,
            hasher,
            partitions: params.partitions(),
            gpt: Table::new(params),
            fib: Arc::new(PartialFib::new(config)),
            max_keys: MAX_KEYS,
            counters: (0..workers).map(|_| Arc::new(FlowCounters::new(0))).collect(),
            flows: Flows::default(),
            carried: Carried::default(),
            marks: Marks::new(workers),
            since: None,
        }
    }

    /// The same, with a FIB that grows up to so many keys: what the machine has memory for.
    #[must_use]
    pub fn with_max_keys(self, max_keys: usize) -> Self {
        Self { max_keys: max_keys.min(MAX_KEYS), ..self }
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
        NodeTables {
            gpt: self.gpt.gpt_reader(),
            lookup: None,
            fib,
            counters: Arc::clone(&self.counters[worker]),
        }
    }

    /// What a worker says with that it is between two turns. Handed out once; `None` after that, or if there is no such
    /// worker. Every worker is waited for until it passes, rests, or drops it: if one is never taken, no flow ever departs.
    pub fn turns(&mut self, worker: usize) -> Option<Turns> {
        self.marks.take(worker)
    }

    /// What the tables hold. Cost: looks at no key.
    pub fn sizes(&self) -> PinnedSizes {
        PinnedSizes {
            keys_here: self.fib.len(),
            flows_here: self.flows.len(),
            gpt_bytes: self.gpt.table_bytes(),
            fib_bytes: self.fib.table_bytes(),
            counter_bytes: self.counters.iter().map(|counters| counters.bytes()).sum(),
            flow_bytes: self.flows.bytes(),
        }
    }

    /// Applies a delta to the GPT. Cost: that of [`Table::apply`].
    ///
    /// # Errors
    /// [`ApplyError`]; nothing is then changed.
    pub fn apply_gpt(&mut self, delta: &Delta) -> Result<Applied, ApplyError> {
        self.gpt.apply(delta)
    }

    /// Begins anew with the GPT, without keys, in a shape with the partitions it has; see [`Table::restart`]. Whether it did: it
    /// stays in its structure.
    ///
    /// # Panics
    /// If it has other partitions.
    pub fn begin_gpt(&mut self, params: Params) -> bool {
        self.gpt.restart(params)
    }

    /// Position and digest of a partition's bits in the GPT; see [`Table::digest`].
    pub fn gpt_digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        self.gpt.digest(partition)
    }

    /// Forgets where a partition of the GPT is; see [`Table::forget`].
    pub fn forget_gpt(&mut self, partition: PartitionId) {
        self.gpt.forget(partition);
    }

    /// Puts a key into the FIB with the flow in `value`, made by [`PinnedState::encode`], whether the key is there or not.
    ///
    /// A key whose uplink TEID is another now belongs to that other flow, and counts there from now on; what it has counted
    /// stays with the flow it was of. Cost: a microsecond or two; now and then that of a map of all flows here that doubles,
    /// some 100 ms with 4 M of them, in which readers go on.
    ///
    /// # Errors
    /// [`FibError::Full`] if the FIB has all the keys it takes or cannot grow further, or with 2^26 flows here; [`FibError::ZeroKey`] for a key that
    /// no constructor makes. Nothing is then changed.
    pub fn set(&mut self, key: &FlowKey, value: FibValue) -> Result<(), FibError> {
        let pinned = PinnedState::decode(value);
        let hash = self.hasher.hash(key);
        let entry = self.fib.get(key, hash);
        if entry.is_none() && self.fib.len() >= self.max_keys {
            return Err(FibError::Full { len: self.fib.len(), slots: self.max_keys });
        }
        let before = entry.and_then(|entry| self.place(entry));
        let known = self.flows.index(pinned.uplink_teid);
        let index = match known {
            Some(index) => index,
            None => self.add_flow(pinned.uplink_teid)?,
        };
        let value = pinned.at(self.id, index).encode();
        let done = match entry {
            Some(_) => self.fib.update(key, hash, value).map(drop),
            None => self.fib.insert(key, hash, value),
        };
        if let Err(error) = done {
            if known.is_none() {
                self.flows.cancel(index);
            }
            return Err(error);
        }
        if before != Some(index) {
            self.flows.join(index);
            if let Some(before) = before {
                self.flows.leave(before);
            }
        }
        Ok(())
    }

    /// Takes a key out of the FIB, if it is there. Cost: two lookups.
    pub fn remove(&mut self, key: &FlowKey) {
        if let Ok(entry) = self.fib.remove(key, self.hasher.hash(key))
            && let Some(index) = self.place(entry)
        {
            self.flows.leave(index);
        }
    }

    /// The FIB's keys of a partition of the GPT; none if there is no such partition. Cost: reads the whole FIB and hashes
    /// every key, about 20 ns each, for a node that has lost its place in the log.
    pub fn keys(&self, partition: PartitionId) -> Vec<FlowKey> {
        let at = usize::from(partition.0);
        self.key_reader().keys_in(at..at + 1)
    }

    /// The state of a key's flow, if the key is here.
    pub fn flow(&self, key: &FlowKey) -> Option<FlowState> {
        self.fib.get(key, self.hasher.hash(key)).map(FlowState::decode)
    }

    /// The uplink TEID of a key's flow, by which it is counted, if the key is here.
    pub fn uplink(&self, key: &FlowKey) -> Option<Teid> {
        self.flows.uplink(self.flow(key)?.index)
    }

    /// Whether a flow has keys here, or had until a moment ago: its counts belong here.
    pub fn is_here(&self, uplink: Teid) -> bool {
        self.flows.index(uplink).is_some()
    }

    /// What says where flows are; it needs the tables no more.
    pub fn locator(&self) -> Locator {
        Locator::new(&self.gpt, self.hasher)
    }

    /// Flows that counts were carried over for and wait, at least some of them because the flows are not here. Cost: looks at
    /// some hundred lists.
    pub fn strays(&self) -> usize {
        self.carried.strays()
    }

    /// What a flow has carried, here and before it came, as far as that has been carried over; `None` if nothing is
    /// known of it here. A worker that counts meanwhile may be seen between a packet and its bytes.
    pub fn count(&self, uplink: Teid) -> Option<FlowCount> {
        let live = self.flows.index(uplink).map(|index| live(&self.counters, index));
        let carried = self.carried.get(uplink);
        (live.is_some() || carried.is_some()).then(|| live.into_iter().chain(carried).sum())
    }

    /// Adds what a flow has carried at nodes it was at before. Exactly once for each departure: a count that comes twice is
    /// added twice.
    ///
    /// If the flow is not here, the count waits [`STRAY_PATIENCE`] for it, and is then handed out with those that have
    /// departed: the flow has gone on.
    pub fn carry_over(&mut self, uplink: Teid, count: FlowCount) {
        let is_here = self.flows.index(uplink).is_some();
        self.carried.add(uplink, count, is_here);
    }

    /// Lets those flows depart for which no worker can count here any more, up to [`DEPARTURES`] of them; to be called now
    /// and then, some times a second say. Whether there are more, for which to call it again at once. A flow whose last key
    /// has left departs at the second call after that at the earliest. `now` is the time since any fixed moment, the same
    /// for all calls.
    ///
    /// Cost: one locked instruction a worker, and about a microsecond for each flow that departs.
    pub fn expire(&mut self, now: Duration) -> bool {
        if self.since.as_ref().is_some_and(|since| self.marks.all_passed(since)) {
            self.since = None;
        }
        let mut is_more = false;
        if self.since.is_none() {
            let (counters, carried) = (&self.counters, &mut self.carried);
            let depart = |uplink, index| carried.depart(uplink, live(counters, index));
            is_more = self.flows.end_grace(DEPARTURES, depart);
            if self.flows.begin_grace() {
                self.since = Some(self.marks.all());
            }
        }
        self.carried.expire(now, |uplink| self.flows.index(uplink).is_some());
        is_more
    }

    /// The counts of flows that have left, to be carried over to where they are now, or to be reported if they are
    /// nowhere; each is handed out once. A flow that left several times since the last call is there once, with the sum.
    pub fn take_departed(&mut self) -> Vec<(Teid, FlowCount)> {
        self.carried.take_departed()
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
}

/// What all workers have counted at a place.
fn live(counters: &[Arc<FlowCounters>], index: FlowIndex) -> FlowCount {
    counters.iter().map(|counters| counters.read(index)).sum()
}
