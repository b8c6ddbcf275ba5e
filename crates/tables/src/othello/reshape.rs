//! Changing a table's shape while it is used: more ranges or fewer, other slots, value bits, check bits or seed.

use super::ops::UpdateError;
use super::params::Params;

/// Why a table cannot be given another shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReshapeError {
    /// One at a time.
    #[error("the table is being reshaped already")]
    Busy,
    /// The update streams stay as they are.
    #[error("a table of {from} partitions cannot be reshaped to {to}")]
    Partitions {
        /// Partitions there are.
        from: u32,
        /// Partitions asked for.
        to: u32,
    },
    /// The new shape has no room for the keys, or too few bits for a value.
    #[error("the keys do not fit the new shape: {0}")]
    Keys(#[from] UpdateError),
}

/// Whether a table of one shape can become one of another.
pub(super) fn check(from: &Params, to: &Params) -> Result<(), ReshapeError> {
    if from.partitions() == to.partitions() {
        return Ok(());
    }
    Err(ReshapeError::Partitions { from: from.partitions().get(), to: to.partitions().get() })
}
