//! A GPT without a table: the node is computed from the hash. Flows therefore cannot be pinned to nodes.
//!
//! In the hash partition of the paper's Figure 2, the computed node stores the flow's entry and forwards the
//! packet to the node that handles the flow: two hops.

use crate::{Gpt, GptReader, KeyBatch};
use scalebricks_types::{
    Applied, ApplyError, ClusterSize, Delta, KeyHash, NodeHint, NodeId, PartitionCount, PartitionId,
    Position, TableKind,
};
use std::sync::Arc;

/// Node = ⌊hash · nodes / 2^64⌋: equal ranges of the hash, for any number of nodes. A lookup reads no memory
/// except the hashes.
#[derive(Debug, Clone, Copy)]
pub struct HashPartition {
    nodes: ClusterSize,
}

impl HashPartition {
    /// Divides the hash space evenly among these nodes.
    pub const fn new(nodes: ClusterSize) -> Self {
        Self { nodes }
    }

    /// The node that owns a hash.
    #[inline]
    pub fn node(&self, hash: KeyHash) -> NodeId {
        // At most 256 nodes, so the product's top half fits one octet.
        NodeId::new(((u128::from(hash.get()) * self.nodes.get() as u128) >> 64) as u8)
    }
}

impl Gpt for HashPartition {
    fn kind(&self) -> TableKind {
        TableKind::HashPartition
    }

    fn partitions(&self) -> PartitionCount {
        PartitionCount::ONE
    }

    fn reader(self: Arc<Self>) -> Box<dyn GptReader> {
        Box::new(*self)
    }

    /// Always returns an error: there is nothing to update.
    fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        if delta.kind != TableKind::HashPartition {
            return Err(ApplyError::Kind { want: TableKind::HashPartition, got: delta.kind });
        }
        Err(ApplyError::Malformed("a hash partition is computed, it takes no deltas"))
    }

    /// Always the first position for its one partition, because nothing is ever applied.
    fn position(&self, partition: PartitionId) -> Option<Position> {
        (partition == PartitionId(0)).then_some(Position(0))
    }

    fn table_bytes(&self) -> usize {
        0
    }
}

impl GptReader for HashPartition {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        for (hint, &hash) in hints[..keys.len()].iter_mut().zip(keys.hashes()) {
            *hint = NodeHint::new(self.node(hash).get().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::{FlowKey, HashSeed, KeyHasher, Teid};

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn every_node_gets_its_share_and_no_other_is_named() {
        for nodes in [1, 3, 4, 64, 256] {
            let size = ClusterSize::new(nodes).unwrap();
            let gpt = Arc::new(HashPartition::new(size));
            let hasher = KeyHasher::new(HashSeed::from_u64(2));
            let n = 100_000;
            let keys: Vec<FlowKey> = (0..n).map(|n| FlowKey::teid(Teid::new(n))).collect();
            let hashes: Vec<_> = keys.iter().map(|key| hasher.hash(key)).collect();
            let mut hints = vec![NodeHint::NONE; keys.len()];
            gpt.clone().reader().lookup_batch(KeyBatch::new(&keys, &hashes), &mut hints);
            let mut shares = vec![0usize; nodes];
            for (&hint, &hash) in hints.iter().zip(&hashes) {
                assert_eq!(size.resolve(hint), Some(gpt.node(hash)));
                shares[usize::from(hint.get())] += 1;
            }
            let even = keys.len() / nodes;
            let fair = |&share: &usize| share > even * 2 / 3 && share < even * 3 / 2;
            assert!(shares.iter().all(fair), "{nodes} nodes: {shares:?}");
        }
    }

    #[test]
    fn the_ends_of_the_hash_space_are_the_first_and_the_last_node() {
        let gpt = HashPartition::new(ClusterSize::new(256).unwrap());
        assert_eq!(gpt.node(KeyHash::new(0)), NodeId::new(0));
        assert_eq!(gpt.node(KeyHash::new(u64::MAX)), NodeId::new(255));
    }

    #[test]
    fn it_takes_no_deltas() {
        let gpt = HashPartition::new(ClusterSize::new(4).unwrap());
        let delta = |kind| Delta {
            kind,
            partition: PartitionId(0),
            position: Position(1),
            previous: Position(0),
            payload: vec![],
        };
        assert!(matches!(gpt.apply(&delta(TableKind::HashPartition)), Err(ApplyError::Malformed(_))));
        assert!(matches!(gpt.apply(&delta(TableKind::Fib)), Err(ApplyError::Kind { .. })));
        assert_eq!(gpt.table_bytes(), 0);
        assert_eq!((gpt.position(PartitionId(0)), gpt.position(PartitionId(1))), (Some(Position(0)), None));
    }
}
