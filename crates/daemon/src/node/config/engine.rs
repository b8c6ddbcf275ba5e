//! Who keeps the log, and how NATS servers know this process.

use super::{Problems, sections};
use scalebricks_cluster::secret::SecretAt;
use scalebricks_engine::nats::{self, check_server, is_prefix_name};
use scalebricks_engine::remote::Endpoint;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Who keeps the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAt {
    /// This process, in a directory: for a node that is alone.
    Directory(PathBuf),
    /// A process of this machine.
    Process(Endpoint),
    /// NATS servers.
    Nats(NatsAt),
}

impl EngineAt {
    /// The same with files found by `beside`.
    #[must_use]
    pub fn with_files(self, beside: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::Directory(path) => Self::Directory(beside(&path)),
            Self::Process(endpoint) => Self::Process(endpoint),
            Self::Nats(nats) => {
                let auth = nats.auth.with_files(&beside);
                let tls = nats.tls.map(|tls| NatsTls {
                    authorities: tls.authorities.map(|path| beside(&path)),
                    identity: tls.identity.map(|(own, key)| (beside(&own), beside(&key))),
                });
                Self::Nats(NatsAt { auth, tls, ..nats })
            }
        }
    }
}

/// NATS servers, and how they are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsAt {
    /// Servers of one cluster, as `nats://HOST:PORT`.
    pub servers: Vec<String>,
    /// How many keep each log: 1, 3 or 5.
    pub replicas: u8,
    /// How the servers know this process.
    pub auth: NatsAuth,
    /// Files for TLS, if it is wanted.
    pub tls: Option<NatsTls>,
}

/// How NATS servers know this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NatsAuth {
    /// They do not ask, or the client certificate says it.
    #[default]
    None,
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// Where the password is.
        password: SecretAt,
    },
    /// A token.
    Token(SecretAt),
    /// A file of credentials, as `nsc` makes them.
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

/// Files for TLS, in the PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsTls {
    /// Who signed the servers' certificates, if not somebody the system trusts.
    pub authorities: Option<PathBuf>,
    /// This node's certificate and its key, if servers ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl NatsAt {
    /// Options of the engine. Reads the secrets.
    ///
    /// # Errors
    /// What is wrong with a secret, or with the other options.
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
        let tls = self.tls.clone();
        let tls = tls.map(|tls| nats::Tls { authorities: tls.authorities, identity: tls.identity });
        let options = nats::Options {
            servers: self.servers.clone(),
            prefix: cluster.to_owned(),
            replicas: self.replicas,
            auth,
            tls,
            ..nats::Options::default()
        };
        options.check().map_err(|error| error.to_string())?;
        Ok(options)
    }

    /// Whether a secret goes to a server on another machine in clear text. A file of credentials does not count: its
    /// key signs, and is not sent.
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

/// Longest file of credentials.
const CREDENTIALS_BYTES: usize = 64 << 10;

/// What a section `[control]` says of the engine.
pub(crate) struct EngineSection<'a> {
    /// Where it is.
    pub engine: &'a Spanned<String>,
    /// The cluster's name.
    pub name: &'a Spanned<String>,
    /// Servers that keep each log.
    pub replicas: Option<u8>,
    /// The user at NATS servers.
    pub user: Option<&'a String>,
    /// Where that user's password is.
    pub password: Option<&'a SecretAt>,
    /// Where a token is.
    pub token: Option<&'a SecretAt>,
    /// The file with a NATS user's credentials.
    pub credentials: Option<&'a PathBuf>,
    /// TLS to NATS servers.
    pub tls: Option<&'a sections::NatsTls>,
}

/// The engine that a section names; `None` if there is a problem with it.
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
    match text.parse::<Endpoint>() {
        Ok(endpoint) => Some(EngineAt::Process(endpoint)),
        Err(error) => {
            problems.add(
                given.span(),
                "control.engine",
                format!("{error}, nats://HOST:PORT for several machines, or directory:PATH for a node that is alone"),
            );
            None
        }
    }
}

/// Servers that keep each log, unless told otherwise.
const REPLICAS: u8 = 3;

fn nats(section: &EngineSection<'_>, problems: &mut Problems<'_>) -> NatsAt {
    let span = || section.engine.span();
    let replicas = section.replicas.unwrap_or(REPLICAS);
    if ![1, 3, 5].contains(&replicas) {
        problems.add(span(), "control.replicas", format!("{replicas} is not 1, 3 or 5"));
    }
    let name = section.name.get_ref();
    if !name.is_empty() && !is_prefix_name(name) {
        let what = format!("'{name}' is not of 1 to 32 of a-z 0-9 - _, as names on NATS servers are");
        problems.add(section.name.span(), "control.name", what);
    }
    let text = section.engine.get_ref();
    let servers: Vec<String> = text.split(',').map(|server| server.trim().to_owned()).collect();
    for (at, server) in servers.iter().enumerate() {
        if server.contains('@') {
            let what = "a user or a password stands in the address: write user = \"NAME\" and password = { file = \"PATH\" }, or \
                        token = { file = \"PATH\" }";
            problems.add(span(), "control.engine", what);
        } else if let Err(what) = check_server(server) {
            problems.add(span(), "control.engine", what);
        } else if servers[..at].contains(server) {
            problems.add(span(), "control.engine", format!("{server} is there twice"));
        }
    }
    let tls = section.tls.map(|tls| {
        let identity = tls.certificate.clone().zip(tls.key.clone());
        if identity.is_none() && (tls.certificate.is_some() || tls.key.is_some()) {
            problems.add(span(), "control.tls", "a certificate and its key go together");
        }
        NatsTls { authorities: tls.authorities.clone(), identity }
    });
    NatsAt { servers, replicas, auth: auth(section, problems), tls }
}

fn auth(section: &EngineSection<'_>, problems: &mut Problems<'_>) -> NatsAuth {
    let mut refused = |key: &str, what: &str| problems.add(section.engine.span(), key, what);
    let EngineSection { user, password, token, credentials, .. } = section;
    match (user, password) {
        (Some(_), None) => {
            refused("control.user", "a user without a password: password = { file = \"PATH\" }");
        }
        (None, Some(_)) => refused("control.password", "a password without a user: user = \"NAME\""),
        (Some(user), _) if user.is_empty() => refused("control.user", "empty"),
        _ => {}
    }
    let ways = [user.is_some() || password.is_some(), token.is_some(), credentials.is_some()];
    if ways.into_iter().filter(|way| *way).count() > 1 {
        refused("control.user", "servers ask for one of: user and password, token, credentials");
    }
    match (user, password, token, credentials) {
        (Some(user), Some(password), _, _) => {
            NatsAuth::Password { user: (*user).clone(), password: (*password).clone() }
        }
        (_, _, Some(token), _) => NatsAuth::Token((*token).clone()),
        (_, _, _, Some(credentials)) => NatsAuth::Credentials((*credentials).clone()),
        _ => NatsAuth::None,
    }
}
