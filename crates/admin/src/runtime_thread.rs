//! A thread with an asynchronous runtime.

use std::io;
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// A thread that completes a future. Dropping it stops the future, and the tasks that it started, and waits for the thread.
#[derive(Debug)]
pub struct RuntimeThread {
    name: &'static str,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RuntimeThread {
    /// Starts the thread with a runtime of this kind.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start<F: Future<Output = ()>>(
        name: &'static str,
        runtime: &mut Builder,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = runtime.enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(async move {
                tokio::select! {
                    _ = stopped => {}
                    () = work() => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { name, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(thread = self.name, "a thread panicked");
        }
    }
}
