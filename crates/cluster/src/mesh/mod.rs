//! The mesh: *heartbeats* over UDP, by which the nodes of a cluster detect which nodes are alive, and *messages* over TCP. Payloads
//! are opaque.
//!
//! A heartbeat goes to all peers and may be lost. Messages to a peer arrive in order while its connection lasts. When it breaks,
//! queued and sent messages may be lost without notice; none is duplicated. `docs/adr/0017-control-mesh.md` gives the reasons, and
//! why no existing library is used.
//!
//! # Guarantees and limits
//!
//! All nodes share a key. A party without it can neither forge, alter nor replay messages of a peer. It can read everything: there
//! is no secrecy. A party between two nodes can delay messages; then a dead node looks alive for up to two seconds. A party *with*
//! the key, so every node, can speak for any other. Traffic of strangers costs a checksum or one of few connections, and is
//! counted ([`StrangerCount`]), never logged one by one.
//!
//! # Wire format
//!
//! Numbers are little-endian, encoded with borsh. A code is HMAC-SHA256, 32 bytes. Keys are
//! `HMAC(cluster key, "scalebricks mesh 1 " purpose
//! " " cluster name)`, with the purposes `datagrams`, `handshake` and `connections`.
//!
//! **Datagrams**, of up to 1,292 bytes:
//!
//! | bytes | content |
//! |---|---|
//! | 1 | version, 2 |
//! | 1 | kind: 1 heartbeat, 2 greeting |
//! | 1, 1 | sender, receiver |
//! | 16 | the sender's session, drawn at its start |
//! | 8 | counter, rising with each datagram of the session to this receiver |
//! | 16 | the ticket that the sender gives the receiver |
//! | 16 | the ticket that the receiver gave the sender, or zeros |
//! | 0 to 1,200 | payload; a greeting has none |
//! | 32 | code of all before |
//!
//! A datagram is accepted if its counter is higher than all before it in the session, and the session has proven itself in the
//! last two seconds, by bearing a ticket that was created in that time and not borne before. Other datagrams are answered by a
//! greeting, to the peer's configured address, that bears their ticket; a new session that has proven itself is greeted as well.
//! So a starting node is accepted after one and a half round trips, without a clock or a file, and a link must work in both
//! directions for either node to see the other.
//!
//! **Connections.** Each node connects to each peer, and only the connecting end sends messages.
//!
//! | end | bytes | content |
//! |---|---|---|
//! | connecting | 4, 1, 1, 32 | `SBM` and version 2, sender, receiver, nonce: *hello* |
//! | accepting | 32, 32 | nonce, code of `"accept"` hello nonce |
//! | connecting | 32 | code of `"connect"` hello nonce |
//! | connecting, any number of times | 4, 32, length | length, code, payload: a frame |
//!
//! The code of a frame covers its number on the connection (8 bytes), the length and the payload, with the key
//! `HMAC(connections, hello nonce)`. An empty frame is a keep-alive.

mod beats;
mod config;
mod counters;
mod datagram;
mod frame;
mod handshake;
mod inbox;
mod incoming;
mod keys;
mod outbox;
mod outgoing;
mod proof;
#[cfg(test)]
mod tests;

pub use config::{ClusterKey, MeshConfig, MeshError, MeshLimits};
pub use counters::{MeshStats, PeerCount, PeerStats, StrangerCount};
pub use datagram::BEAT_BYTES;
pub use inbox::{Event, Events};

use beats::Beats;
use bytes::Bytes;
use counters::{PeerCounters, StrangerCounters};
use inbox::Inbox;
use keys::Keys;
use outbox::Outbox;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How many ports are tried if only TCP has the chosen one free.
const PORT_TRIES: usize = 16;

/// Why a message was not sent. Counted if it was for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The node is no peer.
    #[error("{0} is not a peer")]
    NoPeer(NodeId),
    /// The payload is empty, or longer than the limit.
    #[error("a payload of {0} bytes is empty or too long")]
    Length(usize),
    /// The peer's queue is full.
    #[error("the queue to {0} is full")]
    Full(NodeId),
}

/// One node's end of the mesh. Dropping it ends all its connections and tasks.
pub struct Mesh {
    shared: Arc<MeshState>,
    address: SocketAddr,
}

/// State shared by the tasks of a mesh.
struct MeshState {
    node: NodeId,
    limits: MeshLimits,
    keys: Keys,
    peers: BTreeMap<NodeId, Peer>,
    strangers: StrangerCounters,
    inbox: Arc<Inbox>,
    beats: Beats,
    /// The task that reads from each peer.
    readers: Mutex<BTreeMap<NodeId, AbortHandle>>,
    /// Connections to peers so far.
    connections: AtomicU64,
    /// Stops all tasks; each holds a receiver.
    stop: watch::Sender<bool>,
}

struct Peer {
    address: SocketAddr,
    outbox: Arc<Outbox>,
    counters: PeerCounters,
}

