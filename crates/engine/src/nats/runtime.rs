//! A thread with its own runtime, so that callers need none.

use super::options::OpenError;
use futures_channel::oneshot;
use std::future::Future;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};

/// Runs tasks until it is dropped; tasks under way are then cancelled.
#[derive(Debug)]
pub(super) struct Runtime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(super) fn start() -> Result<Self, OpenError> {
        let failed = |error: std::io::Error| OpenError::Thread(error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            let _: Result<(), oneshot::Canceled> = runtime.block_on(stopped); // either way the runtime ends
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("log-nats".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a task to its end, even if the caller is gone; `None` if the runtime ends first.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.handle.spawn(task).await.ok()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            drop(thread.join()); // the thread returns nothing
        }
    }
}
