//! Which engine stores the log, and the credentials for NATS servers.

use super::{Problems, sections};
use crate::config::Spanned;
use scalebricks_cluster::secret::SecretAt;
use scalebricks_engine::nats::{self, check_server, is_prefix_name};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The engine that stores the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAt {
    /// Embedded in this process, in a directory: for a single node or switch.
    Directory(PathBuf),
    /// NATS servers: one for the processes of a machine, three or five for several machines.
    Nats(NatsAt),
}

impl EngineAt {
    /// Resolves relative file names with `beside`.
    #[must_use]
    pub fn with_files(self, beside: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::Directory(path) => Self::Directory(beside(&path)),
            Self::Nats(at) => {
                let auth = at.auth.with_files(&beside);
                let tls = at.tls.map(|tls| nats::Tls {
                    authorities: tls.authorities.map(|path| beside(&path)),
                    identity: tls.identity.map(|(own, key)| (beside(&own), beside(&key))),
                });
                Self::Nats(NatsAt { auth, tls, ..at })
            }
        }
    }
}

/// NATS servers and how to connect to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsAt {
    /// Servers of one cluster, as `nats://HOST:PORT`.
    pub servers: Vec<String>,
    /// Servers that store each log: 1, 3 or 5.
    pub replicas: u8,
    /// Credentials of this process.
    pub auth: NatsAuth,
    /// Files for TLS, if it is used.
    pub tls: Option<nats::Tls>,
}

/// Credentials of this process at NATS servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NatsAuth {
    /// None, or a client certificate.
    #[default]
    None,
    /// A user and a password.
    Password {
        /// Name of the user.
        user: String,
        /// Location of the password.
        password: SecretAt,
    },
    /// A token.
    Token(SecretAt),
    /// A credentials file of `nsc`.
    Credentials(PathBuf),
}

impl NatsAuth {
    fn with_files(self, beside: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::None => Self::None,
            Self::Password { user, password } => {
                Self::Password { user, password: password.with_file(beside) }
            }
            Self::Token(token) => Self::Token(token.with_file(beside)),
            Self::Credentials(path) => Self::Credentials(beside(&path)),
        }
    }
}

impl NatsAt {
    /// The engine's options. Reads the secrets.
    ///
    /// # Errors
    /// A secret cannot be read, or an option is invalid.
    pub fn options(&self, cluster: &str) -> Result<nats::Options, String> {
        let auth = match &self.auth {
            NatsAuth::None => nats::Auth::None,
            NatsAuth::Password { user, password } => {
                nats::Auth::Password { user: user.clone(), password: password.read()? }
            }
            NatsAuth::Token(token) => nats::Auth::Token(token.read()?),
            NatsAuth::Credentials(path) => {
                // The client reads the file itself; here its permissions are checked.
                let at = |what: String| format!("{}: {what}", path.display());
                scalebricks_cluster::secret::read(path, CREDENTIALS_BYTES).map_err(at)?;
                nats::Auth::Credentials(path.clone())
            }
        };
        let default = nats::Options::default();
        let options = nats::Options {
            servers: self.servers.clone(),
            prefix: cluster.to_owned(),
            replicas: self.replicas,
            auth,
            tls: self.tls.clone(),
            // One server has no leader that could lag behind: a log that became shorter was replaced.
            lost_after: if self.replicas == 1 { Duration::from_secs(1) } else { default.lost_after },
            ..default
        };
        options.check().map_err(|error| error.to_string())?;
        Ok(options)
    }

    /// Whether a secret is sent to a server on another machine in clear text. A credentials file does not count: its key
    /// signs and is not sent.
    pub fn sends_secrets_in_clear(&self) -> bool {
        let is_secret = matches!(self.auth, NatsAuth::Password { .. } | NatsAuth::Token(_));
        let is_clear = |server: &String| {
            let host = server.strip_prefix("nats://").unwrap_or(server);
            let is_local = ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local));
            !server.starts_with("tls://") && !is_local
        };
        is_secret && self.tls.is_none() && self.servers.iter().any(is_clear)
    }
}

/// Maximum size of a credentials file.
const CREDENTIALS_BYTES: usize = 64 << 10;

/// The keys of a section `[control]` that concern the engine.
pub(crate) struct EngineSection<'a> {
    /// The engine's address.
    pub engine: &'a Spanned<String>,
    /// The cluster's name.
    pub name: &'a Spanned<String>,
    /// Servers that store each log.
    pub replicas: Option<&'a Spanned<u8>>,
    /// The user at NATS servers.
    pub user: Option<&'a Spanned<String>>,
    /// Location of that user's password.
    pub password: Option<&'a Spanned<SecretAt>>,
    /// Location of a token.
    pub token: Option<&'a Spanned<SecretAt>>,
    /// Credentials file of a NATS user.
    pub credentials: Option<&'a Spanned<PathBuf>>,
    /// TLS to NATS servers.
    pub tls: Option<&'a Spanned<sections::NatsTls>>,
}

