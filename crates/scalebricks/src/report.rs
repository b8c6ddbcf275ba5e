//! What a run found: as data, as a table, as JSON, as a picture.

pub mod json;
pub mod result;
pub mod svg;
pub mod table;
