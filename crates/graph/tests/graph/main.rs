//! Tests of whole graphs.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod builder;
mod by_value;
mod control;
mod elements;
mod labels;
mod pulls;
mod queues;
mod random;
mod replace;
mod rig;
mod twin;
mod worker;
