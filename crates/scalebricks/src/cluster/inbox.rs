//! What comes from other nodes, on its way to the actor.

use super::event::Event;
use scalebricks_control::membership::{Beat, Fitness, HEARING, NodeSet};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc;

/// What comes from other nodes.
#[derive(Clone)]
pub struct Inbox {
    pub(super) events: mpsc::Sender<Event>,
    pub(super) beats: Arc<Beats>,
}

/// The newest beat of each node, beside the queue: a node that has much to do must not take the others for dead.
#[derive(Debug, Default)]
pub(super) struct Beats(Mutex<Received>);

#[derive(Debug, Default)]
struct Received {
    new: BTreeMap<NodeId, Beat>,
    /// When the newest of each node came.
    at: BTreeMap<NodeId, Instant>,
    /// How fit this node is, for its own.
    fitness: Fitness,
}

impl Beats {
    fn received(&self) -> MutexGuard<'_, Received> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // whole at any time
    }

    /// How fit this node is, from now on.
    pub(super) fn set_fitness(&self, fitness: Fitness) {
        self.received().fitness = fitness;
    }

    /// How fit this node is.
    pub(super) fn fitness(&self) -> Fitness {
        self.received().fitness
    }

    /// Those that came since the last call.
    pub(super) fn take(&self) -> BTreeMap<NodeId, Beat> {
        std::mem::take(&mut self.received().new)
    }

    /// Nodes that were heard within [`HEARING`].
    pub(super) fn hears(&self, now: Instant) -> NodeSet {
        let received = self.received();
        received.at.iter().filter(|(_, at)| now < **at + HEARING).map(|(node, _)| *node).collect()
    }
}

impl Inbox {
    /// Another node is alive. Never waits; of several that were not looked at yet the newest is kept.
    pub fn beat(&self, from: NodeId, beat: Beat) {
        let mut received = self.beats.received();
        received.new.insert(from, beat);
        received.at.insert(from, Instant::now());
    }

    /// Another node sent this. Waits for room; false: nobody is there any more.
    pub async fn came(&self, from: NodeId, bytes: Vec<u8>) -> bool {
        self.events.send(Event::Came(from, bytes)).await.is_ok()
    }
}
