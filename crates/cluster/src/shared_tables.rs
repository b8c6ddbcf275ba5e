//! A node's tables, shared between the control plane and the rest of the process.

use crate::verify::Readable;
use scalebricks_apps::gateway::FlowTables;
use scalebricks_control::distribution::{FibRoom, Tables};
use scalebricks_tables::compact::Params;
use scalebricks_tables::fib::FibDigest;
use scalebricks_tables::{FibError, FibValue};
use scalebricks_types::{Applied, ApplyError, Delta, FlowKey, PartitionId, Position};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A node's tables, which the control plane changes and the rest of the process reads.
#[derive(Debug, Clone)]
pub struct SharedTables(Arc<Mutex<FlowTables>>);

impl SharedTables {
    /// Shares tables.
    pub fn new(tables: FlowTables) -> Self {
        Self(Arc::new(Mutex::new(tables)))
    }

    /// Locks the tables.
    pub fn lock(&self) -> MutexGuard<'_, FlowTables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // changed key by key, each of them whole
    }
}

impl Tables for SharedTables {
    fn begin(&mut self, params: Params) {
        if !self.lock().begin_gpt(params) {
            tracing::error!("the cluster's GPT has another structure than this node's: restart the node");
        }
    }

    fn digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        self.lock().gpt_digest(partition)
    }

    fn forget(&mut self, partition: PartitionId) {
        self.lock().forget_gpt(partition);
    }

    fn apply_gpt(&mut self, delta: &Delta) -> Result<Applied, ApplyError> {
        self.lock().apply_gpt(delta)
    }

    fn set(&mut self, key: &FlowKey, value: FibValue) -> Result<(), FibError> {
        self.lock().set_logged(key, value)
    }

    fn remove(&mut self, key: &FlowKey) {
        self.lock().remove(key);
    }

    fn keys(&self, partition: PartitionId) -> Vec<FlowKey> {
        self.lock().keys(partition)
    }

    fn room(&self) -> FibRoom {
        let (used, capacity) = self.lock().room();
        FibRoom { used: used as u64, capacity: capacity as u64, shed: 0 }
    }

    fn fib_digests(&self) -> Vec<FibDigest> {
        self.lock().fib_digests()
    }

    fn entry_digest(&self, key: &FlowKey) -> FibDigest {
        self.lock().entry_digest(key)
    }

    fn mended(&mut self, partition: PartitionId) {
        tracing::warn!(
            partition = partition.0,
            "wrong FIB entries were replaced: all keys of the partition were set again"
        );
        self.lock().recount();
    }
}

impl Readable for SharedTables {
    fn named(&self, keys: &[FlowKey]) -> Vec<u8> {
        let named = self.lock().named(keys);
        named.into_iter().map(|node| node.get() as u8).collect() // bits of a GPT: 8 at most
    }

    fn held(&self, keys: &[FlowKey]) -> Vec<Option<FibValue>> {
        let tables = self.lock();
        keys.iter().map(|key| tables.value(key)).collect()
    }

    fn keys_in(&self, partitions: std::ops::Range<usize>) -> Vec<FlowKey> {
        let reader = self.lock().key_reader();
        reader.keys_in(partitions)
    }
}
