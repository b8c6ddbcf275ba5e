//! What a run found: as data, as a table, as JSON, as a picture.

pub mod json;
pub mod result;
#[cfg(test)]
mod sample;
pub mod svg;
pub mod table;
