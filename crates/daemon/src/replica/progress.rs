//! The state of the log's thread, for the rest of the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of the log's thread.
#[derive(Debug, Clone)]
pub struct LogProgress {
    /// The position of the last entry applied.
    pub position: u64,
    /// Whether this process has applied all entries that the log had when it was first read.
    pub has_caught_up: bool,
    /// How many times the whole state was read again because the log had lost entries that were applied.
    pub reloads: u64,
    /// Why the log cannot be read now; `None`: it can.
    pub fault: Option<String>,
}

/// The state, shared between threads.
#[derive(Debug)]
pub(super) struct SharedProgress(Mutex<LogProgress>);

impl Default for SharedProgress {
    fn default() -> Self {
        let fault = Some("its engine has not answered yet".to_owned());
        Self(Mutex::new(LogProgress { position: 0, has_caught_up: false, reloads: 0, fault }))
    }
}

impl SharedProgress {
    pub(super) fn lock(&self) -> MutexGuard<'_, LogProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // each field is valid on its own
    }
}
