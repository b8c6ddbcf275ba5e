//! The names of a switch as a state that the log changes.

use super::super::config::SwitchFile;
use super::super::running::{SharedNames, listed, op};
use super::record::{RecordError, decode};
use super::snapshot;
use crate::replica::{Applied, Newest, Restored, StateMachine};
use scalebricks_apps::switch::file::NameList;
use scalebricks_elements::flat::{Changes, NameError, NameOp};

/// The result of an entry's changes.
pub(in super::super) type Outcome = Result<Changes, NameError>;

/// The names of a switch.
#[derive(Debug)]
pub(super) struct NamesMachine {
    file: SwitchFile,
    names: SharedNames,
}

impl NamesMachine {
    pub(super) const fn new(file: SwitchFile, names: SharedNames) -> Self {
        Self { file, names }
    }
}

impl StateMachine for NamesMachine {
    type Outcome = Outcome;
    const WHAT: &'static str = "names";

    fn kind(&self) -> &str {
        self.file.names.kind.word()
    }

    fn apply(&mut self, payload: &[u8]) -> Applied<Outcome> {
        let changes = match decode(self.kind(), payload) {
            Ok(changes) => changes,
            // Other switches know a newer version, perhaps; all ignore what is not an entry.
            Err(error @ RecordError::Version(_)) => return Applied::Foreign(error.to_string()),
            Err(error) => return Applied::Ignored(error.to_string()),
        };
        let ops: Result<Vec<NameOp>, String> = changes.iter().map(|change| op(change, &self.file)).collect();
        match ops {
            Ok(ops) => Applied::Done(self.names.lock().apply(&ops)),
            Err(error) => Applied::Foreign(error),
        }
    }

    fn encode(&self, newest: &Newest) -> Result<Vec<u8>, String> {
        let lines = listed(&self.names, &self.file.port_names);
        snapshot::encode(self.kind(), newest, &lines).map_err(|error| error.to_string())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<Restored, String> {
        let names = snapshot::decode(&self.file, bytes).map_err(|error| error.to_string())?;
        self.names.lock().change_to(&names.list).map_err(|error| error.to_string())?;
        if let Some((count, first)) = &names.foreign {
            tracing::error!(count, first, "ignoring names of the snapshot");
        }
        Ok(Restored { newest: names.newest, is_complete: names.foreign.is_none() })
    }

    fn clear(&mut self) -> Result<(), String> {
        self.names.lock().change_to(&NameList::new()).map(drop).map_err(|error| error.to_string())
    }
}
