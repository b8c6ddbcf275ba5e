//! What every operation on a lab needs, and how it waits.

use super::LabError;
use super::plan::Plan;
use super::site::Site;
use scalebricks_console::Interrupt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A lab's plan, its directory, and the user's interrupt. The modules of the lab add their operations to it.
#[derive(Debug, Clone, Copy)]
pub struct LabContext<'a> {
    /// What the lab consists of.
    pub plan: &'a Plan,
    /// The directory of its files.
    pub directory: &'a Path,
    /// Whether the user wants to stop.
    pub interrupt: &'a Interrupt,
}

impl LabContext<'_> {
    /// The path of a file of the lab.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    /// The lab's names and places.
    pub fn site(&self) -> Site<'_> {
        Site { name: &self.plan.name, directory: self.directory, interrupt: self.interrupt }
    }
}

/// Calls `ready` every `pause` until it returns a value; `None` if it returns none within `limit`.
///
/// # Errors
/// Those of `ready`, and [`LabError::Interrupted`].
pub fn poll<T>(
    limit: Duration,
    pause: Duration,
    interrupt: &Interrupt,
    mut ready: impl FnMut() -> Result<Option<T>, LabError>,
) -> Result<Option<T>, LabError> {
    let began = Instant::now();
    loop {
        if let Some(value) = ready()? {
            return Ok(Some(value));
        }
        if began.elapsed() > limit {
            return Ok(None);
        }
        interrupt.check()?;
        thread::sleep(pause);
    }
}

/// Waits until the user, or the lab that started this process, interrupts it.
pub fn until_interrupted(interrupt: &Interrupt) {
    while interrupt.check().is_ok() {
        thread::sleep(Duration::from_millis(10));
    }
}