/// Parses a section; `None` after a problem was reported.
pub(crate) fn engine(section: &EngineSection<'_>, problems: &mut Problems<'_>) -> Option<EngineAt> {
    let given = section.engine;
    let text = given.get_ref();
    if section.name.get_ref().is_empty() {
        problems.add(section.name.span(), "control.name", "empty");
    }
    if text.starts_with("nats://") || text.starts_with("tls://") {
        return Some(EngineAt::Nats(nats(section, problems)));
    }
    let EngineSection { replicas, user, password, token, credentials, tls, .. } = section;
    let has_auth = user.is_some() || password.is_some() || token.is_some() || credentials.is_some();
    if replicas.is_some() || has_auth || tls.is_some() {
        let what = "replicas, user, password, token, credentials and tls are for an engine at nats:// only";
        problems.add(given.span(), "control.engine", what);
    }
    if let Some(directory) = text.strip_prefix("directory:").filter(|path| !path.is_empty()) {
        return Some(EngineAt::Directory(PathBuf::from(directory)));
    }
    let removed = ["unix:", "tcp:"].iter().any(|scheme| text.starts_with(scheme));
    let why =
        if removed { "engine processes (`scalebricks engine run`) were removed" } else { "not an engine" };
    let what = format!(
        "'{text}': {why}. Write nats://HOST:PORT for a NATS server, with replicas = 1 for one server that all processes of \
         this machine use (docs/engines.md), or directory:PATH for a single process"
    );
    problems.add(given.span(), "control.engine", what);
    None
}

/// Default number of servers that store each log.
pub(super) const REPLICAS: u8 = 3;

fn nats(section: &EngineSection<'_>, problems: &mut Problems<'_>) -> NatsAt {
    let span = || section.engine.span();
    let replicas = section.replicas.map_or(REPLICAS, |given| {
        let what = |replicas| format!("{replicas} is not 1, 3 or 5");
        problems.check(given, "control.replicas", |replicas| [1, 3, 5].contains(&replicas), what)
    });
    let name = section.name.get_ref();
    if !name.is_empty() && !is_prefix_name(name) {
        let what = format!("'{name}' must be 1 to 32 of a-z 0-9 - _, as names on NATS servers are");
        problems.add(section.name.span(), "control.name", what);
    }
    let text = section.engine.get_ref();
    let servers: Vec<String> = text.split(',').map(|server| server.trim().to_owned()).collect();
    for (at, server) in servers.iter().enumerate() {
        if server.contains('@') {
            let what = "the address contains a user or a password: write user = \"NAME\" and password = { file = \"PATH\" }, or \
                        token = { file = \"PATH\" }";
            problems.add(span(), "control.engine", what);
        } else if let Err(what) = check_server(server) {
            problems.add(span(), "control.engine", what);
        } else if servers[..at].contains(server) {
            problems.add(span(), "control.engine", format!("{server} occurs twice"));
        }
    }
    let tls = section.tls.map(|given| {
        let tls = given.get_ref();
        let identity = tls.certificate.clone().zip(tls.key.clone());
        if identity.is_none() && (tls.certificate.is_some() || tls.key.is_some()) {
            problems.add(
                given.span(),
                "control.tls",
                "a certificate needs its key, and a key its certificate",
            );
        }
        nats::Tls { authorities: tls.authorities.clone(), identity }
    });
    NatsAt { servers, replicas, auth: auth(section, problems), tls }
}

fn auth(section: &EngineSection<'_>, problems: &mut Problems<'_>) -> NatsAuth {
    let EngineSection { user, password, token, credentials, .. } = *section;
    match (user, password) {
        (Some(user), None) => {
            let what = "a user without a password: password = { file = \"PATH\" }";
            problems.add(user.span(), "control.user", what);
        }
        (None, Some(password)) => {
            let what = "a password without a user: user = \"NAME\"";
            problems.add(password.span(), "control.password", what);
        }
        (Some(user), _) if user.get_ref().is_empty() => problems.add(user.span(), "control.user", "empty"),
        _ => {}
    }
    let by_password = user.map(Spanned::span).or(password.map(Spanned::span));
    let ways = [by_password, token.map(Spanned::span), credentials.map(Spanned::span)];
    if let Some(second) = ways.into_iter().flatten().nth(1) {
        let what = "servers ask for one of: user and password, token, credentials; give one";
        problems.add(second, "control.user", what);
    }
    match (user, password, token, credentials) {
        (Some(user), Some(password), _, _) => {
            NatsAuth::Password { user: user.get_ref().clone(), password: password.get_ref().clone() }
        }
        (_, _, Some(token), _) => NatsAuth::Token(token.get_ref().clone()),
        (_, _, _, Some(credentials)) => NatsAuth::Credentials(credentials.get_ref().clone()),
        _ => NatsAuth::None,
    }
}
