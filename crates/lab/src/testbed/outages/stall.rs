//! For how long the machine itself stood still: a thread that sleeps a little, again and again, and notes the longest time by which it
//! woke up late. A guest that its host does not run, or more threads than cores, makes every node late at once; no cluster can help that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long it sleeps.
const EVERY: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
struct Shared {
    longest_us: AtomicU64,
    is_over: AtomicBool,
}

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// Starts a thread.
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || watch(&of_thread));
        Self(shared)
    }

    /// The longest time so far by which the thread woke up late.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.0.longest_us.load(Ordering::Relaxed))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn watch(shared: &Shared) {
    while !shared.is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        thread::sleep(EVERY);
        let late_us = began.elapsed().saturating_sub(EVERY).as_micros() as u64; // far below 2^64
        shared.longest_us.fetch_max(late_us, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_stopped_is_late() {
        let watch = Watch::start();
        // A child stops this process and lets it go on: every thread stands still.
        let id = std::process::id();
        let line = format!("kill -STOP {id}; sleep 0.2; kill -CONT {id}");
        let mut child = std::process::Command::new("sh").args(["-c", &line]).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        while watch.longest() < Duration::from_millis(150) {
            thread::sleep(EVERY);
        }
    }
}
