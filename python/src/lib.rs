//! The Python package `scalebricks`: the tables, with numpy arrays of keys and values.
//!
//! | module | contents |
//! |---|---|
//! | `arrays` | arrays as slices, and what is wrong with those that are refused |
//! | `errors` | the package's exceptions |
//! | `compact` | `SetSep` and `Othello` |
//! | `cuckoo`, `lpm`, `dhash` | the other tables |
//! | `hash` | `hash_keys` |
//!
//! A function takes arrays as slices, without a copy, and does its work detached from the interpreter, so that other
//! threads of Python run meanwhile. Locks are taken and released while detached: no thread waits for one and holds the
//! interpreter's lock.
//!
//! Without the feature `extension`, this crate is empty.
#![cfg(feature = "extension")]
#![allow(clippy::needless_pass_by_value, reason = "pyo3 passes some arguments by value")]

mod arrays;
mod compact;
mod cuckoo;
mod dhash;
mod errors;
mod hash;
mod lpm;

use pyo3::pymodule;

/// Python aligns objects to 16 bytes. What needs more lies in a box.
const fn is_aligned_for_python<T>() {
    assert!(align_of::<T>() <= 16);
}
const _: () = {
    is_aligned_for_python::<compact::SetSep>();
    is_aligned_for_python::<compact::Othello>();
    is_aligned_for_python::<cuckoo::Cuckoo>();
    is_aligned_for_python::<dhash::DHash>();
    is_aligned_for_python::<lpm::Lpm>();
};

/// The compiled part of the package.
#[pymodule]
mod _scalebricks {
    #[pymodule_export]
    use super::compact::{Othello, SetSep};
    #[pymodule_export]
    use super::cuckoo::Cuckoo;
    #[pymodule_export]
    use super::dhash::DHash;
    #[pymodule_export]
    use super::errors::{Gap, TableFull};
    #[pymodule_export]
    use super::hash::hash_keys;
    #[pymodule_export]
    use super::lpm::Lpm;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
