//! Keeps the names of several switches in one log, which all of them follow (`daemon::replica`).

mod machine;
mod record;
mod snapshot;

use super::config::SwitchFile;
use super::running::SharedNames;
use crate::node::config::LogFile;
pub use crate::replica::{LogError, LogProgress};
use crate::replica::{LogSpec, Replica, engine as open_engine};
use machine::{NamesMachine, Outcome};
use scalebricks_admin::model::switch::ChangeView;
use scalebricks_control::engine::Engine;
use scalebricks_control::replay::Limits;
use std::sync::Arc;

/// The record that holds the kind of names in a log, and the bound on what a switch replays when it starts: see
/// [`scalebricks_control::replay`].
const LOG: LogSpec =
    LogSpec { kind_record: "switch.names", replay: Limits { entries: 1_024, bytes: 16 << 20 } };

/// A thread that follows and writes the log of a switch, until this is dropped.
#[derive(Debug)]
pub struct LogHandle {
    kind: &'static str,
    replica: Replica<NamesMachine>,
}

impl LogHandle {
    /// Starts to follow the log of a switch, as soon as its engine can be reached.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn start(control: &LogFile, file: &SwitchFile, names: SharedNames) -> Result<Self, LogError> {
        Self::start_on(open_engine(&control.engine, &control.name)?, file, names)
    }

    /// Starts to follow the log of an engine.
    ///
    /// # Errors
    /// [`LogError::Thread`].
    pub fn start_on(
        engine: impl Future<Output = Arc<dyn Engine>> + Send + 'static,
        file: &SwitchFile,
        names: SharedNames,
    ) -> Result<Self, LogError> {
        let replica = Replica::start(engine, LOG, NamesMachine::new(file.clone(), names))?;
        Ok(Self { kind: file.names.kind.word(), replica })
    }

    /// The current state.
    pub fn progress(&self) -> LogProgress {
        self.replica.progress()
    }

    /// Appends changes; returns their position and their outcome, when this switch has applied them.
    ///
    /// # Errors
    /// [`LogError`].
    pub(super) async fn change(&self, changes: &[ChangeView]) -> Result<(u64, Outcome), LogError> {
        let payload = record::encode(self.kind, changes);
        self.replica.append(payload.map_err(|error| LogError::Refused(error.to_string()))?.into()).await
    }
}
