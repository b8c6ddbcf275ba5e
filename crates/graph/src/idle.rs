//! Runs a worker on its thread.

use crate::trace::Trace;
use crate::worker::Worker;
use scalebricks_io::PacketBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// After this many turns without work a worker yields its core; after a multiple of it, it sleeps.
const YIELD_AFTER: u32 = 100;
const SLEEP_AFTER: u32 = 1_000;

/// Sleep time: less than a tick of the timers.
const SLEEP: Duration = Duration::from_micros(50);

impl<P: PacketBuf + 'static, T: Trace<P>> Worker<P, T> {
    /// Runs turns until `stop` is set. Without work it spins, then yields, then sleeps for 50 µs at a time. While it
    /// sleeps and after it has stopped it is quiescent ([`Quiescence`](crate::Quiescence)).
    pub fn run(&mut self, stop: &AtomicBool) {
        let start = Instant::now();
        let mut idle = 0;
        while !stop.load(Ordering::Relaxed) {
            if self.turn(start.elapsed()) > 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            match idle {
                0..YIELD_AFTER => std::hint::spin_loop(),
                YIELD_AFTER..SLEEP_AFTER => std::thread::yield_now(),
                _ => {
                    idle = SLEEP_AFTER;
                    self.leave();
                    std::thread::sleep(SLEEP);
                }
            }
        }
        self.leave();
    }
}
