//! The errors of a control structure that has no room for an operation.

/// Which range has no room for a name: reshape the table to more ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// A range has its maximum number of names.
    #[error("range {range} would hold {names} names of at most {limit}: reshape to more ranges")]
    Names {
        /// The range.
        range: u32,
        /// Number of names it would hold.
        names: usize,
        /// [`Params::capacity`](super::Params::capacity).
        limit: usize,
    },
    /// Every seed gives the names of a range a graph with a cycle.
    #[error("no seed suits the {names} names of range {range}: reshape to more ranges")]
    Seeds {
        /// The range.
        range: u32,
        /// Number of names it would hold.
        names: usize,
    },
}
