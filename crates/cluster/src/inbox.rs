//! Receives messages of other nodes for the actor.

use super::event::Event;
use scalebricks_control::membership::{Beat, Fitness, HEARING, HearingReport, NodeSet};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The receiving end of a node.
#[derive(Clone)]
pub struct Inbox {
    pub(super) events: mpsc::Sender<Event>,
    pub(super) beats: Arc<Beats>,
}

/// The newest heartbeat of each node, outside the queue: a busy node must not take the others for dead.
#[derive(Debug, Default)]
pub struct Beats(Mutex<Received>);

#[derive(Debug, Default)]
struct Received {
    new: BTreeMap<NodeId, Beat>,
    heard: BTreeMap<NodeId, Heard>,
    /// This node's fitness, for its own heartbeats.
    fitness: Fitness,
}

/// The newest heartbeat of a node.
#[derive(Debug, Clone, Copy)]
struct Heard {
    beat: Beat,
    /// Since when it has been in this life.
    since: Instant,
    /// When the newest was received, and the earliest time at which it can have been sent.
    at: Instant,
    sent_after: Instant,
}

/// The grants in another node's last heartbeat.
#[derive(Debug, Clone, Copy)]
pub(super) struct Granted {
    pub(super) by: NodeId,
    pub(super) report: HearingReport,
    /// The earliest time at which it can have been sent.
    pub(super) since: Instant,
}

impl Beats {
    fn received(&self) -> MutexGuard<'_, Received> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // whole at any time
    }

    /// Sets this node's fitness.
    pub(super) fn set_fitness(&self, fitness: Fitness) {
        self.received().fitness = fitness;
    }

    /// This node's fitness.
    pub(super) fn fitness(&self) -> Fitness {
        self.received().fitness
    }

    /// Takes the heartbeats since the last call.
    pub(super) fn take(&self) -> BTreeMap<NodeId, Beat> {
        std::mem::take(&mut self.received().new)
    }

    /// Nodes that were heard within [`HEARING`].
    pub(super) fn hears(&self, now: Instant) -> NodeSet {
        self.heard(now, |_| true)
    }

    /// Of those, the nodes that have been in the same life since `then`.
    pub(super) fn hears_since(&self, then: Instant, now: Instant) -> NodeSet {
        self.heard(now, |heard| heard.since <= then)
    }

    fn heard(&self, now: Instant, is_wanted: impl Fn(&Heard) -> bool) -> NodeSet {
        let received = self.received();
        let heard = received.heard.iter().filter(|(_, heard)| now < heard.at + HEARING && is_wanted(heard));
        heard.map(|(node, _)| *node).collect()
    }

    /// The grants of each node that was heard within [`HEARING`].
    pub(super) fn granted(&self, now: Instant) -> Vec<Granted> {
        let received = self.received();
        let heard = received.heard.iter().filter(|(_, heard)| now < heard.at + HEARING);
        let granted = |(by, heard): (&NodeId, &Heard)| Granted {
            by: *by,
            report: heard.beat.report,
            since: heard.sent_after,
        };
        heard.map(granted).collect()
    }
}

impl Inbox {
    /// The received heartbeats, for heartbeats that are sent while the actor is busy.
    pub const fn beats(&self) -> &Arc<Beats> {
        &self.beats
    }

    /// Receives a heartbeat. Never waits; keeps only the newest of each node.
    pub fn beat(&self, from: NodeId, beat: Beat) {
        self.beat_sent_after(from, beat, Instant::now());
    }

    /// Receives a heartbeat that was sent at this time or later.
    pub fn beat_sent_after(&self, from: NodeId, beat: Beat, sent_after: Instant) {
        let at = Instant::now();
        let mut received = self.beats.received();
        received.new.insert(from, beat);
        let known = received.heard.get(&from).filter(|known| known.beat.life == beat.life);
        let since = known.map_or(at, |known| known.since);
        received.heard.insert(from, Heard { beat, since, at, sent_after });
    }

    /// Queues a message of another node. Waits for room; false: the actor ended.
    pub async fn came(&self, from: NodeId, bytes: Vec<u8>) -> bool {
        self.events.send(Event::Came(from, bytes)).await.is_ok()
    }
}
