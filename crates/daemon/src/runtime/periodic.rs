//! A thread that repeats a task until it is dropped.

use super::workers::guarded;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that runs a task at an interval. Dropping it stops the thread and waits for it.
#[derive(Debug)]
pub struct Periodic {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Periodic {
    /// Starts the thread. If the task panics, the [process ends](guarded).
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(
        name: &'static str,
        every: Duration,
        mut task: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                task();
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || guarded(name, run))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
