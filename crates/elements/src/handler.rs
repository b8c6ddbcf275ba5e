//! What several elements' handlers share.

use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;

/// A value that is true or false.
pub(crate) fn boolean(value: &str) -> Result<bool, HandlerError> {
    bool::read(value.trim()).ok_or_else(|| HandlerError::Value(format!("neither true nor false: {value:?}")))
}

/// What a limit leaves of packets, below 0 being none.
pub(crate) fn left(limit: i64, count: u64) -> usize {
    match u64::try_from(limit) {
        Ok(limit) => usize::try_from(limit.saturating_sub(count)).unwrap_or(usize::MAX),
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_what_was_not_counted() {
        assert_eq!([left(-1, 5), left(0, 0), left(7, 5), left(7, 9)], [usize::MAX, 0, 2, 0]);
    }
}
