//! The connection to a peer, over which messages go to it.

use super::counters::PeerCount;
use super::frame::Frames;
use super::handshake::{self, Refusal};
use super::outbox::Outbox;
use super::{MeshState, prepare};
use ring::hmac::Key;
use scalebricks_types::NodeId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Connects to a peer, repeatedly, and sends the messages in its queue.
pub(super) async fn run(shared: Arc<MeshState>, peer: NodeId, address: SocketAddr, outbox: Arc<Outbox>) {
    let mut retry = shared.limits.first_retry;
    let mut was_wrong = false;
    loop {
        let connecting = connect(&shared, peer, address);
        match timeout(shared.limits.handshake_time, connecting).await.unwrap_or(Err(Refusal::Unfinished)) {
            Ok((stream, key)) => {
                let number = shared.connections.fetch_add(1, Ordering::Relaxed);
                shared.count(peer, PeerCount::Connected, 1);
                shared.inbox.connection(peer, Some(number));
                tracing::info!(%peer, %address, "connected");
                let start = Instant::now();
                send(&shared, peer, stream, Frames::new(key), &outbox).await;
                shared.inbox.connection(peer, None);
                tracing::warn!(%peer, %address, "connection lost");
                was_wrong = false;
                // A connection that failed quickly is not retried at once.
                if start.elapsed() >= shared.limits.last_retry {
                    retry = shared.limits.first_retry;
                }
            }
            Err(refusal) => {
                let is_wrong = matches!(refusal, Refusal::WrongKey);
                let what = if is_wrong { PeerCount::ConnectWrongKey } else { PeerCount::ConnectFailed };
                shared.count(peer, what, 1);
                if is_wrong && !was_wrong {
                    tracing::warn!(%peer, %address, "the server at the peer's address does not have the key of this cluster");
                }
                was_wrong |= is_wrong;
            }
        }
        // Queued messages would be outdated on arrival; their senders repeat them.
        shared.count(peer, PeerCount::DroppedUnconnected, outbox.clear());
        sleep(retry).await;
        retry = (retry * 2).min(shared.limits.last_retry);
    }
}

async fn connect(shared: &MeshState, peer: NodeId, address: SocketAddr) -> Result<(TcpStream, Key), Refusal> {
    let mut stream = TcpStream::connect(address).await?;
    prepare(&stream, shared.limits.silence)?;
    let key = handshake::connect(&mut stream, &shared.keys, (shared.node, peer)).await?;
    Ok((stream, key))
}

/// Sends messages, and keep-alives if there are none for a while, until the connection breaks.
async fn send(shared: &MeshState, peer: NodeId, mut stream: TcpStream, mut frames: Frames, outbox: &Outbox) {
    let (mut from, mut to) = stream.split();
    let pause = shared.limits.silence / 4;
    let mut nothing = [0];
    loop {
        let message = tokio::select! {
            message = outbox.pop() => Some(message),
            () = sleep(pause) => None,
            // The peer never sends anything here: it closed the connection, or is not a node.
            _ = from.read(&mut nothing) => return,
        };
        let payload = message.as_deref().unwrap_or_default();
        // A peer that acknowledges nothing for too long breaks the connection: TCP_USER_TIMEOUT.
        if frames.write(&mut to, payload).await.is_err() {
            shared.count(peer, PeerCount::DroppedUnconnected, usize::from(message.is_some()));
            return;
        }
        if message.is_some() {
            shared.count(peer, PeerCount::MessagesSent, 1);
            shared.count(peer, PeerCount::BytesSent, payload.len());
        }
    }
}
