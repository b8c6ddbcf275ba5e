//! Ctrl-C: the first asks for a clean stop, the second ends the process.

use crate::status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants to stop. Clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// The user wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupt {
    /// Listens to Ctrl-C from now on. A second Ctrl-C ends the process at once, with the same status.
    ///
    /// # Errors
    /// What the system says if it lets no handler be set.
    pub fn listen() -> Result<Self, ctrlc::Error> {
        let interrupt = Self::default();
        let asked = interrupt.clone();
        ctrlc::set_handler(move || {
            if asked.0.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(status::INTERRUPTED));
            }
        })?;
        Ok(interrupt)
    }

    /// The flag that is raised when the user wants to stop, for those who poll it.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// `Err` once the user wants to stop; long work asks between two steps.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }
}
