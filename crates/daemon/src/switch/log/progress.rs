//! The state of the log's thread, for the rest of the process.

use scalebricks_types::Position;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(super) struct Progress {
    position: AtomicU64,
    has_caught_up: AtomicBool,
    reloads: AtomicU64,
    fault: Mutex<Option<String>>,
}

impl Default for Progress {
    fn default() -> Self {
        let fault = Mutex::new(Some("its engine has not answered yet".to_owned()));
        Self {
            position: AtomicU64::new(0),
            has_caught_up: AtomicBool::new(false),
            reloads: AtomicU64::new(0),
            fault,
        }
    }
}

impl Progress {
    /// The position of the last entry applied.
    pub(super) fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    pub(super) fn set_position(&self, position: Position) {
        self.position.store(position.0, Ordering::Release);
    }

    pub(super) fn has_caught_up(&self) -> bool {
        self.has_caught_up.load(Ordering::Acquire)
    }

    pub(super) fn set_caught_up(&self) {
        self.has_caught_up.store(true, Ordering::Release);
    }

    /// The times that the names were read again from the beginning, as the log had lost entries that were applied.
    pub(super) fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// The log lost entries that were applied: the names are read again.
    pub(super) fn reload(&self) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
        self.has_caught_up.store(false, Ordering::Release);
        self.set_position(Position(0));
    }

    /// Why the log cannot be read, if it cannot.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}
