//! Fabric probing: its configuration, and the thread that evaluates the probes that workers receive.

use super::config::NodeFile;
use super::running::Running;
use crate::runtime::periodic::Periodic;
use scalebricks_elements::gateway::FabricHealth;
use scalebricks_elements::gateway::fabric::health::Routes;
use scalebricks_types::NodeId;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Time between two refreshes.
const REFRESH_EVERY: Duration = Duration::from_millis(20);

/// The state of the fabric; `None` in a cluster of one node.
pub fn health(file: &NodeFile) -> Option<Arc<FabricHealth>> {
    let has_others = file.size.get() > 1;
    has_others.then(|| Arc::new(FabricHealth::new(file.id, file.size, file.seed, file.probe_every)))
}

/// Starts a thread that refreshes the routes over the fabric, if the cluster has other nodes.
///
/// # Errors
/// The error of the system.
pub fn start_refresh(running: &Running) -> io::Result<Option<Periodic>> {
    let Some(health) = running.fabric.clone() else { return Ok(None) };
    let start = running.started;
    let mut before = health.routes();
    let refresh = move || {
        let routes = health.refresh(start.elapsed());
        if !Arc::ptr_eq(&routes, &before) {
            log_changes(&before, &routes);
            before = routes;
        }
    };
    Periodic::start("fabric", REFRESH_EVERY, refresh).map(Some)
}

/// Logs the routes that changed.
fn log_changes(before: &Routes, now: &Routes) {
    for (node, via) in now.detours().filter(|(node, via)| before.via(*node) != Some(*via)) {
        tracing::warn!(
            node = node.get(),
            via = via.get(),
            "the fabric does not reach a node: sending through another node"
        );
    }
    let is_back = |node: &NodeId| now.via(*node).is_none();
    for node in before.detours().map(|(node, _)| node).filter(is_back) {
        tracing::info!(node = node.get(), "sending to a node directly again");
    }
}
