//! Queues of received events.

use super::config::MeshLimits;
use super::lock;
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Notify;

/// An event of the mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A heartbeat of a peer. Only the newest one not yet taken is kept.
    Beat {
        /// The peer.
        from: NodeId,
        /// Its payload.
        payload: Vec<u8>,
        /// The earliest time at which it can have been sent.
        sent_after: Instant,
    },
    /// A peer sent a message.
    Message {
        /// The peer.
        from: NodeId,
        /// The message.
        payload: Vec<u8>,
    },
    /// Messages can go to this peer.
    Connected {
        /// The peer.
        peer: NodeId,
    },
    /// Messages cannot go to this peer, and some sent messages may be lost. Comes before each next `Connected`.
    Disconnected {
        /// The peer.
        peer: NodeId,
    },
}

/// The received events of a node. Dropping it does not stop the mesh.
pub struct Events(pub(super) Arc<Inbox>);

impl Events {
    /// Waits for the next event; `None` once the mesh has ended. Cancelling the wait loses nothing.
    ///
    /// Changes of connections come first, then heartbeats, then messages: of all peers in turn, and of each in order.
    pub async fn next(&mut self) -> Option<Event> {
        self.first(State::take).await
    }

    /// Like [`Events::next`], without messages.
    pub async fn next_sign(&mut self) -> Option<Event> {
        self.first(State::take_sign).await
    }

