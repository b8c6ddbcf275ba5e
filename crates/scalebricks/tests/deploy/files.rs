//! The repository, the program, and the files that configurations name.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub use crate::harness::{example, repository, said, scalebricks as run};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_scalebricks");

pub fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap()
}

/// A file that only its owner may read.
pub fn secret(path: &Path) {
    fs::write(path, "0123456789abcdef".repeat(4)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}
