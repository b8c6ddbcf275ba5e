//! The link to other nodes over the mesh.

use super::heartbeat::{BackupHeartbeat, beat_on};
use super::inbox::Beats;
use super::mesh::{Mesh, SendError};
use super::plane::PeerLink;
use scalebricks_control::codec::Encoded;
use scalebricks_control::membership::Beat;
use scalebricks_types::NodeId;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time between two log lines about unsent messages. All of them are counted.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The mesh as a [`PeerLink`]. Clones share it.
#[derive(Clone)]
pub(super) struct MeshLink {
    mesh: Arc<Mesh>,
    heartbeat: Arc<BackupHeartbeat>,
    /// Received heartbeats, for heartbeats that are sent while the actor is busy.
    received: Arc<Beats>,
    unsent: Arc<Mutex<Unsent>>,
}

/// Messages that the mesh refused since the last log line.
#[derive(Default)]
struct Unsent {
    messages: u64,
    told: Option<Instant>,
}

impl Unsent {
    /// Counts a message. Returns the number since the last log line, if another is due.
    fn one_more(&mut self, now: Instant) -> Option<u64> {
        self.messages += 1;
        if self.told.is_some_and(|told| now < told + TELL_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.messages))
    }
}

impl MeshLink {
    /// Starts the link, with heartbeats while the actor is busy, until the mesh ends.
    pub(super) fn start(mesh: &Arc<Mesh>) -> Self {
        let link = Self {
            mesh: Arc::clone(mesh),
            heartbeat: Arc::default(),
            received: Arc::default(),
            unsent: Arc::default(),
        };
        tokio::spawn(beat_on(Arc::downgrade(mesh), Arc::clone(&link.heartbeat), send_beat));
        link
    }

    /// The same link with these received heartbeats, for heartbeats that are sent while the actor is busy.
    pub(super) fn hearing_by(&self, received: Arc<Beats>) -> Self {
        Self { received, ..self.clone() }
    }

    /// The mesh refused a message. Its sender repeats it if it still matters; one that is too long never arrives.
    fn not_sent(&self, to: NodeId, bytes: usize, error: SendError) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner); // whole at any time
        let Some(messages) = unsent.one_more(Instant::now()) else { return };
        drop(unsent);
        let node = to.get();
        if matches!(error, SendError::Length(_)) {
            tracing::error!(node, bytes, messages, %error, "cannot send control message: it exceeds the frame limit");
        } else {
            tracing::warn!(node, bytes, messages, %error, "cannot send control message");
        }
    }
}

impl PeerLink for MeshLink {
    fn beat(&self, beat: Beat) {
        self.heartbeat.asked(beat, &self.received, Instant::now());
        send_beat(&self.mesh, &beat);
    }

    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        let length = bytes.len();
        if let Err(error) = self.mesh.send(to, bytes) {
            self.not_sent(to, length, error);
        }
    }
}

/// Sends a heartbeat to all nodes. The mesh counts datagrams that the system does not accept; the next one follows.
fn send_beat(mesh: &Mesh, beat: &Beat) {
    if let Err(error) = mesh.beat(&beat.encode()) {
        tracing::error!(%error, "cannot send heartbeat");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsent_messages_are_logged_now_and_then() {
        let (mut unsent, start) = (Unsent::default(), Instant::now());
        let told = |unsent: &mut Unsent, seconds| unsent.one_more(start + Duration::from_secs(seconds));
        assert_eq!(told(&mut unsent, 0), Some(1));
        assert_eq!((told(&mut unsent, 1), told(&mut unsent, 9)), (None, None));
        assert_eq!(told(&mut unsent, 10), Some(3));
    }
}
