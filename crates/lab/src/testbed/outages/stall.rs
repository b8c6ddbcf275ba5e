//! The longest time for which the machine itself did not run: a thread that sleeps briefly, again and again, and records the latest
//! wake-up. If a host does not run this guest, or there are more busy threads than cores, every node is late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the thread sleeps.
const EVERY: Duration = Duration::from_millis(2);

/// Observes the machine until it is dropped.
#[derive(Debug)]
pub struct StallMonitor(Arc<AtomicU64>);

impl StallMonitor {
    /// Starts the thread.
    pub fn start() -> Self {
        let longest_us = Arc::new(AtomicU64::new(0));
        let of_thread = Arc::downgrade(&longest_us);
        thread::spawn(move || {
            while let Some(longest_us) = of_thread.upgrade() {
                let began = Instant::now();
                thread::sleep(EVERY);
                let late_us = began.elapsed().saturating_sub(EVERY).as_micros() as u64; // far below 2^64
                longest_us.fetch_max(late_us, Ordering::Relaxed);
            }
        });
        Self(longest_us)
    }

    /// The longest delay of a wake-up so far.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_is_late() {
        let monitor = StallMonitor::start();
        // A child stops this process and lets it go on: every thread stops. On a busy machine, the monitor's thread may
        // begin after the first stop.
        let id = std::process::id();
        let line = format!("kill -STOP {id}; sleep 0.2; kill -CONT {id}");
        for _ in 0..20 {
            let mut child = std::process::Command::new("sh").args(["-c", &line]).spawn().unwrap();
            assert!(child.wait().unwrap().success());
            thread::sleep(10 * EVERY);
            if monitor.longest() >= Duration::from_millis(150) {
                return;
            }
        }
        panic!("the longest stall is {} ms", monitor.longest().as_millis());
    }
}
