//! Nodes and switches over real NATS servers, started with the test's configuration or with the one that is shipped. Needs a `nats-server`, as the engine's tests of this name do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

#[allow(dead_code, reason = "the engine's tests need more of it")]
#[path = "../../engine/tests/nats_servers/cluster.rs"]
mod cluster;
mod shipped;

use crate::switch::shared;
use cluster::Cluster;

#[test]
fn switches_share_names_over_nats() {
    let Some(cluster) = Cluster::start(1) else { return };
    let options = cluster.options("names");
    let engine = format!("engine = \"{}\"\nreplicas = {}", options.servers[0], options.replicas);
    let log = pollster::block_on(cluster.open("names"));
    shared::names_are_shared(&engine, &log);
}
