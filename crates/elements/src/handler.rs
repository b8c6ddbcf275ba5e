//! Helpers that several elements' handlers share.

use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;

/// Parses a boolean value.
pub(crate) fn boolean(value: &str) -> Result<bool, HandlerError> {
    bool::read(value.trim()).ok_or_else(|| HandlerError::Value(format!("not a boolean: {value:?}")))
}
