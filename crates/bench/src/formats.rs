//! The names of SetSep's group formats.

use scalebricks_tables::setsep::Format;

/// The name of a format in the command line and in results.
pub const fn name(format: Format) -> &'static str {
    match format {
        Format::Paper16x8 => "paper16x8",
        Format::Paper8x16 => "paper8x16",
        Format::Paper16x16 => "paper16x16",
    }
}
