//! The window into a running node, as a library: the daemon and the command line are built over it, and tests reach
//! it without either.

#![forbid(unsafe_code)]

pub mod admin;
