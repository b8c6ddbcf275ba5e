//! Shipped units, examples, and every configuration in the documentation work unchanged.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod documents;
mod examples;
mod files;
mod overlay;
mod units;
