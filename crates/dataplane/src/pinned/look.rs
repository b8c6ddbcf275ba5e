//! A look at what the tables hold, as the log has it: for whoever compares the two.

use super::{PinnedState, PinnedTables};
use crate::flow::FlowState;
use scalebricks_tables::FibValue;
use scalebricks_tables::compact::Reader;
use scalebricks_tables::fib::{FibDigest, PartialFib};
use scalebricks_types::{FlowIndex, FlowKey, KeyHash, KeyHasher, PartitionCount};
use std::ops::Range;
use std::sync::Arc;

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

impl PinnedTables {
    /// What the log has for a key, made again of what is here; `None` if the key is not here.
    pub fn value(&self, key: &FlowKey) -> Option<FibValue> {
        self.logged(self.fib.get(key, self.hasher.hash(key))?)
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

    /// Where an entry's flow counts; `None` for an entry that no change of a key makes.
    pub(super) fn place(&self, entry: FibValue) -> Option<FlowIndex> {
        self.logged(entry).map(|_| FlowState::decode(entry).index)
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
            if let Some(keys) = keys.get_mut(FlowState::decode(entry).index.0 as usize) {
                *keys += 1;
            }
        });
        self.flows.recount(&keys);
    }

    /// The node that the GPT names for each of these keys.
    pub fn named(&self, keys: &[FlowKey]) -> Vec<u8> {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| self.hasher.hash(key)).collect();
        let mut named = vec![0; keys.len()];
        Reader::new(&self.gpt).lookup_batch(&hashes, &mut named);
        named
    }

    /// What reads the FIB's keys, beside these tables.
    pub fn key_reader(&self) -> KeyReader {
        KeyReader { fib: Arc::clone(&self.fib), partitions: self.partitions, hasher: self.hasher }
    }
}
