//! The changed bits of a filter, for the filters that follow it.

/// Positions of bits, with their current values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterDelta {
    /// In ascending order, each position once.
    pub(super) bits: Vec<(u64, bool)>,
}

/// A delta changes a bit that the filter does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the delta names bit {bit} of a filter of {bits}")]
pub struct FilterDeltaError {
    /// The position of the bit.
    pub bit: u64,
    /// Number of bits of the filter.
    pub bits: u64,
}
