//! A log on the disk that a test replaces by a backup.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[path = "../../engine/tests/replaceable.rs"]
mod engine;

pub use engine::Replaceable;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use std::fs;
use std::path::Path;

pub fn embedded(directory: &Path) -> EmbeddedLog {
    EmbeddedLog::open(directory, Options::default()).unwrap()
}

/// Copies the files of a directory to a new one.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
