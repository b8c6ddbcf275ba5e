//! Options, and errors of connecting.

use async_nats::{ConnectOptions, ServerAddr};
use scalebricks_control::engine::MAX_BATCH_BYTES;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The oldest usable version of servers.
pub(super) const OLDEST_SERVER: (u64, u64) = (2, 15);

/// Required maximum size of messages: a batch and its headers.
pub(super) const MESSAGE_BYTES: usize = MAX_BATCH_BYTES + 1024;

/// Credentials at the servers.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Auth {
    /// None, or a client certificate.
    #[default]
    None,
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Token(String),
    /// A credentials file of `nsc`.
    Credentials(PathBuf),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Password { user, .. } => {
                f.debug_struct("Password").field("user", user).finish_non_exhaustive()
            }
            Self::Token(_) => f.write_str("Token"),
            Self::Credentials(path) => f.debug_tuple("Credentials").field(path).finish(),
        }
    }
}

/// Files for TLS, in the PEM format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificate authorities of the servers; `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// Client certificate and its key, if servers require one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Options of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Servers of one cluster, as `nats://HOST:PORT`. One is enough to discover the others; more help while one is
    /// down.
    pub servers: Vec<String>,
    /// Prefix of all names on the servers, so that several clusters can share them: 1 to 32 of `a` to `z`, `0` to `9`,
    /// `-` and `_`.
    pub prefix: String,
    /// Servers that store each log: 1, 3 or 5. Checked for an existing log, never changed.
    pub replicas: u8,
    /// Credentials at the servers.
    pub auth: Auth,
    /// TLS; required if set.
    pub tls: Option<Tls>,
    /// Whether to use servers that the named ones announce. Turn it off if the announced addresses cannot be reached,
    /// or are not in the servers' certificates.
    pub discover: bool,
    /// Time after which a call returns *unknown* or *unavailable*: 100 ms to 1 h.
    pub timeout: Duration,
    /// Time after which a log that ends before entries that were seen is accepted, if its leader reports that end all
    /// the time: servers that are cut off or elect a leader may lag for some seconds. 100 ms to 1 h.
    pub lost_after: Duration,
    /// Bytes of batches and messages that may wait for the servers, at least 2 MiB. Further calls wait, and are refused
    /// after `timeout`. A small batch counts as 4 KiB.
    pub in_flight_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            prefix: "scalebricks".to_owned(),
            replicas: 3,
            auth: Auth::None,
            tls: None,
            discover: true,
            timeout: Duration::from_secs(5),
            lost_after: Duration::from_secs(30),
            in_flight_bytes: 64 << 20,
        }
    }
}

impl Options {
    /// Checks everything that needs no server. Reads the credentials file.
    ///
    /// # Errors
    /// [`OpenError::Options`] and [`OpenError::Credentials`].
    pub fn check(&self) -> Result<(), OpenError> {
        for (at, server) in self.servers.iter().enumerate() {
            check_server(server).map_err(OpenError::Options)?;
            if self.servers[..at].contains(server) {
                return Err(OpenError::Options(format!("server {server} is named twice")));
            }
        }
        if let Auth::Credentials(path) = &self.auth {
            read_credentials(path)?;
        }
        let problem = if self.servers.is_empty() {
            "no server is configured"
        } else if !is_prefix_name(&self.prefix) {
            "the prefix must be 1 to 32 of a-z 0-9 - _"
        } else if ![1, 3, 5].contains(&self.replicas) {
            "replicas must be 1, 3 or 5"
        } else if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&self.timeout) {
            "timeout must be 100 ms to 1 h"
        } else if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&self.lost_after) {
            "lost_after must be 100 ms to 1 h"
        } else if !(2 << 20..=1 << 40).contains(&self.in_flight_bytes) {
            "in_flight_bytes must be at least 2 MiB"
        } else {
            return Ok(());
        };
        Err(OpenError::Options(problem.to_owned()))
    }

    /// Options of the client. Reads the credentials file.
    pub(super) fn for_client(&self) -> Result<ConnectOptions, OpenError> {
        let mut options = ConnectOptions::new()
            .name(format!("scalebricks {}", self.prefix))
            .connection_timeout(self.timeout.min(Duration::from_secs(5)))
            .ping_interval(Duration::from_secs(2)) // two missed pings end a connection
            .subscription_capacity(16 << 10)
            .client_capacity(1024)
            .skip_subject_validation(true)
            .reconnect_delay_callback(|attempt| Duration::from_millis([0, 50, 100, 250][attempt.min(3)]));
        if !self.discover {
            options = options.ignore_discovered_servers();
        }
        options = match &self.auth {
            Auth::None => options,
            Auth::Password { user, password } => options.user_and_password(user.clone(), password.clone()),
            Auth::Token(token) => options.token(token.clone()),
            Auth::Credentials(path) => {
                let text = read_credentials(path)?;
                options.credentials(&text).map_err(|error| bad_credentials(path, &error))?
            }
        };
        if let Some(tls) = &self.tls {
            options = options.require_tls(true);
            if let Some(path) = &tls.authorities {
                options = options.add_root_certificates(path.clone());
            }
            if let Some((certificate, key)) = &tls.identity {
                options = options.add_client_certificate(certificate.clone(), key.clone());
            }
        }
        Ok(options)
    }
}

