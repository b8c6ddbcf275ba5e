//! What all nodes of a world share: the time, the log's servers, and the links between nodes.

use crate::simulation::log::Log;
use crate::simulation::network::Network;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time is the world's; each node has a clock of its own.
pub struct Shared {
    pub now: Duration,
    pub network: Network,
    pub log: Log,
}

/// The shared part, which tasks of all nodes reach.
#[derive(Clone)]
pub struct Hub(Arc<Mutex<Shared>>);

impl Hub {
    pub fn new(seed: u64, nodes: usize, partitions: usize) -> Self {
        let (network, log) = (Network::new(seed, nodes), Log::new(seed, nodes, partitions));
        Self(Arc::new(Mutex::new(Shared { now: Duration::ZERO, network, log })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
