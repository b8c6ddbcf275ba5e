//! Nodes and switches over real NATS servers, started with the test's configuration or with the one that is shipped. Needs a `nats-server`, as the engine's tests of this name do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

#[allow(dead_code, reason = "the engine's tests need more of it")]
#[path = "../../engine/tests/nats_servers/cluster.rs"]
mod cluster;
mod shipped;

use crate::switch::shared::{self, KIND, ask, change, configure, start, wait};
use cluster::Cluster;
use scalebricks_admin::model::switch::Change;
use scalebricks_daemon::switch::running::ChangeError;

#[test]
fn switches_share_names_over_one_server_and_outlive_it() {
    let Some(cluster) = Cluster::start(1) else { return };
    let options = cluster.options("names");
    let engine = format!("engine = \"{}\"\nreplicas = {}", options.servers[0], options.replicas);
    let log = pollster::block_on(cluster.open("names"));
    shared::names_are_shared(&engine, &log);

    // Its server gone, it is missed and said to be; what was read stays. Then it comes back.
    let folder = tempfile::tempdir().unwrap();
    let switch = start(&configure(folder.path(), KIND, &engine));
    wait("it follows", || switch.has_all_names());
    cluster.kill_server(0);
    wait("it is missed", || switch.view().fault.is_some());
    assert_eq!(switch.list().len(), 1_029);
    cluster.start_server(0);
    wait("it is read again", || switch.view().fault.is_none());
    let there_already = ask(&switch, &[change(Change::Add, 1, "drop")]);
    assert!(matches!(there_already, Err(ChangeError::Refused(..))), "{there_already:?}");
    ask(&switch, &[change(Change::Remove, 1, "")]).unwrap();
    assert_eq!(switch.list().len(), 1_028);
}
