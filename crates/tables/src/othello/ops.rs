//! Why a control structure refuses operations for want of room.

/// Which range has no room for a name: reshape the table to more ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// A range has all the names it may have.
    #[error("range {range} would hold {names} names of at most {limit}: reshape to more ranges")]
    Names {
        /// The range.
        range: u32,
        /// Names it would hold.
        names: usize,
        /// [`Params::capacity`](super::Params::capacity).
        limit: usize,
    },
    /// Under every seed, the names of a range make a graph with a cycle.
    #[error("no seed suits the {names} names of range {range}: reshape to more ranges")]
    Seeds {
        /// The range.
        range: u32,
        /// Names it would hold.
        names: usize,
    },
}
