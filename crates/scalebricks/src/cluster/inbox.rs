//! What comes from other nodes, on its way to the actor.

use super::event::Event;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// What comes from other nodes.
#[derive(Clone)]
pub struct Inbox {
    pub(super) events: mpsc::Sender<Event>,
    pub(super) beats: Arc<Beats>,
}

/// The newest beat of each node, beside the queue: a node that has much to do must not take the others for dead.
#[derive(Default)]
pub(super) struct Beats(Mutex<BTreeMap<NodeId, u64>>);

impl Beats {
    /// Those that came since the last call.
    pub(super) fn take(&self) -> BTreeMap<NodeId, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)) // whole at any time
    }
}

impl Inbox {
    /// Another node is alive. Never waits; of several that were not looked at yet the newest is kept.
    pub fn beat(&self, from: NodeId, life: u64) {
        self.beats.0.lock().unwrap_or_else(PoisonError::into_inner).insert(from, life);
    }

    /// Another node sent this. Waits for room; false: nobody is there any more.
    pub async fn came(&self, from: NodeId, bytes: Vec<u8>) -> bool {
        self.events.send(Event::Came(from, bytes)).await.is_ok()
    }
}
