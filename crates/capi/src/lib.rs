//! A C interface of the tables: SetSep and Othello behind [`gpt`], the exact cuckoo table behind [`fib`].
//!
//! `include/scalebricks.h` is generated from this crate; its beginning, in `cbindgen.toml`, explains the interface. A test
//! compares both. `docs/reference/c-library.md` describes installation and use.
//!
//! # Rules of this crate
//! - Every function runs its body in `ffi::run`, which turns errors and panics into a status.
//! - Handles arrive as `Option<&T>` or `Option<Box<T>>`, which have the layout of a pointer that may be NULL. Arrays arrive
//!   as a pointer and a count, and `ffi::input` and `ffi::output` make slices of them.
//! - The documentation of functions and types is the header's text, so it addresses a programmer of C.
#![allow(non_camel_case_types, reason = "the names that C has")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the text of the header says what each pointer has to be; a section would be noise there"
)]

pub mod buffers;
mod ffi;
pub mod fib;
pub mod gpt;
pub mod hash;
pub mod status;
