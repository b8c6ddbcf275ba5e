//! Reads what a switch is told: its configuration, and the names that the configuration leads to.

use super::SwitchError;
use super::config::{ControlFile, SwitchFile};
use scalebricks_apps::switch::SwitchPolicy;
use scalebricks_apps::switch::file::{NameList, parse_names};
use scalebricks_elements::flat::{LookupRules, NameConfig, NameTable, StormGuard, UnknownNamePolicy};
use scalebricks_types::KeyHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A configuration, and where it was read.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// What it says.
    pub file: SwitchFile,
    /// The file that says so.
    pub path: PathBuf,
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`SwitchError::Read`] and [`SwitchError::Config`].
    pub fn read(path: &Path) -> Result<Self, SwitchError> {
        let read = |error| SwitchError::Read { path: path.to_owned(), error };
        let text = std::fs::read_to_string(path).map_err(read)?;
        let file = SwitchFile::parse(&text)
            .map_err(|problems| SwitchError::Config { path: path.to_owned(), problems })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// A file that the configuration names: beside it, unless its path is absolute.
    pub fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or_else(|| Path::new("")).join(file)
    }

    /// The devices of the ports, in their order.
    ///
    /// # Errors
    /// [`SwitchError::NoDevice`].
    pub fn devices(&self) -> Result<Vec<&str>, SwitchError> {
        let ports = self.file.ports.iter().zip(self.file.port_names.all());
        ports
            .map(|(port, name)| port.device.as_deref().ok_or_else(|| SwitchError::NoDevice(name.clone())))
            .collect()
    }

    /// The log that names come from, if they do, with its files found.
    pub fn control(&self) -> Option<ControlFile> {
        let control = self.file.control.clone()?;
        let engine = control.engine.with_files(|file| self.beside(file));
        Some(ControlFile { engine, ..control })
    }

    /// Reads the names, as the file has them now; none where they come from a log.
    ///
    /// # Errors
    /// [`SwitchError::Read`] and [`SwitchError::Names`].
    pub fn names(&self) -> Result<NameList, SwitchError> {
        let Some(path) = self.file.names.file.as_deref().map(|file| self.beside(file)) else {
            return Ok(NameList::new());
        };
        let bytes = std::fs::read(&path).map_err(|error| SwitchError::Read { path: path.clone(), error })?;
        parse_names(&bytes, self.file.names.kind, &self.file.port_names)
            .map_err(|errors| SwitchError::Names { path, errors })
    }

    fn hasher(&self) -> KeyHasher {
        KeyHasher::new(self.file.seed)
    }

    /// A table without names.
    ///
    /// # Errors
    /// [`SwitchError::Table`] if it cannot be made as large as expected.
    pub fn table(&self) -> Result<NameTable, SwitchError> {
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

    /// What the switch decides about frames, apart from where names go. Workers share the storm guard in it.
    pub fn policy(&self) -> SwitchPolicy {
        let rules = LookupRules {
            kind: self.file.names.kind,
            hasher: self.hasher(),
            verify_ipv4_checksum: self.file.verify_ipv4_checksum,
        };
        SwitchPolicy { rules, storm: Some(Arc::new(StormGuard::new(self.file.storm, self.file.ports.len()))) }
    }
}
