//! A look at what the tables hold, as the log has it: for whoever compares the two.

use super::{PinnedState, PinnedTables};
use scalebricks_tables::FibValue;
use scalebricks_tables::compact::Reader;
use scalebricks_tables::fib::PartialFib;
use scalebricks_types::{FlowKey, KeyHash, KeyHasher, PartitionCount};
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
        let flow = self.fib.get(key, self.hasher.hash(key)).map(crate::flow::FlowState::decode)?;
        let uplink_teid = self.flows.uplink(flow.index)?;
        let state = PinnedState {
            downlink_teid: flow.teid,
            uplink_teid,
            base_station: flow.base_station,
            qfi: flow.qfi,
        };
        Some(state.encode())
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
