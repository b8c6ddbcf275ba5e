//! A gateway node and the window into it, as a library: the command line is built over it, and tests reach it without.

#![forbid(unsafe_code)]

pub mod admin;
pub mod cluster;
pub mod node;
