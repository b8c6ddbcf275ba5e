//! Graphs as a whole.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod builder;
mod elements;
mod random;
mod replace;
mod twin;
mod worker;
