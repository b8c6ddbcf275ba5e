//! What a node's control plane counts.

use super::plane::{ControlPlane, Shared};
use scalebricks_control::agent::AgentStats;
use std::sync::atomic::Ordering;

/// What a node's control plane has counted since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaneStats {
    /// Entries of logs that were applied, in partitions that were this node's then.
    pub entries: u64,
    /// Changes in them, or entries as a whole, that did nothing.
    pub voids: u64,
    /// Messages of other nodes that were not understood.
    pub malformed: u64,
    /// Messages of owners that something was missing before.
    pub gaps: u64,
    /// Messages of owners that the tables refused.
    pub refused: u64,
    /// Partitions in which this node gave a dead or drained node's keys to others.
    pub repins: u64,
    /// Partitions whose bits in the GPT were found to be wrong, and replaced.
    pub astray: u64,
    /// Partitions whose entries in the FIB were found to be wrong, and loaded anew.
    pub fib_astray: u64,
    /// Times that the GPT began anew, as the cluster's had another shape.
    pub begun_anew: u64,
    /// Partitions that were loaded again, as their log had lost entries that this node had applied.
    pub reloads: u64,
    /// Partitions whose tables here were filled again, as their log had lost entries that were in them.
    pub rewound: u64,
    /// Keys that are this node's, and that its FIB has no room for now: packets to them are dropped.
    pub shedding: u64,
    /// Keys that its FIB had no room for when they came.
    pub shed: u64,
    /// Calls that this node, as the owner of their partitions, did not log.
    pub calls_refused: u64,
    /// Times that a call had to wait, as a node that was removed might still forward one of its keys for another flow.
    pub calls_delayed: u64,
}

impl ControlPlane {
    /// What was counted here.
    pub fn stats(&self) -> PlaneStats {
        let Shared { applied, voids, malformed, reloads, agent, .. } = &*self.shared;
        let AgentStats {
            gaps,
            refused,
            repins,
            astray,
            fib_astray,
            begun_anew,
            rewound,
            shedding,
            shed,
            calls_refused,
            calls_delayed,
        } = **agent.load();
        let [entries, voids, malformed, reloads] =
            [applied, voids, malformed, reloads].map(|counter| counter.load(Ordering::Relaxed));
        PlaneStats {
            entries,
            voids,
            malformed,
            gaps,
            refused,
            repins,
            astray,
            fib_astray,
            begun_anew,
            reloads,
            rewound,
            shedding,
            shed,
            calls_refused,
            calls_delayed,
        }
    }
}
