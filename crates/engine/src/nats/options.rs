//! What can be set, and why servers may be of no use.

use async_nats::{ConnectOptions, ServerAddr};
use scalebricks_control::engine::MAX_BATCH_BYTES;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The oldest servers that are spoken with.
pub(super) const OLDEST_SERVER: (u64, u64) = (2, 15);

/// Bytes a message has to hold: a batch and what we write at its head.
pub(super) const MESSAGE_BYTES: usize = MAX_BATCH_BYTES + 1024;

/// How servers know who we are.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Auth {
    /// They do not ask, or a client certificate says it.
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
    /// A file of credentials, as `nsc` makes them.
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
    /// Who signed the servers' certificates; `None`: one of those the system trusts.
    pub authorities: Option<PathBuf>,
    /// Our certificate and its key, if servers ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How servers are reached and used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Servers of one cluster, as `nats://HOST:PORT`. One is enough to learn of the others; more help while one is down.
    pub servers: Vec<String>,
    /// Begins all names on the servers, so that several clusters can share them: 1 to 32 of `a` to `z`, `0` to `9`, `-`
    /// and `_`.
    pub prefix: String,
    /// Servers that keep each log: 1, 3 or 5. Of an existing log it is checked and never changed.
    pub replicas: u8,
    /// How servers know who we are.
    pub auth: Auth,
    /// TLS, asked for always if this is set.
    pub tls: Option<Tls>,
    /// Whether servers that the named ones tell of are used too. Not where they tell addresses that cannot be reached
    /// from here, or that their certificates do not name.
    pub discover: bool,
    /// After this time a call says that it does not know, or that the servers are not to be had: 100 ms to 1 h.
    pub timeout: Duration,
    /// A log that ends before entries that were seen is believed when its leader has said so for this long, without
    /// contradiction: servers that are cut off or elect a leader may lag for some seconds. 100 ms to 1 h.
    pub lost_after: Duration,
    /// Bytes of batches and messages that may wait for the servers, at least 2 MiB. Who comes with more waits, and is
    /// refused at the end of `timeout`. A small batch counts as 4 KiB.
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
    /// Checks everything that can be known without the servers. Reads the file of credentials.
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
            "no server is named"
        } else if !is_prefix_name(&self.prefix) {
            "the prefix is not of 1 to 32 of a-z 0-9 - _"
        } else if ![1, 3, 5].contains(&self.replicas) {
            "replicas are 1, 3 or 5"
        } else if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&self.timeout) {
            "the timeout is not from 100 ms to 1 h"
        } else if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&self.lost_after) {
            "lost_after is not from 100 ms to 1 h"
        } else if !(2 << 20..=1 << 40).contains(&self.in_flight_bytes) {
            "in_flight_bytes is below 2 MiB"
        } else {
            return Ok(());
        };
        Err(OpenError::Options(problem.to_owned()))
    }

    /// For the client. Reads the file of credentials.
    pub(super) fn for_client(&self) -> Result<ConnectOptions, OpenError> {
        let mut options = ConnectOptions::new()
            .name(format!("scalebricks {}", self.prefix))
            .connection_timeout(self.timeout.min(Duration::from_secs(5)))
            .ping_interval(Duration::from_secs(2)) // two that are missed end a connection
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

/// Whether this can begin all names of a cluster on the servers: 1 to 32 of `a` to `z`, `0` to `9`, `-` and `_`.
pub fn is_prefix_name(name: &str) -> bool {
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=32).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Checks the address of a server: `nats://HOST:PORT` or `tls://HOST:PORT`, the scheme and the port (4222) being optional.
///
/// # Errors
/// What is wrong. An address with a user or a password is refused and not repeated.
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
    /// None could be reached, or none let us in.
    #[error("cannot connect to the NATS servers: {0}")]
    Connect(String),
    /// A server is too old.
    #[error(
        "the NATS server is of version {0}, and 2.15 or newer is needed: older ones lose or repeat messages in cases we \
         rely on. Get it from the project's releases, or by `go install github.com/nats-io/nats-server/v2@v2.15.2`"
    )]
    Version(String),
    /// Servers keep nothing.
    #[error(
        "the NATS servers have no JetStream for us ({0}): start them with `jetstream {{ store_dir: ... }}` in their \
         configuration, and enable it for the account"
    )]
    NoJetStream(String),
    /// Servers take only short messages.
    #[error(
        "the NATS servers take messages of {0} bytes at the most: set `max_payload: 2MB` in their configuration"
    )]
    MaxPayload(usize),
    /// A stream cannot be made.
    #[error("stream {stream} cannot be made: {why}")]
    Refused {
        /// Its name.
        stream: String,
        /// What the servers say.
        why: String,
    },
    /// A stream is there, and is not what was asked for.
    #[error(
        "stream {stream} is there with another configuration: {differences}. Nothing was changed: ask for what is \
         there, or change it with the `nats` tool while nothing uses it"
    )]
    Configuration {
        /// Its name.
        stream: String,
        /// What is different.
        differences: String,
    },
    /// The servers do not answer.
    #[error("the NATS servers do not answer: {0}")]
    Unavailable(String),
    /// Options that cannot be.
    #[error("{0}")]
    Options(String),
    /// The file of credentials.
    #[error("cannot read the credentials in {}: {what}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The operating system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(String),
}
