//! Fed by the control plane: the GPT by deltas, the FIB key by key with the log's word on each.
//!
//! What comes from outside is a value of the log, opaque on its way: a [`PinnedState`]. A key with one is always a key of this
//! node's; those of others are in the GPT alone. What the tables hold can be looked at as the log has it, for whoever compares the two.

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

/// Keys that the FIB takes, unless told otherwise: two for each flow that can be counted.
pub const MAX_KEYS: usize = 1 << 27;

/// Reads the keys of a FIB, without anybody holding the tables meanwhile.
#[derive(Debug)]
pub struct KeyReader {
    fib: Arc<PartialFib>,
    partitions: PartitionCount,
    hasher: KeyHasher,
}

impl KeyReader {
    /// The FIB's keys of some partitions. Cost: reads the whole FIB and hashes every key, about 20 ns each; whoever changes it
    /// waits for that.
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
    /// Empty tables of node `id` with a GPT in the shape that the cluster has agreed on, for as many workers; the FIB with room for
    /// `expected_keys_here`, and it grows up to [`MAX_KEYS`].
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

    /// The log has this value for a key of this node: [`FlowTables::set`] with the flow in it.
    ///
    /// # Errors
    /// As [`FlowTables::set`]. Nothing is then changed.
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

    /// Begins anew with the GPT, without keys, in a shape with the partitions it has; see [`Table::restart`]. Whether it did: it
    /// stays in its structure.
    ///
    /// # Panics
    /// If it has other partitions.
    pub fn begin_gpt(&mut self, params: Params) -> bool {
        self.node_lookup.table().is_some_and(|table| table.restart(params))
    }

    /// Position and digest of a partition's bits in the GPT; see [`Table::digest`].
    pub fn gpt_digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        self.node_lookup.table()?.digest(partition)
    }

    /// Forgets where a partition of the GPT is; see [`Table::forget`].
    pub fn forget_gpt(&mut self, partition: PartitionId) {
        if let Some(table) = self.node_lookup.table() {
            table.forget(partition);
        }
    }

    /// The node that the GPT names for each of these keys.
    pub fn named(&self, keys: &[FlowKey]) -> Vec<NodeHint> {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| self.hasher.hash(key)).collect();
        let mut named = vec![NodeHint::NONE; keys.len()];
        let (mut gpt, _) = self.node_lookup.readers(&self.fib);
        gpt.lookup_batch(KeyBatch::new(keys, &hashes), &mut named);
        named
    }

    /// The FIB's keys of a partition of the GPT; none if there is no such partition. Cost: reads the whole FIB and hashes
    /// every key, about 20 ns each, for a node that has lost its place in the log.
    pub fn keys(&self, partition: PartitionId) -> Vec<FlowKey> {
        let at = usize::from(partition.0);
        self.key_reader().keys_in(at..at + 1)
    }

    /// What reads the FIB's keys, beside these tables.
    pub fn key_reader(&self) -> KeyReader {
        KeyReader { fib: Arc::clone(&self.fib), partitions: self.partitions, hasher: self.hasher }
    }

    /// What the log has for a key, made again of what is here; `None` if the key is not one of this node's.
    pub fn value(&self, key: &FlowKey) -> Option<FibValue> {
        self.logged(self.fib.get(key, self.hasher.hash(key))?)
    }

    /// The digests of the FIB's entries by partition, with the values that the log has for them. An entry that no change of a key
    /// makes counts with what it holds, so it is found to be wrong.
    ///
    /// Cost: reads the whole FIB and hashes every key, about 0.1 µs each; whoever changes it waits for that, readers do not.
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

    /// The digest of one key's entry; that of nothing if the key is not here.
    pub fn entry_digest(&self, key: &FlowKey) -> FibDigest {
        let hash = self.hasher.hash(key);
        let of = |entry| FibDigest::of(hash, self.logged(entry).unwrap_or(entry));
        self.fib.get(key, hash).map(of).unwrap_or_default()
    }

    /// Counts anew how many keys each flow has: after entries were found to be wrong and set anew, what was counted by them may be
    /// wrong, too. Flows without keys depart. Cost: reads the whole FIB.
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
    pub(super) fn place(&self, entry: FibValue) -> Option<FlowIndex> {
        self.logged(entry).map(|_| FlowState::decode(entry).index)
    }
}
