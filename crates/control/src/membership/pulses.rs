//! Detects which nodes are in contact with the engine.
//!
//! Every node publishes a pulse through the engine each [`PULSE`]. A node that is not heard over the mesh may be dead or cut off.
//! Its pulse tells the two apart for a node that has contact with the engine itself, which that node's own pulse proves.

use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two pulses of a node.
pub const PULSE: Duration = Duration::from_secs(1);

/// A node whose pulse is this old has no contact with the engine, or is dead.
pub const PULSELESS: Duration = Duration::from_secs(5);

/// Own pulses further apart than this mean that contact with the engine was lost in between.
const GAP: Duration = Duration::from_millis(2_500);

/// Pulses received.
#[derive(Debug)]
pub(super) struct Pulses {
    me: NodeId,
    received: BTreeMap<NodeId, Duration>,
    /// Since when own pulses have come back without a gap.
    since: Duration,
}

impl Pulses {
    pub(super) const fn new(me: NodeId) -> Self {
        Self { me, received: BTreeMap::new(), since: Duration::ZERO }
    }

    /// A pulse came through the engine.
    pub(super) fn received(&mut self, node: NodeId, now: Duration) {
        if node == self.me && !self.has_contact(now) {
            self.since = now;
        }
        self.received.insert(node, now);
    }

    /// Whether this node's own pulses come back through the engine.
    pub(super) fn has_contact(&self, now: Duration) -> bool {
        self.received.get(&self.me).is_some_and(|at| now < *at + GAP)
    }

    /// Whether a node sent no pulse for [`PULSELESS`], in all of which this node was in contact with the engine.
    pub(super) fn is_missing(&self, node: NodeId, now: Duration) -> bool {
        let last = self.received.get(&node).copied().unwrap_or_default();
        self.has_contact(now) && now >= last.max(self.since) + PULSELESS
    }
}
