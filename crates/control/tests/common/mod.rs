//! A node's tables for simulations.

#![allow(clippy::unwrap_used, dead_code, reason = "a test's helpers fail the test, and not each uses all")]

use scalebricks_control::distribution::{FibRoom, Tables};
use scalebricks_tables::compact::{Control, Op, Params, Reader, Table};
use scalebricks_tables::fib::FibDigest;
use scalebricks_tables::{FibError, FibValue};
use scalebricks_types::{
    Applied, ApplyError, Delta, FlowKey, HashSeed, KeyHasher, NodeId, PartitionId, Position, Teid,
};
use std::collections::HashMap;

pub const HASHER: KeyHasher = KeyHasher::new(HashSeed::from_u64(11));

/// A real GPT, and a map for a FIB.
pub struct Memory {
    pub gpt: Table,
    pub fib: HashMap<FlowKey, FibValue>,
    /// Keys in it, at most.
    pub capacity: usize,
}

impl Memory {
    pub fn new(params: Params) -> Self {
        Self { gpt: Table::new(params), fib: HashMap::new(), capacity: usize::MAX }
    }

    /// The node that the GPT names for a key.
    pub fn named(&self, key: &FlowKey) -> usize {
        usize::from(Reader::new(&self.gpt).get(HASHER.hash(key)))
    }

    /// Puts other bits in place of a partition's, as if they had come with the entry at this position.
    pub fn damage(&self, partition: PartitionId, position: Position) {
        let params = self.gpt.params();
        let mut other = Control::for_partitions(params, [partition]);
        let keys = (1..400).map(|teid| HASHER.hash(&FlowKey::teid(Teid::new(teid))));
        let keys = keys.filter(|hash| params.partitions().of(*hash) == partition);
        let ops: Vec<Op> = keys.map(|hash| Op::Insert(hash, 1)).collect();
        other.batch_to(position, &ops).unwrap();
        self.gpt.forget(partition);
        let _ = self.gpt.apply(&other.export_partition(partition).unwrap()).unwrap();
    }

    /// The shape of the GPT.
    pub fn params(&self) -> Params {
        self.gpt.params()
    }

    /// The GPT's bits.
    pub fn bits(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.gpt.write_snapshot(&mut bytes).unwrap();
        bytes
    }
}

impl Tables for Memory {
    fn apply_gpt(&mut self, delta: &Delta) -> Result<Applied, ApplyError> {
        self.gpt.apply(delta)
    }

    fn begin(&mut self, params: Params) {
        assert!(self.gpt.restart(params));
    }

    fn digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        self.gpt.digest(partition)
    }

    fn forget(&mut self, partition: PartitionId) {
        self.gpt.forget(partition);
    }

    fn set(&mut self, key: &FlowKey, value: FibValue) -> Result<(), FibError> {
        let len = self.fib.len();
        if len >= self.capacity && !self.fib.contains_key(key) {
            return Err(FibError::Full { len, slots: self.capacity });
        }
        self.fib.insert(*key, value);
        Ok(())
    }

    fn remove(&mut self, key: &FlowKey) {
        self.fib.remove(key);
    }

    fn keys(&self, partition: PartitionId) -> Vec<FlowKey> {
        let partitions = self.gpt.params().partitions();
        self.fib.keys().filter(|key| partitions.of(HASHER.hash(key)) == partition).copied().collect()
    }

    fn room(&self) -> FibRoom {
        FibRoom { used: self.fib.len() as u64, capacity: self.capacity as u64, shed: 0 }
    }

    fn fib_digests(&self) -> Vec<FibDigest> {
        let partitions = self.gpt.params().partitions();
        let mut digests = vec![FibDigest::default(); partitions.get() as usize];
        for (key, value) in &self.fib {
            let hash = HASHER.hash(key);
            digests[usize::from(partitions.of(hash).0)] += FibDigest::of(hash, *value);
        }
        digests
    }

    fn entry_digest(&self, key: &FlowKey) -> FibDigest {
        let of = |value: &FibValue| FibDigest::of(HASHER.hash(key), *value);
        self.fib.get(key).map(of).unwrap_or_default()
    }
}

pub fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}
