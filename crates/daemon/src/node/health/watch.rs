//! A thread that looks after the node's fitness every 50 ms.

use super::interface;
use super::machine::{Health, Observation, Reach};
use crate::node::running::Running;
use crate::node::source::Source;
use crate::runtime::workers::guarded;
use scalebricks_cluster::ControlPlane;
use scalebricks_control::membership::View;
use scalebricks_elements::gateway::{FabricHealth, OutputPort, PortRole};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins. To be called when the workers run. Should the thread panic, the process ends: nobody would find out about anything.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(running: &Arc<Running>) -> io::Result<Self> {
        let running = Arc::clone(running);
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut health = Health::new();
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                health.look(&look(&running));
                publish(&running, &health);
            }
        };
        let thread =
            std::thread::Builder::new().name("health".to_owned()).spawn(move || guarded("health", run))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn plane(running: &Running) -> Option<&ControlPlane> {
    match &running.tables {
        Source::List(_) => None,
        Source::Control(daemon) => daemon.plane(),
    }
}

/// What is seen now. Waits for no worker.
fn look(running: &Running) -> Observation {
    let links = links(running);
    let node = &running.configuration.node;
    // The time last: what is seen is not older than that.
    let workers = running.workers.iter().map(|(_, told)| told.turned()).collect();
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

/// Of the other members that take part in probing, those that are not reached.
fn reach_of(me: NodeId, view: &View, fabric: &FabricHealth, now: Duration) -> Reach {
    let reached = fabric.reaches(now);
    let others: Vec<NodeId> = view.alive().filter(|node| *node != me).collect();
    let is_missing = |node: &NodeId| !reached.contains(*node);
    Reach { others: others.len(), missing: others.into_iter().filter(is_missing).collect() }
}

/// Whether each port's link is up: as the kernel says of the interface that a device stands on, else as the driver says.
fn links(running: &Running) -> [Option<bool>; 3] {
    let ports = running.hardware.links();
    let is_kernel_asked = ports.iter().any(|port| interface::behind(&port.device).is_some());
    let interfaces: Option<BTreeMap<String, bool>> =
        is_kernel_asked.then(interface::states).and_then(Result::ok);
    PortRole::ALL.map(|role| {
        let link = ports.iter().find(|link| link.port == role)?;
        match interface::behind(&link.device) {
            // One that is not there any more carries nothing.
            Some(name) => Some(interfaces.as_ref()?.get(name).copied().unwrap_or(false)),
            None => link.is_up,
        }
    })
}

/// Tells all who act on it.
fn publish(running: &Running, health: &Health) {
    for port in PortRole::ALL {
        running.down.set(port, health.is_down(port));
    }
    if let Some(plane) = plane(running) {
        plane.set_fitness(health.fitness());
    }
    running.health.set(health.conditions());
}
