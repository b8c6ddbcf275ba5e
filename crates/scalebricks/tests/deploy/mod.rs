//! What operators are given works as it is: units, examples, and every configuration that is printed in the documentation.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod documents;
mod examples;
mod files;
mod overlay;
mod units;
