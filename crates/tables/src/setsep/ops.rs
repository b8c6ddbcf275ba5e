//! Why a control structure refuses operations for want of room.

use scalebricks_types::PartitionId;

/// What is full, and what it would need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// A block has all the keys it can hold: rebuild with more blocks.
    #[error("block {block} would hold {need} keys of at most {limit}: rebuild with more blocks")]
    Block {
        /// The block.
        block: u32,
        /// Keys it would hold.
        need: usize,
        /// [`Format::block_capacity`](super::Format::block_capacity).
        limit: usize,
    },
    /// A partition's fallback has no room.
    #[error("{partition:?} would need {need} fallback lines of {limit}: rebuild with more blocks or lines")]
    Fallback {
        /// The partition.
        partition: PartitionId,
        /// Lines it would need.
        need: u32,
        /// [`Params::fallback_lines`](super::Params::fallback_lines).
        limit: u32,
    },
}