/// Whether this is a valid prefix of names on the servers: 1 to 32 of `a` to `z`, `0` to `9`, `-` and `_`.
pub fn is_prefix_name(name: &str) -> bool {
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=32).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Checks the address of a server: `nats://HOST:PORT` or `tls://HOST:PORT`, the scheme and the port (4222) being
/// optional.
///
/// # Errors
/// What is wrong. An address with a user or a password is refused; the error does not contain it.
pub fn check_server(server: &str) -> Result<(), String> {
    if server.contains('@') {
        return Err(
            "a server's address has no user, password or token: they have keys of their own".to_owned()
        );
    }
    let form = |what: &str| {
        format!("'{server}' is not the address of a NATS server: {what}; write nats://HOST:PORT")
    };
    let address: ServerAddr = server.parse().map_err(|error: std::io::Error| form(&error.to_string()))?;
    let url = address.into_inner();
    if !matches!(url.scheme(), "nats" | "tls") {
        Err(form("the scheme is nats or tls"))
    } else if url.host_str().is_none_or(str::is_empty) {
        Err(form("no host"))
    } else if url.port() == Some(0) {
        Err(form("port 0"))
    } else if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        Err(form("something follows the port"))
    } else {
        Ok(())
    }
}

fn read_credentials(path: &Path) -> Result<String, OpenError> {
    let text = std::fs::read_to_string(path).map_err(|error| bad_credentials(path, &error))?;
    ConnectOptions::with_credentials(&text).map_err(|error| bad_credentials(path, &error))?;
    Ok(text)
}

fn bad_credentials(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Credentials { path: path.to_owned(), what: error.to_string() }
}

/// Why servers cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No server could be reached, or none accepted the credentials.
    #[error("cannot connect to the NATS servers: {0}")]
    Connect(String),
    /// A server is too old.
    #[error(
        "the NATS server is of version {0}, and 2.15 or newer is needed: older ones lose or repeat messages in cases that \
         matter here. Get it from the project's releases, or by `go install github.com/nats-io/nats-server/v2@v2.15.2`"
    )]
    Version(String),
    /// The servers have no JetStream.
    #[error(
        "the NATS servers have no JetStream for us ({0}): start them with `jetstream {{ store_dir: ... }}` in their \
         configuration, and enable it for the account"
    )]
    NoJetStream(String),
    /// The servers accept only short messages.
    #[error(
        "the NATS servers accept messages of at most {0} bytes: set `max_payload: 2MB` in their configuration"
    )]
    MaxPayload(usize),
    /// A stream cannot be created.
    #[error("cannot create stream {stream}: {why}")]
    Refused {
        /// Its name.
        stream: String,
        /// The servers' error.
        why: String,
    },
    /// A stream exists with another configuration.
    #[error(
        "stream {stream} exists with another configuration: {differences}. Nothing was changed: configure the \
         existing values, or change the stream with the `nats` tool while nothing uses it"
    )]
    Configuration {
        /// Its name.
        stream: String,
        /// The differences.
        differences: String,
    },
    /// The servers do not answer.
    #[error("the NATS servers do not answer: {0}")]
    Unavailable(String),
    /// Invalid options.
    #[error("{0}")]
    Options(String),
    /// The credentials file cannot be used.
    #[error("cannot read the credentials in {}: {what}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(String),
}
