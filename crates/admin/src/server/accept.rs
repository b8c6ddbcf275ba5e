//! Connections: accepted one by one up to a limit, and served each by a task.

use super::Limits;
use super::stall::Stall;
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

/// How long to wait when the system lets no connection be accepted: it has no descriptor left, most likely.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What the connections of a listener have in common.
#[derive(Clone)]
pub(super) struct Shared {
    router: Router,
    limits: Limits,
    places: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn new(router: Router, limits: Limits) -> Self {
        Self { router, limits, places: Arc::new(Semaphore::new(limits.connections)) }
    }

    /// Waits for a place, then for a connection to take it.
    async fn next<T>(&self, accept: impl AsyncFn() -> io::Result<T>) -> Option<(T, OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        loop {
            match accept().await {
                Ok(stream) => return Some((stream, place)),
                Err(error) => {
                    tracing::warn!(%error, "admin connection not accepted");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let io = TokioIo::new(Stall::new(stream, self.limits.stall_time));
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
pub(super) async fn unix(listener: std::os::unix::net::UnixListener, shared: Shared) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "admin socket not served"),
    };
    while let Some((stream, place)) = shared.next(async || Ok(listener.accept().await?.0)).await {
        spawn(shared.clone().serve(stream), place);
    }
}

/// Serves TLS; never returns.
pub(super) async fn tls(listener: std::net::TcpListener, acceptor: Acceptor, shared: Shared) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "admin address not served"),
    };
    while let Some(((stream, peer), place)) = shared.next(async || listener.accept().await).await {
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        let agree_and_serve = async move {
            match timeout(shared.limits.header_time, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => shared.serve(stream).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS"),
                Err(_) => tracing::debug!(%peer, "TLS took too long"),
            }
        };
        spawn(agree_and_serve, place);
    }
}

/// Runs a connection, which gives its place back when it ends, however it ends.
fn spawn(connection: impl Future<Output = ()> + Send + 'static, place: OwnedSemaphorePermit) {
    tokio::spawn(async move {
        connection.await;
        drop(place);
    });
}
