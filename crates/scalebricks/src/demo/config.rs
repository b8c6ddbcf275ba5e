//! What a run was asked for, checked.

use scalebricks_dataplane::{Architecture, Policy};
use scalebricks_types::{ClusterSize, HashSeed};

/// Memory of a node for the capacity figure, bytes: 16 MiB, about what a server's last-level cache can spare.
pub const CAPACITY_BUDGET_BYTES: usize = 16 << 20;

/// A checked configuration, shared by synthetic runs and replays.
#[derive(Debug, Clone)]
pub struct DemoConfig {
    /// Nodes.
    pub size: ClusterSize,
    /// The architectures to run, each once, in the order of the figure.
    pub architectures: Vec<Architecture>,
    /// What nodes decide about packets, the key profile included.
    pub policy: Policy,
    /// Threads the nodes run on.
    pub threads: usize,
    /// What everything random is drawn from.
    pub seed: u64,
    /// Whether regions are spread over the nodes unevenly.
    pub skew: bool,
    /// Flows of a synthetic run.
    pub flows: u32,
    /// Packets an architecture of a synthetic run.
    pub packets: u64,
}

impl DemoConfig {
    /// The seed of the cluster's key hash.
    pub const fn hash_seed(&self) -> HashSeed {
        HashSeed::from_u64(self.seed)
    }
}
