//! A thread that observes the node's fitness every 50 ms.

use super::interface;
use super::machine::{Health, Observation, Reach};
use crate::node::running::Running;
use crate::node::source::Source;
use crate::runtime::periodic::Periodic;
use scalebricks_cluster::ControlPlane;
use scalebricks_control::membership::View;
use scalebricks_elements::gateway::{FabricHealth, OutputPort, PortRole};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Time between two observations.
pub const OBSERVE_EVERY: Duration = Duration::from_millis(50);

/// Starts the thread. To be called when the workers run. If it panics, the process ends, because nothing else detects
/// failures.
///
/// # Errors
/// The error of the system.
pub fn start(running: &Arc<Running>) -> io::Result<Periodic> {
    let running = Arc::clone(running);
    let mut health = Health::new();
    Periodic::start("health", OBSERVE_EVERY, move || {
        health.observe(&observe(&running));
        publish(&running, &health);
    })
}

fn plane(running: &Running) -> Option<&ControlPlane> {
    match &running.tables {
        Source::List(_) => None,
        Source::Control(daemon) => daemon.plane(),
    }
}

/// The current observation. Waits for no worker.
fn observe(running: &Running) -> Observation {
    let links = links(running);
    let node = &running.configuration.file;
    // The time is read last, so that observations are not older than it.
    let workers = running.workers.iter().map(|(_, stats)| stats.turned()).collect();
    let now = running.started.elapsed();
    let reach = plane(running).zip(running.fabric.as_ref()).filter(|_| node.probe_every.is_some());
    Observation {
        now,
        workers,
        links,
        silences: OutputPort::ALL.map(|port| running.slow_path.silence(port)),
        reach: reach.map(|(plane, fabric)| reach_of(node.id, &plane.view(), fabric, now)),
    }
}

/// The other members that take part in probing, and those of them that are not reached.
fn reach_of(me: NodeId, view: &View, fabric: &FabricHealth, now: Duration) -> Reach {
    let reached = fabric.reaches(now);
    let others: Vec<NodeId> = view.alive().filter(|node| *node != me).collect();
    let is_missing = |node: &NodeId| !reached.contains(*node);
    Reach { others: others.len(), missing: others.into_iter().filter(is_missing).collect() }
}

/// Whether each port's link is up: the kernel's state of the interface below a virtual device, else the driver's state.
fn links(running: &Running) -> [Option<bool>; 3] {
    let ports = running.hardware.links();
    let is_kernel_asked = ports.iter().any(|port| interface::behind(&port.device).is_some());
    let interfaces: Option<BTreeMap<String, bool>> =
        is_kernel_asked.then(interface::states).and_then(Result::ok);
    PortRole::ALL.map(|role| {
        let link = ports.iter().find(|link| link.port == role)?;
        match interface::behind(&link.device) {
            // A removed interface carries nothing.
            Some(name) => Some(interfaces.as_ref()?.get(name).copied().unwrap_or(false)),
            None => link.is_up,
        }
    })
}

/// Publishes the result to the workers, the control plane and the admin interface.
fn publish(running: &Running, health: &Health) {
    for port in PortRole::ALL {
        running.down.set(port, health.is_down(port));
    }
    if let Some(plane) = plane(running) {
        plane.set_fitness(health.fitness());
    }
    running.health.set(health.conditions());
}
