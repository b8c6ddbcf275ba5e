//! What the admin server asks of a graph of elements that runs.

use super::model::{ElementView, GraphView, ReplacedView};
use scalebricks_apps::click::directory::Refused;
use scalebricks_apps::click::live::ReplaceError;
use std::io;
use std::path::PathBuf;

/// A running graph. Called from threads that may wait: an answer may take as long as the worker needs between two turns, up to
/// some seconds.
pub trait GraphControl: Send + Sync + 'static {
    /// Its elements, how they are connected, and what they have counted.
    fn view(&self) -> GraphView;

    /// One element, with its handlers.
    ///
    /// # Errors
    /// [`Refused::NoElement`].
    fn element(&self, name: &str) -> Result<ElementView, Refused>;

    /// Asks a read handler.
    ///
    /// # Errors
    /// [`Refused`].
    fn read(&self, element: &str, handler: &str, parameter: &str) -> Result<String, Refused>;

    /// Gives a write handler a value, between two turns.
    ///
    /// # Errors
    /// [`Refused`].
    fn write(&self, element: &str, handler: &str, value: String) -> Result<(), Refused>;

    /// Runs another configuration from the next turn on.
    ///
    /// # Errors
    /// [`ReloadError`]. The one that runs goes on.
    fn replace(&self, with: Configuration) -> Result<ReplacedView, ReloadError>;
}

/// Where another configuration is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Configuration {
    /// In the file that the run was started with.
    File,
    /// Here.
    Text {
        /// What errors call it.
        name: String,
        /// In the Click language.
        text: Vec<u8>,
    },
}

/// Why another configuration does not run.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Its file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It cannot run, or not now.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
}
