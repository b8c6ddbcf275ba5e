//! The client of the admin interface.

mod ask;
mod connect;
mod flows;
mod graph;
mod router;
pub mod sockets;
mod switch;

pub(crate) use ask::Asker;
pub use flows::FlowCall;

use super::model::{CaptureRequest, FlowsProblem, Stats, Status, Trace, TraceRequest};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Longest answer that is read, except for captures.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// How often a capture asks whether to continue while no data arrives.
const POLL: Duration = Duration::from_millis(100);

/// Content type of bodies.
pub(crate) const JSON: &str = "application/json";

/// The address of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Its unix socket.
    Unix(PathBuf),
    /// A TCP address, over TLS.
    Tls {
        /// `host:port`, with the host name of its certificate.
        address: String,
        /// The trusted certificates, PEM.
        ca: PathBuf,
        /// The file with the token.
        token: PathBuf,
    },
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tls { address, .. } => f.write_str(address),
        }
    }
}

/// Errors of the client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No socket was given, and none or several processes answer in the default directory.
    #[error("{0}")]
    NotFound(String),
    /// The socket does not exist.
    #[error("{0}: no such socket; check that the node runs and that this is its admin socket")]
    NoSocket(Target),
    /// No process listens there.
    #[error("{0}: connection refused; the node does not run")]
    Refused(Target),
    /// This user may not connect.
    #[error("{0}: permission denied; only the node's own user may connect")]
    Forbidden(Target),
    /// A file for TLS or the token cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The connection failed.
    #[error("{target}: {error}")]
    Connect {
        /// The node.
        target: Target,
        /// The error of the system.
        error: io::Error,
    },
    /// The node refused.
    #[error("refused: {0}")]
    Refusal(String),
    /// The node refused flows.
    #[error("refused: {}", .0.error)]
    Flows(FlowsProblem),
    /// The node is not ready.
    #[error("the node is not ready: {0}")]
    NotReady(String),
    /// The token is wrong.
    #[error("{0}: the node does not accept the token")]
    Token(Target),
    /// The answer took too long.
    #[error("{0}: no answer within {1} s")]
    TimedOut(Target, u64),
    /// The answer is not in the expected format.
    #[error("{target}: unexpected answer: {what}")]
    Protocol {
        /// The node.
        target: Target,
        /// What is wrong.
        what: String,
    },
    /// An error of this process.
    #[error("{0}")]
    Local(#[source] io::Error),
}

/// A client of one process. It opens a connection for each request.
#[derive(Debug)]
pub struct Client {
    asker: Asker,
    runtime: Runtime,
}

impl Client {
    /// Creates a client that waits this long for an answer.
    ///
    /// # Errors
    /// [`ClientError::Local`].
    pub fn new(target: Target, patience: Duration) -> Result<Self, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ClientError::Local)?;
        Ok(Self { asker: Asker::new(target, patience, MAX_ANSWER_BYTES), runtime })
    }

    /// The status of a node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&self) -> Result<Status, ClientError> {
        self.get("/v1/status")
    }

    /// The counters of a node.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn stats(&self) -> Result<Stats, ClientError> {
        self.get("/v1/stats")
    }

    /// Traces a packet.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn trace(&self, request: &TraceRequest) -> Result<Trace, ClientError> {
        self.post("/v1/trace", request)
    }

    /// The answer at a path, as text.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.answer(Method::GET, path, JSON, Bytes::new())?;
        String::from_utf8(bytes.into()).map_err(|error| self.protocol(&error))
    }

    /// Runs a capture: `sink` gets its bytes as they arrive, and is also called without bytes now and then. The capture
    /// ends when the node has sent everything, or when the sink returns `false`.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Local`] for errors of the sink.
    pub fn capture(
        &self,
        request: &CaptureRequest,
        sink: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> Result<(), ClientError> {
        self.stream(Method::POST, "/v1/capture", self.body(request)?, sink).map(drop)
    }

    /// Passes an answer to the sink as it arrives, as for [`Self::capture`]. Returns whether it is complete.
    fn stream(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        mut sink: impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> Result<bool, ClientError> {
        self.runtime.block_on(async {
            let (_connection, mut answer) = self.asker.open(method, path, JSON, body).await?;
            loop {
                let goes_on = match timeout(POLL, answer.body_mut().frame()).await {
                    Err(_) => sink(&[]),
                    Ok(None) => return Ok(true),
                    Ok(Some(frame)) => {
                        let frame = frame.map_err(|error| self.protocol(&error))?;
                        frame.data_ref().map_or(Ok(true), |bytes| sink(bytes))
                    }
                };
                if !goes_on.map_err(ClientError::Local)? {
                    return Ok(false);
                }
            }
        })
    }

    fn body(&self, request: &impl Serialize) -> Result<Bytes, ClientError> {
        serde_json::to_vec(request).map(Bytes::from).map_err(|error| self.protocol(&error))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(Method::GET, path, JSON, Bytes::new())
    }

    fn post<T: DeserializeOwned>(&self, path: &str, request: &impl Serialize) -> Result<T, ClientError> {
        self.json(Method::POST, path, JSON, self.body(request)?)
    }

    /// Sends a body of this content type; returns the JSON of the answer.
    fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let bytes = self.answer(method, path, kind, body)?;
        serde_json::from_slice(&bytes).map_err(|error| self.protocol(&error))
    }

    /// The answer, if it has a success status.
    fn answer(&self, method: Method, path: &str, kind: &str, body: Bytes) -> Result<Bytes, ClientError> {
        let (code, body) = self.runtime.block_on(self.asker.exchange(method, path, kind, body))?;
        if code.is_success() { Ok(body) } else { Err(self.asker.refusal(code, &body)) }
    }

    fn protocol(&self, what: &impl ToString) -> ClientError {
        self.asker.protocol(what)
    }
}

/// Percent-encodes text for a path or a query (RFC 3986, section 2.3).
fn encoded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut all, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            all.push(char::from(byte));
        } else {
            let _infallible = write!(all, "%{byte:02X}");
        }
        all
    })
}
