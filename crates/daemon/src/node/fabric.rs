//! Probing the fabric: what a node is told about it, and the thread that takes in what its workers receive.

use super::config::NodeFile;
use super::running::Running;
use scalebricks_elements::gateway::FabricHealth;
use scalebricks_elements::gateway::fabric::health::Routes;
use scalebricks_types::NodeId;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two refreshes.
const REFRESH_EVERY: Duration = Duration::from_millis(20);

/// What is known of the fabric, of a node that has others beside it.
pub fn health(file: &NodeFile) -> Option<Arc<FabricHealth>> {
    let has_others = file.size.get() > 1;
    has_others.then(|| Arc::new(FabricHealth::new(file.id, file.size, file.seed, file.probe_every)))
}

/// A thread that refreshes. Dropping it ends it.
#[derive(Debug)]
pub struct Refresher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Refresher {
    /// Begins, if the node has others beside it.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(running: &Running) -> io::Result<Option<Self>> {
        let Some(health) = &running.fabric else { return Ok(None) };
        Self::start(Arc::clone(health), running.started).map(Some)
    }

    /// Begins. `start` is the moment from which the workers' times are counted.
    fn start(health: Arc<FabricHealth>, start: Instant) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut before = health.routes();
            while stopped.recv_timeout(REFRESH_EVERY) == Err(RecvTimeoutError::Timeout) {
                let routes = health.refresh(start.elapsed());
                if !Arc::ptr_eq(&routes, &before) {
                    tell(&before, &routes);
                    before = routes;
                }
            }
        };
        let thread = std::thread::Builder::new().name("fabric".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Says which ways have changed.
fn tell(before: &Routes, now: &Routes) {
    for (node, via) in now.detours().filter(|(node, via)| before.via(*node) != Some(*via)) {
        tracing::warn!(
            node = node.get(),
            via = via.get(),
            "the fabric does not lead to a node: sending over another"
        );
    }
    let is_back = |node: &NodeId| now.via(*node).is_none();
    for node in before.detours().map(|(node, _)| node).filter(is_back) {
        tracing::info!(node = node.get(), "sending to a node directly again");
    }
}
