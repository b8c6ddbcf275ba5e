//! The dashboard's server: HTTP on a loopback address, or HTTPS; data only with the token.

use super::nodes::Nodes;
use super::{api, assets};
use crate::runtime_thread::RuntimeThread;
use crate::server::accept::{self, ConnectionServer};
use crate::server::routes::{bounded, problem};
use crate::server::tls::{Acceptor, Token, guard};
use crate::server::{Limits, ServerError, TcpListen, bind};
use axum::Router;
use axum::http::StatusCode;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Builder;

/// Where the dashboard is served, and to whom.
#[derive(Debug, Clone)]
pub struct Place {
    /// The address.
    pub address: SocketAddr,
    /// Who gets data.
    pub access: Access,
}

/// Who gets data.
#[derive(Debug, Clone)]
pub enum Access {
    /// On a loopback address, without TLS: who knows the token of this file, or a new one.
    Local(Option<PathBuf>),
    /// Over TLS, with this certificate chain, its key, and the file with the token.
    Tls {
        /// The certificate chain, PEM.
        certificate: PathBuf,
        /// Its key, PEM.
        key: PathBuf,
        /// The file with the token.
        token: PathBuf,
    },
}

/// A running server. Dropping it stops it and closes its connections.
pub struct DashboardServer {
    address: SocketAddr,
    is_tls: bool,
    /// The token, if it was made here.
    made: Option<String>,
    _thread: RuntimeThread,
}

impl DashboardServer {
    /// Starts the server.
    ///
    /// # Errors
    /// [`ServerError`], before any request is answered.
    pub fn start(place: &Place, nodes: Nodes) -> Result<Self, ServerError> {
        let mut made = None;
        let (acceptor, token) = match &place.access {
            Access::Tls { certificate, key, token } => {
                let listen = TcpListen {
                    address: place.address,
                    certificate: certificate.clone(),
                    key: key.clone(),
                    token: token.clone(),
                };
                let acceptor = Acceptor::new(&listen)?;
                let token = acceptor.token();
                (Some(acceptor), token)
            }
            Access::Local(Some(file)) => (None, Token::read(file)?),
            Access::Local(None) => {
                let (token, text) = Token::draw()?;
                made = Some(text);
                (None, token)
            }
        };
        let tcp = bind(place.address)?;
        let address = tcp.local_addr().map_err(|error| ServerError::Tcp { address: place.address, error })?;
        let is_tls = acceptor.is_some();
        let nodes = Arc::new(nodes);
        let serve = move || async move {
            let limits = Limits::default();
            let server = ConnectionServer::new(router(Arc::clone(&nodes), token, limits), limits);
            let listen = async {
                match acceptor {
                    Some(acceptor) => accept::tls(tcp, acceptor, server).await,
                    None => accept::tcp(tcp, server).await,
                }
            };
            tokio::select! {
                () = listen => {}
                () = nodes.poll() => {}
            }
        };
        let runtime = &mut Builder::new_current_thread();
        let thread = RuntimeThread::start("dashboard", runtime, serve).map_err(ServerError::Thread)?;
        Ok(Self { address, is_tls, made, _thread: thread })
    }

    /// The address, with the chosen port if the given one is 0.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the user is told: where the page is. The part after `#` stays in the browser: it is in no request and no log.
    pub fn invitation(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        let token = self.made.as_ref().map(|token| format!("#token={token}")).unwrap_or_default();
        format!("{scheme}://{}/{token}", self.address)
    }
}

impl fmt::Debug for DashboardServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DashboardServer").field("address", &self.address).finish_non_exhaustive()
    }
}

fn router(nodes: Arc<Nodes>, token: Token, limits: Limits) -> Router {
    let data = guard(api::routes(nodes), token);
    let all = bounded(assets::routes().merge(data), limits);
    assets::confined(
        all.fallback(|| async { problem(StatusCode::NOT_FOUND, "the dashboard has no such page") }),
    )
}
