//! A thread for slow work outside the log: it writes and reads snapshots, so that no caller's executor blocks.

use futures_channel::oneshot;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Maximum number of waiting jobs.
const LIMIT: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// The thread and its queue.
#[derive(Debug)]
pub(super) struct Jobs {
    sender: Mutex<Option<SyncSender<Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Jobs {
    pub(super) fn start() -> std::io::Result<Self> {
        let (sender, jobs) = sync_channel::<Job>(LIMIT);
        let thread = std::thread::Builder::new()
            .name("log-snapshots".to_owned())
            .spawn(move || jobs.into_iter().for_each(|job| job()))?;
        Ok(Self { sender: Mutex::new(Some(sender)), thread: Some(thread) })
    }

    /// Runs a job after those before it; `None` if too many wait or the thread is gone.
    pub(super) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        {
            let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
            let job = Box::new(move || drop(reply.send(job())));
            sender.as_ref()?.try_send(job).ok()?;
        }
        answer.await.ok()
    }

    /// Runs the waiting jobs, and ends the thread.
    pub(super) fn finish(&mut self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
