//! The errors of a control structure that has no room for an operation.

use scalebricks_types::PartitionId;

/// What is full, and the size it would need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// A block holds its maximum number of keys: rebuild with more blocks.
    #[error("block {block} would hold {need} keys of at most {limit}: rebuild with more blocks")]
    Block {
        /// The block.
        block: u32,
        /// Number of keys it would hold.
        need: usize,
        /// [`Format::block_capacity`](super::Format::block_capacity).
        limit: usize,
    },
    /// The fallback of a partition is full.
    #[error("{partition:?} would need {need} fallback lines of {limit}: rebuild with more blocks or lines")]
    Fallback {
        /// The partition.
        partition: PartitionId,
        /// Number of lines it would need.
        need: u32,
        /// [`Params::fallback_lines`](super::Params::fallback_lines).
        limit: u32,
    },
}
