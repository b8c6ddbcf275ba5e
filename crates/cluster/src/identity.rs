//! The number under which this process writes to logs and sends calls.

use super::plane::draw_writer;
use scalebricks_control::engine::{Engine, WriterId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// The process's present number. A partition remembers only the newest numbers: a process that it has forgotten draws another.
pub(super) struct Identity {
    engine: Arc<dyn Engine>,
    current: AtomicU64,
    drawing: Mutex<()>,
}

impl Identity {
    pub(super) fn new(engine: Arc<dyn Engine>, writer: WriterId) -> Self {
        Self { engine, current: AtomicU64::new(writer.0), drawing: Mutex::default() }
    }

    pub(super) fn get(&self) -> WriterId {
        WriterId(self.current.load(Ordering::Relaxed))
    }

    /// Draws another number after a partition has forgotten this one, unless that was done. If the engine cannot be used the number
    /// stays, and is found to be forgotten again.
    pub(super) async fn renew(&self, forgotten: WriterId) {
        let _one = self.drawing.lock().await;
        if self.get() != forgotten {
            return;
        }
        match draw_writer(&*self.engine).await {
            Ok(writer) => {
                tracing::warn!(
                    before = forgotten.0,
                    now = writer.0,
                    "a log has forgotten this process; it continues under another number"
                );
                self.current.store(writer.0, Ordering::Relaxed);
            }
            Err(error) => tracing::warn!(%error, "cannot draw another number for this process"),
        }
    }
}