impl Mesh {
    /// Listens, and connects to all peers, on tasks of the current tokio runtime.
    ///
    /// # Errors
    /// [`MeshError`], before anything is sent.
    pub fn start(config: MeshConfig) -> Result<(Self, Events), MeshError> {
        config.limits.check()?;
        let _runtime = tokio::runtime::Handle::try_current().map_err(|_| MeshError::NoRuntime)?;
        let failed = |error| MeshError::Listen { address: config.listen, error };
        let (tcp, udp) = listen(config.listen).map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        let incoming_udp = udp.try_clone().and_then(tokio::net::UdpSocket::from_std).map_err(failed)?;
        let incoming_tcp = tokio::net::TcpListener::from_std(tcp).map_err(failed)?;
        let shared = Arc::new(MeshState::new(config, udp)?);
        shared.spawn(beats::receive(Arc::clone(&shared), incoming_udp));
        shared.spawn(incoming::run(Arc::clone(&shared), incoming_tcp));
        for (id, peer) in &shared.peers {
            let outbox = Arc::clone(&peer.outbox);
            shared.spawn(outgoing::run(Arc::clone(&shared), *id, peer.address, outbox));
        }
        shared.greet_all();
        let events = Events(Arc::clone(&shared.inbox));
        Ok((Self { shared, address }, events))
    }

    /// The listening address, with the chosen port if port 0 was configured.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a message to a peer, after all that was sent to it before. Never waits.
    ///
    /// # Errors
    /// [`SendError`], if it is not for a peer, not of a length from 1 to the limit, or if too much waits already.
    pub fn send(&self, to: NodeId, message: impl Into<Bytes>) -> Result<(), SendError> {
        let message = message.into();
        let peer = self.shared.peers.get(&to).ok_or(SendError::NoPeer(to))?;
        if !(1..=self.shared.limits.message_bytes).contains(&message.len()) {
            peer.counters.one(PeerCount::DroppedTooLong);
            return Err(SendError::Length(message.len()));
        }
        if !peer.outbox.push(message) {
            peer.counters.one(PeerCount::DroppedFull);
            return Err(SendError::Full(to));
        }
        Ok(())
    }

    /// Sends a heartbeat to all peers. Never waits; costs a code and a system call per peer.
    ///
    /// # Errors
    /// [`SendError::Length`] if the payload is longer than [`BEAT_BYTES`].
    pub fn beat(&self, payload: &[u8]) -> Result<(), SendError> {
        if payload.len() > BEAT_BYTES {
            return Err(SendError::Length(payload.len()));
        }
        self.shared.beat(payload);
        Ok(())
    }

    /// All counters.
    pub fn stats(&self) -> MeshStats {
        let of = |(id, peer): (&NodeId, &Peer)| {
            let (waiting, counts) = (peer.outbox.len(), peer.counters.read());
            (*id, PeerStats { is_connected: self.shared.inbox.is_connected(*id), waiting, counts })
        };
        MeshStats {
            peers: self.shared.peers.iter().map(of).collect(),
            strangers: self.shared.strangers.read(),
        }
    }

    /// Ends all connections and tasks, and waits until they have ended. Dropping the mesh does the same without waiting.
    pub async fn close(self) {
        self.stop();
        self.shared.stop.closed().await;
    }

    fn stop(&self) {
        self.shared.stop.send_replace(true);
        self.shared.inbox.close();
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("node", &self.shared.node)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl MeshState {
    fn new(config: MeshConfig, udp: UdpSocket) -> Result<Self, MeshError> {
        let MeshConfig { cluster, node, mut peers, key, limits, .. } = config;
        peers.remove(&node);
        let peer = |address| Peer {
            address,
            outbox: Arc::new(Outbox::new(limits.queue_messages, limits.queue_bytes)),
            counters: PeerCounters::new(),
        };
        Ok(Self {
            node,
            limits,
            keys: Keys::new(&cluster, &key),
            inbox: Arc::new(Inbox::new(peers.keys().copied(), &limits)),
            beats: Beats::new(udp, peers.keys().copied())?,
            peers: peers.into_iter().map(|(id, address)| (id, peer(address))).collect(),
            strangers: StrangerCounters::new(),
            readers: Mutex::default(),
            connections: AtomicU64::new(0),
            stop: watch::Sender::new(false),
        })
    }

    fn count(&self, peer: NodeId, what: PeerCount, more: usize) {
        if let Some(peer) = self.peers.get(&peer) {
            peer.counters.add(what, more);
        }
    }

    /// Runs a task until it ends, or the mesh does.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut stop = self.stop.subscribe();
        let run = async move {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {}
                () = task => {}
            }
        };
        tokio::spawn(run).abort_handle()
    }
}

/// Listens for TCP and UDP on one address. With port 0, tries other ports while only one of the two is free.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut tries = if address.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        let tcp = TcpListener::bind(address)?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => {
                tcp.set_nonblocking(true)?;
                udp.set_nonblocking(true)?;
                return Ok((tcp, udp));
            }
            Err(error) if tries == 1 => return Err(error),
            Err(_) => tries -= 1,
        }
    }
}

/// Options of both ends of a connection: no delay, and a peer that acknowledges nothing for so long is disconnected.
fn prepare(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let silence_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(stream, silence_ms)?;
    Ok(())
}

/// No panic can leave a value under these locks inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
