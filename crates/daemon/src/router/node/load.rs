//! Reads the configuration of a node.

use super::config::RouterFile;
use crate::error::ProcessError;
use crate::node::config::LogFile;
use crate::runtime::configuration;
use scalebricks_admin::server::{Limits, Listen};
use std::path::Path;

/// The configuration of a node.
pub type Configuration = configuration::Configuration<RouterFile>;

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`ProcessError::File`] and [`ProcessError::Config`].
    pub fn read(path: &Path) -> Result<Self, ProcessError> {
        Self::read_with(path, RouterFile::parse)
    }

    /// The addresses of the admin server.
    pub fn admin(&self) -> Listen {
        self.listen(&self.file.admin, self.file.admin_tcp.as_ref(), Limits::default())
    }

    /// The log of routes with its paths resolved.
    pub fn control(&self) -> LogFile {
        let engine = self.file.control.engine.clone().with_files(|file| self.beside(file));
        LogFile { engine, name: self.file.control.name.clone() }
    }
}
