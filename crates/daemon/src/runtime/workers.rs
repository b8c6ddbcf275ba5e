//! The threads that move packets.

use crate::node::config::Idle;
use scalebricks_console::status;
use scalebricks_graph::{Trace, Worker};
use scalebricks_io::PacketBuf;
#[cfg(feature = "dpdk")]
pub(crate) use start::Workers;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Empty turns until a worker sleeps; before, it yields.
const PATIENCE: u32 = 64;

/// How often a worker publishes its counters.
pub(crate) const PUBLISH: Duration = Duration::from_millis(50);

/// Stops the workers.
#[derive(Debug, Default)]
pub struct Control(AtomicBool);

impl Control {
    /// Asks all workers to stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed); // nothing is published with it
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Idling of a worker between two turns.
#[derive(Debug)]
pub(crate) struct Pause {
    idle: Idle,
    /// Consecutive empty turns.
    empty: u32,
}

impl Pause {
    pub(crate) const fn new(idle: Idle) -> Self {
        Self { idle, empty: 0 }
    }

    /// To be called after each turn: continues at once, yields, or sleeps. Returns whether it slept.
    #[inline]
    pub(crate) fn after(&mut self, moved: usize) -> bool {
        if moved > 0 {
            self.empty = 0;
            return false;
        }
        self.empty = self.empty.saturating_add(1);
        match self.idle {
            Idle::Sleep { us } if self.empty > PATIENCE => {
                std::thread::sleep(Duration::from_micros(us.into()));
                return true;
            }
            Idle::Sleep { .. } => std::thread::yield_now(),
            Idle::Spin => std::hint::spin_loop(),
        }
        false
    }
}

/// Runs a graph's worker until all are asked to stop. `start` is the start of the clock, the same for all workers.
pub fn turn<P: PacketBuf + 'static, T: Trace<P>>(
    worker: &mut Worker<P, T>,
    idle: Idle,
    start: Instant,
    control: &Control,
) {
    let mut pause = Pause::new(idle);
    while !control.is_stopping() {
        let moved = worker.turn(start.elapsed());
        if moved == 0 {
            worker.leave();
        }
        pause.after(moved);
    }
    worker.leave();
}

/// Most time for the end of the process after a thread panicked.
const EXIT_TIME: Duration = Duration::from_secs(1);

/// Runs an essential thread. If it panics, this is logged, and the process exits at once with the status of a failure.
/// Nothing is drained, because the panicked thread may hold locks that others wait for. The other nodes detect the
/// failure, and the service manager restarts the process.
pub fn guarded<T>(thread: &str, run: impl FnOnce() -> T) -> T {
    // Its state is not used afterwards.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        tracing::error!(thread, "a thread panicked, the process ends: {}", message(&*panic));
        // Exit handlers of libraries may wait for threads that go on.
        let _overdue = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(EXIT_TIME);
            std::process::abort();
        });
        std::process::exit(status::FAILURE.into())
    })
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    panic.downcast_ref::<&str>().copied().or_else(owned).unwrap_or("no message")
}

#[cfg(feature = "dpdk")]
mod start {
    use super::{Control, guarded};
    use rustix::thread::{CpuSet, sched_setaffinity};
    use scalebricks_dpdk::Eal;
    use std::io;
    use std::sync::Arc;
    use std::thread::JoinHandle;

    /// Running workers.
    pub(crate) struct Workers {
        eal: Eal,
        control: Arc<Control>,
        threads: Vec<JoinHandle<()>>,
    }

    impl Workers {
        /// Creates an empty set.
        pub(crate) fn new(eal: Eal) -> Self {
            Self { eal, control: Arc::default(), threads: Vec::new() }
        }

        /// Starts a worker, on a core if given. If it panics, the [process ends](guarded).
        pub(crate) fn start(
            &mut self,
            core: Option<u16>,
            run: impl FnOnce(&Control) + Send + 'static,
        ) -> io::Result<()> {
            let (eal, control) = (self.eal, Arc::clone(&self.control));
            let name = format!("worker-{}", self.threads.len());
            let thread = name.clone();
            let run = move || {
                // A registered thread has its own cache of the pool.
                let registered = eal.register_thread();
                if let Err(error) = &registered {
                    tracing::warn!(%error, "a worker has no cache of the packet pool");
                }
                if let Some(core) = core
                    && let Err(error) = bind_to(core)
                {
                    tracing::warn!(core, %error, "cannot bind a worker to its core");
                }
                guarded(&thread, || run(&control));
            };
            self.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
            Ok(())
        }

        /// Stops all workers and waits for them.
        pub(crate) fn stop(self) {
            self.control.stop();
            for thread in self.threads {
                let _panicked = thread.join(); // a panic has ended the process
            }
        }
    }

    /// Binds this thread to a core.
    fn bind_to(core: u16) -> rustix::io::Result<()> {
        let mut one = CpuSet::new();
        if usize::from(core) >= CpuSet::MAX_CPU {
            return Err(rustix::io::Errno::INVAL);
        }
        one.set(core.into());
        sched_setaffinity(None, &one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_sleeps_only_after_many_empty_turns() {
        let mut pause = Pause::new(Idle::Sleep { us: 1 });
        let slept = (0..PATIENCE + 2).map(|_| pause.after(0)).filter(|slept| *slept).count();
        assert_eq!(slept, 2);
        assert!(!pause.after(1), "there was something to do");
        assert!(!pause.after(0), "patient again");
        let mut spins = Pause::new(Idle::Spin);
        assert!((0..2 * PATIENCE).all(|_| !spins.after(0)));
    }
}
