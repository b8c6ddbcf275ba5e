//! The report as JSON.

use super::result::Report;

/// The report as an indented JSON document that ends in a newline.
///
/// # Errors
/// What the serialiser says; a report has nothing that it refuses.
pub fn render(report: &Report) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}
