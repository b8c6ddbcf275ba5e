//! The routes of a node: computed from the log, and published to the tables of its workers.
//!
//! ```text
//! log ─▶ machine ─▶ RIB ─▶ changes ─┬▶ lpm tables, IPv4 and IPv6: prefix → output node, port, next hop
//! living nodes ──────▲              └▶ this node's next hops: number → port and neighbour
//! ```
//!
//! | module | content |
//! |---|---|
//! | `machine` | the RIB as a state that the log changes |
//! | [`tables`] | publishes changes |
//! | [`connected`] | the networks at the nodes' ports, by which next hops are found |

pub mod connected;
mod machine;
pub mod tables;
#[cfg(test)]
mod tests;

pub(crate) use machine::{LOG, RoutesMachine};

use connected::Connected;
use scalebricks_control::routes::{ApplyCounts, RouteBatch, RouteChanges, RouteRecord, RouteRib};
use scalebricks_types::NodeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tables::RouteTables;
use tokio::sync::watch;

/// A node's routes.
#[derive(Debug)]
pub struct RouteState {
    /// All paths.
    pub rib: RouteRib,
    /// The tables of the workers.
    pub tables: RouteTables,
    /// What batches of the log did.
    pub counts: ApplyCounts,
    /// How often the set of living nodes changed.
    pub walks: u64,
    /// How long the last walk over all prefixes took, after such a change.
    pub last_walk: Duration,
}

/// A node's routes, shared between threads.
#[derive(Debug, Clone)]
pub struct SharedRoutes {
    state: Arc<Mutex<RouteState>>,
    connected: watch::Sender<Arc<Connected>>,
}

impl SharedRoutes {
    /// No routes.
    pub fn new(alive: NodeSet, tables: RouteTables) -> Self {
        let state = RouteState {
            rib: RouteRib::new(alive),
            tables,
            counts: ApplyCounts::default(),
            walks: 0,
            last_walk: Duration::ZERO,
        };
        Self { state: Arc::new(Mutex::new(state)), connected: watch::Sender::new(Arc::default()) }
    }

    /// Locks the routes. Batches of the log wait meanwhile; packets do not.
    pub fn lock(&self) -> MutexGuard<'_, RouteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // a batch that failed is read again from a snapshot
    }

    /// The networks at ports. It changes also when the routes are read again, so that feeders compare theirs anew.
    pub fn connected(&self) -> watch::Receiver<Arc<Connected>> {
        self.connected.subscribe()
    }

    /// Applies a batch of the log and publishes its changes.
    pub fn apply(&self, batch: &RouteBatch) -> ApplyCounts {
        let mut state = self.lock();
        let mut changes = RouteChanges::default();
        let counts = state.rib.apply(batch, &mut changes);
        state.tables.publish(&changes);
        state.counts.applied += counts.applied;
        state.counts.refused += counts.refused;
        state.counts.without_number += counts.without_number;
        let feeder = |record: &RouteRecord| match record {
            RouteRecord::Announce(feeder, ..)
            | RouteRecord::Withdraw(feeder, _)
            | RouteRecord::Restart(feeder)
            | RouteRecord::Complete(feeder) => *feeder,
        };
        if batch.0.iter().any(|record| Connected::is_from(feeder(record))) {
            let connected = Connected::of(&state.rib);
            drop(state);
            self.connected.send_if_modified(|old| {
                let is_new = **old != connected;
                *old = Arc::new(connected);
                is_new
            });
        }
        counts
    }

    /// Replaces all paths, and publishes the differences.
    pub(crate) fn replace(&self, mut rib: RouteRib) {
        let mut state = self.lock();
        rib.set_alive(state.rib.alive(), &mut RouteChanges::default());
        let changes = state.rib.changes_to(&rib);
        state.rib = rib;
        state.tables.publish(&changes);
        let connected = Connected::of(&state.rib);
        drop(state);
        self.connected.send_replace(Arc::new(connected));
    }

    /// Only these nodes are alive: moves the prefixes of others to their next paths, or withdraws them. Returns the number
    /// of changed routes.
    pub fn set_alive(&self, alive: NodeSet) -> usize {
        let mut state = self.lock();
        if state.rib.alive() == alive {
            return 0;
        }
        let began = Instant::now();
        let mut changes = RouteChanges::default();
        state.rib.set_alive(alive, &mut changes);
        state.tables.publish(&changes);
        state.walks += 1;
        state.last_walk = began.elapsed();
        changes.len()
    }
}
