//! Beats: sent to all peers at once, and judged as they come.

use super::Shared;
use super::config::MeshError;
use super::counters::{PeerCount, StrangerCount};
use super::datagram::{self, DATAGRAM_BYTES, Head, Kind, Refusal, Session};
use super::keys;
use super::lock;
use super::proof::{Link, Verdict};
use ring::hmac::{HMAC_SHA256, Key};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long to wait when the system lets nothing be received.
const RETRY: Duration = Duration::from_millis(50);

/// What is between us and all peers.
pub(super) struct Beats {
    /// Never waits: a datagram that it does not take at once is not sent.
    socket: UdpSocket,
    session: Session,
    secret: Key,
    links: Mutex<BTreeMap<NodeId, Link>>,
}

impl Beats {
    pub(super) fn new(socket: UdpSocket, peers: impl Iterator<Item = NodeId>) -> Result<Self, MeshError> {
        let session = keys::random().ok_or(MeshError::Random)?;
        let secret = Key::new(HMAC_SHA256, &keys::random::<32>().ok_or(MeshError::Random)?);
        let now = Instant::now();
        let links = peers.map(|peer| (peer, Link::new(peer, &secret, now))).collect();
        Ok(Self { socket, session, secret, links: Mutex::new(links) })
    }
}

impl Shared {
    /// Sends a beat to all peers.
    pub(super) fn beat(&self, payload: &[u8]) {
        for peer in self.peers.keys() {
            if let Some(head) = self.head(*peer, Kind::Beat) {
                let is_sent = self.send_datagram(&head, payload);
                let what = if is_sent { PeerCount::BeatsSent } else { PeerCount::BeatsNotSent };
                self.count(*peer, what, 1);
            }
        }
    }

    /// Tells all peers that we are there, so that they have proven themselves, and we ourselves, before the first beat.
    pub(super) fn greet_all(&self) {
        for peer in self.peers.keys() {
            if let Some(head) = self.head(*peer, Kind::Greeting) {
                self.greet(&head);
            }
        }
    }

    /// The next datagram to a peer.
    fn head(&self, peer: NodeId, kind: Kind) -> Option<Head> {
        let (counter, gives, bears) =
            lock(&self.beats.links).get_mut(&peer)?.next(&self.beats.secret, Instant::now());
        Some(Head {
            kind,
            sender: self.node,
            receiver: peer,
            session: self.beats.session,
            counter,
            gives,
            bears,
        })
    }

    fn greet(&self, head: &Head) {
        if self.send_datagram(head, &[]) {
            self.count(head.receiver, PeerCount::GreetingsSent, 1);
        }
    }

    /// Sends a datagram to where the configuration has the peer, wherever something may have come from.
    fn send_datagram(&self, head: &Head, payload: &[u8]) -> bool {
        let bytes = datagram::encode(&self.keys.datagrams, head, payload);
        let to = self.peers.get(&head.receiver).map(|peer| peer.address);
        to.is_some_and(|to: SocketAddr| self.beats.socket.send_to(&bytes, to).is_ok())
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
        // Who comes back is told at once what it needs to believe us, and to be believed.
        let answers = verdict == Verdict::Fresh { is_new: true } || (is_unproven && link.may_greet(now));
        drop(links);
        match verdict {
            Verdict::Fresh { .. } if head.kind == Kind::Beat => {
                self.count(head.sender, PeerCount::BeatsReceived, 1);
                if self.inbox.beat(head.sender, payload) {
                    self.count(head.sender, PeerCount::BeatsReplaced, 1);
                }
            }
            Verdict::Fresh { .. } => {}
            Verdict::Stale => self.count(head.sender, PeerCount::DatagramsStale, 1),
            Verdict::Unproven => self.count(head.sender, PeerCount::DatagramsUnproven, 1),
        }
        if answers && let Some(greeting) = self.head(head.sender, Kind::Greeting) {
            // Its ticket is not kept, as nobody knows how old it is: good enough for an answer to the peer itself.
            let bears = if is_unproven { head.gives } else { greeting.bears };
            self.greet(&Head { bears, ..greeting });
        }
    }
}

/// Takes datagrams for as long as the mesh is there.
pub(super) async fn receive(shared: Arc<Shared>, socket: tokio::net::UdpSocket) {
    // One byte more than any of ours, so that what is cut off is not taken for whole.
    let mut bytes = [0; DATAGRAM_BYTES + 1];
    loop {
        match socket.recv_from(&mut bytes).await {
            Ok((length, _)) => shared.judge(bytes.get(..length).unwrap_or_default()),
            Err(error) => {
                tracing::debug!(%error, "no datagram received");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}
