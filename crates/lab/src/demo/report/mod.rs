//! The result of a run: as data, as a table, as a picture.

pub mod result;
#[cfg(test)]
mod sample;
pub mod svg;
pub mod table;
