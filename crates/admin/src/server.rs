//! The admin server: HTTP over a unix socket of the node's user, and over TLS with a token for others if configured.
//!
//! It runs on one thread of its own. A peer can hold neither it nor its memory: connections, headers, bodies and
//! time are bounded ([`Limits`]).

pub(crate) mod accept;
mod capture;
mod cluster;
mod flows;
pub mod graph;
pub mod process;
pub mod rejected;
pub mod routes;
mod socket;
pub(crate) mod tls;

pub use graph::openapi as graph_openapi;
pub use routes::openapi;

use super::flows::Flows;
use super::graph::ServedGraph;
use super::inspect::Inspect;
use super::runtime_thread::RuntimeThread;
use accept::ConnectionServer;
use axum::Router;
use socket::SocketFile;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tls::Acceptor;
use tokio::runtime::Builder;

/// The addresses of the server, and its limits.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The unix socket, for the node's own user.
    pub socket: PathBuf,
    /// A TCP address.
    pub tcp: Option<TcpListen>,
    /// The limits on peers.
    pub limits: Limits,
}

impl Listen {
    /// On this unix socket only.
    pub fn on(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), tcp: None, limits: Limits::default() }
    }
}

/// A TCP address, always with TLS and a token in every request.
#[derive(Debug, Clone)]
pub struct TcpListen {
    /// The address.
    pub address: SocketAddr,
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// The file with the token, readable only by its owner and group.
    pub token: PathBuf,
}

/// Limits on peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent connections, on the unix socket and on TCP each; further ones wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's headers.
    pub header_bytes: usize,
    /// Bytes of a request's body: enough for the largest frame in hexadecimal digits.
    pub body_bytes: usize,
    /// Time for the TLS handshake, and for a request's headers; also how long a connection may idle.
    pub header_time: Duration,
    /// Time to read and answer a request, except for captures.
    pub request_time: Duration,
    /// Time in which a peer must read some of the waiting bytes.
    pub stall_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            header_bytes: 16 * 1024,
            body_bytes: 160 * 1024,
            header_time: Duration::from_secs(10),
            request_time: Duration::from_secs(10),
            stall_time: Duration::from_secs(60),
        }
    }
}

/// Errors of starting the server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another process answers on the socket.
    #[error("{}: another process listens there", .0.display())]
    InUse(PathBuf),
    /// The path is not a socket.
    #[error("{}: exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The socket could not be created.
    #[error("{}: {error}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The server could not listen at the address.
    #[error("{address}: {error}")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// A file for TLS or the token cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The certificate and its key do not match.
    #[error("certificate and key: {0}")]
    Certificate(String),
    /// The server's thread could not be started.
    #[error("admin server: {0}")]
    Thread(#[source] io::Error),
}

impl Listen {
    /// Checks everything that [`AdminServer::start`] would refuse, and does not listen. Properties of this machine
    /// (addresses, directories, other listeners) are checked only if `is_here`. Returns whether a process listens at
    /// the socket.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn check(&self, is_here: bool) -> Result<bool, ServerError> {
        self.tcp.as_ref().map(Acceptor::new).transpose()?;
        if !is_here {
            return Ok(false);
        }
        let is_running = socket::check(&self.socket)?;
        match self.tcp.as_ref().map(|tcp| bind(tcp.address)) {
            // The process at the socket uses the port.
            Some(Err(ServerError::Tcp { error, .. }))
                if is_running && error.kind() == io::ErrorKind::AddrInUse => {}
            Some(bound) => drop(bound?),
            None => {}
        }
        Ok(is_running)
    }
}

/// A running server. Dropping it stops it and closes its connections.
pub struct AdminServer {
    // Dropped first: the socket's file goes when nobody answers there any more.
    _thread: RuntimeThread,
    socket: SocketFile,
    tcp: Option<SocketAddr>,
}

impl AdminServer {
    /// Starts the server of a node. The socket file of a dead process is replaced; that of a running process is not.
    ///
    /// # Errors
    /// [`ServerError`], before any request is answered.
    pub fn start(listen: &Listen, node: Arc<dyn Inspect>) -> Result<Self, ServerError> {
        Self::start_with(listen, node, None)
    }

    /// Starts the server of a node whose flows are pinned through `flows`; `None`: they come from a file.
    ///
    /// # Errors
    /// [`ServerError`], before any request is answered.
    pub fn start_with(
        listen: &Listen,
        node: Arc<dyn Inspect>,
        flows: Option<Arc<dyn Flows>>,
    ) -> Result<Self, ServerError> {
        let limits = listen.limits;
        Self::serve(listen, move || routes::router(Arc::clone(&node), flows.clone(), limits))
    }

    /// Starts the server of a run of a Click configuration.
    ///
    /// # Errors
    /// [`ServerError`], before any request is answered.
    pub fn start_graph(listen: &Listen, graph: Arc<ServedGraph>) -> Result<Self, ServerError> {
        let limits = listen.limits;
        Self::serve(listen, move || graph::router(Arc::clone(&graph), limits))
    }

    /// Starts a server with any router.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn serve(listen: &Listen, router: impl Fn() -> Router + Send + 'static) -> Result<Self, ServerError> {
        let acceptor = listen.tcp.as_ref().map(Acceptor::new).transpose()?;
        let tcp = listen.tcp.as_ref().map(|tcp| bind(tcp.address)).transpose()?;
        let tcp_address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let (unix, socket) = socket::bind(&listen.socket)?;
        let limits = listen.limits;
        let serve = move || async move {
            let server = |router| ConnectionServer::new(router, limits);
            let unix = accept::unix(unix, server(router()));
            let tls = async {
                match tcp.zip(acceptor) {
                    Some((tcp, acceptor)) => {
                        let router = tls::guard(router(), acceptor.token());
                        accept::tls(tcp, acceptor, server(router)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = unix => {}
                () = tls => {}
            }
        };
        let runtime = &mut Builder::new_current_thread();
        let thread = RuntimeThread::start("admin", runtime, serve).map_err(ServerError::Thread)?;
        tracing::info!(socket = %listen.socket.display(), tcp = ?tcp_address, "admin server listens");
        Ok(Self { socket, tcp: tcp_address, _thread: thread })
    }

    /// The unix socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The TCP address, with the chosen port if the configured one is 0.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        self.tcp
    }
}

pub(crate) fn bind(address: SocketAddr) -> Result<std::net::TcpListener, ServerError> {
    let bound = std::net::TcpListener::bind(address).and_then(|tcp| tcp.set_nonblocking(true).map(|()| tcp));
    bound.map_err(|error| ServerError::Tcp { address, error })
}

impl fmt::Debug for AdminServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminServer")
            .field("socket", &self.socket)
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}
