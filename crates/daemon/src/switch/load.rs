//! Reads the configuration of a switch, and the names that it names.

use super::config::SwitchFile;
use crate::error::ProcessError;
use crate::node::config::LogFile;
use crate::runtime::configuration;
use scalebricks_admin::server::{Limits, Listen};
use scalebricks_apps::switch::SwitchPolicy;
use scalebricks_apps::switch::file::{NameList, parse_names};
use scalebricks_elements::flat::{LookupRules, NameConfig, NameTable, StormGuard, UnknownNamePolicy};
use scalebricks_types::KeyHasher;
use std::path::Path;
use std::sync::Arc;

/// The configuration of a switch.
pub type Configuration = configuration::Configuration<SwitchFile>;

/// Largest body of a request: some thousands of changes.
const BODY_BYTES: usize = 1 << 20;

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`ProcessError::File`] and [`ProcessError::Config`].
    pub fn read(path: &Path) -> Result<Self, ProcessError> {
        Self::read_with(path, SwitchFile::parse)
    }

    /// The addresses of the admin server.
    pub fn admin(&self) -> Listen {
        let limits = Limits { body_bytes: BODY_BYTES, ..Limits::default() };
        self.listen(&self.file.admin, self.file.admin_tcp.as_ref(), limits)
    }

    /// The devices of the ports, in order.
    ///
    /// # Errors
    /// [`ProcessError::NoDevice`].
    pub fn devices(&self) -> Result<Vec<&str>, ProcessError> {
        let ports = self.file.ports.iter().zip(self.file.port_names.all());
        ports
            .map(|(port, name)| port.device.as_deref().ok_or_else(|| ProcessError::NoDevice(name.clone())))
            .collect()
    }

    /// The log of names with its paths resolved; `None` if names come from a file.
    pub fn control(&self) -> Option<LogFile> {
        let control = self.file.control.clone()?;
        let engine = control.engine.with_files(|file| self.beside(file));
        Some(LogFile { engine, ..control })
    }

    /// Reads the file of names; no names if they come from a log.
    ///
    /// # Errors
    /// [`ProcessError::File`] and [`ProcessError::Names`].
    pub fn names(&self) -> Result<NameList, ProcessError> {
        let Some(path) = self.file.names.file.as_deref().map(|file| self.beside(file)) else {
            return Ok(NameList::new());
        };
        let bytes = std::fs::read(&path).map_err(ProcessError::file(&path))?;
        parse_names(&bytes, self.file.names.kind, &self.file.port_names)
            .map_err(|errors| ProcessError::Names { path, errors })
    }

    fn hasher(&self) -> KeyHasher {
        KeyHasher::new(self.file.seed)
    }

    /// A table without names.
    ///
    /// # Errors
    /// [`ProcessError::Table`] if it cannot hold the expected number of names.
    pub fn table(&self) -> Result<NameTable, ProcessError> {
        let names = &self.file.names;
        let config = NameConfig {
            kind: names.kind,
            hasher: self.hasher(),
            ports: self.file.ports.len(),
            expected: names.expected,
            check_bits: names.check_bits,
            filter_rate: names.filter_rate,
            spreads_aliens: names.unknown == UnknownNamePolicy::Answer,
        };
        Ok(NameTable::new(config)?)
    }

    /// The rules for frames, apart from the names. Workers share its storm guard.
    pub fn policy(&self) -> SwitchPolicy {
        let rules = LookupRules {
            kind: self.file.names.kind,
            hasher: self.hasher(),
            verify_ipv4_checksum: self.file.verify_ipv4_checksum,
        };
        SwitchPolicy { rules, storm: Some(Arc::new(StormGuard::new(self.file.storm, self.file.ports.len()))) }
    }
}
