//! Beats: sent to all peers at once, and judged as they come.

use super::MeshState;
use super::config::MeshError;
use super::counters::{PeerCount, StrangerCount};
use super::datagram::{self, DATAGRAM_BYTES, Head, Kind, Refusal, SessionId, Ticket};
use super::keys;
use super::lock;
use super::proof::{PeerProof, Verdict};
use ring::hmac::{HMAC_SHA256, Key};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long to wait when the system lets nothing be received.
const RETRY: Duration = Duration::from_millis(50);

/// The links to all peers.
pub(super) struct Beats {
    /// Never waits: a datagram that it does not take at once is not sent.
    socket: UdpSocket,
    session: SessionId,
    secret: Key,
    links: Mutex<BTreeMap<NodeId, PeerProof>>,
}

impl Beats {
    pub(super) fn new(socket: UdpSocket, peers: impl Iterator<Item = NodeId>) -> Result<Self, MeshError> {
        let session = keys::random().ok_or(MeshError::Random)?;
        let secret = Key::new(HMAC_SHA256, &keys::random::<32>().ok_or(MeshError::Random)?);
        let now = Instant::now();
        let links = peers.map(|peer| (peer, PeerProof::new(peer, &secret, now))).collect();
        Ok(Self { socket, session, secret, links: Mutex::new(links) })
    }
}

impl MeshState {
    /// Sends a beat to all peers.
    pub(super) fn beat(&self, payload: &[u8]) {
        for peer in self.peers.keys() {
            let is_sent = self.say(*peer, Kind::Beat, None, payload);
            let what = if is_sent { PeerCount::BeatsSent } else { PeerCount::BeatsNotSent };
            self.count(*peer, what, 1);
        }
    }

    /// Sends greetings to all peers, so that both ends have proven themselves before the first heartbeat.
    pub(super) fn greet_all(&self) {
        for peer in self.peers.keys() {
            self.greet(*peer, None);
        }
    }

    fn greet(&self, peer: NodeId, bears: Option<Ticket>) {
        if self.say(peer, Kind::Greeting, bears, &[]) {
            self.count(peer, PeerCount::GreetingsSent, 1);
        }
    }

    /// Sends a datagram to the peer's configured address, not to the source of an earlier one. It bears the peer's last ticket, or
    /// this one. Takes the lock, so that counters rise on the wire as well.
    fn say(&self, receiver: NodeId, kind: Kind, bears: Option<Ticket>, payload: &[u8]) -> bool {
        let mut links = lock(&self.beats.links);
        let (Some(link), Some(peer)) = (links.get_mut(&receiver), self.peers.get(&receiver)) else {
            return false;
        };
        let (counter, gives, last) = link.next(&self.beats.secret, Instant::now());
        let (sender, session, bears) = (self.node, self.beats.session, bears.unwrap_or(last));
        let head = Head { kind, sender, receiver, session, counter, gives, bears };
        let bytes = datagram::encode(&self.keys.datagrams, &head, payload);
        self.beats.socket.send_to(&bytes, peer.address).is_ok()
    }

    fn judge(&self, bytes: &[u8]) {
        let (head, payload) = match datagram::decode(&self.keys.datagrams, bytes) {
            Ok(said) => said,
            Err(Refusal::Malformed) => return self.strangers.one(StrangerCount::DatagramMalformed),
            Err(Refusal::WrongKey) => return self.strangers.one(StrangerCount::DatagramWrongKey),
        };
        let now = Instant::now();
        let mut links = lock(&self.beats.links);
        let link = links.get_mut(&head.sender).filter(|_| head.receiver == self.node);
        let Some(link) = link else { return self.strangers.one(StrangerCount::DatagramMisdirected) };
        let verdict = link.judge(&self.beats.secret, &head, now);
        let is_unproven = verdict == Verdict::Unproven;
        // A peer that comes back immediately gets what it needs to believe this node and to be believed.
        let answers = verdict == Verdict::Fresh { is_new: true } || (is_unproven && link.may_greet(now));
        let sent_after = link.sent_after();
        drop(links);
        match verdict {
            Verdict::Fresh { .. } if head.kind == Kind::Beat => {
                self.count(head.sender, PeerCount::BeatsReceived, 1);
                if self.inbox.beat(head.sender, payload, sent_after) {
                    self.count(head.sender, PeerCount::BeatsReplaced, 1);
                }
            }
            Verdict::Fresh { .. } => {}
            Verdict::Stale => self.count(head.sender, PeerCount::DatagramsStale, 1),
            Verdict::Unproven => self.count(head.sender, PeerCount::DatagramsUnproven, 1),
        }
        if answers {
            // Its ticket is not kept, as its age is unknown; it is good enough for an answer to the peer itself.
            self.greet(head.sender, is_unproven.then_some(head.gives));
        }
    }
}

/// Receives datagrams until the mesh ends.
pub(super) async fn receive(shared: Arc<MeshState>, socket: tokio::net::UdpSocket) {
    // One byte more than the longest datagram, to detect longer ones.
    let mut bytes = [0; DATAGRAM_BYTES + 1];
    loop {
        match socket.recv_from(&mut bytes).await {
            Ok((length, _)) => shared.judge(bytes.get(..length).unwrap_or_default()),
            Err(error) => {
                tracing::debug!(%error, "cannot receive a datagram");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}
