//! The section `[control]` of switches and routers: the log that they share. A gateway's node has more in it.

use super::engine::{EngineAt, EngineSection, engine};
use super::{Problems, sections::NatsTls};
use crate::config::Spanned;
use crate::config::forms::Secret;
use scalebricks_cluster::secret::SecretAt;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// A log that several processes follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// The engine that stores it.
    pub engine: EngineAt,
    /// Its name, the same at all processes that follow it.
    pub name: String,
}

/// The section, as TOML represents it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSection {
    /// The log: addresses of NATS servers, separated by commas, or `directory:PATH` for a single process.
    #[schemars(extend("examples" = ["nats://127.0.0.1:4222", "directory:log"]))]
    pub engine: Spanned<String>,
    /// The log's name, the same at all processes that follow it.
    #[schemars(extend("examples" = ["names"]))]
    pub name: Spanned<String>,
    /// NATS servers that store each log: 1, 3 or 5.
    #[schemars(extend("default" = super::engine::REPLICAS))]
    pub replicas: Option<Spanned<u8>>,
    /// The user at NATS servers.
    pub user: Option<Spanned<String>>,
    /// Place of the user's password.
    #[schemars(with = "Option<Secret>")]
    pub password: Option<Spanned<SecretAt>>,
    /// Place of a token, instead of user and password.
    #[schemars(with = "Option<Secret>")]
    pub token: Option<Spanned<SecretAt>>,
    /// A credentials file of `nsc`, instead of user and password.
    #[schemars(extend("format" = "path"))]
    pub credentials: Option<Spanned<PathBuf>>,
    /// TLS to NATS servers; without it, TLS is used for addresses with `tls://`.
    pub tls: Option<Spanned<NatsTls>>,
}

impl LogSection {
    /// The checked section; `None` after a problem was reported.
    pub(crate) fn check(&self, problems: &mut Problems<'_>) -> Option<LogFile> {
        let asked = EngineSection {
            engine: &self.engine,
            name: &self.name,
            replicas: self.replicas.as_ref(),
            user: self.user.as_ref(),
            password: self.password.as_ref(),
            token: self.token.as_ref(),
            credentials: self.credentials.as_ref(),
            tls: self.tls.as_ref(),
        };
        Some(LogFile { engine: engine(&asked, problems)?, name: self.name.get_ref().clone() })
    }
}
