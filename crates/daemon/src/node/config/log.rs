//! The section `[control]` of switches and routers: the log that they share. A gateway's node has more in it.

use super::engine::{EngineAt, EngineSection, engine};
use super::{Problems, sections::NatsTls};
use scalebricks_cluster::secret::SecretAt;
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// A log that several processes follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// The engine that stores it.
    pub engine: EngineAt,
    /// Its name, the same at all processes that follow it.
    pub name: String,
}

/// The section, as TOML represents it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSection {
    pub engine: Spanned<String>,
    pub name: Spanned<String>,
    pub replicas: Option<u8>,
    pub user: Option<String>,
    pub password: Option<SecretAt>,
    pub token: Option<SecretAt>,
    pub credentials: Option<PathBuf>,
    pub tls: Option<NatsTls>,
}

impl LogSection {
    /// The checked section; `None` after a problem was reported.
    pub(crate) fn check(&self, problems: &mut Problems<'_>) -> Option<LogFile> {
        let asked = EngineSection {
            engine: &self.engine,
            name: &self.name,
            replicas: self.replicas,
            user: self.user.as_ref(),
            password: self.password.as_ref(),
            token: self.token.as_ref(),
            credentials: self.credentials.as_ref(),
            tls: self.tls.as_ref(),
        };
        Some(LogFile { engine: engine(&asked, problems)?, name: self.name.get_ref().clone() })
    }
}
