//! The positions of a node's tables in the logs of the partitions.

use super::plane::ControlPlane;
use scalebricks_types::{PartitionCount, PartitionId, Position};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use utoipa::ToSchema;

/// Where the tables are in a partition's log, as one node knows it. Positions count the entries of that log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionPosition {
    /// The partition.
    pub partition: u16,
    /// The last entry that changed the GPT of the node that answers.
    pub reached: u64,
    /// All living nodes have the changes of the entries up to here.
    pub settled: u64,
    /// The last entry that changed the GPT, as the partition's owner reported.
    pub newest: u64,
}

/// The positions of all partitions. One task writes them, others read.
pub(super) struct Progress(Vec<[AtomicU64; 3]>);

impl Progress {
    pub(super) fn new(partitions: PartitionCount) -> Self {
        Self((0..partitions.get()).map(|_| Default::default()).collect())
    }

    /// Stores the positions of a partition: reached, settled, newest.
    pub(super) fn set(&self, partition: PartitionId, positions: [Position; 3]) {
        for (stored, position) in self.0[usize::from(partition.0)].iter().zip(positions) {
            stored.store(position.0, Ordering::Relaxed);
        }
    }

    fn all(&self) -> Vec<PartitionPosition> {
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let view = |(at, [reached, settled, newest]): (usize, &[AtomicU64; 3])| PartitionPosition {
            partition: at as u16, // at most 2^16
            reached: get(reached),
            settled: get(settled),
            newest: get(newest),
        };
        self.0.iter().enumerate().map(view).collect()
    }
}

impl ControlPlane {
    /// The positions of this node's tables in the logs of all partitions.
    pub fn positions(&self) -> Vec<PartitionPosition> {
        self.shared.progress.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_their_partition() {
        let progress = Progress::new(PartitionCount::new(4).unwrap());
        progress.set(PartitionId(2), [Position(5), Position(4), Position(7)]);
        let all = progress.all();
        assert_eq!(all.len(), 4);
        assert_eq!(all[2], PartitionPosition { partition: 2, reached: 5, settled: 4, newest: 7 });
        assert_eq!(all[3], PartitionPosition { partition: 3, ..PartitionPosition::default() });
    }
}
