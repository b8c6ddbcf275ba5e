//! `scalebricks engine`: the process that stores the control plane's log on one machine.
//!
//! | module | what it holds |
//! |---|---|
//! | `run` | the process: serves a local log over a socket |
//! | `check` | reports the state of a log directory |

mod check;
mod run;

pub use check::check;
pub use run::{RunConfig, run};

use scalebricks_console::output::OutputError;
use scalebricks_engine::embedded::OpenError;
use scalebricks_engine::remote::BindError;
use std::io;
use std::path::PathBuf;

/// What the command is for.
pub const ABOUT: &str = "\
Keeps the control plane's log in a directory, and serves it to the nodes of this machine over a socket. It outlives \
every one of them: what it has acknowledged is on the disk. docs/engine-process.md says what is promised, and what to \
do if a log is damaged.";

/// Examples of it.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks engine run --data /var/lib/scalebricks/log
      Listens at /var/lib/scalebricks/log/engine.sock, for its own user. SIGTERM or Ctrl-C end it.
  scalebricks engine run --data log --listen unix:/run/scalebricks/engine.sock --log json
  scalebricks engine run --data log --listen tcp:127.0.0.1:9480
      For all users of this machine; no other machine can be served.
  scalebricks engine check /var/lib/scalebricks/log
      Reads every byte, while no process has it. Says what is damaged, and what to do.

Exit status:
  0 asked to stop, or nothing is damaged
  1 it cannot be opened, served or written, or is damaged    2 wrong usage";

/// Why there is no engine, or nothing to say of a log.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The log cannot be opened.
    #[error("{}: {error}", directory.display())]
    Open {
        /// Where it is.
        directory: PathBuf,
        /// Why.
        error: OpenError,
    },
    /// Nobody can be listened to.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A thread, or signals, that the system does not give.
    #[error("cannot serve: {0}")]
    Serve(io::Error),
    /// The disk failed.
    #[error("{}: {why}. Nothing that was acknowledged is lost; start the process again when the disk works", directory.display())]
    Broken {
        /// Where the log is.
        directory: PathBuf,
        /// What the log says.
        why: String,
    },
    /// The server ended by itself.
    #[error("the server ended before it was asked to; its last words are above")]
    Ended,
    /// Standard output.
    #[error(transparent)]
    Output(#[from] OutputError),
}
