//! Probes over the fabric, and the ways round what is broken.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test helper fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod paths;
mod probes;
mod rig;