    async fn first(&mut self, take: impl Fn(&mut State) -> Option<Event>) -> Option<Event> {
        loop {
            {
                let mut state = lock(&self.0.state);
                if state.is_closed {
                    return None;
                }
                if let Some(event) = take(&mut state) {
                    return Some(event);
                }
            }
            self.0.came.notified().await;
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// Events not yet taken: of each peer a heartbeat, a change of its connection, and a bounded queue of messages.
pub(super) struct Inbox {
    messages: usize,
    bytes: usize,
    state: Mutex<State>,
    came: Notify,
}

struct State {
    lanes: BTreeMap<NodeId, PeerQueue>,
    /// The peer whose message was taken last.
    last: Option<NodeId>,
    is_closed: bool,
}

#[derive(Default)]
struct PeerQueue {
    /// The number of the present connection, and of the one last reported.
    up: Option<u64>,
    told: Option<u64>,
    beat: Option<(Vec<u8>, Instant)>,
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    room: Arc<Notify>,
}

impl Inbox {
    pub(super) fn new(peers: impl Iterator<Item = NodeId>, limits: &MeshLimits) -> Self {
        let lanes = peers.map(|peer| (peer, PeerQueue::default())).collect();
        let state = Mutex::new(State { lanes, last: None, is_closed: false });
        Self { messages: limits.queue_messages, bytes: limits.queue_bytes, state, came: Notify::new() }
    }

    fn change<R>(&self, peer: NodeId, change: impl FnOnce(&mut PeerQueue) -> R) -> Option<R> {
        let result = lock(&self.state).lanes.get_mut(&peer).map(change);
        self.came.notify_one();
        result
    }

    /// Adds a heartbeat; whether it replaced one.
    pub(super) fn beat(&self, from: NodeId, payload: &[u8], sent_after: Instant) -> bool {
        self.change(from, |lane| lane.beat.replace((payload.to_vec(), sent_after)).is_some()).unwrap_or(false)
    }

    /// The connection to this peer has this number, or is down.
    pub(super) fn connection(&self, peer: NodeId, number: Option<u64>) {
        self.change(peer, |lane| lane.up = number);
    }

    pub(super) fn is_connected(&self, peer: NodeId) -> bool {
        lock(&self.state).lanes.get(&peer).is_some_and(|lane| lane.up.is_some())
    }

    /// Waits for room for a message of this peer, and adds it. Only one task at a time may call it for each peer.
    pub(super) async fn message(&self, from: NodeId, payload: Vec<u8>) {
        loop {
            let room = {
                let mut state = lock(&self.state);
                let Some(lane) = state.lanes.get_mut(&from) else { return };
                let is_full = lane.messages.len() >= self.messages || lane.bytes + payload.len() > self.bytes;
                if lane.messages.is_empty() || !is_full {
                    lane.bytes += payload.len();
                    lane.messages.push_back(payload);
                    break;
                }
                Arc::clone(&lane.room)
            };
            room.notified().await;
        }
        self.came.notify_one();
    }

    /// No more events are reported.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.lanes.clear();
        drop(state);
        self.came.notify_one();
    }
}

impl State {
    /// Takes an event other than a message.
    fn take_sign(&mut self) -> Option<Event> {
        for (peer, lane) in &mut self.lanes {
            if lane.told != lane.up {
                let peer = *peer;
                if lane.told.take().is_some() {
                    return Some(Event::Disconnected { peer });
                }
                lane.told = lane.up;
                return Some(Event::Connected { peer });
            }
        }
        for (from, lane) in &mut self.lanes {
            if let Some((payload, sent_after)) = lane.beat.take() {
                return Some(Event::Beat { from: *from, payload, sent_after });
            }
        }
        None
    }

    fn take(&mut self) -> Option<Event> {
        if let Some(sign) = self.take_sign() {
            return Some(sign);
        }
        let waits = |(peer, lane): (&NodeId, &PeerQueue)| (!lane.messages.is_empty()).then_some(*peer);
        let behind = self.lanes.iter().filter(|(peer, _)| Some(**peer) > self.last).find_map(waits);
        let from = behind.or_else(|| self.lanes.iter().find_map(waits))?;
        let lane = self.lanes.get_mut(&from)?;
        let payload = lane.messages.pop_front()?;
        lane.bytes -= payload.len();
        lane.room.notify_one();
        self.last = Some(from);
        Some(Event::Message { from, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const A: NodeId = NodeId::new(1);
    const B: NodeId = NodeId::new(2);

    fn inbox(messages: usize, bytes: usize) -> (Arc<Inbox>, Events) {
        let limits = MeshLimits { queue_messages: messages, queue_bytes: bytes, ..MeshLimits::default() };
        let inbox = Arc::new(Inbox::new([A, B].into_iter(), &limits));
        (Arc::clone(&inbox), Events(inbox))
    }

    #[tokio::test]
    async fn the_newest_heartbeat_wins_and_every_change_is_reported() {
        let (inbox, mut events) = inbox(10, 100);
        let now = Instant::now();
        assert!(!inbox.beat(A, b"1", now));
        assert!(inbox.beat(A, b"2", now));
        inbox.connection(B, Some(1));
        assert_eq!(events.next().await, Some(Event::Connected { peer: B }));
        assert_eq!(
            events.next().await,
            Some(Event::Beat { from: A, payload: b"2".to_vec(), sent_after: now })
        );
        inbox.connection(B, None);
        inbox.connection(B, Some(2));
        assert_eq!(events.next().await, Some(Event::Disconnected { peer: B }));
        assert_eq!(events.next().await, Some(Event::Connected { peer: B }));
        assert!(timeout(Duration::from_millis(10), events.next()).await.is_err());
        inbox.close();
        assert_eq!(events.next().await, None);
    }

    #[tokio::test]
    async fn a_fast_sender_waits_alone() {
        let (inbox, mut events) = inbox(10, 100);
        inbox.message(A, vec![1; 200]).await;
        let waiting = inbox.message(A, vec![2; 1]);
        tokio::pin!(waiting);
        assert!(timeout(Duration::from_millis(10), &mut waiting).await.is_err());
        inbox.message(B, vec![3; 50]).await;
        inbox.message(B, vec![4; 50]).await;
        let mut order = Vec::new();
        for _ in 0..2 {
            let Some(Event::Message { payload, .. }) = events.next().await else { panic!("no message") };
            order.push(payload[0]);
        }
        waiting.await;
        for _ in 0..2 {
            let Some(Event::Message { payload, .. }) = events.next().await else { panic!("no message") };
            order.push(payload[0]);
        }
        assert_eq!(order, [1, 3, 2, 4], "in turn");
    }
}
