//! How a node's tables find a packet's node.

use super::layout::{Layout, PARTITIONS};
use scalebricks_elements::gateway::flow::FlowState;
use scalebricks_tables::compact::Table;
use scalebricks_tables::fib::PartialFib;
use scalebricks_tables::full_copy::FullCopy;
use scalebricks_tables::hash_partition::HashPartition;
use scalebricks_tables::{Fib, Gpt, GptReader};
use scalebricks_types::{KeyHash, NodeId, PartitionCount};
use std::sync::Arc;

#[derive(Debug)]
pub(super) enum NodeLookup {
    /// A compact GPT of all flows, updated by deltas.
    Compact(Table),
    /// The FIB itself, which holds all flows.
    Fib,
    /// The hash, with the locations of this node's share of the keys.
    Partition { partition: HashPartition, locations: Arc<PartialFib> },
}

impl NodeLookup {
    /// Uses this table, or what an architecture without one has.
    pub(super) fn new(layout: &Layout, table: Option<Table>, locations: impl FnOnce() -> PartialFib) -> Self {
        if let Some(table) = table {
            return Self::Compact(table);
        }
        if layout.architecture.holds_all_flows() {
            return Self::Fib;
        }
        Self::Partition { partition: HashPartition::new(layout.size), locations: Arc::new(locations()) }
    }

    pub(super) const fn is_fib(&self) -> bool {
        matches!(self, Self::Fib)
    }

    pub(super) const fn table(&self) -> Option<&Table> {
        match self {
            Self::Compact(table) => Some(table),
            Self::Fib | Self::Partition { .. } => None,
        }
    }

    /// The location table for a key with this hash, if it is here.
    pub(super) fn locations(&self, id: NodeId, hash: KeyHash) -> Option<&Arc<PartialFib>> {
        match self {
            Self::Partition { partition, locations } => {
                Some(locations).filter(|_| partition.node(hash) == id)
            }
            Self::Compact(_) | Self::Fib => None,
        }
    }

    /// Readers for the first node of a packet, and for the next one if the first node needs another table.
    pub(super) fn readers(&self, fib: &Arc<PartialFib>) -> (Box<dyn GptReader>, Option<Box<dyn GptReader>>) {
        let copy =
            |fib: &Arc<PartialFib>| Arc::new(FullCopy::new(Arc::clone(fib), FlowState::node_of)).reader();
        match self {
            Self::Compact(table) => (table.gpt_reader(), None),
            Self::Fib => (copy(fib), None),
            Self::Partition { partition, locations } => {
                (Arc::new(*partition).reader(), Some(copy(locations)))
            }
        }
    }

    /// The partitions of deltas.
    pub(super) fn partitions(&self) -> PartitionCount {
        let any = PartitionCount::new(PARTITIONS).unwrap_or(PartitionCount::ONE);
        self.table().map_or(any, |table| table.params().partitions())
    }

    /// Bytes beyond the FIB.
    pub(super) fn table_bytes(&self) -> usize {
        match self {
            Self::Compact(table) => table.table_bytes(),
            Self::Fib => 0,
            Self::Partition { locations, .. } => locations.table_bytes(),
        }
    }
}
