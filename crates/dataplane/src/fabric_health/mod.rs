//! Whom a node hears and reaches over the fabric, as its workers' own probes find out.

use scalebricks_types::{ClusterSize, HashSeed, NodeId, NodeSet};
use std::time::Duration;

/// A node whose probe or echo arrived no longer ago than this is heard, or reached.
pub const HEARING: Duration = Duration::from_millis(600);

/// What a node knows about its fabric. Shared by its workers, which send and receive probes, and by whoever asks.
///
/// All times are since the process's start, as they are passed to [`Node::turn`](crate::Node::turn).
#[derive(Debug)]
pub struct FabricHealth {
    me: NodeId,
    size: ClusterSize,
}

impl FabricHealth {
    /// The health of node `me`'s fabric, of which nothing is known yet. Probes are sent every `interval` and carry a tag under
    /// the cluster's secret.
    pub fn new(me: NodeId, size: ClusterSize, seed: HashSeed, interval: Duration) -> Self {
        let _ = (seed, interval);
        Self { me, size }
    }

    /// Says who the node is: its life, the epoch of the newest view it has read, and the members that are alive in that view with
    /// their lives. The probes from the next [`refresh`](Self::refresh) on say so.
    pub fn set_identity(&self, life: u64, epoch: u64, members: impl IntoIterator<Item = (NodeId, u64)>) {
        let _ = (self.me, self.size, life, epoch, members.into_iter().count());
    }

    /// Takes in what the workers received, and publishes what they send and which ways they use from now on. To be called every
    /// 20 to 50 ms by one thread.
    pub fn refresh(&self, now: Duration) {
        let _ = now;
    }

    /// The nodes whose probes arrived in the last [`HEARING`].
    pub fn hears(&self, now: Duration) -> NodeSet {
        let _ = now;
        NodeSet::EMPTY
    }

    /// The nodes that echoed a probe of this node in the last [`HEARING`].
    pub fn reaches(&self, now: Duration) -> NodeSet {
        let _ = now;
        NodeSet::EMPTY
    }

    /// The nodes that granted this node its lease, in its present life, and when the newest such probe of each was received. Those of
    /// the last [`HEARING`] only.
    pub fn grants_to_me(&self, now: Duration) -> Vec<(NodeId, Duration)> {
        let _ = now;
        Vec::new()
    }
}
