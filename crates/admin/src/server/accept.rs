//! Accepts connections, up to a limit. A task serves each of them.

use super::Limits;
use super::tls::Acceptor;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutWriter;

/// Pause after a failed accept. The usual cause is that the process has no file descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves the connections of a listener.
#[derive(Clone)]
pub(crate) struct ConnectionServer {
    router: Router,
    limits: Limits,
    permits: Arc<Semaphore>,
}

impl ConnectionServer {
    pub(crate) fn new(router: Router, limits: Limits) -> Self {
        Self { router, limits, permits: Arc::new(Semaphore::new(limits.connections)) }
    }

    /// Waits until the limit allows another connection, then for the connection.
    async fn next<T>(&self, accept: impl AsyncFn() -> io::Result<T>) -> Option<(T, OwnedSemaphorePermit)> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        loop {
            match accept().await {
                Ok(stream) => return Some((stream, permit)),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an admin connection");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        // The HTTP library bounds reading; this bounds writing to a peer that reads nothing.
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.limits.stall_time));
        let io = TokioIo::new(Box::pin(stream));
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_time)
            .max_header_size(self.limits.header_bytes)
            .serve_connection(io, TowerToHyperService::new(self.router))
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "admin connection ended");
        }
    }
}

/// Serves a unix socket; never returns.
pub(crate) async fn unix(listener: std::os::unix::net::UnixListener, server: ConnectionServer) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot serve the admin socket"),
    };
    while let Some((stream, permit)) = server.next(async || Ok(listener.accept().await?.0)).await {
        spawn(server.clone().serve(stream), permit);
    }
}

/// Serves TLS; never returns.
pub(crate) async fn tls(listener: std::net::TcpListener, acceptor: Acceptor, server: ConnectionServer) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot serve the admin address"),
    };
    while let Some(((stream, peer), permit)) = server.next(async || listener.accept().await).await {
        let (acceptor, server) = (acceptor.clone(), server.clone());
        let handshake_and_serve = async move {
            match timeout(server.limits.header_time, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => server.serve(stream).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
            }
        };
        spawn(handshake_and_serve, permit);
    }
}

/// Serves TCP without TLS; never returns.
pub(crate) async fn tcp(listener: std::net::TcpListener, server: ConnectionServer) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot serve the address"),
    };
    while let Some((stream, permit)) = server.next(async || Ok(listener.accept().await?.0)).await {
        spawn(server.clone().serve(stream), permit);
    }
}

/// Runs a connection, and returns its permit when it ends.
fn spawn(connection: impl Future<Output = ()> + Send + 'static, permit: OwnedSemaphorePermit) {
    tokio::spawn(async move {
        connection.await;
        drop(permit);
    });
}
