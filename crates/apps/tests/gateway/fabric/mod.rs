//! Fabric probes, and detours around broken paths.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test helper fails by panicking"
)]

mod paths;
mod probes;
mod rig;
