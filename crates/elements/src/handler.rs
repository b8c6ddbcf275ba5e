//! What several elements' handlers share.

use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;

/// A value that is true or false.
pub(crate) fn boolean(value: &str) -> Result<bool, HandlerError> {
    bool::read(value.trim()).ok_or_else(|| HandlerError::Value(format!("neither true nor false: {value:?}")))
}
