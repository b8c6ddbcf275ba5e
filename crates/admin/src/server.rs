//! The admin server: HTTP over a unix socket of the node's user, and over TLS with a token for others if configured.
//!
//! It runs on one thread of its own. A peer can hold neither it nor its memory: connections, headers, bodies and
//! time are bounded ([`Limits`]).

mod accept;
mod capture;
mod cluster;
mod flows;
pub mod graph;
pub mod rejected;
pub mod routes;
mod socket;
mod tls;

pub use graph::openapi as graph_openapi;
pub use routes::openapi;

use super::flows::Flows;
use super::graph::ServedGraph;
use super::inspect::Inspect;
use accept::ConnectionServer;
use axum::Router;
use socket::SocketFile;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tls::Acceptor;
use tokio::sync::watch;

/// Where the server listens.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The unix socket, for the node's own user.
    pub socket: PathBuf,
    /// An address for others.
    pub tcp: Option<TcpListen>,
    /// What a peer may ask for.
    pub limits: Limits,
}

impl Listen {
    /// On this unix socket only.
    pub fn on(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), tcp: None, limits: Limits::default() }
    }
}

/// An address for others: only ever with TLS, and a token in every request.
#[derive(Debug, Clone)]
pub struct TcpListen {
    /// The address.
    pub address: SocketAddr,
    /// The certificate chain, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// The file that holds the token, which nobody but its owner and group may read.
    pub token: PathBuf,
}

/// What a peer may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once, on the unix socket and on TCP each; further ones wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's headers.
    pub header_bytes: usize,
    /// Bytes of a request's body: the largest frame in hexadecimal digits, and words around it.
    pub body_bytes: usize,
    /// Time for TLS to be agreed on, and for a request's headers to arrive; also how long a connection may idle.
    pub header_time: Duration,
    /// Time for a request to be read and answered, captures apart.
    pub request_time: Duration,
    /// Time in which a peer must take something of what waits for it.
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

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another process answers on the socket.
    #[error("{}: another process listens there already", .0.display())]
    InUse(PathBuf),
    /// The path is taken by something that is no socket.
    #[error("{}: is there and is no socket", .0.display())]
    NotASocket(PathBuf),
    /// The socket could not be made.
    #[error("{}: {error}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The address could not be listened on.
    #[error("{address}: {error}")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A file that TLS or the token needs.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The certificate and its key do not fit.
    #[error("certificate and key: {0}")]
    Certificate(String),
    /// The server's thread.
    #[error("admin server: {0}")]
    Thread(#[source] io::Error),
}

impl Listen {
    /// Checks what [`AdminServer::start`] would refuse, and listens nowhere. What depends on this machine (addresses, directories,
    /// who listens already) is checked only if `is_here`. Whether a process listens at the socket already.
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
            // The port is that of the process at the socket.
            Some(Err(ServerError::Tcp { error, .. }))
                if is_running && error.kind() == io::ErrorKind::AddrInUse => {}
            Some(bound) => drop(bound?),
            None => {}
        }
        Ok(is_running)
    }
}

/// A running server. Dropping it ends it, with all its connections.
pub struct AdminServer {
    socket: SocketFile,
    tcp: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Starts to listen. A socket file that a dead process left is replaced; one that somebody answers on is not.
    ///
    /// # Errors
    /// [`ServerError`], before anything is answered.
    pub fn start(listen: &Listen, node: Arc<dyn Inspect>) -> Result<Self, ServerError> {
        Self::start_with(listen, node, None)
    }

    /// The same, for a node whose flows are pinned through `flows`; with none they come from a file.
    ///
    /// # Errors
    /// [`ServerError`], before anything is answered.
    pub fn start_with(
        listen: &Listen,
        node: Arc<dyn Inspect>,
        flows: Option<Arc<dyn Flows>>,
    ) -> Result<Self, ServerError> {
        let limits = listen.limits;
        Self::serve(listen, move || routes::router(Arc::clone(&node), flows.clone(), limits))
    }

    /// The same for a run of a configuration in the Click language.
    ///
    /// # Errors
    /// [`ServerError`], before anything is answered.
    pub fn start_graph(listen: &Listen, graph: Arc<ServedGraph>) -> Result<Self, ServerError> {
        let limits = listen.limits;
        Self::serve(listen, move || graph::router(Arc::clone(&graph), limits))
    }

    /// The same for whatever answers.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn serve(listen: &Listen, router: impl Fn() -> Router + Send + 'static) -> Result<Self, ServerError> {
        let acceptor = listen.tcp.as_ref().map(Acceptor::new).transpose()?;
        let tcp = listen.tcp.as_ref().map(|tcp| bind(tcp.address)).transpose()?;
        let tcp_address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let (unix, socket) = socket::bind(&listen.socket)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServerError::Thread)?;
        let (stop, mut stopped) = watch::channel(false);
        let limits = listen.limits;
        // Made on its own thread: connections are tasks of the runtime, and end when it is dropped.
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
                _ = stopped.wait_for(|stop| *stop) => {}
            }
        };
        let run = move || runtime.block_on(serve());
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(run);
        let thread = Some(thread.map_err(ServerError::Thread)?);
        tracing::info!(socket = %listen.socket.display(), tcp = ?tcp_address, "admin server listens");
        Ok(Self { socket, tcp: tcp_address, stop, thread })
    }

    /// The unix socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// The TCP address, with the port that was chosen if 0 was asked for.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        self.tcp
    }
}

fn bind(address: SocketAddr) -> Result<std::net::TcpListener, ServerError> {
    let bound = std::net::TcpListener::bind(address).and_then(|tcp| tcp.set_nonblocking(true).map(|()| tcp));
    bound.map_err(|error| ServerError::Tcp { address, error })
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the admin server had panicked");
        }
    }
}

impl fmt::Debug for AdminServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminServer")
            .field("socket", &self.socket)
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}
