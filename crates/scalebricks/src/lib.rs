//! A gateway node, a switch, the window into them, and the process that keeps a log, as a library: the command line is built over it, and tests reach it without.

#![forbid(unsafe_code)]

pub mod admin;
pub mod cluster;
pub mod daemon;
pub mod engine;
pub mod graph;
pub mod node;
pub mod secret;
pub mod switch;
mod tls;
