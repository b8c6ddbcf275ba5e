//! Connections from peers, over which their messages come.

use super::counters::{PeerCount, StrangerCount};
use super::frame::{self, Frames};
use super::handshake::{self, Refusal};
use super::{MeshState, lock, prepare};
use ring::hmac::Key;
use scalebricks_types::NodeId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Time to wait after a failed accept: most likely the process has no free descriptor.
const RETRY: Duration = Duration::from_millis(50);

/// Bytes that are read ahead.
const AHEAD: usize = 64 * 1024;

/// Accepts connections until the mesh ends. Few connections may be unidentified: a new one replaces the oldest, so a peer, which
/// needs only a moment, gets through among many strangers.
pub(super) async fn run(shared: Arc<MeshState>, listener: TcpListener) {
    let mut unknown: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            shared.strangers.one(StrangerCount::AcceptFailed);
            sleep(RETRY).await;
            continue;
        };
        unknown.retain(|task| !task.is_finished());
        if unknown.len() >= shared.limits.unknown_connections
            && let Some(oldest) = unknown.pop_front()
        {
            oldest.abort();
            shared.strangers.one(StrangerCount::ConnectionCrowdedOut);
        }
        unknown.push_back(shared.spawn(admit(Arc::clone(&shared), stream)));
    }
}

/// Identifies the peer of a connection, and starts to read it.
async fn admit(shared: Arc<MeshState>, mut stream: TcpStream) {
    match timeout(shared.limits.handshake_time, shake_hands(&shared, &mut stream)).await {
        Ok(Ok((peer, key))) => receive(&shared, peer, stream, Frames::new(key)),
        Ok(Err(refusal)) => shared.strangers.one(match refusal {
            Refusal::Malformed => StrangerCount::ConnectionMalformed,
            Refusal::Misdirected => StrangerCount::ConnectionMisdirected,
            Refusal::WrongKey => StrangerCount::ConnectionWrongKey,
            Refusal::Unfinished => StrangerCount::ConnectionUnfinished,
        }),
        Err(_) => shared.strangers.one(StrangerCount::ConnectionTimedOut),
    }
}

async fn shake_hands(shared: &MeshState, stream: &mut TcpStream) -> Result<(NodeId, Key), Refusal> {
    prepare(stream, shared.limits.silence)?;
    handshake::accept(stream, &shared.keys, |hello| {
        hello.receiver == shared.node && shared.peers.contains_key(&hello.sender)
    })
    .await
}

/// Starts a task that reads this connection, instead of the peer's previous one.
fn receive(shared: &Arc<MeshState>, peer: NodeId, stream: TcpStream, frames: Frames) {
    shared.count(peer, PeerCount::Accepted, 1);
    let mut readers = lock(&shared.readers);
    let reader = shared.spawn(read(Arc::clone(shared), peer, stream, frames));
    if let Some(last) = readers.insert(peer, reader) {
        last.abort();
    }
}

async fn read(shared: Arc<MeshState>, peer: NodeId, stream: TcpStream, mut frames: Frames) {
    let mut stream = BufReader::with_capacity(AHEAD, stream);
    let limits = shared.limits;
    let end = loop {
        match frames.read(&mut stream, limits.message_bytes, limits.silence).await {
            Ok(empty) if empty.is_empty() => {}
            Ok(payload) => {
                shared.count(peer, PeerCount::MessagesReceived, 1);
                shared.count(peer, PeerCount::BytesReceived, payload.len());
                shared.inbox.message(peer, payload).await;
            }
            Err(refusal) => break refusal,
        }
    };
    let what = match end {
        frame::Refusal::Broken => PeerCount::Broken,
        frame::Refusal::Silent => PeerCount::Silent,
        frame::Refusal::TooLarge => PeerCount::FrameTooLarge,
        frame::Refusal::WrongKey => PeerCount::FrameWrongKey,
    };
    shared.count(peer, what, 1);
    tracing::info!(%peer, why = what.name(), "connection from a peer ended");
}
