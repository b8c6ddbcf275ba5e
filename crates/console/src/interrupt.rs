//! Handles Ctrl-C: the first one requests a clean stop, the second one ends the process.

use crate::status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a wait looks for an interrupt.
const TICK: Duration = Duration::from_millis(50);

/// Whether the user has interrupted the process. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// The user interrupted the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupt {
    /// Installs the Ctrl-C handler. A second Ctrl-C ends the process at once, with the same status.
    ///
    /// # Errors
    /// The system's error if no handler can be installed.
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

    /// The same flag, for handlers of other signals.
    pub fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// The flag that an interrupt sets, for code that polls it.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Fails after an interrupt. Long work calls it between steps.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }
    /// Waits, and fails as soon as there is an interrupt.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn wait(&self, time: Duration) -> Result<(), Interrupted> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
        }
    }
}
