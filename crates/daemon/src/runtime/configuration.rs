//! A configuration file that was read from a path.

use crate::error::ProcessError;
use crate::node::config::{AdminTcp, Problem};
use scalebricks_admin::server::{Limits, Listen};
use std::path::{Path, PathBuf};

/// A configuration, and the path of its file.
#[derive(Debug, Clone)]
pub struct Configuration<T> {
    /// The configuration.
    pub file: T,
    /// The path of the file.
    pub path: PathBuf,
}

impl<T> Configuration<T> {
    /// Reads and parses a file.
    ///
    /// # Errors
    /// [`ProcessError::File`] and [`ProcessError::Config`].
    pub fn read_with(
        path: &Path,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Self, ProcessError> {
        let path = path.to_owned();
        let text = std::fs::read_to_string(&path).map_err(ProcessError::file(&path))?;
        match parse(&text) {
            Ok(file) => Ok(Self { file, path }),
            Err(problems) => Err(ProcessError::Config { path, problems }),
        }
    }

    /// Resolves a path in the configuration: relative paths are relative to the configuration file.
    pub fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or_else(|| Path::new("")).join(file)
    }

    /// The addresses of the admin server.
    pub fn listen(&self, socket: &Path, tcp: Option<&AdminTcp>, limits: Limits) -> Listen {
        let tcp = tcp.map(|tcp| tcp.at(|file| self.beside(file)));
        Listen { socket: self.beside(socket), tcp, limits }
    }
}
