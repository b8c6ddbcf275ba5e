//! The structure of a cluster's tables, and errors in filling them.

use crate::gateway::architecture::Architecture;
use scalebricks_tables::FibError;
use scalebricks_tables::compact::{BuildError, Params, ParamsError, Structure, UpdateError};
use scalebricks_types::{ApplyError, ClusterSize, HashSeed, NodeId, PartitionCount};

/// Number of partitions (update streams) of a cluster's tables.
pub const PARTITIONS: u32 = 64;

/// Why tables could not be filled or changed.
#[derive(Debug, thiserror::Error)]
pub enum FlowTablesError {
    /// Two flows share a key; the later one is reported.
    #[error("flow {flow} has the same {key} as an earlier flow")]
    Duplicate {
        /// The later flow's index.
        flow: usize,
        /// Which of its keys.
        key: &'static str,
    },
    /// A FIB refused a flow.
    #[error("FIB of {node}: {error}")]
    Fib {
        /// The node.
        node: NodeId,
        /// The error.
        error: FibError,
    },
    /// No GPT of this size.
    #[error("GPT: {0}")]
    Params(#[from] ParamsError),
    /// The GPT could not be built.
    #[error("GPT: {0}")]
    Build(#[from] BuildError),
    /// The GPT refused a change.
    #[error("GPT: {0}")]
    Update(#[from] UpdateError),
    /// The GPT is not at the position that its owner assumes.
    #[error("GPT: {0}")]
    Apply(#[from] ApplyError),
}

/// The structure of a cluster's tables, the same at all nodes.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Number of nodes.
    pub size: ClusterSize,
    /// How the FIB is spread over them.
    pub architecture: Architecture,
    /// The structure of the GPT, where the architecture has one.
    pub gpt: Structure,
    /// The secret of the key hash.
    pub seed: HashSeed,
}

impl Layout {
    /// Whether the nodes have a compact GPT, which takes deltas.
    pub(super) const fn has_compact_gpt(&self) -> bool {
        matches!(self.architecture, Architecture::ScaleBricks)
    }

    /// The parameters of the GPT for this many keys.
    pub(super) fn gpt_params(&self, keys: u64) -> Result<Params, ParamsError> {
        let partitions = PartitionCount::new(PARTITIONS).unwrap_or(PartitionCount::ONE);
        Params::for_keys(self.gpt, keys, self.size.value_bits(), partitions)
    }
}
