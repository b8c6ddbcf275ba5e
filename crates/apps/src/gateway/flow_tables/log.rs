//! Updates tables from the control plane: the GPT by deltas, the FIB by the log's entry for each key.
//!
//! External state is a log value, opaque in transit: a [`PinnedState`]. A key with one belongs to this node; keys of
//! other nodes are in the GPT only. The tables' contents can be read back in the log's form for comparison.

use super::node_lookup::NodeLookup;
use super::{FlowTables, PinnedState, fib_for};
use crate::gateway::architecture::Architecture;
use scalebricks_elements::gateway::flow::FlowState;
use scalebricks_tables::compact::{Params, Table};
use scalebricks_tables::fib::{FibDigest, PartialFib};
use scalebricks_tables::{FibError, FibValue, KeyBatch};
use scalebricks_types::{
    Applied, ApplyError, Delta, FlowIndex, FlowKey, KeyHash, KeyHasher, NodeHint, NodeId, PartitionCount,
    PartitionId, Position,
};
use std::ops::Range;
use std::sync::Arc;

/// Default key limit of the FIB: two for each flow that can be counted.
pub const MAX_KEYS: usize = 1 << 27;

/// Reads the keys of a FIB without holding the tables.
#[derive(Debug)]
pub struct KeyReader {
    fib: Arc<PartialFib>,
    partitions: PartitionCount,
    hasher: KeyHasher,
}

impl KeyReader {
    /// The FIB's keys of some partitions. Cost: reads the whole FIB and hashes every key, about 20 ns each; writers
    /// wait meanwhile.
    pub fn keys_in(&self, partitions: Range<usize>) -> Vec<FlowKey> {
        let mut keys = Vec::new();
        self.fib.for_each(|key, _| {
            if partitions.contains(&usize::from(self.partitions.of(self.hasher.hash(&key)).0)) {
                keys.push(key);
            }
        });
        keys
    }
}

impl FlowTables {
    /// Empty tables of node `id` for `workers` workers, with a GPT of the shape agreed by the cluster. The FIB has room
    /// for `expected_keys_here` and grows up to [`MAX_KEYS`].
    ///
    /// Cost: zeroes their memory.
    pub fn for_log(
        id: NodeId,
        params: Params,
        hasher: KeyHasher,
        workers: usize,
        expected_keys_here: usize,
    ) -> Self {
        let node_lookup = NodeLookup::Compact(Table::new(params));
        let fib = fib_for(hasher, expected_keys_here, 0);
        Self::with(Architecture::ScaleBricks, id, hasher, node_lookup, fib, workers).with_max_keys(MAX_KEYS)
    }

    /// Applies the log's value for a key of this node: [`FlowTables::set`] with its flow.
    ///
    /// # Errors
    /// As [`FlowTables::set`]. Nothing is changed then.
    pub fn set_logged(&mut self, key: &FlowKey, value: FibValue) -> Result<(), FibError> {
        self.set(key, self.id, &PinnedState::decode(value))
    }

    /// Applies a delta to the GPT. Cost: that of [`Table::apply`].
    ///
    /// # Errors
    /// [`ApplyError`], also if there is no GPT that takes deltas; nothing is then changed.
    pub fn apply_gpt(&mut self, delta: &Delta) -> Result<Applied, ApplyError> {
        let none = ApplyError::Malformed("no delta says which node in these tables");
        self.node_lookup.table().ok_or(none)?.apply(delta)
    }

    /// Restarts the GPT without keys, in a shape with the same partitions; see [`Table::restart`]. Returns whether it
    /// did: the structure cannot change.
    ///
    /// # Panics
    /// If the number of partitions differs.
    pub fn begin_gpt(&mut self, params: Params) -> bool {
        self.node_lookup.table().is_some_and(|table| table.restart(params))
    }

    /// Position and digest of a partition's bits in the GPT; see [`Table::digest`].
    pub fn gpt_digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        self.node_lookup.table()?.digest(partition)
    }

    /// Marks a partition's position in the GPT as unknown; see [`Table::forget`].
    pub fn forget_gpt(&mut self, partition: PartitionId) {
        if let Some(table) = self.node_lookup.table() {
            table.forget(partition);
        }
    }

    /// The GPT's answer for each of these keys.
    pub fn named(&self, keys: &[FlowKey]) -> Vec<NodeHint> {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| self.hasher.hash(key)).collect();
        let mut named = vec![NodeHint::NONE; keys.len()];
        let (mut gpt, _) = self.node_lookup.readers(&self.fib);
        gpt.lookup_batch(KeyBatch::new(keys, &hashes), &mut named);
        named
    }

    /// The FIB's keys of a partition of the GPT; none if there is no such partition. Cost: reads the whole FIB and
    /// hashes every key, about 20 ns each; for a node that has lost its position in the log.
    pub fn keys(&self, partition: PartitionId) -> Vec<FlowKey> {
        let at = usize::from(partition.0);
        self.key_reader().keys_in(at..at + 1)
    }

    /// A reader of the FIB's keys that is independent of these tables.
    pub fn key_reader(&self) -> KeyReader {
        KeyReader { fib: Arc::clone(&self.fib), partitions: self.partitions, hasher: self.hasher }
    }

    /// The log's value for a key, reconstructed from the tables; `None` if the key is not this node's.
    pub fn value(&self, key: &FlowKey) -> Option<FibValue> {
        self.logged(self.fib.get(key, self.hasher.hash(key))?)
    }

    /// The digests of the FIB's entries by partition, over the values that the log has for them. An entry that no key
    /// change can make is included as it is, so it shows as wrong.
    ///
    /// Cost: reads the whole FIB and hashes every key, about 0.1 µs each; writers wait meanwhile, readers do not.
    pub fn fib_digests(&self) -> Vec<FibDigest> {
        let mut digests = vec![FibDigest::default(); self.partitions.get() as usize];
        self.fib.for_each(|key, entry| {
            let hash = self.hasher.hash(&key);
            let digest = FibDigest::of(hash, self.logged(entry).unwrap_or(entry));
            if let Some(sum) = digests.get_mut(usize::from(self.partitions.of(hash).0)) {
                *sum += digest;
            }
        });
        digests
    }

    /// The digest of one key's entry; the empty digest if the key is not here.
    pub fn entry_digest(&self, key: &FlowKey) -> FibDigest {
        let hash = self.hasher.hash(key);
        let of = |entry| FibDigest::of(hash, self.logged(entry).unwrap_or(entry));
        self.fib.get(key, hash).map(of).unwrap_or_default()
    }

    /// Recounts each flow's keys: after wrong entries were found and set again, the counts based on them may be wrong
    /// too. Flows without keys depart. Cost: reads the whole FIB.
    pub fn recount(&mut self) {
        let mut keys = vec![0; self.flows.places().0];
        self.fib.for_each(|_, entry| {
            let flow = FlowState::decode(entry);
            if flow.node == self.id
                && let Some(keys) = keys.get_mut(flow.index.0 as usize)
            {
                *keys += 1;
            }
        });
        self.flows.recount(&keys);
    }

    /// The log's value for a key with this FIB entry; `None` if the entry is another node's, or has an invalid counter
    /// slot, which no key change makes.
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

    /// The counter slot of an entry's flow; `None` for another node's entry, and for one that no key change makes.
    pub(super) fn place(&self, entry: FibValue) -> Option<FlowIndex> {
        self.logged(entry).map(|_| FlowState::decode(entry).index)
    }
}
