//! Probes over the fabric, and the ways round what is broken.

#[path = "../common/mod.rs"]
mod common;
mod paths;
mod probes;
mod rig;
