//! `scalebricks engine check`: reports the state of the log that an embedded engine wrote to a directory.

mod check;

pub use check::check;

use scalebricks_console::output::OutputError;
use scalebricks_engine::embedded::OpenError;
use std::path::PathBuf;

/// Long description of the command.
pub const ABOUT: &str = "\
Examines the log of a node or switch whose configuration says engine = \"directory:PATH\". docs/engines.md describes \
the engines, and how to repair a damaged log. Several processes need a NATS server: engine = \"nats://HOST:PORT\".";

/// Examples of the command.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks engine check /var/lib/scalebricks/log
      Reads every byte; no process may have the directory open. Reports damage and how to repair it.

Exit status:
  0 no damage    1 damaged, in use, or cannot be read    2 wrong usage";

/// Errors of `scalebricks engine`.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The log cannot be opened.
    #[error("{}: {error}", directory.display())]
    Open {
        /// Directory of the log.
        directory: PathBuf,
        /// Reason.
        error: OpenError,
    },
    /// Standard output cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}
