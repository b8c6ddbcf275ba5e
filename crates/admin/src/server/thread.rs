//! The thread of a server.

use super::ServerError;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A server on a thread of its own. Dropping it stops the server and closes its connections, which are tasks of its runtime.
#[derive(Debug)]
pub(crate) struct ServerThread {
    name: &'static str,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Starts a server.
    ///
    /// # Errors
    /// [`ServerError::Thread`].
    pub(crate) fn start<F: Future<Output = ()>>(
        name: &'static str,
        serve: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Self, ServerError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build().map_err(ServerError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = serve() => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        Ok(Self { name, stop: Some(stop), thread: Some(thread.map_err(ServerError::Thread)?) })
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(server = self.name, "a server panicked");
        }
    }
}
